"""A scenario: everything that a run depends on, from a TOML file and command-line options.

    seed = 1
    [cluster]    nodes and their shape          [truth]   how the hardware really behaves
    [workload]   jobs                           [belief]  what the scheduler knows of both
    [clock]      how time passes                [policy]  the scheduler, when the emulator starts it
    [monitoring] what the manager measures      [results] which jobs count
    [preemption] its cost                       [[script]] actions of users and operators
    [faults]     planned faults             [time_sharing] nodes that run processes, in turns
    [manager]    its lags                [[partitions]] parts of the machine
    [[accounts]] who is above whom       [[limits]] what jobs may have at a time

Every key is a field of a class here or in `sections`; its annotation holds its type, bounds and meaning. `reader` reads
the keys, `check_bounds` checks the values of all sections, and `rules` checks settings that depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args

from cosched_emulator import needs, offered
from cosched_emulator.bounds import Choice, Duration, DurationAboveZero, Instant, SlowdownLimit, Wait, at_least, between
from cosched_emulator.scenario.sections import BeliefSection, ClusterSection, Late, TruthSection, WorkloadSection
from cosched_hwmodel.quick_classes import frozen

if TYPE_CHECKING:
    from cosched_emulator.scenario.difficult_manager import ManagerSection
    from cosched_emulator.scenario.fault_sections import FaultsSection
    from cosched_emulator.scenario.site_tables import AccountEntry, LimitEntry, PartitionEntry
    from cosched_emulator.scenario.time_sharing import TimeSharingSection

# Sections that few scenarios have: `bounds.hint_of` loads them where a scenario has one.
_SELDOM: Final = {
    "ManagerSection": "difficult_manager",
    "FaultsSection": "fault_sections",
    "AccountEntry": "site_tables",
    "LimitEntry": "site_tables",
    "PartitionEntry": "site_tables",
    "TimeSharingSection": "time_sharing",
}
Change: TypeAlias = Literal[
    "cancel", "cancel-pending", "hold", "release", "fail-node", "return-node", "drain-nodes", "reserve"
]
CHANGES: Final[tuple[Change, ...]] = get_args(Change)
_LATER_IN_SCRIPT: Final = ("nodes", "until_s")
# Settings that are gone, by section. Records keep them, so that the runs of studies that were made before keep their keys; a
# record is a scenario, so they are read with these values.
GONE: Final[Mapping[str, Mapping[str, Any]]] = {
    "clock": {"takeover_s": 1.2, "resend_s": 1.0},
    "workload": {"application_run_s": None, "load_method": "gaps"},
    "time_sharing": {"barrier_process_us": 0},
}


def __getattr__(name: str) -> Any:
    if name not in _SELDOM:
        raise AttributeError(name)
    return getattr(import_module(f"{__package__}.{_SELDOM[name]}"), name)


@frozen
class ClockSection:
    """The kind of time. ``virtual``: from instant to instant, as fast as answers come; ``scaled`` and ``real``: continuous."""

    mode: Annotated[
        str,
        Choice(offered.CLOCK_MODES),
        "`virtual`: from instant to instant as fast as answers come; `scaled` and `real`: the clock runs (live; only "
        "`serve`)",
    ] = offered.CLOCK_MODE
    speed: Annotated[float | None, between(1e-3, 1e6), "emulated seconds per second of a scaled clock"] = None
    deadline_s: Annotated[Wait, "how long a scheduler may take for an answer; then the run ends with exit code 3"] = (
        offered.DEADLINE_S
    )
    wait_s: Annotated[
        Wait, "how long to wait at the beginning for a scheduler in another process (the option belongs to `serve`)"
    ] = offered.WAIT_S


@frozen
class MonitoringSection:
    """What the manager measures: the slowdown of co-located jobs, after they have shared nodes for some time."""

    after_s: Annotated[
        DurationAboveZero | None,
        (needs.NO_PROCESSES, needs.FOLLOWED, needs.SLOWED),
        "how long a job must have run among the same neighbours before its slowdown is measured and reported to the scheduler. "
        "By default nothing is measured",
    ] = None
    above: Annotated[SlowdownLimit, needs.given("monitoring.after_s"), "only larger slowdowns are reported; 0: all"] = (
        1.0
    )


@frozen
class PreemptionSection:
    """The cost of suspending a job, on its nodes or to disk."""

    resume_s: Annotated[
        Duration,
        needs.ON_DISK,
        "how long a job that comes back from disk makes no progress, while it holds its nodes again. Its limit "
        "and its estimate grow by this time",
    ] = 0.0
    switch_s: Annotated[
        Late[Duration],
        needs.SUSPENDED,
        "how long a job makes no progress when it is resumed after a suspension in place",
    ] = 0.0
    disk_mbs: Annotated[
        Late[int],
        (at_least(0), needs.MEMORY, needs.ON_DISK),
        "speed at which a node writes the memory of a job to disk, and reads it back, in MB/s; 0: at once. Both times "
        "are added to `resume_s`: threads are free at the suspension. Jobs without `memory_mb` write nothing",
    ] = 0


@frozen
class ResultsSection:
    """Which jobs count: all but the first ``warmup`` and the last ``cooldown``."""

    warmup: Annotated[
        int, at_least(0), "the first N jobs, by (submission, id), run but do not count in the figures of jobs"
    ] = 0
    cooldown: Annotated[
        int, at_least(0), "the last N jobs, by (submission, id), run but do not count in the figures of jobs"
    ] = 0


@frozen
class ScriptEntry:
    """One change: cancel, hold or release a job; fail or return a node; drain or reserve nodes."""

    at_s: Annotated[
        Instant, "when, in seconds from the run's zero, which is the first submission; rounded to a microsecond"
    ]
    do: Annotated[
        str,
        Choice(CHANGES),
        "`cancel`, `cancel-pending` (only if it has not started), `hold`, `release` (a job); `fail-node`, `return-node`; "
        "`drain-nodes` (running jobs continue), `reserve` (no job may start there from then on)",
    ]
    job: Annotated[int | None, "the job to cancel, hold or release: its number in this run, from 1 in submit order"] = (
        None
    )
    node: Annotated[int | None, "the node to fail or return, from 0"] = None
    nodes: Annotated[str | None, "the nodes to drain or reserve, such as `0-15;32`; default: all"] = None
    until_s: Annotated[Instant | None, "the end of a drain or reservation; a drain without it never ends"] = None


@frozen
class Scenario:
    """A whole scenario. Its values are checked when a run of it is prepared."""

    seed: Annotated[
        int,
        "seed of all draws: the Lublin model, users of a load, shaken run times, estimates, demand, characteristics, "
        "self slowdowns, pairs",
    ] = offered.SEED
    cluster: ClusterSection = field(default_factory=ClusterSection)
    truth: Annotated[TruthSection, needs.NO_PROCESSES] = field(default_factory=TruthSection)
    belief: BeliefSection = field(default_factory=BeliefSection)
    workload: WorkloadSection = field(default_factory=WorkloadSection)
    clock: ClockSection = field(default_factory=ClockSection)
    monitoring: MonitoringSection = field(default_factory=MonitoringSection)
    preemption: PreemptionSection = field(default_factory=PreemptionSection)
    results: ResultsSection = field(default_factory=ResultsSection)
    policy: Mapping[str, Any] = field(default_factory=dict)
    script: tuple[ScriptEntry, ...] = ()
    requeue: Annotated[
        bool,
        needs.FAILING,
        "jobs on a node that fails wait again and run from their beginning; else they end as `NODE_FAIL`",
    ] = False
    faults: Late[FaultsSection | None] = None
    time_sharing: Late[TimeSharingSection | None] = None
    manager: Late[ManagerSection | None] = None
    partitions: Late[tuple[PartitionEntry, ...]] = ()
    accounts: Late[tuple[AccountEntry, ...]] = ()
    limits: Late[tuple[LimitEntry, ...]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values, for the record of a run.

        A setting that is marked as later is left out where its mark says so: the runs of studies that were made before it keep
        their keys.
        """
        values = asdict(self)
        for setting in needs.unrecorded(self):
            del (values[setting.section] if setting.section else values)[setting.key]
        values["clock"] |= GONE["clock"]
        values["workload"] |= GONE["workload"]
        if self.workload.applications is None:
            del values["workload"]["application_run_s"]
        if self.time_sharing is not None:
            values["time_sharing"] |= GONE["time_sharing"]
            del values["time_sharing"]["windows"]  # where rates are kept changes no result
        for entry in values["script"]:
            for key in [key for key in _LATER_IN_SCRIPT if entry[key] is None]:
                del entry[key]
        return values
