"""The sections of a scenario that say what runs on what: machine, contention, belief and jobs.

Each key is a field: its annotation holds its type, its bounds and its meaning, and its default stands behind it. Nothing
else declares them: `reader` reads keys and types here, `check_bounds` the bounds, and the printed reference
(docs/reference/scenario.md) all of it. The remaining sections are in `schema`, and those that few scenarios have where
it loads them from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from cosched_emulator import bounds, needs, offered
from cosched_emulator.workload.nas import CLASSES, NAS, NODE_MB, SIZES
from cosched_hwmodel.composition import COMPOSITIONS
from cosched_hwmodel.lomarc import C_SCOPES, CPUS
from cosched_hwmodel.measured import METHODS
from cosched_hwmodel.quick_classes import frozen

_USE: Final = needs.given("workload.characteristics", "workload.annotations", users=True)
_SELF: Final = needs.given("workload.self_slowdowns", "workload.annotations", users=True)

# The type of a setting of some jobs, models or nodes, as in OfLog[int], with what it needs.
T = TypeVar("T")
Late: TypeAlias = Annotated[T, needs.Later()]
OfLog: TypeAlias = Annotated[T, needs.jobs_of("swf")]
OfModel: TypeAlias = Annotated[T, needs.jobs_of("lublin")]
OfNas: TypeAlias = Annotated[T, needs.Later(("workload.nas",)), needs.jobs_of("nas")]
NotNas: TypeAlias = Annotated[T, needs.jobs_of("swf", "lublin", "applications")]  # NAS jobs have their own
OfApplications: TypeAlias = Annotated[T, needs.Later(("workload.applications",)), needs.jobs_of("applications")]
Gaps: TypeAlias = Annotated[T, needs.absent("workload.load", refused=True)]
Demand: TypeAlias = Annotated[tuple[bounds.Amount, ...], needs.given("workload.mix"), needs.DEMAND_COUNTS]
OfGrow: TypeAlias = Annotated[T, needs.given("workload.grow")]
OfProcesses: TypeAlias = Annotated[T, needs.Later(("time_sharing",)), needs.given("time_sharing")]
OfLomarc: TypeAlias = Annotated[T, needs.models("lomarc"), needs.PAIRED]
Asked: TypeAlias = Annotated[T, needs.ASKED_PAIRS]
OfUse: TypeAlias = Annotated[T, _USE, needs.BELIEVED_USE, needs.known("belief.usage"), needs.ASKED_PAIRS]
OfPairs: TypeAlias = Annotated[
    T,
    needs.Later(("truth.pairs", "belief.pair_table")),
    needs.believed("pairs"),
    needs.known("belief.pairs"),
    needs.ASKED_PAIRS,
]


def _limit(resource: str) -> tuple[needs.Needs, ...]:
    """Return the needs of a node's limit of a resource."""
    return (needs.NO_PROCESSES, needs.bandwidth(resource), needs.LIMITED)


def _using(parameter: str) -> needs.Needs:
    """Return the need of a program with this parameter."""
    names = [name for name, parameters in offered.PROGRAMS.items() if parameter in parameters]
    return needs.programs(*names, *([offered.NAS_PREFIX] * (parameter in offered.OF_NAS_PROGRAMS)))


