"""What a Slurm site says of itself: its configuration, partitions, nodes, reservations, QOS, associations and outages.

Files are what `scontrol show config|partition|node|reservation` (with or without ``-o``) and `sacctmgr -P show qos|assoc|event` print;
each is recognised by its content. Facts are plain records here; `site_scenario` says what a scenario has of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cosched_emulator.errors import InputError
from cosched_hwmodel.text_formats import read_text
from cosched_hwmodel.units import duration_s
from cosched_plugin.common.limits import TRES, UNBOUND, Association, Limited, Qos
from cosched_plugin.common.sacct_rows import TIME
from cosched_plugin.common.sacct_times import Clock
from cosched_plugin.common.slurm_notation import amounts, expand

COMMANDS: Final = (
    "scontrol show config >config.txt",
    "scontrol show -o partition >partitions.txt",
    "scontrol show -o node >nodes.txt",
    "scontrol show -o reservation >reservations.txt",
    "sacctmgr -P show qos >qos.txt",
    # Slurm 24.11 shows no parents of accounts unless it is asked for them.
    "sacctmgr -P show assoc format=cluster,account,user,partition,share,grpjobs,grptres,grpsubmit,grpwall,grptresmins,grptresrunmins,"
    "maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,parentname >assoc.txt",
    "sacctmgr -P show event all_time start=now-90days >events.txt",
)
_NONE: Final = ("", "(null)", "N/A", "NONE", "None", "none", "n/a", "UNLIMITED", "INFINITE", "Unknown")


class Record:
    """One record of a file, or its configuration: texts by name, and where it stands."""

    __slots__ = ("file", "line", "values")

    def __init__(self, file: str, line: int, values: Mapping[str, str]) -> None:
        self.file = file
        self.line = line
        self.values = {name.casefold(): text.strip() for name, text in values.items()}

    def text(self, name: str) -> str:
        """Return a value, empty where it is not told or is none."""
        found = self.values.get(name.casefold(), "")
        return "" if found in _NONE else found

    def read(self, name: str, read: Callable[[str], Any], expected: str) -> Any:
        """Return a value as ``read`` reads it; InputError where it cannot."""
        text = self.values.get(name.casefold(), "")
        try:
            return read("" if text in _NONE else text)
        except ValueError:
            raise self.error(name, expected, text) from None

    def error(self, name: str, expected: str, text: str) -> InputError:
        """Return the error of a value."""
        return InputError(self.file, expected, repr(text if len(text) <= 60 else f"{text[:57]}..."), self.line, name)

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a list, in lower case."""
        return frozenset([word.strip().casefold() for word in self.text(name).split(",") if word.strip()])

    def number(self, name: str) -> int | None:
        """Return a whole number; None where there is none."""
        found: int | None = self.read(name, _number, "a whole number")
        return found

    def named(self, name: str) -> str:
        """Return a value that must be there."""
        found = self.text(name)
        if not found:
            raise self.error(name, "a name", found)
        return found

    def nodes(self, name: str) -> tuple[str, ...]:
        """Return the nodes of a list."""
        found: tuple[str, ...] = self.read(name, expand, "a list of nodes such as n[0-3,7]")
        return found

    def seconds(self, name: str) -> int | None:
        """Return a duration; None for none."""
        found: int | None = self.read(
            name, lambda text: duration_s(text, digits=2) if text else None, "a duration such as 1-02:03:04"
        )
        return found

    def instant(self, name: str, clock: Clock) -> int | None:
        """Return an instant; None where it has not come."""
        found: tuple[int, ...] = self.read(name, lambda text: clock.read(text).instants, TIME)
        return found[0] if found else None

    def most(self, jobs: str, tres: str) -> Limited:
        """Return limits of a number of jobs and of TRES."""
        found: Mapping[str, int] = self.read(tres, _limits_of, "amounts such as cpu=4,gres/gpu=1,node=2")
        return Limited.of_slurm(self.number(jobs), found)

    def others(self, names: Iterable[str], *tres: str) -> tuple[str, ...]:
        """Return those of some names that are set, and those of TRES with more than CPUs, GPUs and nodes."""
        told = [name for name in names if self.text(name)]
        for name in tres:
            told += [f"{name} {key}" for key in _limits_of(self.text(name)) if key not in TRES]
        return tuple(told)


class Partition(NamedTuple):
    """A partition; None: no limit."""

    name: str
    nodes: tuple[str, ...]
    max_nodes: int | None
    max_time_s: int | None
    tier: int
    job_factor: int
    default: bool
    qos: str
    whole_nodes: bool


class Node(NamedTuple):
    """A node."""

    name: str
    sockets: int
    cores: int  # of a socket
    threads: int  # of a core
    memory_mb: int
    resources: tuple[tuple[str, int], ...]  # `gpu`, or `gpu:TYPE`
    up: bool


class Reservation(NamedTuple):
    """Nodes that are kept free for somebody. Times in seconds since 1970."""

    name: str
    begin_s: int
    end_s: int
    nodes: tuple[str, ...]
    flags: frozenset[str]
    cores: bool  # some of its nodes' alone


