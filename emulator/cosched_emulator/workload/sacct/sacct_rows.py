"""The rows of a dump of Slurm's accounting: `sacct -P` with any delimiter, or `sacct --json`.

`-P` quotes nothing. A delimiter inside a name moves all columns behind it; the row is mended where the state and the times
behind the name say by how many columns, and dropped otherwise. Facts were met with Slurm 22.05.8; of later versions' JSON,
numbers may be tables with ``set`` and ``number``, and states lists.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.workload.side_files.side_file_rows import text_of
from cosched_plugin.common.slurm_notation import (
    ENDED,
    MOST_NODES,
    ON_NODES,
    WAITING,
    amounts,
    count_nodes,
    number,
    tasks_in,
    words_of,
)

# The fields that are read, in the order in which `COMMAND` asks for them. Free text is last, where a delimiter in it moves
# least. The first name of each is sacct's that is best, the others do as well.
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "number": ("JobIDRaw", "JobID"),
    "label": ("JobID", "JobIDRaw"),
    "cluster": ("Cluster",),
    "user": ("User",),
    "partition": ("Partition",),
    "state": ("State",),
    "submit": ("Submit",),
    "eligible": ("Eligible",),
    "start": ("Start",),
    "end": ("End",),
    "elapsed": ("ElapsedRaw", "Elapsed"),
    "suspended": ("Suspended",),
    "limit": ("TimelimitRaw", "Timelimit"),
    "nodes": ("AllocNodes", "NNodes"),
    "cpus": ("NCPUS", "AllocCPUS"),
    "asked": ("ReqCPUS",),
    "cpu_time": ("TotalCPU",),
    "node_list": ("NodeList",),
    "account": ("Account",),
    "qos": ("QOS",),
    "priority": ("Priority",),
    "reservation": ("Reservation",),
    "reason": ("Reason",),
    "memory": ("ReqMem",),
    "requested": ("ReqTRES",),
    "allocated": ("AllocTRES",),
    "name": ("JobName",),
    "command": ("SubmitLine",),
}
_NEEDED: Final = ("number", "state", "submit", "start", "end", "cpus")
_FREE: Final = ("name", "command")  # texts of users
# States that make sacct list every job; without them and `-E`, jobs that never became eligible are left out.
_STATES: Final = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"
COMMAND: Final = (
    r"SLURM_TIME_FORMAT=%s sacct -aXP --duplicates --delimiter=$'\x1f' -S now-90days -E now "
    f"-s {_STATES} -o {','.join(dict.fromkeys(names[0] for names in FIELDS.values()))} >jobs.txt"
)
HINT: Final = f"this line writes a dump with all that is needed: {COMMAND}"

KNOWN_STATES: Final = WAITING | ON_NODES | ENDED.keys()
TASKS: Final = re.compile(r"(\d+)_(?:(\d+)|\[(.*)\])", re.ASCII)  # labels of tasks of arrays
_NO_LIST: Final = ("", "None assigned", "None", "Unknown", "(null)")  # a job that had no nodes
_NEVER: Final = ("", "Unknown", "None", "N/A", "Invalid", "INVALID")
_NODES: Final = f"a list of at most {MOST_NODES} nodes such as n[0-3,7]"
_AMOUNTS: Final = "amounts such as cpu=4,mem=8G,gres/gpu=1"
_NO_LIMIT_MIN: Final = 525_600  # what sched/backfill writes for a job without a limit


class SacctRow(NamedTuple):
    """One row. Times are seconds since 1970, UTC; None is what has not happened."""

    line: int  # of the file; of JSON the place in the list, from 1
    number: str  # Slurm's own number of the job
    label: str  # as people write it: 76_5, 80+1, 12.batch
    user: str
    partition: str
    state: str  # without what stands behind it
    submit_s: int
    eligible_s: int | None  # None also where the dump does not say
    start_s: int | None
    end_s: int | None
    elapsed_s: int  # on nodes, without the time suspended
    suspended_s: int
    limit_min: int | None  # None: there is none
    nodes: int
    cpus: int  # allocated
    asked: int  # 0: unknown
    cpu_s: float  # CPU time used
    node_list: str
    account: str
    qos: str
    priority: int | None
    reservation: str
    reason: str  # why it waited, or waits
    memory: str  # asked for, as sacct writes it: 4G, 4000Mn of each node, 2Gc of each CPU
    requested: Mapping[str, int]  # by name: cpu, mem (MiB), node, billing, gres/gpu, gres/gpu:a100, license/x
    allocated: Mapping[str, int]
    name: str
    command: str


class Dump(NamedTuple):
    """The content of a dump."""

    rows: tuple[SacctRow, ...]
    missing: tuple[str, ...]  # fields that it does not have, by sacct's names
    counts: Counter[str]  # what was mended or left out, by what is said of it
    has_zone: bool  # whether its times say where they are


def read_dump(file: str, time_zone: str | None = None) -> Dump:
    """Read a dump. ``time_zone``: of times that name none, such as Europe/Athens; None: they are taken as UTC.

    Raises InputError for a file that is no dump, or has not the fields that a log needs, and ConfigurationError for a time zone
    that is not known.
    """
    zone = _zone(time_zone)
    text = text_of(file)
    if text.lstrip().startswith("{"):
        return _of_json(file, text)
    return _Table(file, text, zone).dump()


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        expected = "a time zone that this machine knows, such as Europe/Athens"
        raise ConfigurationError("--time-zone", expected, repr(name)) from error


# ---------------------------------------------------------------- text

REPAIRED: Final = "rows with the delimiter in a text: put in order again"
NOT_WHOLE: Final = "rows whose columns cannot be put in order: dropped (another --delimiter of sacct avoids it)"
UNKNOWN_STATE: Final = "rows in a state that is not known: dropped"
AMBIGUOUS: Final = "times of the hour that the clocks repeat: taken as the first one"


class _Table:
    """What `sacct -P` or `-p` prints."""

    def __init__(self, file: str, text: str, zone: tzinfo) -> None:
        self.file, self.zone = file, zone
        self.lines = [(place, line) for place, line in enumerate(text.split("\n"), 1) if line.strip()]
        self.counts: Counter[str] = Counter()
        self.has_zone = False
        header = self.lines[0][1] if self.lines else ""
        found = re.match(r"[A-Za-z]+([^A-Za-z \t]+)[A-Za-z]", header)
        known = {name.casefold() for names in FIELDS.values() for name in names}
        if found is None or not known & {name.casefold() for name in header.split(found[1])}:
            raise InputError(file, "a dump of sacct -P, or of sacct --json", repr(header[:60]), 1, hint=HINT)
        self.delimiter = found[1]
        self.header = [name.casefold() for name in header.split(self.delimiter)]
        if self.header[-1] == "":  # -p ends each row with one
            self.header.pop()
        self.places = {
            key: next((self.header.index(name.casefold()) for name in names if name.casefold() in self.header), None)
            for key, names in FIELDS.items()
        }
        lacking = [FIELDS[key][0] for key in _NEEDED if self.places[key] is None]
        if lacking:
            got = f"none of {', '.join(lacking)}"
            raise InputError(file, "the fields of a log", got, 1, hint=HINT)
        clusters = self.places["cluster"]
        self.one_cluster: str | None = None if clusters is not None else ""

    def dump(self) -> Dump:
        rows = tuple(row for place, line in self.whole_lines() if (row := self.row(place, line)) is not None)
        missing = tuple(FIELDS[key][0] for key, place in self.places.items() if place is None)
        return Dump(rows, missing, self.counts, self.has_zone)

    def whole_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of the rows; where the first column is a job's number, a line without one goes on with a text."""
        rows = self.lines[1:]
        if self.places["number"] != 0 and self.places["label"] != 0:
            yield from rows
            return
        joined: list[tuple[int, str]] = []
        for place, line in rows:
            if joined and re.match(rf"\d+\S*?{re.escape(self.delimiter)}", line) is None:
                joined[-1] = (joined[-1][0], f"{joined[-1][1]} {line}")
            else:
                joined.append((place, line))
        yield from joined

    # Over 50 lines: one line for each field.
    def row(self, place: int, line: str) -> SacctRow | None:
        cells = self.cells(line.rstrip("\r"))
        if cells is None:
            self.counts[NOT_WHOLE] += 1
            return None

        def cell(key: str) -> str:
            column = self.places[key]
            return "" if column is None else cells[column].strip()

        state = cell("state").split(" ")[0].rstrip("+")
        if state not in KNOWN_STATES:
            self.counts[UNKNOWN_STATE] += 1
            return None
        self.check_cluster(place, cell("cluster"))

        def of(key: str, read: Callable[[str], Any], expected: str) -> Any:
            try:
                return read(cell(key))
            except ValueError as error:
                name = FIELDS[key][0]
                raise InputError(self.file, expected, repr(cell(key)), place, name, hint=HINT) from error

        when = "a time such as 2026-11-24T00:07:39"
        start_s, end_s = of("start", self.time, when), of("end", self.time, when)
        elapsed = cell("elapsed")
        submit_s = of("submit", self.time, when)
        if submit_s is None:
            raise InputError(self.file, when, repr(cell("submit")), place, "Submit", hint=HINT)
        return SacctRow(
            line=place,
            number=cell("number"),
            label=of("label", _label, "a job such as 12, 12_3 or 12_[1-3,7]"),
            user=cell("user"),
            partition=cell("partition"),
            state=state,
            submit_s=submit_s,
            eligible_s=of("eligible", self.time, when),
            start_s=start_s,
            end_s=end_s,
            elapsed_s=(
                of("elapsed", _seconds, "seconds, or a duration such as 1-02:03:04")
                if elapsed
                else max(0, (end_s or 0) - (start_s or 0))
            ),
            suspended_s=of("suspended", _seconds, "a duration such as 00:00:03"),
            limit_min=of("limit", _minutes, "minutes, a duration, or UNLIMITED"),
            nodes=of("nodes", _count, "a number of nodes"),
            cpus=of("cpus", _count, "a number of CPUs"),
            asked=of("asked", _count, "a number of CPUs"),
            cpu_s=of("cpu_time", _seconds, "a duration such as 00:00.002"),
            node_list=of("node_list", _nodes, _NODES),
            account=cell("account"),
            qos=cell("qos"),
            priority=of("priority", _priority, "a whole number"),
            reservation=cell("reservation"),
            reason=cell("reason"),
            memory=cell("memory"),
            requested=of("requested", amounts, _AMOUNTS),
            allocated=of("allocated", amounts, _AMOUNTS),
            name=cell("name"),
            command=cell("command"),
        )

    def cells(self, line: str) -> list[str] | None:
        """Return the cells of a row by the places of the header; None where they cannot be put in order."""
        cells = line.split(self.delimiter)
        more = len(cells) - len(self.header)
        if more == 1 and cells[-1] == "":
            return cells[:-1]
        if more <= 0:
            return cells if more == 0 else None
        found = [mended for free in _FREE if (mended := self.mended(cells, free, more)) is not None]
        if not found:
            return None
        self.counts[REPAIRED] += 1
        return found[0]

    def mended(self, cells: Sequence[str], free: str, more: int) -> list[str] | None:
        """Return the cells with the first of the ``more`` delimiters that belong to one text, if state and times are then in place."""
        place = self.places[free]
        if place is None:
            return None
        for extra in range(more, 0, -1):
            joined = self.delimiter.join(cells[place : place + extra + 1])
            whole = [*cells[:place], joined, *cells[place + extra + 1 :]][: len(self.header)]
            state, submit = (whole[self.places[key] or 0] for key in ("state", "submit"))
            if state.split(" ")[0] in KNOWN_STATES and _is_time(submit):
                return whole
        return None

    def check_cluster(self, place: int, cluster: str) -> None:
        """Raise InputError for a second cluster: its jobs have numbers, and a machine, of their own."""
        if self.one_cluster is None:
            self.one_cluster = cluster
        elif self.one_cluster != cluster:
            got = f"{cluster} beside {self.one_cluster}"
            raise InputError(self.file, "the jobs of one cluster", got, place, "Cluster")

    def time(self, text: str) -> int | None:
        """Return seconds since 1970, or None for what has not happened; raises ValueError."""
        if text in _NEVER:
            return None
        if text.isdecimal():  # SLURM_TIME_FORMAT=%s
            self.has_zone = True
            return int(text)
        when = datetime.fromisoformat(text)
        if when.tzinfo is not None:
            self.has_zone = True
            return int(when.timestamp())
        when = when.replace(tzinfo=self.zone)
        if when.utcoffset() != when.replace(fold=1).utcoffset():
            self.counts[AMBIGUOUS] += 1
        return int(when.timestamp())


