"""A row of Slurm's accounting: the fields that are read, how each is read, and the command that asks for them.

Facts were met with Slurm 22.05.8 and 24.11. A cell that no field of Slurm's looks like is an error of that row, and so is one that
would take all memory, such as a range of 10^8 nodes.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.common import slurm_notation


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
    at_once: int = 0  # tasks of its array that may run at once; 0: all, or the row does not tell


class Dump(NamedTuple):
    """The content of a dump: each row once, in its latest state."""

    rows: Rows
    missing: tuple[str, ...]  # fields that it does not have, by sacct's names
    counts: Counter[str]  # what was mended or left out, by what is said of it
    has_zone: bool  # whether its times say where they are
    bad_row: str = ""  # the first one that was left out, and why
    cluster: str = ""  # of which it is; empty: it does not tell


# What is said of rows, beside what `sacct_jobs` says of jobs.
TOLD_AGAIN: Final = "rows of a job, or step, that another row repeats: its latest state counts"
BAD_ROWS: Final = "rows with a field that cannot be read: left out"
UNKNOWN_STATE: Final = "rows in a state that is not known: dropped"

KNOWN_STATES: Final = slurm_notation.WAITING | slurm_notation.ON_NODES | slurm_notation.ENDED.keys()
UNNAMED: Final = ("", "None assigned", "None", "Unknown", "(null)")  # lists of a job that had none
TASKS: Final = re.compile(r"([0-9]+)_(?:([0-9]+)|\[(.*)\])")  # labels of tasks of arrays
_NEVER: Final = ("", "Unknown", "None", "N/A", "Invalid", "INVALID")
_NO_LIMIT_MIN: Final = 525_600  # what sched/backfill writes for a job without a limit
_MOST_S: Final = 253_402_300_799  # the end of the year 9999


# ---------------------------------------------------------------- values; all readers raise ValueError


def is_never(text: str) -> bool:
    """Tell whether a time has not come."""
    return text in _NEVER


def instant_of(number: int) -> int | None:
    """Return seconds since 1970; None for 0, which Slurm writes for what has not happened."""
    if not 0 <= number <= _MOST_S:
        raise ValueError(number)
    return number or None


def whole(text: str, most: int = 1 << 64) -> int:
    """Return a whole number; 0 where nothing stands."""
    if not text:
        return 0
    if len(text) > 20 or not (text.isascii() and text.isdigit()) or int(text) > most:
        raise ValueError(text)
    return int(text)


def minutes_of(number: int | None) -> int | None:
    """Return a limit; None for none, also where the scheduler wrote what stands for it."""
    if number is not None and not 0 <= number <= _MOST_S:
        raise ValueError(number)
    return None if number is None or number >= _NO_LIMIT_MIN else number


def number_of(text: str) -> str:
    """Return Slurm's number of a job, or what stands for it in a dump that has labels alone."""
    if text.isdecimal():
        whole(text, 1 << 62)
    return label_of(text)


def label_of(text: str) -> str:
    """Return the name of a job, or of tasks that no array is too small for."""
    found = TASKS.fullmatch(text) if "_" in text else None
    if found is not None:
        slurm_notation.tasks_in(found[2] or found[3])
    return text


def node_list_of(text: str) -> str:
    """Return a list of nodes; none where the job had none."""
    if text not in UNNAMED:
        slurm_notation.count_nodes(text)
    return text


def nodes_of(number: int) -> int:
    """Return a number of nodes."""
    if not 0 <= number <= slurm_notation.MOST_NODES:
        raise ValueError(number)
    return number


def known_state(text: str) -> str | None:
    """Return a state without what stands behind it, such as ``by 1000``; None for an unknown one."""
    state = text.split(" ", maxsplit=1)[0].rstrip("+")
    return state if state in KNOWN_STATES else None


def _state(text: str) -> str:
    state = known_state(text)
    if state is None:
        raise ValueError(text)
    return state


