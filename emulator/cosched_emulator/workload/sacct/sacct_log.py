"""A folder with a log from a dump: ``trace.swf``, ``jobs.csv``, ``names.csv`` and ``scenario.toml``, as the Slurm driver records it.

Users, names and partitions are numbers in the log; ``names.csv`` says who they are. An anonymous log has that file beside its
folder, and neither Slurm's numbers of jobs nor the day. ``jobs.csv`` has the processes of each job on a node, and columns for
annotations of applications and users to be added.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO
from zoneinfo import ZoneInfo

import numpy as np

from cosched_emulator.errors import InputError
from cosched_emulator.workload.atomic_file import make_folder, new_text_file
from cosched_emulator.workload.job import NO_EPOCH, Epoch
from cosched_emulator.workload.sacct.sacct_jobs import NO_LIMIT, TWICE, Jobs, jobs_of
from cosched_emulator.workload.sacct.sacct_machine import Machine, machine_of
from cosched_emulator.workload.sacct.sacct_sharing import Sharing, sharing_of
from cosched_emulator.workload.sacct.sacct_unmodelled import TOLD_OF_JOBS, unmodelled
from cosched_emulator.workload.sacct.site_facts import Facts, read_facts
from cosched_emulator.workload.sacct.site_scenario import COLUMNS, SiteScenario, ranges_among, site_scenario
from cosched_emulator.workload.swf.swf_writer import format_row, header_lines
from cosched_hwmodel.text_formats import decoded, encoded
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.allocation import nearest_layout
from cosched_plugin.common.sacct_dump import read_dump
from cosched_plugin.common.sacct_rows import HINT, UNNAMED, each_of
from cosched_plugin.common.slurm_notation import expand, natural

TRACE, ANNOTATIONS, NAMES, SCENARIO, MACHINE = "trace.swf", "jobs.csv", "names.csv", "scenario.toml", "machine.toml"
DEFAULT_ESTIMATE_S: Final = 86_400.0
_ORIGIN: Final = "Slurm's accounting (sacct)"
_SITE: Final = "; Installation: "
OF_IMPORT: Final = "import of the log: "  # before what is told of it
_GUESSED, _OF_NODES, _UNMODELLED, _OF_SHARING = "guessed: ", "guessed of nodes: ", "not modelled: ", "of sharing: "
_OF_FACTS, _NOT_GIVEN = "facts of the site: ", "; not given: "
_COLUMNS: Final = "job,application,user,bound,cpu,network,disk,memory,name,ppn,exclusive,unpaired,ran_on"
_MOSTLY: Final = 0.9  # of the node time: then jobs have nodes alone
UNEVEN: Final = (
    "jobs with different numbers of cores on their nodes: as many nodes, and the nearest equal number of cores"
)
NO_LAYOUT: Final = "jobs on nodes of several sizes, in unknown shares: processes are placed wherever there is room"
_NO_ZONE: Final = "times name no time zone: read as UTC, without daylight saving time (--time-zone names the zone)"


class ImportOptions(NamedTuple):
    """How a dump becomes a log."""

    time_zone: str | None = None  # of times that name none
    partitions: tuple[str, ...] = ()  # empty: all
    threads_per_core: int = 1  # CPUs of Slurm that are one core
    default_estimate_s: float = DEFAULT_ESTIMATE_S  # of jobs without a limit
    anonymous: bool = False
    as_submitted: bool = False  # jobs come when they were submitted, though they were eligible later
    skip_bad_rows: bool = False  # leave them out; else the first is an error
    force: bool = False  # overwrite files
    memory_mb: int | None = None  # of every node; None: the most that jobs held
    facts: tuple[str, ...] = ()  # files that say what the site is like


class ImportReport(NamedTuple):
    """What became of a dump."""

    rows: int
    jobs: int
    nodes: int
    cores: int  # of the largest node
    classes: tuple[tuple[int, int], ...]  # (nodes, cores of each), the smallest first
    guesses: tuple[str, ...]  # of nodes
    shared: str  # of whether jobs shared nodes
    sharing: Sharing  # who can never be beside others, and the room for second jobs
    unmodelled: tuple[str, ...]  # what bound jobs, and is not in the scenario
    counts: Mapping[str, int]
    remarks: tuple[str, ...]
    told: bool = False  # whether the site says what its nodes are like
    site: str = ""  # the cluster's name; empty: unknown, or not to be told
    facts: tuple[str, ...] = ()  # kinds of them that were given

    @property
    def machine(self) -> str:
        """Return the nodes in words."""
        return ", ".join(
            f"{nodes} node{'s' * (nodes > 1)} of {cores} core{'s' * (cores > 1)}" for nodes, cores in self.classes
        )

    def lines(self) -> Iterator[str]:
        """Yield one line of text for each fact."""
        yield f"{self.rows} rows, {self.jobs} jobs"
        told = "from the site's facts" if self.told else "guessed from where jobs ran"
        yield f"machine, {told}: {self.machine} (edit {MACHINE if self.differ else SCENARIO})"
        yield from self.guessed()
        yield from self.of_sharing()
        yield self.of_facts()
        yield from self.counted()
        yield from self.remarks

    def guessed(self) -> Iterator[str]:
        """Yield a line for what was guessed of nodes, then of the rest."""
        yield from (f"{_OF_NODES}{text}" for text in self.guesses)
        yield f"{_GUESSED}{self.shared}"

    def of_sharing(self) -> Iterator[str]:
        """Yield a line for each fact of sharing."""
        yield from (f"{_OF_SHARING}{text}" for text in self.sharing.lines())

    def of_facts(self) -> str:
        """Return which kinds of facts were given, and which were not (``--facts``)."""
        missing = ", ".join([name for name in Facts._fields if name not in self.facts])
        return f"{_OF_FACTS}{', '.join(self.facts) or 'none'}" + f"{_NOT_GIVEN}{missing}" * bool(missing)

    def counted(self) -> Iterator[str]:
        """Yield a line for what is not modelled, then for all other counts."""
        yield from (f"{_UNMODELLED}{text}" for text in self.unmodelled)
        yield from (f"{count} {text}" for text, count in self.counts.items() if text not in TOLD_OF_JOBS)

    @property
    def differ(self) -> bool:
        """Tell whether nodes have a file of their own."""
        return self.told or len(self.classes) > 1

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            **self._asdict(),
            "sharing": self.sharing.as_dict(),
            "counts": dict(self.counts),
            "remarks": list(self.remarks),
        }


def import_dump(file: str, out: str | Path, options: ImportOptions) -> ImportReport:
    """Make the folder ``out`` from a dump; raises InputError for a dump without jobs, and for files that exist."""
    facts = read_facts(options.facts, options.time_zone) if options.facts else None
    dump = read_dump(file, options.time_zone, skip_bad_rows=options.skip_bad_rows)
    pools = facts is not None and bool(facts.nodes and facts.partitions)
    found = jobs_of(dump, options.partitions, as_submitted=options.as_submitted, bound=facts is not None, pools=pools)
    ran = found.jobs.take(np.flatnonzero(found.jobs.ran()))
    if not len(ran):
        what = "; ".join(f"{count} {text}" for text, count in found.counts.items()) or "no rows"
        place = f" in {', '.join(options.partitions)}" if options.partitions else ""
        raise InputError(file, f"at least one job{place} that ran to its end", what, hint=HINT)
    names = _Names()
    site = None if facts is None else _site(facts, found.jobs, names, options)
    machine = machine_of(dump.rows, ran, options.partitions)
    cores: Counter[int] = Counter()
    told = site is not None and bool(site.classes)
    if site is not None and told:
        classes = site.classes
        for nodes, size in classes:
            cores[size] += nodes
    else:
        cores = machine.cores(options.threads_per_core)
        classes = tuple((nodes, size) for size, nodes in sorted(cores.items()))
    numbers = site.numbers if site is not None and told else _numbered(machine, options.threads_per_core)
    layouts, guessed = _layouts(found.jobs, cores, options.threads_per_core, numbers)
    untold = unmodelled(ran, found.counts, len(cores)) if site is None else site.unmodelled
    report = ImportReport(
        len(dump.rows),
        len(found.jobs),
        sum(cores.values()),
        max(cores),
        classes,
        () if told else tuple(machine.guesses()),
        f"jobs had all CPUs of their nodes for {100 * machine.whole:.0f} % of the node time, which decides the policy's shape",
        sharing_of(ran, machine.wholly, options.threads_per_core, options.memory_mb),
        tuple(untold),
        {**found.counts, **guessed},
        (
            *found.remarks,
            *(() if dump.has_zone or options.time_zone else (_NO_ZONE,)),
            *((f"the real names, not to be passed on: {kept_names(Path(out))}",) if options.anonymous else ()),
        ),
        told,
        "" if options.anonymous else _name_of(facts) or dump.cluster,
        () if facts is None else tuple([name for name, value in facts._asdict().items() if value is not None]),
    )
    shape = "nodes" if machine.whole >= _MOSTLY else "threads"
    _write(Path(out), found.jobs, layouts, report, options, shape, names, site)
    return report


def _name_of(facts: Facts | None) -> str:
    return "" if facts is None or facts.config is None else facts.config.text("ClusterName")


def _site(facts: Facts, jobs: Jobs, names: _Names, options: ImportOptions) -> SiteScenario:
    """Return what the scenario has of a site's facts; in an anonymous one, partitions, accounts and QOS are numbers, too."""

    def name_of(kind: str, name: str) -> str:
        return f"{kind}{names.number(kind, name)}" if options.anonymous else name

    def user_of(name: str) -> str:
        return str(names.number("user", name))

    for (user,) in jobs.distinct("user"):  # they are numbered as they come, also where a site tells of others
        names.number("user", user)
    return site_scenario(facts, jobs, name_of, user_of, options.threads_per_core)