@frozen
class ClusterSection:
    """The machine. ``file`` names a TOML file of ``[[nodes]]``; otherwise all nodes are alike."""

    nodes: Annotated[
        bounds.AtLeastOne | None,
        "number of nodes. Where neither this, `processors` nor `file` is given: those of the log's machine "
        f"(`MaxProcs`), else {offered.NODES}",
    ] = None
    processors: Annotated[
        bounds.AtLeastOne | None,
        "cores of the whole machine, instead of `nodes`. A rest becomes one node with fewer cores and the same capacities",
    ] = None
    preset: Annotated[
        str,
        "shape of a node: one of those that `cosched-emulator presets` lists, or sockets x cores of a socket x "
        "threads of a core, such as `2x16x2`",
    ] = offered.SHAPE
    cores: Annotated[int | None, "one socket with this many cores of one thread, instead of the shape's"] = None
    memory_bandwidth_mbs: Annotated[
        int | None,
        _limit("memory_bandwidth"),
        "memory bandwidth of a node in MB/s, instead of the shape's (the option: in GB/s of 1000 MB/s); 0 is unlimited",
    ] = None
    network_mbs: Annotated[int | None, _limit("network"), "network bandwidth of a node in MB/s; 0 is unlimited"] = None
    disk_mbs: Annotated[int | None, _limit("disk"), "disk bandwidth of a node in MB/s; 0 is unlimited"] = None
    memory_mb: Annotated[
        int | None, needs.MEMORY, "memory of a node in MiB (the option: in GB of 1024 MiB); 1 or more"
    ] = None
    swap_mb: Annotated[
        int | None,
        (needs.MEMORY, needs.ON_DISK),
        "disk space of a node for the memory of jobs that are suspended to disk, in MiB. No preset has any; jobs "
        "without `memory_mb` need none",
    ] = None
    resources: Annotated[
        Late[str | None],
        "countable resources of each node, such as `gpu:4;fpga:1`. A job takes what its "
        "`resources` say ([annotations](../scenarios.md#characteristics-of-jobs))",
    ] = None
    licences: Annotated[Late[str | None], "countable resources of the whole machine, such as `matlab:4`"] = None
    same_nodes: Annotated[
        Late[bool | None],
        needs.SHARED_NODES,
        "whether a node is one device, such as a GPU: a job shares all of its nodes with one other job, or none "
        "([GPUs](../scenarios.md#gpus))",
    ] = None
    idle_w: Annotated[
        Late[bounds.Watts | None],
        "watts of a node with all cores idle. No preset has any; with watts, a run reports its energy",
    ] = None
    busy_w: Annotated[Late[bounds.Watts | None], "additional watts of each busy core; needed with `idle_w`"] = None
    spin_w: Annotated[
        Late[bounds.Watts | None],
        (needs.given("time_sharing"), needs.POLLS),
        "additional watts of each core whose process only polls for a message. The default is `busy_w`",
    ] = None
    file: Annotated[str | None, "instead of all other keys: a TOML file of `[[nodes]]`, described in MODEL.md"] = None


@frozen
class TruthSection:
    """How the hardware behaves."""

    contention: Annotated[
        str,
        needs.CONTENDED,
        'jobs compete for `resources`, by `mix`; `"lomarc"`: they share nodes as the LOMARC paper says, by '
        '`characteristics` or `annotations`; `"statistical"`: by self slowdowns, and pairs by drawn ones; '
        '`"pairs"`: as a table of measured co-runs says; `"composite"`: by the profiles of their processes and by'
        ' the threads that they hold; `"none"`: they never slow each other down; or your own model, by '
        "`module:Class` or the name under which it is installed",
    ] = "bandwidth"
    composition: Annotated[
        str,
        (bounds.Choice(tuple(COMPOSITIONS)), needs.SLOWED),
        'a job goes at the pace of its worst node at every instant; `"paper"`: each node progresses by itself, '
        "and the last one ends the job",
    ] = "bulk-synchronous"
    resources: Annotated[
        tuple[bounds.Resource, ...], needs.models("bandwidth"), needs.CONTENDED, "`memory_bandwidth`, `network`, `disk`"
    ] = ("memory_bandwidth",)
    remainder: Annotated[
        OfLomarc[bool],
        "`true`: the time in which two jobs do not compete counts once. `false`: the formula as printed, with 1 as the "
        "least slowdown",
    ] = False
    c_scope: Annotated[
        OfLomarc[str],
        (bounds.Choice(C_SCOPES), needs.SHARED_CPUS),
        'how well two jobs share a CPU is drawn for every pair; `"cpu_cpu"`: for two cpu-bound jobs, and all '
        "other pairs are compatible",
    ] = "all"
    cpu: Annotated[
        OfLomarc[str], bounds.Choice(CPUS), '`"standard"`: jobs take turns on the CPU, and no pair is compatible'
    ] = "hyperthreaded"
    pair_seed: Annotated[
        int | None,
        (needs.models("lomarc", "statistical"), needs.SHARED_CPUS_OR_DRAWN, needs.PAIRED),
        "seed of draws for pairs; by default the scenario's. Draws follow the jobs' numbers in the run, so a window has its own pairs",
    ] = None
    good_share: Annotated[OfLomarc[bounds.Share], needs.SHARED_CPUS, "share of the pairs that are compatible"] = 0.33
    paging: Annotated[
        OfLomarc[bounds.Slowdown], "least slowdown of two jobs that do not fit into a node's memory together"
    ] = 2.5
    cos_shares: Annotated[
        tuple[int, ...],
        (needs.models("statistical"), needs.PAIRED),
        "percent of the pairs in which one job slows the other by 1.0 to 1.1, 1.1 to 1.2, ... times; together 100",
    ] = (68, 17, 7, 3, 2, 1, 1, 1)
    pairs: Annotated[Late[str | None], needs.models("pairs"), needs.PAIRED, "a table of measured co-runs, CSV"] = None
    parameters: Annotated[
        Late[Mapping[str, Any] | None],
        needs.PAIRED,
        "keyword arguments of the class of your own model, or parameters of `composite`; other models of cosched have none",
    ] = None


