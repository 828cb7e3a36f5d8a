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

from cosched_emulator.nodeos.local.catalogue import LOCAL_SCHEDULERS
from cosched_emulator.scenario.bounds import Choice, Range, at_least, between
from cosched_emulator.scenario.faults import KINDS
from cosched_emulator.workload.nas.tables import CLASSES, NAS, SIZES
from cosched_hwmodel.composition import COMPOSITIONS
from cosched_hwmodel.lomarc.model import C_SCOPES, CPUS
from cosched_hwmodel.topology import MOST_WATTS, WATTS
from cosched_hwmodel.units import SECOND_US
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.protocol.limits import INT64_MAX

OF_NAS: Final = ("gap_s", "nas_programs", "nas_classes", "nas_sizes", "nas_memory_mb", "memory")  # keys of [workload]
OF_PROCESSES: Final = ("programs", "cpu_share", "null_statements", "files", "jitter")  # keys of [workload]
Change: TypeAlias = Literal["cancel", "hold", "release", "fail-node", "return-node"]
CHANGES: Final[tuple[Change, ...]] = get_args(Change)

LONGEST_S: Final = INT64_MAX // SECOND_US
SECONDS: Final = "a number of seconds"
Instant: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
Duration: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
DurationAboveZero: TypeAlias = Annotated[float, Range(f"{SECONDS} above 0", 0, LONGEST_S, least_open=True)]
Jump: TypeAlias = Annotated[float, Range(f"{SECONDS} other than 0", -LONGEST_S, LONGEST_S, excluded=0)]
FaultSpan: TypeAlias = Annotated[
    float, at_least(1, SECONDS, LONGEST_S)
]  # much shorter times would leave no time for anything else
Wait: TypeAlias = Annotated[float, between(0, 1_000_000_000, SECONDS)]  # every wait ends
# A scheduler may compute for half a second without being replaced.
Takeover: TypeAlias = Annotated[Wait, Range(f"{SECONDS} from 0.5 on", 0.5)]

AtLeastOne: TypeAlias = Annotated[int, at_least(1)]
PluginFaultCount: TypeAlias = Annotated[int, between(0, 100_000, "a whole number")]
Speed: TypeAlias = Annotated[float, between(1e-3, 1e6)]
Share: TypeAlias = Annotated[float, between(0, 1)]
Slowdown: TypeAlias = Annotated[float, between(1, 1_000)]
SlowdownLimit: TypeAlias = Annotated[float, between(0, 1_000)]
Noise: TypeAlias = Annotated[float, Range("a number from 0 to below 1", 0, 1, most_open=True)]
OfferedLoad: TypeAlias = Annotated[float, Range("a number above 0, at most 1000", 0, 1_000, least_open=True)]
Bias: TypeAlias = Annotated[float, Range("a number above -1, at most 1000", -1, 1_000, least_open=True)]

ClockMode: TypeAlias = Annotated[str, Choice(("virtual", "scaled", "real"))]
Composition: TypeAlias = Annotated[str, Choice(tuple(COMPOSITIONS))]
Resource: TypeAlias = Annotated[str, Choice(RESOURCES)]
CScope: TypeAlias = Annotated[str, Choice(C_SCOPES)]
Cpu: TypeAlias = Annotated[str, Choice(CPUS)]
Knowledge: TypeAlias = Annotated[str, Choice(("exact", "unknown"))]
SelfSlowdowns: TypeAlias = Annotated[str, Choice(("table4",))]
LoadMethod: TypeAlias = Annotated[str, Choice(("gaps", "users"))]
LublinSize: TypeAlias = Annotated[str, Choice(("cores", "nodes"))]
NodeKind: TypeAlias = Annotated[str, Choice(("exact", "fluid", "windows"))]
MemoryTold: TypeAlias = Annotated[str, Choice(("aware", "unaware"))]
Local: TypeAlias = Annotated[str, Choice(LOCAL_SCHEDULERS)]
Watts: TypeAlias = Annotated[float, between(0, MOST_WATTS, "a number of watts")]
Milliseconds: TypeAlias = Annotated[float, between(0, 1_000_000, "a number of milliseconds")]
Microseconds: TypeAlias = Annotated[int, between(0, 1_000_000_000, "a whole number of microseconds")]
WindowLength: TypeAlias = Annotated[float, between(1, 1_000_000, SECONDS)]
Above0: TypeAlias = Annotated[int, between(1, 1_000_000_000, "a whole number")]
Amount: TypeAlias = Annotated[int, between(0, 1_000_000_000, "a whole number")]


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

    contention: str = "bandwidth"  # or lomarc, statistical, none; or a third-party model: its entry point, module:Class
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
    pairs: Knowledge = "exact"  # or unknown: all are believed to compete (lomarc), or drawn anew (statistical)
    self_slowdowns: Knowledge = "exact"  # or unknown
    self_noise: Noise = 0.0  # relative error of each, at most
    parameters: Mapping[str, Any] | None = None  # of a third-party model; override the truth's if it is the same model