def _text(text: str) -> str:
    return text


def _seconds(text: str) -> float:
    """Return the seconds of ``81`` or ``[D-]HH:MM:SS`` or ``MM:SS.mmm``; 0 where nothing stands."""
    if text in _NEVER:
        return 0
    if text.isdecimal():
        return whole(text, _MOST_S)
    found = re.fullmatch(r"(?:([0-9]{1,7})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})(\.[0-9]{1,9})?", text)
    if found is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    exact = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return exact + float(found[5]) if found[5] else exact


def _whole_seconds(text: str) -> int:
    return round(_seconds(text))


def _minutes(text: str) -> int | None:
    """Return a limit in minutes; None for none, and for what is only known when the job starts."""
    if text in (*_NEVER, "UNLIMITED", "Partition_Limit"):
        return None
    return minutes_of(whole(text) if text.isdecimal() else round(_seconds(text) / 60))


def _nodes(text: str) -> int:
    """Return a number of nodes, alone or among the amounts of AllocTRES; sacct writes 1024 of them as 1K."""
    amounts = slurm_notation.amounts(text if not text or "=" in text else f"node={text}")
    return nodes_of(amounts.get("node", 0))


def _cpus(text: str) -> int:
    return whole(text, 1 << 31)


def _priority(text: str) -> int | None:
    return None if text in _NEVER else whole(text)


class Field(NamedTuple):
    """A field of sacct."""

    names: tuple[str, ...]  # sacct's; the first is the best, the others do as well
    read: Callable[[str], Any] = _text
    expected: str = "a text"


_DURATION: Final = "a duration such as 1-02:03:04"
_CPUS: Final = "a number of CPUs"
_AMOUNTS: Final = "amounts such as cpu=4,mem=8G,gres/gpu=1"
TIME: Final = "a time such as 2026-11-24T00:07:39"

# By the attribute of a row, in the order in which `COMMAND` asks for them. Free text is last, where a delimiter in it moves least.
FIELDS: Final[Mapping[str, Field]] = {
    "number": Field(("JobIDRaw", "JobID"), number_of, "a number of a job"),
    "label": Field(
        ("JobID", "JobIDRaw"),
        label_of,
        f"a job such as 12, 12_3 or 12_[1-3,7], with tasks below {slurm_notation.MOST_TASKS}",
    ),
    "cluster": Field(("Cluster",)),
    "user": Field(("User",)),
    "partition": Field(("Partition",)),
    "state": Field(("State",), _state, "a state of a job"),
    "submit_s": Field(("Submit",), expected=TIME),  # times hang on each other: `sacct_dump`
    "eligible_s": Field(("Eligible",), expected=TIME),
    "start_s": Field(("Start",), expected=TIME),
    "end_s": Field(("End",), expected=TIME),
    "elapsed_s": Field(("ElapsedRaw", "Elapsed"), _whole_seconds, f"seconds, or {_DURATION}"),
    "suspended_s": Field(("Suspended",), _whole_seconds, _DURATION),
    "limit_min": Field(("TimelimitRaw", "Timelimit"), _minutes, "minutes, a duration, or UNLIMITED"),
    "nodes": Field(
        ("AllocNodes", "NNodes", "AllocTRES"), _nodes, f"a number of nodes, at most {slurm_notation.MOST_NODES}"
    ),
    "cpus": Field(("NCPUS", "AllocCPUS"), _cpus, _CPUS),
    "asked": Field(("ReqCPUS",), _cpus, _CPUS),
    "cpu_s": Field(("TotalCPU",), _seconds, "a duration such as 00:00.002"),
    "node_list": Field(
        ("NodeList",), node_list_of, f"a list of at most {slurm_notation.MOST_NODES} nodes such as n[0-3,7]"
    ),
    "account": Field(("Account",)),
    "qos": Field(("QOS",)),
    "priority": Field(("Priority",), _priority, "a whole number"),
    "reservation": Field(("Reservation",)),
    "reason": Field(("Reason",)),
    "memory": Field(("ReqMem",)),
    "requested": Field(("ReqTRES",), slurm_notation.amounts, _AMOUNTS),
    "allocated": Field(("AllocTRES",), slurm_notation.amounts, _AMOUNTS),
    "name": Field(("JobName",)),
    "command": Field(("SubmitLine",)),
}
TIMES: Final = ("submit_s", "eligible_s", "start_s", "end_s")
# States that make sacct list every job; without them and `-E`, jobs that never became eligible are left out.
_STATES: Final = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"