def _is_time(text: str) -> bool:
    return text in _NEVER or text.isdecimal() or re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d", text) is not None


def _seconds(text: str) -> float | int:
    """Return the seconds of ``81`` or ``[D-]HH:MM:SS`` or ``MM:SS.mmm``; 0 where nothing stands."""
    if text in _NEVER:
        return 0
    if text.isdecimal():
        return int(text)
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(\.\d+)?", text)
    if found is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return whole + float(found[5]) if found[5] else whole


def _minutes(text: str) -> int | None:
    """Return a limit in minutes; None for none, and for what is only known when the job starts."""
    if text in (*_NEVER, "UNLIMITED", "Partition_Limit"):
        return None
    minutes = int(text) if text.isdecimal() else round(_seconds(text) / 60)
    return None if minutes >= _NO_LIMIT_MIN else minutes


def _count(text: str) -> int:
    return int(text) if text else 0


def _label(text: str) -> str:
    found = TASKS.fullmatch(text)
    if found is not None:
        tasks_in(found[2] or found[3])  # raises ValueError
    return text


def _nodes(text: str) -> str:
    if text not in _NO_LIST:
        count_nodes(text)  # raises ValueError
    return text


def _priority(text: str) -> int | None:
    return int(text) if text not in _NEVER else None


# ---------------------------------------------------------------- JSON