class Outage(NamedTuple):
    """A node that takes no jobs. Times in seconds since 1970."""

    node: str  # empty: the whole cluster
    begin_s: int
    end_s: int | None
    state: str


class Facts(NamedTuple):
    """What a site's files say; None is what no file is about."""

    config: Record | None = None
    partitions: tuple[Partition, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    reservations: tuple[Reservation, ...] | None = None
    qos: tuple[Qos, ...] | None = None
    associations: tuple[Association, ...] | None = None
    outages: tuple[Outage, ...] | None = None


def _number(text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError(text)
    return int(text)


def _limits_of(text: str) -> Mapping[str, int]:
    return amounts(",".join([part for part in text.split(",") if not part.endswith(("=-1", "=UNLIMITED"))]))


# ---------------------------------------------------------------- kinds of files

_ALSO_OF_QOS: Final = (
    *("Preempt", "GrpTRESMins", "GrpTRESRunMins", "GrpWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MaxWall"),
    *("GrpSubmit", "MaxSubmitPU", "MaxSubmitPA", "MinTRES", "UsageThres"),
)
_ALSO_OF_ASSOCIATIONS: Final = (
    *("GrpTRESMins", "GrpTRESRunMins", "GrpWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MaxWall", "GrpSubmit"),
    *("MaxSubmit", "Partition"),
)


def _partition(record: Record, _: Clock) -> Partition:
    shared = record.values.get("oversubscribe", "").upper()
    return Partition(
        record.named("PartitionName"),
        record.nodes("Nodes"),
        record.number("MaxNodes"),
        record.seconds("MaxTime"),
        record.number("PriorityTier") or 1,
        record.number("PriorityJobFactor") or 0,
        record.text("Default") == "YES",
        record.text("QoS"),
        shared.startswith("EXCLUSIVE"),
    )


def _node(record: Record, _: Clock) -> Node:
    threads = record.number("ThreadsPerCore") or 1
    sockets = record.number("Sockets") or 1
    cores = record.number("CoresPerSocket") or max(1, (record.number("CPUTot") or 1) // (sockets * threads))
    gres: tuple[tuple[str, int], ...] = record.read("Gres", _gres, "resources such as gpu:a100:4")
    state = record.values.get("state", "").upper()
    up = not re.search("(?<![A-Z_])(DOWN|DRAIN|FAIL|FUTURE)", state)  # those that save power are POWERED_DOWN
    return Node(record.named("NodeName"), sockets, cores, threads, record.number("RealMemory") or 0, gres, up)


def _gres(text: str) -> tuple[tuple[str, int], ...]:
    """Return the resources of ``gpu:a100:4(S:0-1),fpga``."""
    found: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        name, _, count = part.strip().rpartition(":")
        if part.strip():
            units = re.fullmatch(r"([0-9]{1,12})([KMG]?)", count) if name else None
            if name and units is None:  # a type without a number
                name, number = part.strip(), 1
            else:
                name = name or part.strip()
                number = int(units[1]) * 1024 ** " KMG".index(units[2] or " ") if units else 1
            if not re.fullmatch(r"[\w.:/-]+", name):
                raise ValueError(text)
            found[name] = found.get(name, 0) + number
    return tuple([(name, number) for name, number in found.items() if number])


def _reservation(record: Record, clock: Clock) -> Reservation:
    begin_s, end_s = record.instant("StartTime", clock), record.instant("EndTime", clock)
    if begin_s is None or end_s is None or end_s < begin_s:
        raise record.error("EndTime", "a time after StartTime", record.text("EndTime"))
    flags = frozenset(record.text("Flags").upper().split(","))
    return Reservation(
        record.named("ReservationName"), begin_s, end_s, record.nodes("Nodes"), flags, bool(record.text("CoreIDs"))
    )


def _qos(record: Record, _: Clock) -> Qos:
    return Qos(
        record.named("Name"),
        record.number("Priority") or 0,
        record.most("GrpJobs", "GrpTRES"),
        record.most("MaxJobsPU", "MaxTRESPU"),
        record.most("MaxJobsPA", "MaxTRESPA"),
        record.others(_ALSO_OF_QOS, "GrpTRES", "MaxTRESPU", "MaxTRESPA"),
    )


def _association(record: Record, _: Clock) -> Association:
    share = record.text("Share")
    return Association(
        record.named("Account"),
        record.text("User"),
        record.text("ParentName"),
        None if share.lower() in ("parent", "fairshare=parent") else record.number("Share"),
        record.most("GrpJobs", "GrpTRES"),
        UNBOUND if (jobs := record.number("MaxJobs")) is None else jobs,
        record.others(_ALSO_OF_ASSOCIATIONS, "GrpTRES"),
    )


def _outage(record: Record, clock: Clock) -> Outage:
    begin_s = record.instant("TimeStart", clock)
    if begin_s is None:
        raise record.error("TimeStart", TIME, record.text("TimeStart"))
    return Outage(
        record.text("NodeName"), begin_s, record.instant("TimeEnd", clock), record.values.get("state", "").upper()
    )


class _Kind(NamedTuple):
    """A kind of files: the fact that they are, how they begin, and how a record is read."""

    fact: str
    command: str
    begins: Callable[[str], bool]  # tells by the first line
    read: Callable[[Record, Clock], Any]
    key: str = ""  # with which each record begins; none: a table with a header


def _header(*names: str) -> Callable[[str], bool]:
    wanted = {name.casefold() for name in names}
    return lambda line: "|" in line and wanted <= {name.strip().casefold() for name in line.split("|")}


_KINDS: Final = (
    _Kind("partitions", "scontrol show partition", lambda line: line.startswith("PartitionName="), _partition, "PartitionName"),
    _Kind("nodes", "scontrol show node", lambda line: line.startswith("NodeName="), _node, "NodeName"),
    _Kind(
        "reservations",
        "scontrol show reservation",
        lambda line: line.startswith(("ReservationName=", "No reservations in the system")),
        _reservation,
        "ReservationName",
    ),
    _Kind("outages", "sacctmgr -P show event", _header("NodeName", "TimeStart", "TimeEnd"), _outage),
    _Kind("associations", "sacctmgr -P show assoc", _header("Account", "User", "Share"), _association),
    _Kind("qos", "sacctmgr -P show qos", _header("Name", "Priority", "GraceTime"), _qos),
)  # fmt: skip
_CONFIG: Final = "scontrol show config"
_EXPECTED: Final = f"what {_CONFIG} or {', '.join([kind.command for kind in _KINDS])} prints"


def read_facts(files: Sequence[str], time_zone: str | None = None) -> Facts:
    """Read the files of a site. ``time_zone``: of times that name none.

    Raises InputError for a file of another kind or with a value that cannot be read, and for two of one kind.
    """
    clock = Clock(time_zone)
    found: dict[str, Any] = {}
    of: dict[str, str] = {}
    for file in files:
        fact, value = _read(file, clock)
        if fact in found:
            raise InputError(file, f"a file of another kind than {of[fact]}", f"{fact} again")
        found[fact], of[fact] = value, file
    return Facts(**found)


def _read(file: str, clock: Clock) -> tuple[str, Any]:
    """Return the fact that a file is, and its value."""
    try:
        text = read_text(file, "utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(file, "a file that can be read", str(error.strerror or error)) from error
    lines = [(place, line.rstrip()) for place, line in enumerate(text.splitlines(), 1) if line.strip()]
    first = lines[0][1].strip() if lines else ""
    if first.startswith("Configuration data") or re.match(r"AccountingStorage\w+\s+= ", first):
        return "config", _config(file, lines)
    for kind in _KINDS:
        if kind.begins(first):
            records = _keyed(file, lines, kind.key) if kind.key else _rows(file, lines)
            return kind.fact, tuple([kind.read(record, clock) for record in records])
    raise InputError(file, _EXPECTED, repr(first[:60]), 1 if lines else None)


def _config(file: str, lines: Sequence[tuple[int, str]]) -> Record:
    values = {}
    for place, line in lines:
        key, equals, value = line.partition("=")
        if equals:
            values[key.strip()] = value
        elif "=" not in line and not line.rstrip().endswith(":") and "as of" not in line and " is " not in line:
            raise InputError(file, "a line with key = value", repr(line[:60]), place)
    return Record(file, 1, values)


_PAIR: Final = re.compile(r"(?:^|\s)([A-Za-z][\w/.:-]*)=")


def _keyed(file: str, lines: Sequence[tuple[int, str]], key: str) -> Iterator[Record]:
    """Yield the records of ``key=value ...``, in a line each or in several of which the first begins with the key."""
    joined: list[tuple[int, str]] = []
    for place, line in lines:
        if line.lstrip().startswith(f"{key}="):
            joined.append((place, line.strip()))
        elif joined:
            joined[-1] = joined[-1][0], f"{joined[-1][1]} {line.strip()}"
    for place, line in joined:
        found = [*_PAIR.finditer(line)]
        ends = [match.start() for match in found[1:]] + [len(line)]
        yield Record(file, place, {match[1]: line[match.end() : end] for match, end in zip(found, ends, strict=True)})


def _rows(file: str, lines: Sequence[tuple[int, str]]) -> Iterator[Record]:
    """Yield the records of a table with `|` between its cells; what is too much belongs to the last one, a text.

    Where no column tells the parents of accounts, `show assoc tree` does: each is indented by one more than its parent.
    """
    header = lines[0][1].rstrip("|").split("|")
    above: dict[int, str] = {}  # accounts by how far they are indented
    for place, line in lines[1:]:
        cells = line.split("|", len(header) - 1)
        if len(cells) < len(header):
            raise InputError(file, f"{len(header)} cells", str(len(cells)), place)
        cells[-1] = cells[-1].rstrip("|")
        values = dict(zip(header, cells, strict=True))
        account = values.get("Account", "")
        depth = len(account) - len(account.lstrip())
        if not values.get("User"):
            above[depth] = account.strip()
            values = {"ParentName": above.get(depth - 1, ""), **values}
        yield Record(file, place, values)
