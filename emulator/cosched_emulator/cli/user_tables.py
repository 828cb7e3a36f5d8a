"""Answers of a manager as text: tables like those of squeue, sinfo and sacct, and details of a job like those of scontrol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from cosched_emulator.offered import NODE_STATES
from cosched_emulator.users import told as words
from cosched_emulator.users.idset import idset, ranges_text
from cosched_terminal.tables import CYAN, GREEN, RED, YELLOW, align, short

SHORT_STATES: Final[Mapping[str, str]] = {
    "PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETED": "CD", "FAILED": "F", "TIMEOUT": "TO", "CANCELLED": "CA",
    "NODE_FAIL": "NF", "REJECTED": "RJ",
}  # fmt: skip
UNLIMITED: Final = "UNLIMITED"
_WIDEST: Final = 32  # characters of a name


def selected(rows: Iterable[words.Row], wanted: Mapping[str, Collection[str] | None]) -> list[words.Row]:
    """Return the rows whose field is one of the wanted values (patterns with ``*``), or a list with one; None wants all."""
    asked = [(key, patterns) for key, patterns in wanted.items() if patterns is not None]
    return [row for row in rows if all(_matches(row.get(key), patterns) for key, patterns in asked)]


def _matches(value: Any, patterns: Collection[str]) -> bool:
    values = value if isinstance(value, list | tuple) else [value or ""]
    return any(fnmatchcase(str(each), pattern) for each in values for pattern in patterns)


def job_states(text: str) -> list[str]:
    """Return the whole names of states of jobs, of whole or short ones in any case."""
    whole = {short: state for state, short in SHORT_STATES.items()}
    return _known([whole.get(name, name) for name in text.upper().split(",")], SHORT_STATES)


def node_states(text: str) -> list[str]:
    """Return states of nodes, of names in any case."""
    return _known(text.upper().split(","), NODE_STATES)


def _known(states: list[str], known: Collection[str]) -> list[str]:
    if not {*states} <= {*known}:
        raise ValueError(f"some of {', '.join(known)}")
    return states


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str], **shown: Any) -> str:
    """Return an aligned table without lines; the columns named in ``right`` are right-aligned; ``shown``: further ones of `align`."""
    places = [column for column, head in enumerate(heads) if head in right]
    return "\n".join(align([heads, *rows], places, **{"later": _LATER, "colours": STATE_COLOURS, **shown})) + "\n"


# What a narrow terminal leaves out, in this order, and the colours of states.
_LATER: Final = (
    "LICENSES", "PRIORITY", "ACCOUNT", "QOS", "STARTS", "SUBMIT", "TO", "FROM", "MEMORY_MIB", "TIME_LIMIT", "CPU", "SLOWDOWN", "SLOWED",
    "SHARES_WITH", "PARTITIONS", "PARTITION", "GRES", "SLOT", "WAIT", "START", "USER", "END",
)  # fmt: skip
STATE_COLOURS: Final = {
    **dict.fromkeys(("RUNNING", "R", "COMPLETED", "CD", "MIXED", "ALLOCATED"), GREEN),
    **dict.fromkeys(("PENDING", "PD", "SUSPENDED", "S", "DRAINING", "DRAINED"), YELLOW),
    **dict.fromkeys(("FAILED", "F", "TIMEOUT", "TO", "NODE_FAIL", "NF", "REJECTED", "RJ", "DOWN"), RED),
    **dict.fromkeys(("CANCELLED", "CA", "IDLE"), CYAN),
}


# The cells of tables of jobs, by the heads of their columns: texts, then numbers, which are right-aligned.

_Cell = Callable[[words.Row], str]


def _text(key: str) -> _Cell:
    return lambda row: short(row.get(key) or words.UNKNOWN, _WIDEST)


def _whole(key: str) -> _Cell:
    return lambda row: row.get(key) or words.UNKNOWN


def _number(key: str) -> _Cell:
    return lambda row: words.UNKNOWN if row.get(key) is None else str(row[key])


def _clock(key: str, unknown: str = words.UNKNOWN) -> _Cell:
    return lambda row: words.clock_text(row.get(key), unknown)


_TEXTS: Final[Mapping[str, _Cell]] = {
    "NAME": _text("name"),
    "USER": _text("user"),
    "ST": lambda row: SHORT_STATES.get(row["state"], row["state"]),
    "STATE": _whole("state"),
    "SHARES_WITH": lambda row: words.join_values(row["shares_with"]) or words.UNKNOWN,
    "PARTITION": lambda row: short(words.join_values(row["partitions"] or ()) or words.UNKNOWN, _WIDEST),
    "QOS": _text("qos"),
    "ACCOUNT": _text("account"),
    "GRES": lambda row: words.value_text("resources", row["resources"]),
    "LICENSES": lambda row: words.value_text("licences", row["licences"]),
    "NODELIST(REASON)": lambda row: row["node_list"] or f"({row['reason']})",
    "NODELIST": _whole("node_list"),
    "REASON": _whole("reason"),
}
_NUMBERS: Final[Mapping[str, _Cell]] = {
    "JOBID": words.job_label,
    "TIME": _clock("elapsed_s"),
    "TIME_LIMIT": _clock("limit_s", UNLIMITED),
    "NODES": _number("nodes"),
    "PRIORITY": _number("priority"),
    "SLOWDOWN": lambda row: words.UNKNOWN if row["slowdown"] is None else f"{row['slowdown']:.2f}",
    "SLOT": _number("slot"),
    "CPU": lambda row: words.UNKNOWN if row["share"] is None else f"{row['share']:.0%}",
    "SUBMIT": _clock("submit_s"),
    "START": lambda row: ("after " if row.get("bound") else "") + words.clock_text(row.get("start_s")),
    "FROM": _clock("low_s"),
    "TO": _clock("high_s"),
    "END": _clock("end_s"),
    "ELAPSED": _clock("elapsed_s"),
    "WAIT": _clock("wait_s"),
    "PROCESSES": _number("processes"),
    "STARTS": _number("starts"),
}
# Where any job has it.
_ASKED: Final = {
    "PARTITION": "partitions", "QOS": "qos", "ACCOUNT": "account", "PRIORITY": "priority", "GRES": "resources",
    "LICENSES": "licences",
}  # fmt: skip
NUMBERS: Final = frozenset({*_NUMBERS, "NODE", "THREADS", "USED", "MEMORY_MIB", "SLOWED"})


def _cells(heads: Sequence[str], rows: Iterable[words.Row]) -> list[list[str]]:
    cells = [_TEXTS.get(head) or _NUMBERS[head] for head in heads]
    return [[cell(row) for cell in cells] for row in rows]


# Columns of the queue that are shown on demand, beside those that no job has a value in.
_SPARE: Final = ("STATE", "PROCESSES", "SUBMIT", "START", "NODELIST", "REASON")


def queue_table(rows: Sequence[words.Row], *, expand: bool = False) -> str:
    """Return the queue; pending tasks of one array share one line, unless expanded."""
    usual = queue_heads(rows)
    spare = [*[head for head in _ASKED if head not in usual], *_SPARE]
    heads = (*usual[:-1], *spare, usual[-1])
    return text_table(heads, _cells(heads, rows if expand else _group_tasks(rows)), NUMBERS, spare=spare)


def _asked_heads(rows: Sequence[words.Row]) -> list[str]:
    return [head for head, key in _ASKED.items() if any(row.get(key) for row in rows)]


def queue_heads(rows: Sequence[words.Row]) -> tuple[str, ...]:
    """Return the heads of the queue's columns; where jobs share time, the slot and the CPU share take the place of the slowdown."""
    asked = _asked_heads(rows)
    shared = ("SLOT", "CPU") if rows and "slot" in rows[0] else ("SLOWDOWN",)
    heads = ("JOBID", "NAME", "USER", "ST", "TIME", "TIME_LIMIT", "NODES", "SHARES_WITH")
    return (*heads, *asked, *shared, "NODELIST(REASON)")


