"""What Slurm's REST interface and its accounting write alike: states of jobs, lists of nodes and tasks, numbers in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

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


def swf_status(state: str) -> int:
    """Return the status of an ended job in a log: 1 completed, 5 cancelled, 0 failed for whatever reason."""
    return {COMPLETED: 1, CANCELLED: 5}.get(ENDED[state], 0)


# ---------------------------------------------------------------- names of nodes


def expand(text: str) -> tuple[str, ...]:
    """Return the nodes of a list such as ``n[0-3,7],m1``, in its order."""
    return tuple(name for part in _split(text) for name in _expanded(part))


def _split(text: str) -> Iterator[str]:
    """Yield what commas outside brackets separate."""
    depth, begin = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


def _expanded(part: str) -> Iterator[str]:
    found = re.fullmatch(r"([^\[\]]*)\[([^\]]*)\](.*)", part)
    if found is None:
        if part:
            yield part
        return
    head, inside, tail = found.groups()
    for span in inside.split(","):
        low, _, high = span.partition("-")
        for number in range(int(low), int(high or low) + 1):
            yield from _expanded(f"{head}{number:0{len(low)}d}{tail}")


def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key by which n10 follows n9."""
    return tuple((text, int(digits or -1)) for text, digits in re.findall(r"(\D*)(\d*)", name))


def tasks_in(text: str) -> tuple[list[int], int]:
    """Return the tasks of ``1,3,5-7%2``, and how many may run at once (0: all)."""
    body, _, most = text.partition("%")
    found: list[int] = []
    for part in filter(None, body.split(",")):
        span = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if span is None:  # it is cut off with `...`
            break
        low = int(span[1])
        found.extend(range(low, int(span[2] or low) + 1, int(span[3] or 1)))
    return found, int(most) if most.isdigit() else 0


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
