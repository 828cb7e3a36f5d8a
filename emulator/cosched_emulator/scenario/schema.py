"""A scenario: everything that a run depends on, from a TOML file and command-line options.

    seed = 1
    [cluster]    nodes and their shape          [truth]   how the hardware really behaves
    [workload]   jobs                           [belief]  what the scheduler knows of both
    [clock]      how time passes                [policy]  the scheduler, when the emulator starts it
    [monitoring] what the manager measures      [results] which jobs count
    [preemption] its cost                       [[script]] actions of users and operators
    [faults]     planned faults             [time_sharing] nodes that run processes, in turns
    [manager]    its lags

Every key is a field of a class here or in `sections`; its annotation holds its type, bounds and meaning. `reader` reads
the keys, `check_bounds` checks the values of all sections, and `rules` checks settings that depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from cosched_emulator import offered
from cosched_emulator.bounds import Choice, at_least
from cosched_emulator.scenario.difficult_manager import ManagerSection
from cosched_emulator.scenario.faults import FaultsSection
from cosched_emulator.scenario.sections import (
    OF_APPLICATIONS,
    OF_BELIEVED_PAIRS,
    OF_NAS,
    OF_PROCESSES,
    BeliefSection,
    ClusterSection,
    TimeSharingSection,
    TruthSection,
    WorkloadSection,
)
from cosched_emulator.scenario.setting_types import (
    ClockMode,
    Duration,
    DurationAboveZero,
    Instant,
    SlowdownLimit,
    Speed,
    Takeover,
    Wait,
)
from cosched_hwmodel.topology import WATTS

ADDED: Final = (
    ("workload", "grain"),
    ("workload", "minimum_estimate_s"),
    ("time_sharing", "epoch_ticks"),
    ("belief", "pair_method"),
    ("preemption", "switch_s"),
    ("preemption", "disk_mbs"),
)
Change: TypeAlias = Literal["cancel", "hold", "release", "fail-node", "return-node"]
CHANGES: Final[tuple[Change, ...]] = get_args(Change)


@dataclass(frozen=True, slots=True)
class ClockSection:
    """The kind of time. ``virtual``: from instant to instant, as fast as answers come; ``scaled`` and ``real``: continuous."""

    mode: Annotated[
        ClockMode,
        "from instant to instant as fast as answers come; `scaled` and `real`: the clock runs (live mode; `serve`"
        " alone)",
    ] = offered.CLOCK_MODE
    speed: Annotated[Speed | None, "of a scaled clock: emulated seconds a second"] = None
    deadline_s: Annotated[Wait, "how long a scheduler may take for an answer; then the run ends with exit code 3"] = (
        offered.DEADLINE_S
    )
    wait_s: Annotated[
        Wait, "how long one in another process is waited for at the beginning (the option is `serve`'s)"
    ] = offered.WAIT_S
    takeover_s: Annotated[Takeover, "silence after which a scheduler that waits as a standby takes over"] = 1.2
    resend_s: Annotated[
        Wait, "after so long an unanswered message is sent again, and again after twice as long, up to 30 s"
    ] = 1.0


@dataclass(frozen=True, slots=True)
class MonitoringSection:
    """What the manager measures: the slowdown of co-located jobs, after they have shared nodes for some time."""

    after_s: Annotated[
        DurationAboveZero | None,
        "how long a job must have run among the same neighbours before its slowdown is measured and told to the "
        "scheduler. Where not given, nothing is measured",
    ] = None
    above: Annotated[SlowdownLimit, "a slowdown up to this is not told; 0: all are told"] = 1.0


@dataclass(frozen=True, slots=True)
class PreemptionSection:
    """The cost of suspending a job, on its nodes or to disk."""

    resume_s: Annotated[
        Duration,
        "how long a job that comes back from disk makes no progress, while it holds its nodes again. Its limit "
        "and its estimate wait with it",
    ] = 0.0
    switch_s: Annotated[
        Duration, "likewise for a job that was suspended on its nodes, where it keeps its threads and its memory"
    ] = 0.0
    disk_mbs: Annotated[
        Annotated[int, at_least(0)],
        "speed at which a node writes the memory of a job to disk, and reads it back, in MB/s; 0: at once. Both are "
        "added to `resume_s`, so the threads of a suspended job are free at once; jobs without `memory_mb` write nothing",
    ] = 0


@dataclass(frozen=True, slots=True)
class ResultsSection:
    """Which jobs count: all but the first ``warmup`` and the last ``cooldown``."""

    warmup: Annotated[int, "the first N jobs, by (submission, id), run but do not count in the figures of jobs"] = 0
    cooldown: Annotated[int, "likewise the last N"] = 0


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """One change: cancel, hold or release a job, fail or return a node."""

    at_s: Annotated[
        Instant, "when, in seconds from the run's zero, which is the first submission; rounded to a microsecond"
    ]
    do: Annotated[str, Choice(CHANGES), "`cancel`, `hold`, `release` (a job); `fail-node`, `return-node`"]
    job: Annotated[int | None, "the job, for the first three: its number in this run, from 1 in submit order"] = None
    node: Annotated[int | None, "the node, for the other two, from 0"] = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario. Its values are checked when a run of it is prepared."""

    seed: Annotated[
        int,
        "seed of all draws: the Lublin model, users of a load, shaken run times, estimates, demand, characteristics, "
        "self slowdowns, pairs",
    ] = offered.SEED
    cluster: ClusterSection = field(default_factory=ClusterSection)
    truth: TruthSection = field(default_factory=TruthSection)
    belief: BeliefSection = field(default_factory=BeliefSection)
    workload: WorkloadSection = field(default_factory=WorkloadSection)
    clock: ClockSection = field(default_factory=ClockSection)
    monitoring: MonitoringSection = field(default_factory=MonitoringSection)
    preemption: PreemptionSection = field(default_factory=PreemptionSection)
    results: ResultsSection = field(default_factory=ResultsSection)
    policy: Mapping[str, Any] = field(default_factory=dict)
    script: tuple[ScriptEntry, ...] = ()
    requeue: Annotated[
        bool, "jobs on a node that fails wait again and run from their beginning; else they end as `NODE_FAIL`"
    ] = False
    faults: FaultsSection | None = None
    time_sharing: TimeSharingSection | None = None
    manager: ManagerSection | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values, for the record of a run.

        ``faults`` and ``manager`` are left out if they are not given, ``parameters`` and watts if there are none, and what belongs to
        time sharing, to the NAS programs, to tables of co-runs or to profiles without it. So are `ADDED` settings that have their
        default, so that the runs of studies that were made before them keep their keys.
        """
        values = asdict(self)
        for section, key in ADDED:
            if values[section] is not None and values[section][key] == getattr(type(getattr(self, section))(), key):
                del values[section][key]
        for key in WATTS:
            if values["cluster"][key] is None:
                del values["cluster"][key]
        if self.faults is None:
            del values["faults"]
        if self.manager is None:
            del values["manager"]
        if self.workload.nas is None:
            for key in ("nas", *OF_NAS):
                if key != "gap_s" or self.workload.applications is None:
                    del values["workload"][key]
        if self.workload.applications is None:
            for key in OF_APPLICATIONS:
                del values["workload"][key]
        if self.time_sharing is None:
            del values["time_sharing"]
            for key in OF_PROCESSES:
                values["workload"].pop(key, None)
        else:
            del values["time_sharing"]["windows"]  # where rates are kept changes no result
            if self.time_sharing.coscheduling_parameters is None:
                del values["time_sharing"]["coscheduling_parameters"]
        for section in (values["truth"], values["belief"]):
            if section["parameters"] is None:
                del section["parameters"]
        if self.truth.pairs is None:
            del values["truth"]["pairs"]
        if self.workload.profiles is None:
            del values["workload"]["profiles"], values["belief"]["profiles"]
        if self.truth.pairs is None and self.belief.pair_table is None:
            for key in OF_BELIEVED_PAIRS:
                values["belief"].pop(key, None)
        return values