def _of_json(file: str, text: str) -> Dump:
    try:
        jobs = json.loads(text)["jobs"]
        rows = tuple(row for place, job in enumerate(jobs, 1) for row in _rows_of_job(file, place, job))
    except json.JSONDecodeError as error:
        raise InputError(file, "JSON", error.msg, error.lineno) from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        expected = "the answer of sacct --json: a list of jobs with time, state and tres"
        raise InputError(file, expected, f"{type(error).__name__}: {error}") from error
    clusters = sorted({str(job.get("cluster")) for job in jobs})
    if len(clusters) > 1:
        raise InputError(file, "the jobs of one cluster", ", ".join(clusters))
    counts: Counter[str] = Counter()
    known = tuple(row for row in rows if row.state in KNOWN_STATES)
    if len(known) < len(rows):
        counts[UNKNOWN_STATE] = len(rows) - len(known)
    return Dump(known, (), counts, has_zone=True)


# Over 50 lines: one line for each field.
def _rows_of_job(file: str, place: int, job: Mapping[str, Any]) -> Iterator[SacctRow]:
    times, array, het = job["time"], job["array"], job["het"]
    state = job["state"]["current"]
    allocated, requested = (_amounts_of(job["tres"][key]) for key in ("allocated", "requested"))
    own, task, offset = str(job["job_id"]), number(array.get("task_id")), number(het.get("job_offset"))
    label = own
    if array.get("job_id") and task is not None:
        label = f"{array['job_id']}_{task}"
    elif het.get("job_id"):
        label = f"{het['job_id']}+{offset or 0}"
    submit_s = number(times["submission"])
    if not submit_s:
        raise InputError(file, "a time of submission", "none", field=f"jobs[{place - 1}]")
    total = times["total"]
    row = SacctRow(
        line=place,
        number=own,
        label=label,
        user=str(job.get("user") or ""),
        partition=str(job.get("partition") or ""),
        state=words_of(state)[0].upper(),
        submit_s=submit_s,
        eligible_s=number(times.get("eligible")) or None,
        start_s=number(times["start"]) or None,
        end_s=number(times["end"]) or None,
        elapsed_s=number(times["elapsed"]) or 0,
        suspended_s=number(times["suspended"]) or 0,
        limit_min=None if (limit := number(times["limit"])) is None or limit >= _NO_LIMIT_MIN else limit,
        nodes=allocated.get("node", 0),
        cpus=allocated.get("cpu") or requested.get("cpu", 0),
        asked=number(job["required"]["CPUs"]) or 0,
        cpu_s=(number(total["seconds"]) or 0) + (number(total["microseconds"]) or 0) / 1e6,
        node_list=str(job.get("nodes") or ""),
        account=str(job.get("account") or ""),
        qos=str(job.get("qos") or ""),
        priority=number(job.get("priority")),
        reservation=str((job.get("reservation") or {}).get("name") or ""),
        reason=str(job["state"].get("reason") or ""),
        memory=_memory_of(job["required"]),
        requested=requested,
        allocated=allocated,
        name=str(job.get("name") or ""),
        command=str(job.get("submit_line") or ""),
    )
    yield row
    for step in job.get("steps") or ():
        yield row._replace(label=f"{label}.{step['step'].get('id') if isinstance(step.get('step'), Mapping) else ''}")


def _amounts_of(items: Sequence[Mapping[str, Any]] | None) -> Mapping[str, int]:
    """Return the amounts of a job by the names that `sacct -P` gives them; what has no count is left out."""
    named = (
        (f"{item['type']}/{item['name']}" if item.get("name") else item["type"], item["count"]) for item in items or ()
    )
    return {name: count for name, value in named if (count := number(value)) is not None}


def _memory_of(required: Mapping[str, Any]) -> str:
    """Return what a job asks for, as `sacct -P` of Slurms before 21.08 writes it: of each CPU, or of each node."""
    for key, of in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if amount := number(required.get(key)):
            return f"{amount}M{of}"
    return ""