@frozen
class BeliefSection:
    """What the scheduler knows of the hardware and of jobs: the truth unless set otherwise."""

    contention: Annotated[
        str | None,
        needs.ASKED_EITHER,
        'as in `[truth]`. The default is that of the truth, or `"none"` if the truth is a model of nodes from a third party, '
        "which no scheduler can use",
    ] = None
    composition: Annotated[
        str | None,
        (bounds.Choice(tuple(COMPOSITIONS)), needs.ASKED_NEVER),
        "as in `[truth]`. The scheduler is told it, but cosched's policies predict penalties as the RUA paper does, "
        "node by node",
    ] = None
    resources: Annotated[
        tuple[bounds.Resource, ...] | None, needs.believed("bandwidth"), needs.ASKED_EITHER, "as in `[truth]`"
    ] = None
    demand: Annotated[
        bounds.Knowledge,
        (needs.given("workload.mix", users=True), needs.BELIEVED_DEMAND, needs.ASKED_LOSSES),
        'what the scheduler knows of each job\'s demand; `"unknown"`: nothing',
    ] = "exact"
    usage: Annotated[
        Asked[str],
        (bounds.Choice(offered.USAGE_KNOWLEDGE), _USE, needs.BELIEVED_USE),
        'what the scheduler knows of each job\'s characteristics; `"unknown"`: nothing. Wrong on purpose: `"shuffled"`: those of '
        'another job, drawn; `"inverted"`: the complement of each fraction and of memory',
    ] = "exact"
    usage_noise: Annotated[OfUse[bounds.Noise], "largest relative error of every fraction and of memory"] = 0.0
    usage_bias: Annotated[
        OfUse[float],
        bounds.Range("a number above -1, at most 1000", -1, 1_000, least_open=True),
        "relative error of memory and of the bound's fraction",
    ] = 0.0
    usage_missing: Annotated[
        OfUse[float], bounds.between(0, 1, "a share"), "share of the jobs whose characteristics are unknown"
    ] = 0.0
    remainder: Annotated[Asked[bool | None], needs.believed("lomarc"), "as in `[truth]`, which has the default"] = None
    c_scope: Annotated[
        Asked[str | None],
        (bounds.Choice(C_SCOPES), needs.believed("lomarc"), needs.SHARED_CPUS),
        "as in `[truth]`, which has the default",
    ] = None
    pairs: Annotated[
        Asked[bounds.Knowledge],
        (needs.believed("lomarc", "statistical", "pairs"), needs.SHARED_CPUS_IF_LOMARC),
        'which pairs are compatible; `"unknown"`: with `lomarc` every pair is believed to compete; with '
        "`statistical` the scheduler believes in other pairs of the same distribution, drawn with another seed, "
        "so it knows the distribution of slowdowns, but not the slowdown of a pair; with `pairs` it knows no "
        "application, and no job shares nodes",
    ] = "exact"
    self_slowdowns: Annotated[
        bounds.Knowledge,
        _SELF,
        needs.ASKED_SELF,
        'what the scheduler knows of each job\'s self slowdown; `"unknown"`: nothing',
    ] = "exact"
    self_noise: Annotated[
        bounds.Noise,
        (_SELF, needs.known("belief.self_slowdowns"), needs.ASKED_SELF),
        "largest relative error of each of the two self slowdowns",
    ] = 0.0
    profiles: Annotated[
        Asked[bounds.Knowledge],
        (needs.Later(("workload.profiles",)), needs.given("workload.profiles", users=True), needs.BELIEVED_PROFILES),
        'what the scheduler knows of the profiles of jobs; `"unknown"`: nothing',
    ] = "exact"
    pair_table: Annotated[OfPairs[str | None], "another table of co-runs, CSV, instead of the truth's"] = None
    pair_noise: Annotated[
        OfPairs[bounds.Noise],
        "largest relative error of each ratio of the table; the error is drawn for each ordered pair",
    ] = 0.0
    pair_missing: Annotated[
        OfPairs[bounds.Share],
        "share of the pairs that are taken out of the table, in both directions, and predicted from the others",
    ] = 0.0
    pair_method: Annotated[
        Late[OfPairs[str]],
        (bounds.Choice(METHODS), needs.given("belief.pair_missing", "belief.pair_table")),
        "how missing pairs of the believed table are predicted, as with `cosched-hwmodel calibrate --method`",
    ] = METHODS[0]
    parameters: Annotated[
        Late[Asked[Mapping[str, Any] | None]],
        "parameters of your own model: added to those of `[truth]` if `contention` is the same, else all of them",
    ] = None


