"""A scenario: everything that a run depends on, from a TOML file with command-line flags on top.

    seed = 1
    [cluster]    nodes and their shape          [truth]   how the hardware really behaves
    [workload]   jobs                           [belief]  what the scheduler is told of both
    [clock]      how time passes                [policy]  the scheduler, when the emulator starts it
    [monitoring] what the manager measures      [results] which jobs count
    [preemption] what it costs                  [[script]] what users and operators do meanwhile
    [faults]     what goes wrong, and when

Every key is a field of one of the classes below; an unknown one is an error that names the closest.
"""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from cosched_emulator.errors import ConfigurationError, InputError

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """The machine. ``file`` names a TOML file of ``[[nodes]]``; otherwise all nodes are alike."""

    nodes: int | None = None  # how many; neither this nor processors: as many as the log's machine had, else 128
    processors: int | None = None  # instead of nodes: how many cores in all; the last node may be smaller
    preset: str = "single"  # shape of a node: `cosched-emulator presets` lists them
    cores: int | None = None  # instead of the preset's: one socket of so many cores, one thread each
    memory_bandwidth_mbs: int | None = None  # instead of the preset's, for each node
    network_mbs: int | None = None
    disk_mbs: int | None = None
    memory_mb: int | None = None
    swap_mb: int | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class TruthSection:
    """How the hardware behaves."""

    contention: str = "bandwidth"  # or lomarc, statistical, none
    composition: str = "bulk-synchronous"  # or paper
    resources: tuple[str, ...] = ("memory_bandwidth",)
    remainder: bool = (
        False  # lomarc: whether time in which neither of a pair competes counts; false: the printed formula
    )
    c_scope: str = "all"  # lomarc: c is drawn for all pairs; cpu_cpu: for those of two cpu-bound jobs only
    cpu: str = "hyperthreaded"  # lomarc; or standard: time-shared
    pair_seed: int | None = None  # lomarc, statistical: of what is drawn for pairs; the scenario's
    good_share: float = 0.33  # lomarc: of pairs, those that go well together
    paging: float = 2.5  # lomarc: slowdown where memory does not fit
    # statistical: percent of the pairs whose slowdown lies in [1.0, 1.1), [1.1, 1.2), ...
    cos_shares: tuple[int, ...] = (68, 17, 7, 3, 2, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class BeliefSection:
    """What the scheduler is told: of the hardware and of jobs, the truth unless said otherwise."""

    contention: str | None = None
    composition: str | None = None
    resources: tuple[str, ...] | None = None
    demand: str = "exact"  # or unknown
    usage: str = "exact"  # or unknown
    usage_noise: float = 0.0  # relative error of each fraction and of memory, at most
    usage_bias: float = 0.0  # relative error of memory and of the bound's fraction
    usage_missing: float = 0.0  # share of jobs of whose usage nothing is known
    remainder: bool | None = None
    c_scope: str | None = None
    pairs: str = "exact"  # or unknown: all are believed to compete (lomarc), or others are drawn (statistical)
    self_slowdowns: str = "exact"  # or unknown
    self_noise: float = 0.0  # relative error of each, at most


@dataclass(frozen=True, slots=True)
class WorkloadSection:
    """The jobs: a log (``swf``) or a model (``lublin``)."""

    swf: str | None = None
    lublin: int | None = None  # number of jobs
    first: int = 0  # of a log: skip so many usable jobs
    jobs: int | None = None  # of a log: take so many
    aarr: float = 10.2303  # of the model: arrival parameter, smaller is busier
    gap_factor: float = 1.0  # of the model: multiply gaps between arrivals
    run_factor: float = 1.0  # of the model: multiply run times
    limits: str | None = None  # estimate: killed when the estimate ends; none. Logs: estimate; models: none
    estimates: str | None = None  # exact or f-model, instead of what the source says
    estimate_factor: float = 1.0  # of the f-model: run x (1 + U x factor)
    cap_runs: bool = True  # of a log: cut run times to the estimate
    skip_bad_rows: bool = False
    mix: str | None = None  # demand: high, med, low, or shares such as 50:10:40
    demand_high: tuple[int, ...] = (2000, 0, 0)  # MB/s a process: memory bandwidth, network, disk
    demand_medium: tuple[int, ...] = (1000, 0, 0)
    demand_low: tuple[int, ...] = (500, 0, 0)
    characteristics: str | None = None  # usage: M1, M2, M3, or shares such as 40:30:30
    annotations: str | None = None  # usage: a side file, on top of that
    exclusive: bool = False  # every job takes whole nodes
    memory_mb: int = 0  # of every process
    self_slowdowns: str | None = None  # table4: drawn as the G-LOMARC-TS paper distributes them
    lublin_size: str | None = None  # the model's machine has so many processors as there are: cores, nodes
    grow: bool = False  # sizes are for one process a node, and grow to fill cores
    grow_max_slowdown: float = 1.25  # fourfold where a job slows itself by this at most
    grow_max_slowdown_cpus: float = 1.12  # else twofold where a process on each CPU slows it by this at most


@dataclass(frozen=True, slots=True)
class ClockSection:
    """How time passes. ``virtual``: from instant to instant, as fast as answers come; ``scaled`` and ``real``: by itself."""

    mode: str = "virtual"
    speed: float | None = None  # of a scaled clock: emulated seconds a second
    deadline_s: float = 300.0  # how long an answer of a scheduler in another process may take
    wait_s: float = 60.0  # how long such a scheduler is waited for
    takeover_s: float = 1.2  # silence after which a scheduler that waits as a standby takes over
    resend_s: float = 1.0  # after so long an unanswered message is sent again, and again after twice as long


@dataclass(frozen=True, slots=True)
class MonitoringSection:
    """What the manager measures: the slowdown of jobs that share nodes, once they have done so for a while."""

    after_s: float | None = None  # of running among the same neighbours; None: never
    above: float = 1.0  # a slowdown up to this is not told


@dataclass(frozen=True, slots=True)
class PreemptionSection:
    """What it costs to suspend a job to disk."""

    resume_s: float = 0.0  # how long one that comes back makes no progress


@dataclass(frozen=True, slots=True)
class ResultsSection:
    """Which jobs count: all but the first ``warmup`` and the last ``cooldown``."""

    warmup: int = 0
    cooldown: int = 0


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """One change: cancel, hold or release a job, fail or return a node."""

    at_s: float
    do: str
    job: int | None = None
    node: int | None = None


@dataclass(frozen=True, slots=True)
class NodeFaultsSection:
    """Nodes that fail and return for ever, each by itself, after times that are distributed exponentially."""

    mean_up_s: float
    mean_down_s: float
    share: float = 1.0  # of the nodes: those that ever fail


@dataclass(frozen=True, slots=True)
class SlowFaultsSection:
    """Nodes on which everything takes longer for a while, again and again, after times that are distributed exponentially."""

    mean_normal_s: float
    mean_slow_s: float
    slowdown: float  # how many times as long
    share: float = 1.0  # of the nodes: those that are ever slow


@dataclass(frozen=True, slots=True)
class FaultEntry:
    """One fault of one node at a given time: it fails, returns, becomes slow or is normal again."""

    at_s: float
    do: str
    node: int
    slowdown: float | None = None  # of one that becomes slow


@dataclass(frozen=True, slots=True)
class MessageFaultsSection:
    """What befalls the messages between manager and scheduler: probabilities, for each message in each direction."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    delay_s: float = 0.1  # longest delay
    reorder: float = 0.0  # it arrives after the next one


@dataclass(frozen=True, slots=True)
class PluginFaultsSection:
    """What befalls the scheduler's process."""

    kills: int = 0  # how many times it is killed and started anew
    stalls: int = 0  # how many times it is stopped for a while
    stall_s: float = 1.0
    batches: int | None = None  # among the first so many of the run; as many as there are jobs


@dataclass(frozen=True, slots=True)
class ClockFault:
    """One jump of the clock of a live manager, forwards or (below 0) backwards."""

    at_s: float
    jump_s: float


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A while in which the disk of the database is full."""

    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True)
class FaultsSection:
    """A fault plan: what goes wrong, and when. `faults` makes it from this."""

    seed: int | None = None  # of all that is drawn for it; the scenario's
    nodes: NodeFaultsSection | None = None
    slow: SlowFaultsSection | None = None
    at: tuple[FaultEntry, ...] = ()
    messages: MessageFaultsSection | None = None
    plugin: PluginFaultsSection | None = None
    clock: tuple[ClockFault, ...] = ()
    disk: tuple[DiskFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole scenario, checked for form. `building` makes the parts of a run from it."""

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
    requeue: bool = False  # jobs on a node that fails run again, instead of failing with it
    faults: FaultsSection | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values, for the record of a run; without ``faults`` where none are planned."""
        values = asdict(self)
        if self.faults is None:
            del values["faults"]
        return values


def read_scenario(file: str | None, overrides: Mapping[str, Any]) -> Scenario:
    """Return the scenario in ``file`` (None: all defaults) with ``overrides``, a table of the same form, on top.

    A relative path in the file counts from the file's folder. Raises InputError or ConfigurationError.
    """
    table: dict[str, Any] = {}
    if file is not None:
        table = _anchored(_parsed(file), Path(file).parent)
    for key, value in overrides.items():
        below = table.get(key, {})
        if not isinstance(value, Mapping):
            table[key] = value
        elif isinstance(below, Mapping):  # anything else is refused below, override or not
            table[key] = {**below, **value}
    return _section(Scenario, table, "", file or "")


def read_faults(file: str) -> FaultsSection:
    """Return the fault plan in a file of its own, whose top level is the table ``[faults]`` of a scenario.

    Raises InputError or ConfigurationError; the latter's path is that of the key in a scenario.
    """
    return _section(FaultsSection, _parsed(file), "faults", file)


def _parsed(file: str) -> dict[str, Any]:
    try:
        if Path(file).exists() and not Path(file).is_file():  # a pipe could make us wait for ever
            raise InputError(file, "a regular file")
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(file, "a readable scenario file", error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(file, "TOML", str(error)) from error


def _anchored(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    for section, key in (("workload", "swf"), ("workload", "annotations"), ("cluster", "file")):
        entries = table.get(section)
        if isinstance(entries, dict) and isinstance(entries.get(key), str) and entries[key]:
            table[section] = {**entries, key: str(folder / entries[key])}
    return table


def _section(kind: type[Section], table: object, path: str, file: str) -> Section:
    """Build ``kind`` from a table whose keys are its fields."""
    if not isinstance(table, Mapping):
        raise ConfigurationError(path, "a table", repr(table), file=file)
    hints = typing.get_type_hints(kind)
    known = {item.name: item for item in fields(typing.cast(Any, kind))}
    values: dict[str, Any] = {}
    for key, value in table.items():
        place = f"{path}.{key}" if path else str(key)
        if key not in known:
            raise ConfigurationError.unknown_name(place, str(key), known, file)
        values[key] = _value(hints[key], value, place, file)
    for name, item in known.items():
        if name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise ConfigurationError(f"{path}.{name}" if path else name, "a value", "none", file=file)
    return kind(**values)


def _value(hint: Any, value: object, place: str, file: str) -> object:
    """Return ``value`` if it is what ``hint`` says, converted where TOML has no such type."""
    if isinstance(hint, types.UnionType):
        hint = next(option for option in hint.__args__ if option is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ConfigurationError(place, "a list", repr(value), file=file)
        return tuple(_value(item, entry, f"{place}[{index}]", file) for index, entry in enumerate(value))
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return _section(hint, value, place, file)
    if typing.get_origin(hint) is not None:  # [policy]: the plugin knows its keys
        if not isinstance(value, Mapping):
            raise ConfigurationError(place, "a table", repr(value), file=file)
        return dict(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise ConfigurationError(place, names[hint], repr(value), file=file)
    return value