class _Layout(NamedTuple):
    """The cores of a job, and how many are on each of its nodes but the last, which may have fewer; 0: wherever there is room."""

    cores: int
    per_node: int
    ran_on: str = ""  # the numbers of its nodes; empty: they have no names


def _numbered(machine: Machine, threads_per_core: int) -> dict[str, int]:
    """Return the numbers of the nodes that jobs name, which come first among those with as many cores."""
    named: dict[int, list[str]] = {}
    for name, cpus in machine.cpus_of.items():
        named.setdefault(-(-cpus // threads_per_core), []).append(name)
    counts = machine.cores(threads_per_core)
    first = {size: sum(nodes for other, nodes in counts.items() if other < size) for size in named}
    return {
        name: number
        for size, names in named.items()
        for number, name in enumerate(sorted(names, key=natural), first[size])
    }


def _layouts(
    jobs: Jobs, machine: Mapping[int, int], threads_per_core: int, numbers: Mapping[str, int]
) -> tuple[list[_Layout], Mapping[str, int]]:
    """Return the layout of each job, and counts of those that are not as the dump says."""
    counts: Counter[str] = Counter()
    known: dict[tuple[int, int, str], tuple[_Layout, str]] = {}  # with what is counted of it
    layouts = []
    cells = jobs.values("cpus", "asked", "requested", "node_list")
    for nodes, (cpus, asked, requested, listed) in zip(each_of(jobs.nodes()), cells, strict=True):
        alike = nodes, cpus or asked or requested.get("cpu", 0), listed
        if alike not in known:
            known[alike] = _layout(*alike, machine, threads_per_core, numbers)
        layout, odd = known[alike]
        counts[odd] += 1
        layouts.append(layout)
    return layouts, {text: counts[text] for text in (UNEVEN, NO_LAYOUT) if counts[text]}


def _layout(
    nodes: int, cpus: int, listed: str, machine: Mapping[int, int], threads_per_core: int, numbers: Mapping[str, int]
) -> tuple[_Layout, str]:
    """Return a layout, and what is counted of it: empty where it is as the dump says."""
    names = () if listed in UNNAMED else expand(listed)
    ran_on = ranges_among(numbers, names) if numbers.keys() >= {*names} and names else ""
    cores = max(nodes, -(-cpus // threads_per_core))  # a core is on one node
    layout = _Layout(*nearest_layout(cores, nodes), ran_on) if nodes else _Layout(cores, 0, ran_on)
    if sum(number for size, number in machine.items() if size >= layout.per_node) < nodes:
        return _Layout(cores, 0, ran_on), NO_LAYOUT
    return layout, UNEVEN * (layout.cores != cores)


def _write(
    folder: Path,
    jobs: Jobs,
    layouts: Sequence[_Layout],
    report: ImportReport,
    options: ImportOptions,
    shape: str,
    names: _Names,
    site: SiteScenario | None,
) -> None:
    make_folder(folder)
    with ExitStack() as files:

        def new(file: Path) -> TextIO:
            return files.enter_context(new_text_file(file, force=options.force))

        known, trace = new(kept_names(folder) if options.anonymous else folder / NAMES), new(folder / TRACE)
        trace.writelines(f"{line}\n" for line in _header(jobs, report, options))
        annotations: TextIO | None = None  # a side file without rows is an error
        for row, text in _rows(jobs, layouts, names, report, options, site):
            trace.write(f"{row}\n")
            if text and annotations is None:
                annotations = new(folder / ANNOTATIONS)
                annotations.write(f"{','.join((_COLUMNS, *(COLUMNS if site else ())))}\n")
            if annotations is not None:
                annotations.write(f"{text}\n" if text else "")
        scenario = _scenario(report, options, shape, site, annotated=annotations is not None)
        new(folder / SCENARIO).writelines(f"{line}\n" for line in scenario)
        if report.differ:
            machine = site.machine if site is not None and report.told else _machine(report)
            new(folder / MACHINE).writelines(f"{line}\n" for line in machine)
        known.write("kind,number,name\n")
        known.writelines(f"{kind},{number},{encoded(name)}\n" for (kind, name), number in names.known.items())


def kept_names(folder: Path) -> Path:
    """Return the file that says who the numbers of an anonymous log are: beside its folder, which may be given away."""
    return folder.parent / f"{folder.name}-{NAMES}"


def _scenario(
    report: ImportReport, options: ImportOptions, shape: str, site: SiteScenario | None, *, annotated: bool
) -> Iterator[str]:
    """Yield the lines of the scenario; what is a guess has a comment."""
    guessed = "# from the site's facts" if report.told else f"# guessed: {'; '.join(report.guesses)}"
    yield from (f"# {_UNMODELLED}{text}" for text in report.unmodelled)
    yield "[cluster]"
    if report.differ:
        yield f'file = "{MACHINE}"  {guessed}'
    else:
        yield f"nodes = {report.nodes}  {guessed}"
        yield f'preset = "1x{report.cores}x1"  # guessed, as one socket; {_cores_of(options)}'
    yield from ("", "[truth]", 'contention = "none"  # guessed: jobs do not slow each other down', "", "[workload]")
    without = report.counts.get(NO_LIMIT)
    note = (
        f"  # guessed: an estimate of {options.default_estimate_s:g} s of {without} jobs without one" if without else ""
    )
    yield f'swf = "{TRACE}"{note}'
    if annotated:
        yield f'annotations = "{ANNOTATIONS}"'
    yield from ("minimum_estimate_s = 0.0", "log_memory = false", "", "[policy]")
    if site is not None and site.policy:
        yield from site.policy
    else:
        yield 'preset = "easy"  # guessed: a dump does not say how its scheduler plans'
        yield f'shape = "{shape}"  # guessed: {report.shared}'
    yield from () if site is None else site.tables


def _cores_of(options: ImportOptions) -> str:
    each = options.threads_per_core
    return "a CPU of Slurm is a core" if each == 1 else f"{each} CPUs of Slurm are a core"


def _machine(report: ImportReport) -> Iterator[str]:
    """Yield the lines of the file of nodes that differ."""
    yield f"# Guessed from where jobs ran, as said in {SCENARIO}. A preset is sockets x cores x threads of a core."
    for nodes, cores in report.classes:
        yield from ("", "[[nodes]]", f"count = {nodes}  # guessed", f'preset = "1x{cores}x1"  # guessed')


def names_beside(log: str) -> dict[str, str]:
    """Return the names of an imported log's programs and users."""
    file = Path(log).parent / NAMES
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            rows = [*csv.reader(stream)]
    except OSError:
        return {}
    named = {("name", "program"), ("user", "user")}
    return {
        f"{what} {row[1]}": decoded(row[2])
        for row in rows[1:]
        if len(row) == 3
        for kind, what in named
        if row[0] == kind
    }


def assumptions_of(log: str, nodes: int, cores: int) -> Iterator[str]:
    """Yield what the import of a log has guessed and left out, from its header; nothing of any other log.

    What it has guessed of nodes is left out unless the machine that is asked about has as many nodes and cores.
    """
    header = _import_header(log)
    guessed = {f"; MaxNodes: {nodes}", f"; MaxProcs: {cores}"} <= {*header}
    told = (_GUESSED, _UNMODELLED, _OF_SHARING, *([_OF_NODES] if guessed else []))
    notes = (line.removeprefix("; Note: ") for line in header)
    yield from (f"{OF_IMPORT}{note}" for note in notes if note.startswith(told))


def site_of_log(log: str) -> str:
    """Return the name of the cluster of which a log was imported; empty where it is not known, and for any other log."""
    return next((line.removeprefix(_SITE) for line in _import_header(log) if line.startswith(_SITE)), "")


def facts_of_log(log: str) -> tuple[str, ...] | None:
    """Return the kinds of facts that the import of a log was given, as the fields of `Facts`; None of any other log."""
    header = _import_header(log)
    given = next((line.partition(_OF_FACTS)[2] for line in header if _OF_FACTS in line), "").partition(_NOT_GIVEN)[0]
    return tuple(name for name in given.split(", ") if name in Facts._fields) if header else None


def _import_header(log: str) -> list[str]:
    """Return the header of a log that is an import; empty of any other."""
    try:
        with open(log, encoding="utf-8", errors="replace") as stream:
            header = [line.rstrip("\n") for line in takewhile(lambda line: line.startswith(";"), stream)]
    except OSError:
        return []
    return header if f"; Information: {_ORIGIN}" in header else []


def sharing_in(assumptions: Iterable[str]) -> tuple[str, ...]:
    """Return what `assumptions_of` says of sharing: who never shares, and for how much there was room."""
    before = f"{OF_IMPORT}{_OF_SHARING}"
    return tuple(each.removeprefix(before) for each in assumptions if each.startswith(before))


class _Names:
    """Numbers of users, names and partitions, in the order in which they come."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}
        self.latest: dict[str, int] = {}

    def number(self, kind: str, name: str) -> int:
        if (kind, name) not in self.known:
            self.latest[kind] = self.known[kind, name] = self.latest.get(kind, 0) + 1
        return self.known[kind, name]


def _header(jobs: Jobs, report: ImportReport, options: ImportOptions) -> list[str]:
    notes = [
        *([] if report.told else [f"{_OF_NODES}{report.machine}"]),
        *report.guessed(),
        *report.of_sharing(),
        report.of_facts(),
        *report.counted(),
    ]
    notes += () if options.anonymous else report.remarks
    zero_s = int(jobs.submit_s[0])
    epoch = NO_EPOCH if options.anonymous else Epoch(zero_s)
    if options.time_zone is not None and not options.anonymous:
        zone = ZoneInfo(options.time_zone)
        offset = datetime.fromtimestamp(zero_s, zone).utcoffset() or timedelta()
        epoch = Epoch(zero_s, int(offset.total_seconds()), zone.key)
    return header_lines(
        jobs=len(jobs),
        processors=sum(nodes * cores for nodes, cores in report.classes),
        origin=_ORIGIN,
        notes=notes,
        epoch=epoch,
        more=[("Installation", report.site), ("MaxNodes", str(report.nodes))],
    )


def _rows(
    jobs: Jobs,
    layouts: Sequence[_Layout],
    names: _Names,
    report: ImportReport,
    options: ImportOptions,
    site: SiteScenario | None,
) -> Iterator[tuple[str, str]]:
    """Yield the row of each job in the log, and its line of annotations, empty if they say nothing; numbered anew or by Slurm."""
    zero_s = int(jobs.submit_s[0])
    anew = TWICE in report.counts or options.anonymous or not all(text.isdecimal() for (text,) in jobs.values("number"))
    flags = zip(report.sharing.exclusive, report.sharing.large, strict=True)
    numbers: Mapping[str, int] = {}  # of jobs that others wait for
    if site is not None:
        numbers = {own: place if anew else int(own) for place, (own,) in enumerate(jobs.values("number"), 1)}
    for place, (job, layout) in enumerate(zip(jobs, layouts, strict=True), 1):
        row = job.row
        exclusive, large = next(flags) if job.ran else (False, False)
        limit_s = 60 * row.limit_min if row.limit_min is not None else max(options.default_estimate_s, job.run_s)
        number = place if anew else int(row.number)
        wait_s = job.wait_s
        text = format_row(
            number,
            (job.submit_s - zero_s) * SECOND_US,
            wait_us=None if wait_s is None else wait_s * SECOND_US,
            run_us=job.run_s * SECOND_US,
            processes=-(-(row.asked or job.cpus) // options.threads_per_core),
            allocated=layout.cores,
            estimate_us=round(limit_s * SECOND_US),
            status=job.status,
            user=str(names.number("user", row.user)),
            name=str(names.number("name", row.name)),
            queue=names.number("partition", row.partition),
        )
        per_node = str(layout.per_node) if layout.per_node and layout.cores > 1 else ""
        # its memory says that it is large where that is told
        cells = [per_node, "yes" * exclusive, "yes" * (large and site is None), layout.ran_on]
        if site is not None:
            after = ";".join([f"{kind}:{numbers[other]}" for kind, other in job.bound.after if other in numbers])
            cells += [
                after if name == "after" else cell for name, cell in zip(COLUMNS, site.cells[place - 1], strict=True)
            ]
        yield text, f"{number},,,,,,,,,{','.join(cells)}" if any(cells) else ""