@frozen
class WorkloadSection:
    """The jobs: a log (``swf``), a model (``lublin``), random NAS programs (``nas``), or ``applications`` of a table of co-runs."""

    swf: Annotated[str | None, "a log in Standard Workload Format, plain or gzip; `-`: standard input"] = None
    lublin: Annotated[
        Annotated[int, bounds.between(1, offered.MOST_JOBS)] | None,
        "this many jobs of the Lublin-Feitelson model, for a machine of this size (`lublin_size`)",
    ] = None
    nas: Annotated[
        Late[Annotated[int, bounds.between(1, offered.MOST_JOBS)] | None], "this many random jobs of the NAS programs"
    ] = None
    applications: Annotated[
        Late[str | None],
        "jobs are the applications of a table of co-runs, CSV, each equally likely: `jobs` of them, each once "
        "where that is not given. With `swf` or `lublin`, the applications only give these jobs names, drawn in the same way",
    ] = None
    application_names: Annotated[
        tuple[str, ...],
        (needs.Later(("workload.applications",)), needs.given("workload.applications", refused=True)),
        "names of the applications to use; empty: all",
    ] = ()
    application_processes: Annotated[
        OfApplications[tuple[bounds.AtLeastOne, ...]],
        "use only applications with one of these numbers of processes; empty: all. If the table has no `procs`, "
        "the one number here holds for all",
    ] = ()
    shuffle_seed: Annotated[OfApplications[int], "the same jobs in another order for each seed; 0: as drawn"] = 0
    gap_s: Annotated[
        Gaps[float],
        (needs.Later(("workload.nas", "workload.applications")), needs.jobs_of("nas", "applications")),
        bounds.between(0, 1e9, bounds.SECONDS),
        "mean gap between arrivals, exponentially distributed; 0: all jobs come at once",
    ] = offered.GAP_S
    nas_programs: Annotated[
        OfNas[tuple[str, ...]],
        'programs, such as `"CG"`, `"CG.C"`, `"CG.C.16"`, `"sPPM.8"`, equally likely. What a name leaves out is drawn: '
        "first the class, then the number of processes",
    ] = NAS
    nas_classes: Annotated[OfNas[tuple[str, ...]], "classes to draw from"] = CLASSES
    nas_sizes: Annotated[
        OfNas[tuple[int, ...]], "numbers of processes to draw from, of those on which the program runs"
    ] = SIZES
    nas_memory_mb: Annotated[
        OfNas[bounds.AtLeastOne], "most memory of a process in MB: larger programs are left out"
    ] = NODE_MB
    memory: Annotated[
        OfNas[str],
        bounds.Choice(offered.MEMORY_TOLD),
        'the scheduler knows the memory of each process; `"unaware"`: only the nodes know it',
    ] = offered.MEMORY
    first: Annotated[
        OfLog[int], bounds.at_least(0), "skip this many usable jobs, in submit order, after all repairs"
    ] = 0
    jobs: Annotated[
        bounds.AtLeastOne | None,
        needs.jobs_of("swf", "applications"),
        "take this many jobs of a log (default: all), or draw this many of `applications`",
    ] = None
    aarr: Annotated[OfModel[bounds.Factor], "arrival parameter, smaller is busier"] = offered.AARR
    gap_factor: Annotated[Gaps[OfModel[bounds.Factor]], "multiplies the gaps between arrivals"] = 1.0
    run_factor: Annotated[OfModel[bounds.Factor], "multiplies the run times"] = 1.0
    load: Annotated[
        float | None,
        bounds.Range("a number above 0, at most 1000", 0, 1_000, least_open=True),
        "all gaps are multiplied by a factor that gives this offered load, `machine.offered_load` in `summary.json`",
    ] = None
    shake: Annotated[
        bounds.Noise, "run times are multiplied by 1 + U, U uniform in [-shake, shake), drawn for each job"
    ] = 0.0
    shake_seed: Annotated[int, needs.given("workload.shake"), "seed of `shake`, besides the scenario's seed"] = 0
    limits: Annotated[
        str | None,
        bounds.Choice(offered.LIMITS),
        '`"estimate"`: a job is killed when its estimate ends; `"none"`: never. Where not given: `estimate` for '
        "logs, `none` for models",
    ] = None
    estimates: Annotated[
        str | None,
        bounds.Choice(offered.ESTIMATES),
        '`"exact"`: the run time; `"f-model"`: run time x (1 + U x factor), U uniform in [0, 1); `"day"`: a day '
        'for each job, or its run time if that is longer; `"halfway"`: the mean of run time and estimate of the source; '
        '`"predicted"`: the mean of the last two run times of the user that would be known at the submission if no job '
        "waited, at most the estimate of the source, whose limits stay. Where not given: what the source says, exact for "
        "the model. Limits follow the new estimate",
    ] = None
    estimate_factor: Annotated[
        float,
        bounds.between(0, 1_000_000),
        needs.one_of("workload.estimates", "f-model", refused=True),
        "the factor of `f-model`",
    ] = 1.0
    cap_runs: Annotated[
        OfLog[bool],
        "run times above the estimate are cut to it (`--no-cap-runs`: they are not). The run says how much work is "
        "lost by that",
    ] = True
    minimum_estimate_s: Annotated[
        Late[OfLog[bounds.Duration]], "shorter estimates of the log are raised to this; use 0 for logs of a test bed"
    ] = 60.0
    skip_bad_rows: Annotated[OfLog[bool], "malformed rows are left out; else the first is an error"] = False
    log_memory: Annotated[
        OfLog[bool],
        "a process takes the memory that its job requested in the log, SWF field 10 (`--no-log-memory`: it does not). "
        "`memory_mb` has precedence",
    ] = True
    mix: Annotated[
        str | None,
        (needs.NO_PROCESSES, needs.DEMAND_COUNTS),
        "demand classes, drawn for each job: `high` (80:10:10), `med` (50:10:40), `low` (10:10:80), or shares "
        "HIGH:MEDIUM:LOW. Without it no job has any demand, and there is no contention",
    ] = None
    demand_high: Annotated[Demand, "what a process of a *high* job asks: memory bandwidth, network, disk, in MB/s"] = (
        2000,
        0,
        0,
    )
    demand_medium: Annotated[Demand, "the same for a *medium* job"] = (1000, 0, 0)
    demand_low: Annotated[Demand, "the same for a *low* job"] = (500, 0, 0)
    characteristics: Annotated[
        str | None,
        (needs.NO_PROCESSES, needs.USE_COUNTS),
        "what bounds jobs, and how they use their nodes, drawn for each job: `M1` (40:30:30), `M2` (40:10:50), "
        "`M3` (30:50:20), or shares CPU:NETWORK:DISK. With `, largest` appended, the bound is the largest fraction "
        "instead of the drawn one",
    ] = None
    annotations: Annotated[
        str | None,
        "a side file with what bounds jobs, how they use their nodes, and how they slow themselves down; it replaces "
        "what was drawn",
    ] = None
    profiles: Annotated[
        Late[str | None], needs.PROFILES, "what the processes of jobs ask of their nodes: a side file, CSV"
    ] = None
    exclusive: Annotated[bool, needs.SHARED_NODES, "every job takes whole nodes"] = False
    opted_in: Annotated[
        Late[Annotated[float, needs.SHARED_CORES]],
        bounds.between(0, 1, "a share"),
        "share of the users whose jobs may share cores, drawn by user (or by job, without users); other jobs are `unpaired`",
    ] = 1.0
    memory_mb: Annotated[
        NotNas[int], needs.MEMORY_LIMIT, bounds.at_least(0), "what every process asks of its node's memory, in MiB"
    ] = 0
    self_slowdowns: Annotated[
        str | None,
        (bounds.Choice(offered.SELF_SLOWDOWNS), needs.GROWN, needs.SELF_COUNTS),
        '`"table4"`: by how much each job slows itself down is drawn as the G-LOMARC-TS paper distributes it',
    ] = None
    lublin_size: Annotated[
        OfModel[str | None],
        bounds.Choice(("cores", "nodes")),
        'the model\'s machine has one processor for each of the `"cores"` or of the `"nodes"`. Where not '
        "given: nodes with `grow`, else cores",
    ] = None
    grow: Annotated[NotNas[bool], "sizes are for one process a node; on nodes of several cores jobs become larger"] = (
        False
    )
    grow_max_slowdown: Annotated[
        OfGrow[bounds.SlowdownLimit], "largest slowdown of a job on all cores of its nodes with which it grows fourfold"
    ] = 1.25
    grow_max_slowdown_cpus: Annotated[
        OfGrow[bounds.SlowdownLimit],
        "otherwise, largest slowdown with a process on each CPU with which it grows twofold",
    ] = 1.12
    programs: Annotated[
        NotNas[OfProcesses[str | None]], "what jobs' processes do (default: `fine`), or a side file, `FILE.csv`"
    ] = None
    cpu_share: Annotated[
        OfProcesses[bounds.Share],
        _using("cpu_share"),
        "part of the time alone in which a process computes; cut at 0.995",
    ] = offered.CPU_SHARE
    null_statements: Annotated[
        OfProcesses[bounds.Above0],
        _using("null_statements"),
        "statements between two barriers; 33,333 take a millisecond",
    ] = offered.NULL_STATEMENTS
    files: Annotated[
        OfProcesses[bounds.Above0], _using("files"), "files that a process writes between two barriers"
    ] = offered.FILES
    jitter: Annotated[
        OfProcesses[bounds.Share | None],
        _using("jitter"),
        "each burst is drawn uniformly within this part of its length below and above it. Default: 0.015 for `compute`, "
        "0.17 for NAS programs, 0.1 for the others",
    ] = None
    grain: Annotated[
        Late[OfProcesses[float]],
        (bounds.between(offered.LEAST_GRAIN, offered.MOST_GRAIN), _using("grain")),
        "factor of the size of bursts and messages; their number is divided by it, so that the run time alone stays",
    ] = 1.0
