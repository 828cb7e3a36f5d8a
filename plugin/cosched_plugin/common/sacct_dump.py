"""A dump of Slurm's accounting: the text of `sacct -P` with any delimiter, or `sacct --json`, also several of one kind joined together.

Facts of JSON were met with Slurm 22.05.8; of later versions' JSON, numbers may be tables with ``set`` and ``number``, and states lists.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from io import StringIO
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TextIO

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.text_formats import open_text
from cosched_plugin.common import sacct_rows
from cosched_plugin.common.errors import InputError, UsageError
from cosched_plugin.common.sacct_times import Clock, Time, moments
from cosched_plugin.common.slurm_notation import count_nodes, number, state_of

# What `sacct -P` or `-p` prints, with any delimiter, also of several dumps joined together.
#
# Nothing is quoted. A delimiter inside a text moves all columns behind it. Such a row has too many cells, and is put in order where one
# order alone is possible: each field has its form, and few of them can hold a delimiter. Else it is left out, and counted.

REPAIRED: Final = "rows with the delimiter in a text: put in order again"
NOT_WHOLE: Final = "rows whose columns cannot be put in order: dropped (another --delimiter of sacct avoids it)"

_NEEDED: Final = ("number", "state", "submit_s", "start_s", "end_s", "cpus")
_NAMES: Final = {name.casefold() for field in sacct_rows.FIELDS.values() for name in field.names}
# Fields that can hold a delimiter, by sacct's names: lists, and texts of people.
_LONG: Final = {
    "jobid", "jobidraw", "partition", "nodelist", "reqtres", "alloctres", "jobname", "submitline", "admincomment", "allocgres",
    "comment", "constraints", "container", "extra", "failednode", "flags", "layout", "licenses", "reqgres", "stderr", "stdin", "stdout",
    "systemcomment", "wckey", "workdir",
    *(f"tresusage{way}{kind}" for way in ("in", "out") for kind in ("ave", "max", "min", "tot")),
}  # fmt: skip
# What cells of a row look like that is put in order, where the field's reader takes anything.
_LOOKS: Final[Mapping[str, re.Pattern[str]]] = {
    "number": re.compile(r"[0-9]+(_([0-9]+|\[[0-9,:%.-]*\]))?(\+[0-9]+)?(\.\S+)?"),
    "label": re.compile(r"[0-9]+(_([0-9]+|\[[0-9,:%.-]*\]))?(\+[0-9]+)?(\.\S+)?"),
    "partition": re.compile(r"[\w.+-]*(,[\w.+-]+)*"),
    "node_list": re.compile(r"[\w.-]*(\[[0-9,-]+\][\w.-]*)*(,[\w.-]+(\[[0-9,-]+\][\w.-]*)*)*|None assigned|\(null\)"),
    "command": re.compile(r"((\S*/)?(sbatch|srun|salloc|scrontab|scrun)\b.*)?", re.DOTALL),
    **dict.fromkeys(
        sacct_rows.TIMES, re.compile(r"|Unknown|None|N/A|[0-9]{9,11}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{5,8}\S*")
    ),
}
_MOST_MORE: Final = 200  # delimiters in the texts of a row
_MOST_ORDERS: Final = 500


_NUMBER_OF: Final = {key: number for number, key in enumerate(sacct_rows.FIELDS)}
_FIRST_TIME, _ELAPSED = _NUMBER_OF[sacct_rows.TIMES[0]], _NUMBER_OF["elapsed_s"]


def _read_cell(read: Callable[[str], Any], cell: str) -> Any:
    return read(cell.strip())


def _latest(rows: sacct_rows.Rows, submitted_s: Sequence[int]) -> NDArray[np.int64]:
    """Return the places of rows in their latest state: one for a number of a job, a step of it, and a submission."""
    start, end, elapsed = map(rows.column, ("start_s", "end_s", "elapsed_s"))

    def key(place: int) -> tuple[str, int]:
        return rows.text("label", place).partition(".")[2], submitted_s[place]

    def age(place: int) -> tuple[bool, bool, int, int]:
        return bool(end[place]), bool(start[place]), int(end[place]), int(elapsed[place])

    return sacct_rows.each_once(rows.column("number"), key, age)


class TextDump:
    """A dump as text; `read` gives its rows."""

    def __init__(self, file: str, lines: Iterable[str], time_zone: str | None, *, skip_bad_rows: bool) -> None:
        """Raises InputError for a text that is no dump, or lacks fields; UsageError for an unknown time zone."""
        self._file, self._skip = file, skip_bad_rows
        self._clock = Clock(time_zone)
        bare = (line.rstrip("\n").rstrip("\r").lstrip("\ufeff") for line in lines)
        numbered = ((place, line) for place, line in enumerate(bare, 1) if line.strip())
        begin = next(numbered, (1, ""))
        first = begin[1]
        self._lines = chain((begin,), numbered)
        delimiter = _delimiter_of(first)
        if delimiter is None:
            raise InputError(file, "a dump of sacct -P, or of sacct --json", repr(first[:60]), 1, hint=sacct_rows.HINT)
        self._delimiter = delimiter
        self._header = self._names(first)
        self._begin = {self._header[0], *_NAMES}
        self._places = {
            key: next(
                (self._header.index(name.casefold()) for name in field.names if name.casefold() in self._header), None
            )
            for key, field in sacct_rows.FIELDS.items()
        }
        lacking = [sacct_rows.FIELDS[key].names[0] for key in _NEEDED if self._places[key] is None]
        if lacking:
            raise InputError(file, "the fields of a log", f"none of {', '.join(lacking)}", 1, hint=sacct_rows.HINT)
        self._long = [name in _LONG for name in self._header]
        keys = {place: key for key, place in reversed(self._places.items()) if place is not None}
        self._keys = [keys.get(place) for place in range(len(self._header))]
        self._cluster: str | None = None
        # What the dump has not is empty: a cell behind its last one. All but `cluster` are fields of a row, in this order.
        self._pick = itemgetter(*[len(self._header) if place is None else place for place in self._places.values()])
        self._rows = sacct_rows.Rows({key: field.read for key, field in sacct_rows.FIELDS.items()})
        self._all_at_once = self._rows.code_of("at_once", 0)
        self._submitted_s = array("q")  # by row: the first moment that its submission can have been
        self._reads = [self._reader(key) for key in sacct_rows.FIELDS]

    def _reader(self, key: str) -> Callable[[str], Any]:
        """Return what gives a cell's code, or its value: times stand near each other several times."""
        if key in self._rows.tables:
            return self._rows.tables[key].__getitem__
        read = partial(_read_cell, self._clock.read if key in sacct_rows.TIMES else sacct_rows.FIELDS[key].read)
        return read if key in ("number", "label") else lru_cache(1 << 12)(read)

    def read(self) -> sacct_rows.Dump:
        """Return the rows, each once. Raises InputError for a row with a field that cannot be read, unless such rows are skipped."""
        rows = self._rows
        said_of: dict[int, list[str]] = {}  # by place in the rows
        counts: Counter[str] = Counter()
        bad_row = ""
        lines = self._whole_lines()
        for place, line in lines:
            said: list[str] = []  # of this row; it is told if the row stays
            cells = self._cells(line, said)
            if cells is None or not sacct_rows.known_state(self._cell(cells, "state")):
                counts[NOT_WHOLE if cells is None else sacct_rows.UNKNOWN_STATE] += 1
                continue
            try:
                self._check_cluster(place, self._cell(cells, "cluster"))
                self._add_row(place, cells, said)
            except InputError as error:
                if not self._skip or error.hint != sacct_rows.SKIP:
                    deque(lines, 0)  # a header of other columns is told first, wherever it is
                    raise
                counts[sacct_rows.BAD_ROWS] += 1
                bad_row = bad_row or f"line {place}, {error.field}: expected {error.expected}, got {error.got}"
                continue
            if said:
                said_of[len(self._submitted_s) - 1] = said
        read = len(self._submitted_s)
        stay = rows.keep(lambda: _latest(rows, self._submitted_s))
        kept = {*stay.tolist()} if len(rows) < read else said_of.keys()
        for place, said in said_of.items():
            counts.update(said if place in kept else ())
        counts[sacct_rows.TOLD_AGAIN] = read - len(rows)
        missing = tuple(sacct_rows.FIELDS[key].names[0] for key, place in self._places.items() if place is None)
        return sacct_rows.Dump(rows, missing, +counts, self._clock.has_zone, bad_row, self._cluster or "")

    def _names(self, line: str) -> list[str]:
        return [name.strip().casefold() for name in line.removesuffix(self._delimiter).split(self._delimiter)]

    def _whole_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of the rows; where the first column is a job's number, a line without one goes on with a text.

        Each dump that was joined begins with a header, which may be any line.
        """
        numbered = self._places["number"] == 0 or self._places["label"] == 0
        begins = re.compile(rf"[0-9]+\S*?{re.escape(self._delimiter)}")
        before: tuple[int, str] | None = None
        ends = False  # -p ends each row, and the header, with a delimiter
        for place, line in self._lines:
            if self._is_header(place, line):
                ends = line.endswith(self._delimiter)
                continue
            text = line.removesuffix(self._delimiter) if ends else line
            if before is None:
                before = place, text
            elif numbered and begins.match(line) is None and self._may_go_on(before[1]):
                before = before[0], f"{before[1]} {text}"
            else:
                yield before
                before = place, text
        if before is not None:
            yield before

    def _may_go_on(self, line: str) -> bool:
        text_last = self._long[-1] and self._keys[-1] in (None, "name", "command")
        return text_last or line.count(self._delimiter) < len(self._header) - 1

    def _is_header(self, place: int, line: str) -> bool:
        """Tell whether a line is the header, again; raises InputError for that of a dump with other columns."""
        begin = re.match("[A-Za-z]*", line)
        if begin is None or begin[0].casefold() not in self._begin:  # few rows begin so
            return False
        if self._names(line) == self._header:
            return True
        delimiter = _delimiter_of(line)
        if delimiter is None or len(_NAMES.intersection(line.casefold().split(delimiter))) < len(_NEEDED):
            return False
        raise InputError(
            self._file, "the header of line 1 again", repr(line[:60]), place, hint="join dumps of one and the same line"
        )

    def _cell(self, cells: Sequence[str], key: str) -> str:
        place = self._places[key]
        return "" if place is None else cells[place].strip()

    def _add_row(self, place: int, cells: Sequence[str], said: list[str]) -> None:
        """Add a row to the others; raises InputError."""
        picked = self._pick((*cells, ""))
        try:
            values = [read(cell) for read, cell in zip(self._reads, picked, strict=True)]
        except ValueError as error:
            raise self._first_wrong(place, picked) from error
        times: list[Time] = values[_FIRST_TIME : _FIRST_TIME + len(sacct_rows.TIMES)]
        if not times[0].instants:
            raise self._wrong(place, "submit_s", self._cell(cells, "submit_s"))
        elapsed = bool(self._cell(cells, "elapsed_s"))
        held_s = values[_ELAPSED] + values[_ELAPSED + 1] if elapsed else None
        when, guesses = moments(times, held_s)
        said += guesses
        values[_FIRST_TIME : _FIRST_TIME + len(sacct_rows.TIMES)] = [time or 0 for time in when]
        if not elapsed:
            values[_ELAPSED] = max(0, (when.end_s or 0) - (when.start_s or 0))
        number, label, _, *codes = values
        self._rows.append(place, number, label, (*codes, self._all_at_once))
        self._submitted_s.append(min(times[0].instants))

    def _first_wrong(self, place: int, picked: Sequence[str]) -> InputError:
        for key, read, cell in zip(sacct_rows.FIELDS, self._reads, picked, strict=True):
            try:
                read(cell)
            except ValueError:
                return self._wrong(place, key, cell.strip())
        raise AssertionError("a cell was read the second time alone")

    def _wrong(self, place: int, key: str, text: str) -> InputError:
        field = sacct_rows.FIELDS[key]
        name = next((name for name in field.names if name.casefold() in self._header), field.names[0])
        got = repr(text if len(text) <= 60 else f"{text[:57]}...")
        return InputError(self._file, field.expected, got, place, name, hint=sacct_rows.SKIP)

    def _check_cluster(self, place: int, cluster: str) -> None:
        """Raise InputError for a second cluster: its jobs have numbers, and a machine, of their own."""
        if self._cluster is None:
            self._cluster = cluster
        elif self._cluster != cluster:
            got = f"{cluster} beside {self._cluster}"
            raise InputError(self._file, "the jobs of one cluster", got, place, "Cluster")

    # ------------------------------------------------------------ rows with a delimiter in a text

    def _cells(self, line: str, said: list[str]) -> Sequence[str] | None:
        """Return the cells of a row by the places of the header; None where they cannot be put in order."""
        cells = line.split(self._delimiter)
        more = len(cells) - len(self._header)
        if more == 0:
            return cells
        orders = self._orders(cells) if 0 < more <= _MOST_MORE else []
        if len(orders) > 1:
            orders = [order for order in orders if self._names_its_nodes(order)]
        # A line that submits a job may stand beside a comment: where it ends is no matter, but then it is not known.
        command = self._places["command"]
        lines = {order[command] for order in orders if command is not None}
        certain = {
            tuple("" if place == command and len(lines) > 1 else text for place, text in enumerate(order))
            for order in orders
        }
        if len(certain) != 1:
            return None
        said.append(REPAIRED)
        return certain.pop()

    def _orders(self, cells: Sequence[str]) -> list[tuple[str, ...]]:
        """Return all ways in which the cells fill the columns, with nothing in those that are not read; none if they are too many."""
        found: dict[int, set[tuple[str, ...]]] = {0: {()}}  # by how many cells are taken
        for column, key in enumerate(self._keys):
            last = len(cells) - (len(self._keys) - column - 1)  # the others need one each
            longer: dict[int, set[tuple[str, ...]]] = {}
            for begin, orders in found.items():
                for end in range(begin + 1, (last if self._long[column] else min(last, begin + 1)) + 1):
                    text = "" if key is None else self._delimiter.join(cells[begin:end])
                    if key is None or _fits(key, text.strip()):
                        longer.setdefault(end, set()).update((*order, text) for order in orders)
                if len(longer) > 1 and sum(map(len, longer.values())) > _MOST_ORDERS:
                    return []
            found = longer
        return list(found.get(len(cells), ()))

    def _names_its_nodes(self, cells: Sequence[str]) -> bool:
        """Tell whether a row names as many nodes as it says it has."""
        listed, nodes = self._cell(cells, "node_list"), self._cell(cells, "nodes")
        return (
            listed in sacct_rows.UNNAMED or not nodes or count_nodes(listed) == sacct_rows.FIELDS["nodes"].read(nodes)
        )


def _fits(key: str, text: str) -> bool:
    """Tell whether a text can be what a column holds."""
    looks = _LOOKS.get(key)
    try:
        sacct_rows.FIELDS[key].read(text)
    except ValueError:
        return False
    return looks is None or looks.fullmatch(text) is not None


def _delimiter_of(header: str) -> str | None:
    """Return what stands between the names of a header; None for blanks alone, as without -P, and where no name is known."""
    found = re.match(r"[A-Za-z]+([ ]*[^A-Za-z ][^A-Za-z]*)[A-Za-z]", header)
    names = set() if found is None else {name.strip().casefold() for name in header.split(found[1])}
    return None if found is None or not _NAMES & names else found[1]


# A dump of either kind.

_JOB: Final = "the answer of sacct --json: a list of jobs with time, state and tres"
_BETWEEN: Final = re.compile(r"[\s\ufeff]*")
_ODD: Final = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError)


def read_dump(file: str, time_zone: str | None = None, *, skip_bad_rows: bool = False) -> sacct_rows.Dump:
    """Read a dump. ``time_zone``: of times that name none, such as Europe/Athens; None: they are taken as UTC.

    Raises InputError for a file that is no dump, or has not the fields that a log needs, and for a row that cannot be read unless such
    rows are skipped; UsageError for a time zone that is not known.
    """
    try:
        with open_text(file, "utf-8-sig", errors="replace") as text:  # a name is what its user typed
            return _dump_in(file, text, time_zone, skip_bad_rows=skip_bad_rows)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error


def dump_of(file: str, text: str, time_zone: str | None = None, *, skip_bad_rows: bool = False) -> sacct_rows.Dump:
    """Return the dump in a text, as of `read_dump`; ``file`` is its name in errors."""
    return _dump_in(file, StringIO(text), time_zone, skip_bad_rows=skip_bad_rows)


def _dump_in(file: str, text: TextIO, time_zone: str | None, *, skip_bad_rows: bool) -> sacct_rows.Dump:
    begin = [text.readline()]
    while begin[-1] and not begin[-1].strip():
        begin.append(text.readline())
    if begin[-1].lstrip().startswith("{"):
        return _of_json(file, "".join(begin) + text.read(), skip_bad_rows=skip_bad_rows)
    return TextDump(file, chain(begin, text), time_zone, skip_bad_rows=skip_bad_rows).read()


# ---------------------------------------------------------------- JSON


def _of_json(file: str, text: str, *, skip_bad_rows: bool) -> sacct_rows.Dump:
    rows = sacct_rows.Rows({})
    submitted_s = array("q")
    counts: Counter[str] = Counter()
    clusters: set[str] = set()
    bad_row = ""
    for place, job in enumerate((job for jobs in _documents(file, text) for job in jobs), 1):
        try:
            own = list(_rows_of_job(place, job))
        except _ODD as error:
            got = f"{type(error).__name__}: {error}"[:80]
            if not skip_bad_rows:
                raise InputError(file, _JOB, got, field=f"jobs[{place - 1}]", hint=sacct_rows.SKIP) from error
            counts[sacct_rows.BAD_ROWS] += 1
            bad_row = bad_row or f"job {place}: expected {_JOB}, got {got}"
            continue
        clusters.add(str(job.get("cluster") or ""))
        for row in own:
            if sacct_rows.known_state(row.state) is None:
                counts[sacct_rows.UNKNOWN_STATE] += 1
                continue
            codes = [rows.code_of(name, value) for name, value in row._asdict().items()]
            rows.append(row.line, row.number, row.label, codes[3:])
            submitted_s.append(row.submit_s)
    if len(clusters) > 1:
        raise InputError(file, "the jobs of one cluster", ", ".join(sorted(clusters)))
    read = len(submitted_s)
    rows.keep(lambda: _latest(rows, submitted_s))
    counts[sacct_rows.TOLD_AGAIN] = read - len(rows)
    return sacct_rows.Dump(rows, (), +counts, has_zone=True, bad_row=bad_row, cluster="".join(clusters))


def _documents(file: str, text: str) -> Iterator[Sequence[Any]]:
    """Yield the jobs of each answer that the text holds, one after the other."""
    decoder = json.JSONDecoder()
    place = _end_of_blanks(text, 0)
    while place < len(text):
        try:
            content, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise InputError(file, "JSON", error.msg, error.lineno) from error
        except (
            ValueError,
            RecursionError,
        ) as error:  # a number of thousands of digits; brackets of thousands of levels
            raise InputError(file, "JSON", f"{type(error).__name__}: {error}"[:80]) from error
        jobs = content.get("jobs") if isinstance(content, dict) else None
        if not isinstance(jobs, list):
            raise InputError(file, _JOB, "none")
        yield jobs
        place = _end_of_blanks(text, place)


def _end_of_blanks(text: str, place: int) -> int:
    found = _BETWEEN.match(text, place)
    return found.end() if found else place


# Over 50 lines: one line for each field.
def _rows_of_job(place: int, job: Mapping[str, Any]) -> Iterator[sacct_rows.SacctRow]:
    """Yield the row of a job, and those of its steps. Raises one of `_ODD`."""
    times, array, het = job["time"], job["array"], job["het"]
    allocated, requested = (_amounts_of(job["tres"][key]) for key in ("allocated", "requested"))
    own, task, offset = str(job["job_id"]), number(array.get("task_id")), number(het.get("job_offset"))
    label = own
    if array.get("job_id") and task is not None:
        label = f"{array['job_id']}_{task}"
    elif het.get("job_id"):
        label = f"{het['job_id']}+{offset or 0}"
    submit_s = _instant(times, "submission")
    if submit_s is None:
        raise ValueError("no time of submission")
    total = times["total"]
    row = sacct_rows.SacctRow(
        line=place,
        number=sacct_rows.number_of(own),
        label=sacct_rows.label_of(label),
        user=_text(job, "user"),
        partition=_text(job, "partition"),
        state=state_of(job["state"]["current"]),
        submit_s=submit_s,
        eligible_s=_instant(times, "eligible"),
        start_s=_instant(times, "start"),
        end_s=_instant(times, "end"),
        elapsed_s=sacct_rows.instant_of(number(times["elapsed"]) or 0) or 0,
        suspended_s=sacct_rows.instant_of(number(times["suspended"]) or 0) or 0,
        limit_min=sacct_rows.minutes_of(number(times["limit"])),
        nodes=sacct_rows.nodes_of(allocated.get("node", 0)),
        cpus=sacct_rows.FIELDS["cpus"].read(str(allocated.get("cpu") or requested.get("cpu", 0))),
        asked=sacct_rows.FIELDS["asked"].read(str(number(job["required"]["CPUs"]) or 0)),
        cpu_s=(number(total["seconds"]) or 0) + (number(total["microseconds"]) or 0) / 1e6,
        node_list=sacct_rows.node_list_of(_text(job, "nodes")),
        account=_text(job, "account"),
        qos=_text(job, "qos"),
        priority=number(job.get("priority")),
        reservation=_text(job.get("reservation") or {}, "name"),
        reason=_text(job["state"], "reason"),
        memory=_memory_of(job["required"]),
        requested=requested,
        allocated=allocated,
        name=_text(job, "name"),
        command=_text(job, "submit_line"),
        at_once=number(array["limits"]["max"]["running"]["tasks"]) or 0 if "limits" in array else 0,
    )
    yield row
    for place_of_step, step in enumerate(job.get("steps") or ()):
        named = step["step"].get("id") if isinstance(step.get("step"), Mapping) else None
        yield row._replace(label=f"{label}.{named or place_of_step}")


def _instant(times: Mapping[str, Any], key: str) -> int | None:
    return sacct_rows.instant_of(number(times.get(key)) or 0)


def _text(table: Mapping[str, Any], key: str) -> str:
    """Return a text without what no file can hold: halves of letters."""
    return str(table.get(key) or "").encode("utf-8", "replace").decode("utf-8")


def _amounts_of(items: Sequence[Mapping[str, Any]] | None) -> Mapping[str, int]:
    """Return the amounts of a job by the names that `sacct -P` gives them; what has no count is left out."""
    found = {}
    for item in items or ():
        count = number(item["count"])
        if count is not None:
            found[f"{item['type']}/{item['name']}" if item.get("name") else str(item["type"])] = count
    return found


def _memory_of(required: Mapping[str, Any]) -> str:
    """Return what a job asks for, as `sacct -P` of Slurms before 21.08 writes it: of each CPU, or of each node."""
    for key, of in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if amount := number(required.get(key)):
            return f"{amount}M{of}"
    return ""