# Estimates of starts.

_START_HEADS: Final = ("JOBID", "NAME", "USER", "NODES", "START", "FROM", "TO", "NODELIST", "REASON")


def start_table(told: words.Row, rows: Iterable[words.Row]) -> str:
    """Return when pending jobs are expected to start, on the manager's clock, and how old and how good that is."""
    later = ("NODELIST", "NODES", "USER", "FROM", "TO", "NAME")
    return text_table(_START_HEADS, _cells(_START_HEADS, rows), NUMBERS, later=later) + words.basis_text(told) + "\n"


def start_text(told: words.Row) -> str:
    """Return when one job is expected to start."""
    nodes = f" on nodes {told['node_list']}" if told["node_list"] else ""
    return f"It would start {words.when_text(told)}{nodes}.\n{words.basis_text(told)}\n"


def _group_tasks(rows: Iterable[words.Row]) -> list[words.Row]:
    """Return the rows, with one for the tasks of an array that are pending for the same reason."""
    groups: dict[object, list[words.Row]] = {}
    for row in rows:
        alike = row["state"] == "PENDING" and row["array_id"] is not None
        groups.setdefault((row["array_id"], row["reason"]) if alike else row["job_id"], []).append(row)
    condensed = []
    for first, *others in groups.values():
        tasks = ranges_text(sorted([row["array_index"] for row in (first, *others)])) if others else None
        condensed.append({**first, "array_index": f"[{tasks}]"} if tasks else first)
    return condensed


