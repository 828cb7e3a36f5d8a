"""The experiments of the coscheduling reproduction: what each changes in the nodes, and which policies it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from scripts.papers.coscheduling.names import (
    BOOSTS,
    CC,
    DRIVEN,
    EPOCHS,
    FULL,
    GRAINS,
    HIGH,
    HYBRID,
    IGNORE_COUNTERS,
    JITTERS,
    LONG_WINDOWS,
    NO_DAEMONS,
    NO_RENDEZVOUS,
    PB,
    REFILLS_US,
    SB,
    SCANS_MS,
    SPIN_WATTS,
    SPINS_MS,
    boost,
    epoch,
    grain,
    jitter,
    refill,
    scan,
    spin,
)

SPIN_W: Final = 24.0  # watts that the tables imply for policies that only spin (E12)
MILLISECOND_US: Final = 1000
TICK_MS: Final = 10


class Variant(NamedTuple):
    """What a variant changes: sections of the scenario; and which runs it has."""

    text: str
    policies: Sequence[str]
    scenario: Mapping[str, Mapping[str, Any]]
    workload: str = FULL


def _nodes(**changes: Any) -> Mapping[str, Mapping[str, Any]]:
    return {"time_sharing": changes}


def _policy(**parameters: Any) -> Mapping[str, Mapping[str, Any]]:
    return _nodes(coscheduling_parameters=parameters)


VARIANTS: Final[Mapping[str, Variant]] = {
    **{
        spin(time): Variant(
            f"SB and CC spin for {time:g} ms instead of 1", (SB, CC), _policy(spin_us=round(time * 1000))
        )
        for time in SPINS_MS
    },
    **{
        scan(time): Variant(
            f"PB looks every {time} ms instead of 50", (PB,), _policy(interval_us=time * MILLISECOND_US)
        )
        for time in SCANS_MS
    },
    **{
        boost(what): Variant(f"HYBRID boosts {where} instead of in collectives", (HYBRID,), _policy(boost=what))
        for what, where in BOOSTS.items()
    },
    IGNORE_COUNTERS: Variant(
        "a boost of PB lasts when the process's counter is 0, as priorities of Solaris allow",
        (PB,),
        _policy(ignore_counters=True),
    ),
    NO_RENDEZVOUS: Variant("messages of any size are sent at once", DRIVEN, _nodes(rendezvous_bytes=0)),
    NO_DAEMONS: Variant("no daemons on the nodes", DRIVEN, _nodes(daemon_us=0)),
    **{
        refill(time): Variant(f"a switch costs {time / 1000:g} ms instead of 0.3", DRIVEN, _nodes(refill_us=time))
        for time in REFILLS_US
    },
    **{
        jitter(share): Variant(
            f"bursts vary by up to {share:.0%} instead of 17 %", DRIVEN, {"workload": {"jitter": share}}
        )
        for share in JITTERS
    },
    **{
        grain(times): Variant(
            f"grain {times}: bursts and messages {times} times as large, and fewer or more",
            DRIVEN,
            {"workload": {"grain": round(float(Fraction(times)), 9)}},
        )
        for times in GRAINS
    },
    **{
        epoch(ticks): Variant(
            f"an epoch gives a process {ticks * TICK_MS} ms instead of 60", DRIVEN, _nodes(epoch_ticks=ticks)
        )
        for ticks in EPOCHS
    },
    SPIN_WATTS: Variant(
        f"a spinning CPU takes {SPIN_W:g} W more than an idle one", DRIVEN, {"cluster": {"spin_w": SPIN_W}}, HIGH
    ),
    LONG_WINDOWS: Variant(
        "nodes are simulated for up to 120 s after each change instead of 30", DRIVEN, _nodes(window_max_s=120.0), HIGH
    ),
}