def sacct_words(since: str) -> list[str]:
    """Return the command that writes a dump of what has happened since then, with all that is read. It wants `TIME_FORMAT`."""
    fields = ",".join(dict.fromkeys(field.names[0] for field in FIELDS.values()))
    return ["sacct", "-aXP", "--duplicates", "--delimiter=\x1f", "-S", since, "-E", "now", "-s", _STATES, "-o", fields]


TIME_FORMAT: Final = ("SLURM_TIME_FORMAT", "%s")  # of the command's environment
COMMAND: Final = " ".join(["=".join(TIME_FORMAT), *sacct_words("now-90days"), ">jobs.txt"]).replace("\x1f", r"$'\x1f'")
SKIP: Final = "--skip-bad-rows leaves such rows out"
HINT: Final = f"this line writes a dump with all that is needed: {COMMAND}"


# ---------------------------------------------------------------- rows by column

_PLAIN: Final = {
    **dict.fromkeys(("number", "label", *TIMES, "elapsed_s", "suspended_s"), "q"),
    "line": "I",
    "cpu_s": "d",
}
_BLOCK: Final = 1 << 12  # rows that are made at one time


class _Table(dict[str, int]):
    """The codes of texts; what a text stands for is read once."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        super().__init__()
        self.read = read
        self.found: list[Any] = []  # by code

    def __missing__(self, text: str) -> int:
        bare = text.strip()
        if bare != text:
            code = self[bare]
        else:
            self.found.append(self.read(text))
            code = len(self.found) - 1
        self[text] = code
        return code


class Rows:
    """Rows by column: a million objects would take all memory. A row is made when it is asked for.

    Most columns have few values, and hold codes. A time of 0 has not come. Numbers and labels are themselves, or below 0: other texts.
    """

    def __init__(self, reads: Mapping[str, Callable[[str], Any]]) -> None:
        """``reads`` says what the texts of some columns stand for; of the others they stand for themselves."""
        self.tables = {name: _Table(reads.get(name, _text)) for name in SacctRow._fields if name not in _PLAIN}
        self._texts = _Table(_text)
        self._block: list[tuple[Any, ...]] = []  # rows that are not in the columns yet
        self._columns: dict[str, Any] = {name: array(_PLAIN.get(name, "I")) for name in SacctRow._fields}

    def append(self, line: int, number: str, label: str, codes: Iterable[Any]) -> None:
        """Add a row, with what the columns behind the label hold."""
        own = int(number) if _is_plain(number) else ~self._texts[number]
        if label == number:
            called = own
        elif _is_plain(label):
            called = int(label)
        else:  # few labels are told again
            self._texts.found.append(label)
            called = -len(self._texts.found)
        self._block.append((line, own, called, *codes))
        if len(self._block) == _BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        for column, cells in zip(self._columns.values(), zip(*self._block, strict=True), strict=True):
            column.extend(cells)
        self._block.clear()

    def code_of(self, name: str, value: Any) -> Any:
        """Return what a column holds of a value."""
        if name not in self.tables:
            return value or 0
        table, text = self.tables[name], repr(value)
        if text not in table:
            table[text] = len(table.found)
            table.found.append(value)
        return table[text]

    def keep(self, places_of: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """End adding rows, keep those at some places alone, in that order, and return these."""
        if self._block:
            self._end_block()
        for name, told in self._columns.items():  # numbers as small as they can be
            column = np.asarray(told)
            ends = [np.min_scalar_type(end) for end in (column.min(initial=0), column.max(initial=0))]
            self._columns[name] = column if name == "cpu_s" else column.astype(np.result_type(*ends))
        for table in (self._texts, *self.tables.values()):
            table.clear()  # the codes of texts: no more are asked for
        places = places_of()
        if len(places) < len(self):
            self._columns = {name: column[places] for name, column in self._columns.items()}
        return places

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._columns["line"])

    def __iter__(self) -> Iterator[SacctRow]:
        """Yield each row."""
        return self.at(np.arange(len(self)))

    def at(self, places: NDArray[np.int64]) -> Iterator[SacctRow]:
        """Yield the rows at some places."""
        return map(SacctRow._make, self.values(SacctRow._fields, places))

    def values(self, names: Sequence[str], places: NDArray[np.int64]) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some columns at some places."""
        for begin in range(0, len(places), _BLOCK):
            part = places[begin : begin + _BLOCK]
            yield from zip(*[self._values(name, part) for name in names], strict=True)

    def _values(self, name: str, places: NDArray[np.int64]) -> Iterable[Any]:
        cells = self._columns[name][places].tolist()
        if name in self.tables:
            return map(self.tables[name].found.__getitem__, cells)
        if name in ("number", "label"):
            return [str(cell) if cell >= 0 else self._texts.found[~cell] for cell in cells]
        return [cell or None for cell in cells] if name in TIMES else cells

    def text(self, name: str, place: int) -> str:
        """Return a number or a label."""
        return next(iter(self._values(name, np.array([place]))))  # type: ignore[no-any-return]

    def column(self, name: str) -> NDArray[Any]:
        """Return what a column holds; codes may be unsigned."""
        column: NDArray[Any] = self._columns[name]
        return column if name in self.tables else column.astype(np.int64)

    def of(self, name: str, told: Callable[[Any], Any]) -> NDArray[Any]:
        """Return what is told of each row's value, asked once for each value; False of numbers and labels that are numbers alone."""
        codes = self.column(name)
        told_of = [told(value) for value in self.tables[name].found] if name in self.tables else None
        if told_of is None:
            told_of, codes = [False, *map(told, reversed(self._texts.found))], np.minimum(codes, 0)
        answer: NDArray[Any] = np.array(told_of or [False])[codes]
        return answer

    def steps(self) -> NDArray[np.bool_]:
        """Return which rows are steps of jobs."""
        steps: NDArray[np.bool_] = np.logical_or(self.of("label", _is_step), self.of("number", _is_step))
        return steps


def each_of(column: NDArray[Any]) -> Iterator[Any]:
    """Yield what a column holds, without a list of all of it."""
    for begin in range(0, len(column), _BLOCK):
        yield from column[begin : begin + _BLOCK].tolist()


def _is_plain(text: str) -> bool:
    return len(text) < 19 and text.isascii() and text.isdigit() and text[0] != "0"


def _is_step(text: str) -> bool:
    return "." in text


def each_once(numbers: NDArray[np.int64], key: Callable[[int], object], age: Callable[[int], Any]) -> NDArray[np.int64]:
    """Return the place of one row for each number and key: of the oldest by age, else the last, where the first of them stands."""
    order = np.argsort(numbers, kind="stable")
    again = np.flatnonzero(np.diff(numbers[order]) == 0)
    kept = np.arange(len(numbers))
    firsts: dict[object, int] = {}
    for place in np.unique(order[np.concatenate((again, again + 1))]).tolist():
        first = firsts.setdefault((int(numbers[place]), key(place)), place)
        if first == place:
            continue
        kept[place] = -1
        if age(place) >= age(int(kept[first])):
            kept[first] = place
    return kept[kept >= 0]