@dataclass(frozen=True, slots=True)
class WorkloadSection:
    """The jobs: a log (``swf``), a model (``lublin``), or random NAS programs (``nas``)."""

    swf: str | None = None
    lublin: int | None = None  # number of jobs
    nas: Annotated[int, between(1, 10_000_000)] | None = None  # number of jobs
    gap_s: Annotated[float, between(0, 1e9, SECONDS)] = 100.0  # of nas, as the next five: mean gap between arrivals
    nas_programs: tuple[str, ...] = NAS  # CG, CG.C or CG.C.16: what is left out of a name is drawn
    nas_classes: tuple[str, ...] = CLASSES
    nas_sizes: tuple[int, ...] = SIZES  # numbers of processes
    nas_memory_mb: AtLeastOne = 900  # programs with larger processes are left out
    memory: MemoryTold = "aware"  # the scheduler is told the memory of processes; or unaware
    first: int = 0  # of a log: number of usable jobs to skip
    jobs: int | None = None  # of a log: number of jobs to take
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
    turn_overhead: Share = 0.03  # windows: share of a quantum for which nothing runs when turns change
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
class NodeFaultsSection:
    """Nodes that fail and return repeatedly and independently, after exponentially distributed times."""

    mean_up_s: FaultSpan
    mean_down_s: FaultSpan
    share: Share = 1.0  # share of the nodes that ever fail


@dataclass(frozen=True, slots=True)
class SlowFaultsSection:
    """Nodes that are slow for a time, repeatedly, after exponentially distributed times."""

    mean_normal_s: FaultSpan
    mean_slow_s: FaultSpan
    slowdown: Slowdown  # by how many times everything takes longer
    share: Share = 1.0  # share of the nodes that are ever slow


@dataclass(frozen=True, slots=True)
class FaultEntry:
    """One fault of one node at a given time: it fails, returns, becomes slow or is normal again."""

    at_s: Instant
    do: Annotated[str, Choice(KINDS)]
    node: int
    slowdown: Slowdown | None = None  # of a node that becomes slow


@dataclass(frozen=True, slots=True)
class MessageFaultsSection:
    """The faults of messages between manager and scheduler: probabilities, for each message in each direction."""

    drop: Share = 0.0
    duplicate: Share = 0.0
    delay: Share = 0.0
    delay_s: Annotated[float, between(0, 60, SECONDS)] = 0.1  # longest delay
    reorder: Share = 0.0  # it arrives after the next one


@dataclass(frozen=True, slots=True)
class PluginFaultsSection:
    """The faults of the scheduler's process."""

    kills: PluginFaultCount = 0  # number of times it is killed and restarted
    stalls: PluginFaultCount = 0  # number of times it is stopped for a time
    stall_s: Annotated[float, between(0, 3_600, SECONDS)] = 1.0
    batches: AtLeastOne | None = None  # faults fall among this number of first batches; default: the number of jobs


@dataclass(frozen=True, slots=True)
class ClockFault:
    """One jump of the clock of a live manager, forwards or (below 0) backwards."""

    at_s: Instant
    jump_s: Jump


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A time in which the disk of the database is full."""

    at_s: Instant
    for_s: FaultSpan


@dataclass(frozen=True, slots=True)
class FaultsSection:
    """A fault plan: the planned faults and their times."""

    seed: int | None = None  # seed of its draws; default: the scenario's
    nodes: NodeFaultsSection | None = None
    slow: SlowFaultsSection | None = None
    at: tuple[FaultEntry, ...] = ()
    messages: MessageFaultsSection | None = None
    plugin: PluginFaultsSection | None = None
    clock: tuple[ClockFault, ...] = ()
    disk: tuple[DiskFault, ...] = ()


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

        ``faults`` is left out if none are planned, ``parameters`` and watts if there are none, and what belongs to time sharing or
        to the NAS programs without it.
        """
        values = asdict(self)
        for key in WATTS:
            if values["cluster"][key] is None:
                del values["cluster"][key]
        if self.faults is None:
            del values["faults"]
        if self.workload.nas is None:
            for key in ("nas", *OF_NAS):
                del values["workload"][key]
        if self.time_sharing is None:
            del values["time_sharing"]
            for key in OF_PROCESSES:
                del values["workload"][key]
        else:
            del values["time_sharing"]["windows"]  # where rates are kept changes no result
            if self.time_sharing.coscheduling_parameters is None:
                del values["time_sharing"]["coscheduling_parameters"]
        for section in (values["truth"], values["belief"]):
            if section["parameters"] is None:
                del section["parameters"]
        return values
