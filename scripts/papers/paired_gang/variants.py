"""The experiments of the paired gang reproduction: what each changes, and which runs it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from scripts.papers.paired_gang.names import (
    ABOVE,
    BARE,
    BEST,
    COMPUTE,
    HETEROGENEOUS,
    HOMOGENEOUS,
    IO,
    LOADS,
    MIXES,
    NODE,
    PAIRED,
    QCRD,
    QCRD_EVEN,
    RUNS_S,
    STRICT,
    alone,
    copies,
    dynamic,
    few_jobs,
    fine_pair,
    mix,
)

Changes = Mapping[str, Mapping[str, Any]]
HANGS_ON: Final = ("0.8", "0.95")  # loads at which experiments run
RR: Final = "rr 2 ms"
RR_DYNAMIC: Final = f"{RR}, dynamic"
SLOW_RR: Final = "rr 200 ms"
SHORT_SLICE: Final = "wake-first 10 ms"
EPOCHS: Final = "linux-epochs"
LOCALS: Final[Mapping[str, Mapping[str, Any]]] = {
    RR: {"local": "rr", "slice_ms": 2.0},
    EPOCHS: {"local": "linux-epochs"},
    SLOW_RR: {"local": "rr", "slice_ms": 200.0},
}
LOSSES_US: Final[Mapping[str, int]] = {"0 %": 0, "1 %": 100, "2 %": 200, "5 %": 500}
EXACT: Final = "exact"
FEW: Final = 3  # seeds of an experiment
STATIC: Final = tuple(mix(io_jobs) for io_jobs in MIXES)
FINE_PAIRS: Final = tuple(fine_pair(grain) for grain in (1, 3, 10, 30))


class Variant(NamedTuple):
    """What a variant changes: scenario sections and settings of the policy; and which runs it has."""

    text: str
    workloads: Sequence[str]
    policies: Sequence[str]
    scenario: Mapping[str, Mapping[str, Any]] = {}
    settings: Sequence[str] = ()
    quick: bool = False  # part of a quick reproduction


def _both(program: str) -> list[str]:
    return [dynamic(program, load) for load in HANGS_ON]


_HOMOGENEOUS: Final = _both(HOMOGENEOUS)
_HETEROGENEOUS: Final = _both(HETEROGENEOUS)
_ALL: Final = (STRICT, PAIRED)


def _nodes(**changes: Any) -> Changes:
    return {"time_sharing": changes}


def _set(text: str, workloads: Sequence[str], policies: Sequence[str], *settings: str) -> Variant:
    return Variant(text, workloads, policies, settings=settings)


def _jobs(text: str, workloads: Sequence[str], policies: Sequence[str], **changes: Any) -> Variant:
    return Variant(text, workloads, policies, {"workload": changes})


# Static mixes, on exact nodes.
OF_MIXES: Final[Mapping[str, Variant]] = {
    "printed": Variant(
        "figure 4 as printed: the row at which its two ends meet is offered no matched partner",
        [*STATIC, *_HOMOGENEOUS],
        [PAIRED],
        settings=["pairing=printed"],
        quick=True,
    ),
    **{
        name: Variant(
            f"local scheduler {name}",
            [*STATIC, alone(COMPUTE), alone(IO), *FINE_PAIRS, copies(RUNS_S[0])],
            [STRICT, BEST, PAIRED],
            _nodes(**changes),
        )
        for name, changes in LOCALS.items()
    },
    SHORT_SLICE: Variant(
        "local scheduler wake-first with slices of 10 ms instead of 200",
        [*STATIC, alone(IO)],
        [STRICT, BEST, PAIRED],
        _nodes(slice_ms=10.0),
    ),
    "I/O logged": Variant(
        "the CPU time that files cost is logged to the process", STATIC, [STRICT, BEST, PAIRED], _nodes(io_logged=1.0)
    ),
    "exact ticks": Variant("CPU time is logged exactly", STATIC, [STRICT, BEST, PAIRED], _nodes(tick_ms=0.0)),
}
# Dynamic workloads, on fluid nodes.
OF_LOADS: Final[Mapping[str, Variant]] = {
    RR_DYNAMIC: Variant(
        "local scheduler rr with slices of 2 ms",
        [
            dynamic(HOMOGENEOUS, load) for load in (*LOADS, *ABOVE)
        ],  # of others each pair of shares is measured: hours a run
        _ALL,
        _nodes(**LOCALS[RR]),
    ),
    f"{EPOCHS}, dynamic": Variant("local scheduler linux-epochs", _HOMOGENEOUS, _ALL, _nodes(**LOCALS[EPOCHS])),
    "alternates off": _set("no alternates", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], "backfill.alternates=off"),
    "alternates max": _set(
        "alternates by the maximum rule, without the band",
        [*_HOMOGENEOUS, *_HETEROGENEOUS],
        [PAIRED],
        "backfill.alternates=max",
    ),
    "unmatched": _set(
        "alternates make up a second layer where a row has no partner",
        [*_HOMOGENEOUS, *_HETEROGENEOUS, dynamic(QCRD, "0.8"), dynamic(QCRD_EVEN, "0.8")],
        [PAIRED, NODE],
        "backfill.alternates_when_unmatched=true",
    ),
    **{
        f"band {band or 'none'}": _set(
            f"rows of {f'up to {band} points' if band else 'any shares'}, alternates by the maximum rule",
            [*_HOMOGENEOUS, *_HETEROGENEOUS],
            [PAIRED],
            f"backfill.band={band}",
            "backfill.alternates=max",
        )
        for band in (40, 60, 0)
    },
    "first-fit": _set("new jobs on the lowest free nodes", _HOMOGENEOUS, (STRICT, BARE, PAIRED), "placement=first-fit"),
    "buddy": _set(
        "new jobs on aligned blocks of nodes",
        [*_HOMOGENEOUS, *_HETEROGENEOUS],
        (STRICT, BARE, PAIRED),
        "placement=buddy",
    ),
    "compaction": _set(
        "rows dissolve where other rows have room for their jobs",
        _HOMOGENEOUS,
        (STRICT, BARE, PAIRED),
        "backfill.compaction=true",
    ),
    "fresh band": _set(
        "new jobs only in rows whose band admits 100 %",
        [*_HOMOGENEOUS, *_HETEROGENEOUS],
        [PAIRED],
        "backfill.place_fresh=band",
    ),
    "fresh new": _set(
        "each new job in a new row", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], "backfill.place_fresh=new"
    ),
    "pad": _set(
        "quanta that a new job has not had count as 100 %",
        [*_HOMOGENEOUS, *_HETEROGENEOUS],
        [PAIRED],
        "backfill.pad=true",
    ),
    **{
        f"margin {margin}": _set(
            f"margin of {margin} points instead of 1",
            [*_HOMOGENEOUS, *_HETEROGENEOUS],
            [PAIRED],
            f"pairing.margin={margin}",
        )
        for margin in (0, 5)
    },
    "ticks 0": Variant("CPU time is logged exactly", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], _nodes(tick_ms=0.0)),
    **{
        f"jitter {share:g}": _jobs(
            f"bursts within {share:.0%} of their length instead of 10 %", _HOMOGENEOUS, _ALL, jitter=share
        )
        for share in (0.0, 0.2)
    },
    "no waiting": _jobs("jobs compute 99 % of their time", _HOMOGENEOUS, _ALL, cpu_share=0.99),
}
# Jobs with phases.
OF_PHASES: Final[Mapping[str, Variant]] = {
    **{
        f"{change} change, dynamic": _set(
            f"a {change if change == 'rise' else 'change'} of more than 20 points: the job runs a quantum alone",
            [dynamic(QCRD, "0.8"), dynamic(QCRD_EVEN, "0.8")],
            [PAIRED, NODE],
            f"backfill.sharp_change={change}",
        )
        for change in ("rise", "any")
    },
    **{
        f"lost {loss}{', sharp change' if sharp else ''}": Variant(
            f"switches between two jobs on a node cost about {loss} of the CPU"
            + (", sharp_change = any" if sharp else ""),
            [copies(run_s) for run_s in RUNS_S],
            [PAIRED],
            _nodes(refill_us=cost),
            ["backfill.sharp_change=any"] if sharp else [],
        )
        for loss, cost in LOSSES_US.items()
        for sharp in (False, True)
        if cost or sharp
    },
}
AS_IT_IS: Final[Mapping[str, Variant]] = {
    EXACT: Variant("exact nodes instead of fluid ones", [few_jobs(HANGS_ON[0])], _ALL, _nodes(nodes="exact"))
}
VARIANTS: Final[Mapping[str, Variant]] = {**OF_MIXES, **OF_LOADS, **OF_PHASES, **AS_IT_IS}
