"""A scenario: everything that a run depends on, from a TOML file and command-line options.

    seed = 1
    [cluster]    nodes and their shape          [truth]   how the hardware really behaves
    [workload]   jobs                           [belief]  what the scheduler knows of both
    [clock]      how time passes                [policy]  the scheduler, when the emulator starts it
    [monitoring] what the manager measures      [results] which jobs count
    [preemption] its cost                       [[script]] actions of users and operators
    [faults]     planned faults             [time_sharing] nodes that run processes, in turns

Every key is a field of one of the classes below; its annotation holds its bounds. `reader` reads the keys, `check_bounds`
checks the values of all sections, and `rules` checks settings that depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from cosched_emulator.scenario.faults import FaultsSection
from cosched_emulator.scenario.values import (
    SECONDS,
    Above0,
    Amount,
    AtLeastOne,
    Bias,
    Choice,
    ClockMode,
    Composition,
    Cpu,
    CScope,
    Duration,
    DurationAboveZero,
    EpochTicks,
    Grain,
    Instant,
    Knowledge,
    LoadMethod,
    Local,
    LublinSize,
    MemoryTold,
    Microseconds,
    Milliseconds,
    NodeKind,
    Noise,
    OfferedLoad,
    Resource,
    SelfSlowdowns,
    Share,
    Slowdown,
    SlowdownLimit,
    Speed,
    Takeover,
    Wait,
    Watts,
    WindowLength,
    at_least,
    between,
)
from cosched_emulator.workload.nas import CLASSES, NAS, SIZES
from cosched_hwmodel.topology import WATTS

OF_NAS: Final = ("gap_s", "nas_programs", "nas_classes", "nas_sizes", "nas_memory_mb", "memory")  # keys of [workload]
OF_APPLICATIONS: Final = (  # keys of [workload]
    "applications", "application_names", "application_processes", "application_run_s", "shuffle_seed",
)  # fmt: skip
OF_BELIEVED_PAIRS: Final = ("pair_table", "pair_noise", "pair_missing")  # keys of [belief]
OF_PROCESSES: Final = ("programs", "cpu_share", "null_statements", "files", "jitter", "grain")  # keys of [workload]
OF_MESSAGES: Final = (  # keys of [time_sharing]
    "message_cpu_us", "receive_cpu_us", "latency_us", "network_mb_s", "rendezvous_bytes", "interrupt_us",
)  # fmt: skip
OF_FILES_AND_BARRIERS: Final = (
    "io_logged",
    "io_cpu_us",
    "io_service_us",
    "barrier_us",
    "barrier_process_us",
)  # likewise
ADDED: Final = (("workload", "grain"), ("time_sharing", "epoch_ticks"))
Change: TypeAlias = Literal["cancel", "hold", "release", "fail-node", "return-node"]
CHANGES: Final[tuple[Change, ...]] = get_args(Change)


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """The machine. ``file`` names a TOML file of ``[[nodes]]``; otherwise all nodes are alike."""

    nodes: AtLeastOne | None = None  # number of nodes; without this and processors: that of the log's machine, else 128
    processors: AtLeastOne | None = None  # instead of nodes: total number of cores; the last node may be smaller
    preset: str = "single"  # shape of a node: a preset's name, or sockets x cores x threads such as 2x16x2
    cores: int | None = None  # instead of the preset's: one socket with this number of cores, one thread each
    memory_bandwidth_mbs: int | None = None  # instead of the preset's, for each node
    network_mbs: int | None = None
    disk_mbs: int | None = None
    memory_mb: int | None = None
    swap_mb: int | None = None
    idle_w: Watts | None = (
        None  # instead of the preset's: watts of a node, all its cores idle; None: no energy is computed
    )
    busy_w: Watts | None = None  # likewise: more for each busy core
    spin_w: Watts | None = None  # likewise: more for each core whose process only polls; None: busy_w
    file: str | None = None


@dataclass(frozen=True, slots=True)
class TruthSection:
    """How the hardware behaves."""

    contention: str = (
        "bandwidth"  # or lomarc, statistical, pairs, none; or a third-party model: its entry point, module:Class
    )
    composition: Composition = "bulk-synchronous"  # or paper
    resources: tuple[Resource, ...] = ("memory_bandwidth",)
    remainder: bool = (
        False  # lomarc: whether time in which neither of a pair competes counts; false: the printed formula
    )
    c_scope: CScope = "all"  # lomarc: c is drawn for all pairs; cpu_cpu: for those of two cpu-bound jobs only
    cpu: Cpu = "hyperthreaded"  # lomarc; or standard: time-shared
    pair_seed: int | None = None  # lomarc, statistical: seed of the draws for pairs; default: the scenario's
    good_share: Share = 0.33  # lomarc: share of pairs that go well together
    paging: Slowdown = 2.5  # lomarc: slowdown where memory does not fit
    # statistical: percent of the pairs whose slowdown lies in [1.0, 1.1), [1.1, 1.2), ...
    cos_shares: tuple[int, ...] = (68, 17, 7, 3, 2, 1, 1, 1)
    pairs: str | None = None  # pairs: a file with a table of measured co-runs
    parameters: Mapping[str, Any] | None = None  # of a third-party model: the keyword arguments of its class


@dataclass(frozen=True, slots=True)
class BeliefSection:
    """What the scheduler knows of the hardware and of jobs: the truth unless set otherwise."""

    contention: str | None = None
    composition: Composition | None = None
    resources: tuple[Resource, ...] | None = None
    demand: Knowledge = "exact"  # or unknown
    usage: Knowledge = "exact"  # or unknown
    usage_noise: Noise = 0.0  # relative error of each fraction and of memory, at most
    usage_bias: Bias = 0.0  # relative error of memory and of the bound's fraction
    usage_missing: Annotated[float, between(0, 1, "a share")] = 0.0  # share of jobs with unknown usage
    remainder: bool | None = None
    c_scope: CScope | None = None
    pairs: Knowledge = "exact"  # or unknown: all are believed to compete (lomarc), drawn anew (statistical), or no job is known (pairs)
    self_slowdowns: Knowledge = "exact"  # or unknown
    self_noise: Noise = 0.0  # relative error of each, at most
    profiles: Knowledge = "exact"  # or unknown
    pair_table: str | None = None  # pairs: a file with another table of measured co-runs
    pair_noise: Noise = 0.0  # pairs: relative error of each ratio, at most
    pair_missing: Share = 0.0  # pairs: share of the pairs without a measurement, which are predicted from the others
    parameters: Mapping[str, Any] | None = None  # of a third-party model; override the truth's if it is the same model


@dataclass(frozen=True, slots=True)
class WorkloadSection:
    """The jobs: a log (``swf``), a model (``lublin``), random NAS programs (``nas``), or ``applications`` of a table of co-runs."""

    swf: str | None = None
    lublin: int | None = None  # number of jobs
    nas: Annotated[int, between(1, 10_000_000)] | None = None  # number of jobs
    applications: str | None = None  # a file with a table of co-runs; jobs are its applications
    application_names: tuple[str, ...] = ()  # of applications, as the next three: those drawn from; empty: all
    application_processes: tuple[AtLeastOne, ...] = ()  # those with one of these numbers of processes; empty: all
    application_run_s: DurationAboveZero | None = None  # run time where the table has none
    shuffle_seed: int = 0  # the same jobs in another order; 0: as drawn
    gap_s: Annotated[float, between(0, 1e9, SECONDS)] = 100.0  # mean gap between arrivals, also of applications
    # Of nas, as the next four:
    nas_programs: tuple[str, ...] = NAS  # CG, CG.C or CG.C.16: what is left out of a name is drawn
    nas_classes: tuple[str, ...] = CLASSES
    nas_sizes: tuple[int, ...] = SIZES  # numbers of processes
    nas_memory_mb: AtLeastOne = 900  # programs with larger processes are left out
    memory: MemoryTold = "aware"  # the scheduler is told the memory of processes; or unaware
    first: int = 0  # of a log: number of usable jobs to skip
    jobs: int | None = None  # of a log: number of jobs to take; of applications: number of jobs, default each once
    aarr: float = 10.2303  # of the model: arrival parameter, smaller is busier
    gap_factor: float = 1.0  # of the model: multiply gaps between arrivals
    run_factor: float = 1.0  # of the model: multiply run times
    load: OfferedLoad | None = None  # offered load that the jobs are brought to, as `summary.json` defines it
    load_method: LoadMethod = "gaps"  # one factor for all gaps; or users: users of a log are left out, or copied
    shake: Noise = 0.0  # run times are multiplied by 1 + U, U uniform in [-shake, shake)
    shake_seed: int = 0  # of these draws, beside the scenario's
    limits: str | None = None  # estimate: killed when the estimate ends; none. Logs: estimate; models: none
    estimates: str | None = None  # exact, f-model or day, instead of the source's estimates
    estimate_factor: float = 1.0  # of the f-model: run x (1 + U x factor)
    cap_runs: bool = True  # of a log: cut run times to the estimate
    skip_bad_rows: bool = False
    log_memory: bool = True  # of a log: jobs take the memory that they requested
    mix: str | None = None  # demand: high, med, low, or shares such as 50:10:40
    demand_high: tuple[int, ...] = (2000, 0, 0)  # MB/s a process: memory bandwidth, network, disk
    demand_medium: tuple[int, ...] = (1000, 0, 0)
    demand_low: tuple[int, ...] = (500, 0, 0)
    characteristics: str | None = None  # usage: M1, M2, M3, or shares such as 40:30:30
    annotations: str | None = None  # usage: a side file, which overrides the mix
    profiles: str | None = None  # demand for the composite model: a side file, by application or job
    exclusive: bool = False  # every job takes whole nodes
    memory_mb: Annotated[int, at_least(0)] = 0  # of every process
    self_slowdowns: SelfSlowdowns | None = None  # table4: drawn as the G-LOMARC-TS paper distributes them
    lublin_size: LublinSize | None = None  # the number of processors of the model's machine is that of: cores, nodes
    grow: bool = False  # sizes are for one process per node, and grow to fill cores
    grow_max_slowdown: SlowdownLimit = 1.25  # fourfold if the job's self slowdown is at most this
    grow_max_slowdown_cpus: SlowdownLimit = 1.12  # else twofold if the one with a process per CPU is at most this
    # What the jobs' processes do under [time_sharing]: fine, uniform, qcrd, qcrd-even, compute, io; or a side file, FILE.csv
    programs: str | None = None  # default: fine
    cpu_share: Share = 0.45  # fine: part of the time alone in which a process computes
    null_statements: Above0 = 2_500_000  # compute: between two barriers
    files: Above0 = 20  # io: written between two barriers
    jitter: Share | None = None  # each burst is uniform within that part of its length; default: the program's own
    grain: Grain = 1.0  # NAS programs: bursts and messages are so many times as large, and iterations fewer


@dataclass(frozen=True, slots=True)
class TimeSharingSection:
    """Nodes that run processes: jobs share the CPU of a node, in slots that take turns."""

    # exact: every burst is simulated; fluid: jobs progress at rates measured in exact nodes; windows: exact after each change
    nodes: NodeKind = "fluid"
    quantum_s: Annotated[float, between(1e-3, 1_000_000, SECONDS)] = 1.0
    local: Local = "wake-first"  # which process of a node gets its CPU
    slice_ms: Annotated[float, between(0.1, 1_000_000, "a number of milliseconds")] = (
        200.0  # wake-first, rr: a process's turn
    )
    epoch_ticks: EpochTicks = 6  # linux-epochs: ticks of 10 ms that an epoch gives a process
    tick_ms: Milliseconds = 10.0  # CPU time is logged in ticks; 0 logs it exactly
    io_logged: Share = 0.0  # share of I/O's CPU time that is logged to the process
    io_cpu_us: Microseconds = 100  # CPU time to open, write and close a file
    io_service_us: Annotated[Microseconds, at_least(1)] = 463  # of the server for a file
    barrier_us: Annotated[Microseconds, at_least(1)] = 920  # from the last arrival to the release
    barrier_process_us: Microseconds = 0  # more for each process but the first
    switch_us: Microseconds = 0  # CPU time that a switch between processes costs
    refill_us: Microseconds = 0  # more after a switch, until the cache is filled again
    memory_mb: Amount = 0  # of a node for the processes on it; 0: everything fits
    swap_mb_s: Above0 = 25  # speed of a node's swap device, MB/s
    paged_first_mb: Amount = 1  # touched at once by a process that gets the CPU, where memory is short
    paged_mb_s: Amount = 40  # touched by it as it runs, MB/s
    rounded: bool = True  # fluid: situations that are nearly alike are measured once
    windows: str | None = None  # fluid: a folder in which measured rates are kept, for other runs and processes
    window_min_s: WindowLength = 10.0  # windows: for how long nodes are exact after a change, at least
    window_max_s: WindowLength = 30.0  # and at most
    turn_overhead: Noise = 0.03  # windows: share of a quantum for which nothing runs when turns change
    coscheduling: str | None = None  # policy of the message layer; default: nls with windows, else none
    coscheduling_parameters: Mapping[str, Any] | None = None  # of that policy
    message_cpu_us: Annotated[Microseconds, at_least(1)] = 2  # CPU time to send a message
    receive_cpu_us: Microseconds = 2  # and to receive one
    latency_us: Microseconds = 6  # of the network
    network_mb_s: Above0 = 80  # of a node's way out, MB/s
    rendezvous_bytes: Amount = 16_384  # larger messages wait until their receiver has answered; 0: none does
    interrupt_us: Microseconds = 10  # CPU time of an interrupt by the network
    daemon_us: Microseconds = 0  # CPU time of the system's own processes in each period, on each node
    daemon_period_us: Above0 = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockSection:
    """The kind of time. ``virtual``: from instant to instant, as fast as answers come; ``scaled`` and ``real``: continuous."""

    mode: ClockMode = "virtual"
    speed: Speed | None = None  # of a scaled clock: emulated seconds a second
    deadline_s: Wait = 300.0  # longest time for an answer of a scheduler in another process
    wait_s: Wait = 60.0  # longest wait for such a scheduler
    takeover_s: Takeover = 1.2  # silence after which a waiting standby takes over
    resend_s: Wait = 1.0  # time after which an unanswered message is sent again; it doubles each time


@dataclass(frozen=True, slots=True)
class MonitoringSection:
    """What the manager measures: the slowdown of co-located jobs, after they have shared nodes for some time."""

    after_s: DurationAboveZero | None = None  # time with the same neighbours; None: never
    above: Slowdown = 1.0  # only larger slowdowns are reported


@dataclass(frozen=True, slots=True)
class PreemptionSection:
    """The cost of suspending a job to disk."""

    resume_s: Duration = 0.0  # time without progress of a job that returns from disk


@dataclass(frozen=True, slots=True)
class ResultsSection:
    """Which jobs count: all but the first ``warmup`` and the last ``cooldown``."""

    warmup: int = 0
    cooldown: int = 0


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """One change: cancel, hold or release a job, fail or return a node."""

    at_s: Instant
    do: Annotated[str, Choice(CHANGES)]
    job: int | None = None
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario. Its values are checked when a run of it is prepared."""

    seed: int = 1
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
    requeue: bool = False  # jobs on a node that fails run again, instead of ending as NODE_FAIL
    faults: FaultsSection | None = None
    time_sharing: TimeSharingSection | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values, for the record of a run.

        ``faults`` is left out if none are planned, ``parameters`` and watts if there are none, and what belongs to time sharing, to
        the NAS programs, to tables of co-runs or to profiles without it. So are `ADDED` settings that have their default, so
        that the runs of studies that were made before them keep their keys.
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
                del values["belief"][key]
        return values
