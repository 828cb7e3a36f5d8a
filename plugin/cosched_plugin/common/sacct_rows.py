"""A row of Slurm's accounting: the fields that are read, how each is read, and the command that asks for them.

Facts were met with Slurm 22.05.8 and 24.11. A cell that no field of Slurm's looks like is an error of that row, and so is one that
would take all memory, such as a range of 10^8 nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from cosched_plugin.common.slurm_notation import (
    ENDED,
    MOST_NODES,
    MOST_TASKS,
    ON_NODES,
    WAITING,
    amounts,
    count_nodes,
    tasks_in,
)


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

    rows: tuple[SacctRow, ...]
    missing: tuple[str, ...]  # fields that it does not have, by sacct's names
    counts: Counter[str]  # what was mended or left out, by what is said of it
    has_zone: bool  # whether its times say where they are
    bad_row: str = ""  # the first one that was left out, and why
    cluster: str = ""  # of which it is; empty: it does not tell


# What is said of rows, beside what `sacct_jobs` says of jobs.
TOLD_AGAIN: Final = "rows of a job, or step, that another row repeats: its latest state counts"
BAD_ROWS: Final = "rows with a field that cannot be read: left out"
UNKNOWN_STATE: Final = "rows in a state that is not known: dropped"

KNOWN_STATES: Final = WAITING | ON_NODES | ENDED.keys()
UNNAMED: Final = ("", "None assigned", "None", "Unknown", "(null)")  # lists of a job that had none
TASKS: Final = re.compile(r"([0-9]+)_(?:([0-9]+)|\[(.*)\])")  # labels of tasks of arrays
_NEVER: Final = ("", "Unknown", "None", "N/A", "Invalid", "INVALID")
_NO_LIMIT_MIN: Final = 525_600  # what sched/backfill writes for a job without a limit
_MOST_S: Final = 253_402_300_799  # the end of the year 9999


def newer(one: SacctRow, other: SacctRow) -> bool:
    """Tell whether the first of two rows of the same run of a job was written later, or can have been."""

    def age(row: SacctRow) -> tuple[bool, bool, int, int]:
        return row.end_s is not None, row.start_s is not None, row.end_s or 0, row.elapsed_s

    return age(one) >= age(other)


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
        tasks_in(found[2] or found[3])
    return text


def node_list_of(text: str) -> str:
    """Return a list of nodes; none where the job had none."""
    if text not in UNNAMED:
        count_nodes(text)
    return text


def nodes_of(number: int) -> int:
    """Return a number of nodes."""
    if not 0 <= number <= MOST_NODES:
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
    """Return a number of nodes; sacct writes 1024 of them as 1K."""
    return nodes_of(amounts(f"node={text}")["node"]) if text else 0


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
        ("JobID", "JobIDRaw"), label_of, f"a job such as 12, 12_3 or 12_[1-3,7], with tasks below {MOST_TASKS}"
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
    "nodes": Field(("AllocNodes", "NNodes"), _nodes, f"a number of nodes, at most {MOST_NODES}"),
    "cpus": Field(("NCPUS", "AllocCPUS"), _cpus, _CPUS),
    "asked": Field(("ReqCPUS",), _cpus, _CPUS),
    "cpu_s": Field(("TotalCPU",), _seconds, "a duration such as 00:00.002"),
    "node_list": Field(("NodeList",), node_list_of, f"a list of at most {MOST_NODES} nodes such as n[0-3,7]"),
    "account": Field(("Account",)),
    "qos": Field(("QOS",)),
    "priority": Field(("Priority",), _priority, "a whole number"),
    "reservation": Field(("Reservation",)),
    "reason": Field(("Reason",)),
    "memory": Field(("ReqMem",)),
    "requested": Field(("ReqTRES",), amounts, _AMOUNTS),
    "allocated": Field(("AllocTRES",), amounts, _AMOUNTS),
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
