"""Reading a decision trace: JSON lines, each checked as far as the program relies on it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cosched_emulator.errors import InputError

Record = Mapping[str, Any]

# Kind -> fields that its records must have, all whole numbers.
_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "start": ("job", "submit_us", "processes", "estimate_us", "expected_us"),
    "reserve": ("job", "shadow_us"),
    "promise": ("job",),
    "suspend": ("job",),
    "resume": ("job",),
}
# Fields that a record may have, whatever its kind. A policy of somebody else's may say more, under other names.
_OPTIONAL: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    **dict.fromkeys(
        ("waiting", "free_threads", "promised_us", "host", "chosen_by", "partner"), ("a whole number", (int,))
    ),
    **dict.fromkeys(("factor", "slowdown", "measured_slowdown", "profit"), ("a number", (int, float))),
    **dict.fromkeys(("reason", "no_search"), ("a text", (str,))),
}


def read_trace(file: str) -> Iterator[Record]:
    """Yield the records of a trace; InputError with the line where it is not one. Records of kinds unknown here are let through."""
    number = 0
    try:
        with open(file, "rb") as stream:
            for number, line in enumerate(stream, 1):
                yield _record(file, number, line)
    except OSError as error:
        raise InputError(file, "a file that can be read", error.strerror or str(error)) from error
    if not number:
        raise InputError(file, "a decision trace", "an empty file")


def _record(file: str, number: int, line: bytes) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # also bytes that are no text
        whole = line.endswith(b"\n")
        got = "something else" if whole else "a line without an end: the file is cut off"
        raise InputError(file, "a record in JSON", got, number) from error
    if not isinstance(record, dict):
        raise InputError(file, "a record in JSON", type(record).__name__, number)
    kind = record.get("kind")
    if not isinstance(kind, str):
        raise InputError(file, "a text", repr(kind), number, "kind")
    for field in ("at_us", *_NUMBERS.get(kind, ())):
        if type(record.get(field)) is not int:
            raise InputError(file, "a whole number", repr(record.get(field)), number, field)
    _check_optional(file, number, record)
    if kind == "start":
        if not _is_numbers(record.get("together", [])):
            raise InputError(file, "numbers of jobs", None, number, "together")
        if not _is_runs(record.get("runs")):
            raise InputError(file, "[[first node, count, thread mask, processes], ...]", None, number, "runs")
        for field in ("partners", "hosts"):
            if field in record:
                if not _is_search(record[field]):
                    raise InputError(file, "an account of a search", None, number, field)
                _check_optional(file, number, record[field])
    return record


def _check_optional(file: str, number: int, record: Record) -> None:
    for field, (expected, types) in _OPTIONAL.items():
        if field in record and type(record[field]) not in types:
            raise InputError(file, expected, repr(record[field]), number, field)


def _is_runs(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(_is_numbers(run) and len(run) == 4 and run[1] > 0 and run[2] > 0 for run in value)
    )


def _is_search(value: object) -> bool:
    """Tell whether ``value`` says what was left, what removed the others, and what came of it."""
    if not isinstance(value, dict):
        return False
    left, removed, candidates = value.get("left"), value.get("removed"), value.get("candidates")
    if not (isinstance(left, dict) and isinstance(removed, dict) and isinstance(candidates, list)):
        return False
    profits = value.get("profits")
    is_compared = isinstance(profits, list) and len(profits) == len(candidates) and all(map(_is_profit, profits))
    taken = value.get("partner", value.get("host"))
    return (
        "all" in left
        and _is_numbers([*left.values(), *candidates])
        and all(map(_is_numbers, removed.values()))
        and (profits is None or is_compared)
        and (taken is None or taken in candidates)
    )


def _is_profit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