def node_table(rows: Iterable[words.Row]) -> str:
    """Return the nodes by state, one line for each state and reason."""
    groups: dict[tuple[Any, ...], list[words.Row]] = {}
    for row in rows:
        kind = (row["threads"], row["memory_mb"], _amount_names(row), _partitions(row))
        groups.setdefault((row["state"], row["reason"], *kind), []).append(row)
    extra = [head for head, number in (("GRES", 4), ("PARTITIONS", 5)) if any(key[number] for key in groups)]
    lines = []
    for key, group in sorted(groups.items()):
        state, reason, threads, memory_mb, _, partitions = key
        more = {"GRES": _amounts_used(group), "PARTITIONS": partitions or words.UNKNOWN}
        lines.append(
            (
                state,
                str(len(group)),
                str(threads),
                f"{sum(row['threads_used'] for row in group)}/{threads * len(group)}",
                str(memory_mb),
                *[more[head] for head in extra],
                idset(row["node"] for row in group),
                reason or words.UNKNOWN,
            )
        )
    heads = ("STATE", "NODES", "THREADS", "USED", "MEMORY_MIB", *extra, "NODELIST", "REASON")
    return text_table(heads, lines, NUMBERS)


def _amount_names(row: words.Row) -> tuple[str, ...]:
    return tuple([name for name, _, _ in row.get("resources") or ()])


def _partitions(row: words.Row) -> str:
    return words.join_values(row.get("partitions") or ())


def _amounts_used(rows: Sequence[words.Row]) -> str:
    """Return how much of each countable resource of some nodes is in use, and how much there is."""
    used: dict[str, list[int]] = {}
    for row in rows:
        for name, taken, most in row.get("resources") or ():
            total = used.setdefault(name, [0, 0])
            total[0] += taken
            total[1] += most
    return ",".join([f"{name}:{taken}/{most}" for name, (taken, most) in used.items()]) or words.UNKNOWN


def long_node_table(rows: Iterable[words.Row]) -> str:
    """Return the nodes, one line per node."""
    told = list(rows)
    extra = [
        head for head, key in (("GRES", "resources"), ("PARTITIONS", "partitions")) if any(row.get(key) for row in told)
    ]
    lines = [
        (
            str(row["node"]),
            row["state"],
            f"{row['threads_used']}/{row['threads']}",
            f"{row['memory_used_mb']}/{row['memory_mb']}",
            words.UNKNOWN if row["slowed"] is None else f"{row['slowed']:.2f}",
            *[_amounts_used([row]) if head == "GRES" else _partitions(row) or words.UNKNOWN for head in extra],
            words.join_values(row["jobs"]) or words.UNKNOWN,
            row["reason"] or words.UNKNOWN,
        )
        for row in told
    ]
    return text_table(("NODE", "STATE", "THREADS", "MEMORY_MIB", "SLOWED", *extra, "JOBS", "REASON"), lines, NUMBERS)


def history_table(rows: Sequence[words.Row]) -> str:
    """Return jobs that have ended."""
    usual = ("JOBID", "NAME", "USER", "STATE", "SUBMIT", "START", "END", "ELAPSED", "WAIT", "STARTS")
    heads = (*usual, *_asked_heads(rows), "REASON")
    return text_table(heads, _cells(heads, rows), NUMBERS)


def status_text(status: Mapping[str, Any]) -> str:
    """Return a status, one line per field; a map within it takes one line per entry."""
    return text_table(("FIELD", "VALUE"), _status_rows(status, ""), ())


def _status_rows(status: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in status.items():
        if isinstance(value, Mapping):
            # A unit at the end of a map's name is the unit of its entries: latency_s holds p50, p90 ...
            unit = "_s" if key.endswith("_s") else ""
            inner = {f"{name}{unit}": each for name, each in value.items()}
            yield from _status_rows(inner, f"{prefix}{words.words_of(key)} ")
        else:
            yield prefix + words.words_of(key), words.value_text(key, value)


def config_table(config: Mapping[str, Any], begin: str) -> str:
    """Return the settings whose names begin so, a line each."""
    return text_table(("SETTING", "VALUE"), [each for each in _settings("", config) if each[0].startswith(begin)], ())


def _settings(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield names of settings, with the names of their tables in front and the number in a list, and values."""
    if isinstance(value, Mapping):
        inner = [*value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        inner = [(str(place), each) for place, each in enumerate(value)]
    else:
        yield name, words.value_text("", value)
        return
    for key, each in inner:
        yield from _settings(f"{name}.{key}" if name else key, each)
