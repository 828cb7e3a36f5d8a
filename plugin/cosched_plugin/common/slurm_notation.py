"""What Slurm's REST interface and its accounting write alike: states of jobs, lists of nodes and tasks, numbers in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, Final

from cosched_plugin.protocol.limits import MAX_NODES
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, TIMEOUT

# Slurm's states of jobs. What is in none of these maps is not known, and such a job is left alone.
WAITING: Final = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "POWER_UP_NODE"}
)
STOPPED: Final = "SUSPENDED"
ON_NODES: Final = frozenset(
    {"RUNNING", "COMPLETING", "CONFIGURING", STOPPED, "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
)
ENDED: Final[Mapping[str, str]] = {
    "COMPLETED": COMPLETED,
    "FAILED": FAILED,
    "OUT_OF_MEMORY": FAILED,
    "LAUNCH_FAILED": FAILED,
    "RECONFIG_FAIL": FAILED,
    "TIMEOUT": TIMEOUT,
    "DEADLINE": TIMEOUT,
    "CANCELLED": CANCELLED,
    "REVOKED": CANCELLED,
    "PREEMPTED": CANCELLED,
    "NODE_FAIL": NODE_FAIL,
    "BOOT_FAIL": NODE_FAIL,
}


# Flags of a state that Slurm's commands show in its place, in their order; newer JSON lists them behind it.
_FLAGS: Final = (
    "COMPLETING", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED", "RESV_DEL_HOLD",
)  # fmt: skip


def state_of(value: Any) -> str:
    """Return the state of a job in JSON, a text or a list, as Slurm's commands show it; ValueError for none."""
    words = [word.upper() for word in words_of(value)]
    if not words:
        raise ValueError("no state")
    return next((flag for flag in _FLAGS if flag in words), words[0])


def swf_status(state: str) -> int:
    """Return the status of an ended job in a log: 1 completed, 5 cancelled, 0 failed for whatever reason."""
    return {COMPLETED: 1, CANCELLED: 5}.get(ENDED[state], 0)


# ---------------------------------------------------------------- names of nodes

# A bracket with a long range, and brackets in a row, are short texts for very many nodes: they are counted before they are made.
MOST_NODES: Final = 65_536  # that a list names: the longest range that Slurm itself reads (MAX_RANGE of its hostlist.c)
MOST_TASKS: Final = 4_000_001  # of an array: Slurm's MaxArraySize is at most that
_MOST_LETTERS: Final = 255  # of a node's name
_SPAN: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18})(?::([0-9]{1,18}))?)?", re.ASCII)


def expand(text: str) -> tuple[str, ...]:
    """Return the nodes of a list such as ``n[0-3,7],m1``, in its order; ValueError for another text, or for too many."""
    parts = _parts(text)
    return tuple("".join(name) for pieces in parts for name in product(*map(_texts, pieces)))


@lru_cache(1 << 16)  # jobs are asked for their nodes in many places
def count_nodes(text: str) -> int:
    """Return how many nodes a list has; ValueError as of `expand`."""
    return _count(_parts(text))


# Of the name of a node: a text, or the numbers in a bracket and how many digits they have.
_Piece = str | list[tuple[range, int]]


def _parts(text: str) -> list[list[_Piece]]:
    parts = [_pieces(part) for part in _split(text) if part]
    if _count(parts) > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES} nodes")
    return parts


def _count(parts: Sequence[Sequence[_Piece]]) -> int:
    return sum(
        prod(sum(len(numbers) for numbers, _ in piece) for piece in pieces if not isinstance(piece, str))
        for pieces in parts
    )


def _split(text: str) -> Iterator[str]:
    """Yield what commas outside brackets separate."""
    depth, begin = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


def _pieces(part: str) -> list[_Piece]:
    found: list[_Piece] = []
    for place, piece in enumerate(re.split(r"\[([^\[\]]*)\]", part)):
        if place % 2:
            found.append([(_range(span), len(span.partition("-")[0])) for span in piece.split(",")])
        elif "[" in piece or "]" in piece:
            raise ValueError("a bracket without its other half")
        else:
            found.append(piece)
    if sum(len(piece) if isinstance(piece, str) else piece[-1][1] for piece in found) > _MOST_LETTERS:
        raise ValueError(f"names of at most {_MOST_LETTERS} letters")
    return found


def _texts(piece: _Piece) -> Sequence[str]:
    return (
        (piece,)
        if isinstance(piece, str)
        else [f"{number:0{digits}d}" for numbers, digits in piece for number in numbers]
    )


def _range(text: str) -> range:
    """Return the numbers of ``3``, ``5-7`` or ``0-8:2``; raises ValueError."""
    span = _SPAN.fullmatch(text)
    if span is None or int(span[2] or span[1]) < int(span[1]):
        raise ValueError(f"a number or a range that ascends, not {text[:20]!r}")
    return range(int(span[1]), int(span[2] or span[1]) + 1, int(span[3] or 1))


def ranges_of(text: str) -> tuple[tuple[int, int], ...]:
    """Return the (first, how many) of nodes such as ``0-15,32``, also with semicolons; ValueError says the expected form."""
    try:
        ranges = [_range(part.strip()) for part in re.split("[,;]", text)]
    except ValueError:
        ranges = []
    if not ranges or any(span.step != 1 or span.stop > MAX_NODES for span in ranges):
        raise ValueError(f"nodes below {MAX_NODES}, such as 0-15;32")
    return tuple([(span.start, len(span)) for span in ranges])


def ranges_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Return the text of which `ranges_of` makes these ranges."""
    return ";".join([str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in ranges])


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key by which n10 follows n9."""
    return tuple((text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", name[:256]))


def tasks_in(text: str) -> tuple[list[range], int]:
    """Return the tasks of ``1,3,5-7%2``, and how many may run at once (0: all); ValueError for tasks that no array has."""
    body, _, most = text.partition("%")
    found: list[range] = []
    for part in filter(None, body.split(",")):
        if len(part) < 7 and part.isascii() and part.isdigit():  # nearly always
            found.append(range(int(part), int(part) + 1))
            continue
        if _SPAN.fullmatch(part) is None:  # it is cut off with `...`
            break
        found.append(_range(part))
        if found[-1].stop > MOST_TASKS:
            raise ValueError(f"tasks below {MOST_TASKS}")
    return found, int(most) if most.isdecimal() else 0


# ---------------------------------------------------------------- amounts

_UNITS: Final = "KMGTPE"


@lru_cache(4096)  # few jobs of a log ask for an amount that no other one asks for
def amounts(text: str) -> Mapping[str, int]:
    """Return the amounts of ``cpu=4,mem=8G,gres/gpu:a100=1`` by their names, memory in MiB; raises ValueError."""
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.rpartition("=")
        whole = re.fullmatch(rf"([0-9]{{1,20}}(?:\.[0-9]{{1,6}})?)([{_UNITS}]?)", value, re.ASCII)
        if not name or whole is None:
            raise ValueError(text)
        unit = 1024 ** (_UNITS.index(whole[2]) + 1) if whole[2] else 1
        exact = int(whole[1]) if whole[1].isdigit() else float(whole[1])
        found[name] = round(exact * unit / (1 << 20)) if name == "mem" and whole[2] else round(exact * unit)
    return MappingProxyType(found)


# ---------------------------------------------------------------- values of both shapes


def number(value: Any) -> int | None:
    """Return an integer; None where it is not set, or infinite."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None or isinstance(value, str) else int(value)


def words_of(value: Any) -> Sequence[str]:
    """Return texts, of one or of a list."""
    if value is None or isinstance(value, bool):
        return ()
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]
