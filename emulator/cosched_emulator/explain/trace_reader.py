"""Reads a decision trace: JSON lines, each checked as far as the program relies on it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from reprlib import repr as short_repr  # damaged data may be long, or deeply nested
from typing import Any, Final

from cosched_emulator.errors import InputError, os_errors
from cosched_plugin.protocol.limits import INT64_MAX, MAX_THREADS

Record = Mapping[str, Any]

# Kind -> fields that its records must have, all whole numbers.
_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "start": ("job", "submit_us", "processes", "estimate_us", "expected_us"),
    "reserve": ("job", "shadow_us"),
    "promise": ("job",),
    "suspend": ("job",),
    "resume": ("job",),
    "reject": ("job",),
    "expect": ("job", "response_us"),
    "wait": ("job",),
    "slice": ("end_us",),
    "rotation": ("quantum",),
    "slot": ("job", "slot"),
    "turn": ("quantum",),
    "sharp_change": ("job", "share_ppm", "before_ppm"),
}
# Fields that a record of any kind may have. A third-party policy may add fields under other names.
_OPTIONAL: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    **dict.fromkeys(
        (
            "waiting",
            "free_threads",
            "promised_us",
            "host",
            "chosen_by",
            "partner",
            "unfair_to",
            "refused_groups",
            "slot",
            "out_of",
            "share_ppm",
            "least_ppm",
            "below_ppm",
            "other",
            "other_ppm",
        ),
        ("a whole number", (int,)),
    ),
    "new_row": ("true or false", (bool,)),
    **dict.fromkeys(("factor", "slowdown", "measured_slowdown", "profit"), ("a number", (int, float))),
    **dict.fromkeys(("reason", "no_search", "alone"), ("a text", (str,))),
}
_OF_GROUP: Final = ("primary", "candidates", "tried")  # whole numbers
_NUMBER: Final = "a finite number, a whole one of at most 63 bits"
# Valid JSON that cannot be printed or calculated with contains one of these; few good lines do.
_SUSPECT: Final = re.compile(r"NaN|Infinity|[0-9]{19}|[0-9][eE]\+?[0-9]{2}|\\u[dD][89a-fA-F]")


def read_trace(file: str, warn: Callable[[str], None] | None = None) -> Iterator[Record]:
    """Yield the records of a trace; InputError with the line for an invalid record. Records of unknown kinds are accepted.

    A truncated last line, as a killed run leaves it, is left out; ``warn`` is called with a message. An empty file has no record: the
    scheduler decided nothing.
    """
    with os_errors(file):
        if Path(file).exists() and not Path(file).is_file():  # reading a pipe could block for ever
            raise InputError(file, "a regular file")
        with open(file, "rb") as stream:
            for number, line in enumerate(stream, 1):
                record = _parse(file, number, line)
                if record is not None:
                    _check(file, number, record)
                    yield record
                elif warn is not None:
                    warn(f"{file}:{number}: the last line is cut off and was left out")


def _parse(file: str, number: int, line: bytes) -> Record | None:
    """Return a line's record, of which only numbers and texts are checked; None for a truncated line."""
    try:
        text = line.decode()
        record = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        if not line.endswith(b"\n"):
            return None
        raise InputError(file, "a record in JSON", "something else", number) from error
    except RecursionError as error:
        raise InputError(file, "a record in JSON", "one nested too deeply", number) from error
    except ValueError as error:  # Python converts no numbers of thousands of digits
        raise InputError(file, _NUMBER, "one of thousands of digits", number) from error
    if not isinstance(record, dict):
        raise InputError(file, "a record in JSON", type(record).__name__, number)
    if _SUSPECT.search(text):
        _check_values(file, number, record)
    return record


def _check_values(file: str, number: int, record: Record) -> None:
    """Refuse numbers that are not finite or too large, and texts with lone surrogates, at any depth."""
    left: list[tuple[str, Any]] = [("", record)]
    while left:
        field, value = left.pop()
        match value:
            case dict():
                left.extend((f"{field}.{key}".lstrip("."), item) for key, item in value.items())
                left.extend((field, key) for key in value)
            case list():
                left.extend((field, item) for item in value)
            case str() if not value.isascii() and not _is_text(value):
                raise InputError(file, "a text", ascii(value[:40]), number, field and ascii(field)[1:-1])
            case float() if not math.isfinite(value):
                raise InputError(file, _NUMBER, str(value), number, field)
            case int() if value.bit_length() > (MAX_THREADS if field == "runs" else 63):  # it has thread masks
                raise InputError(file, _NUMBER, short_repr(value), number, field)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(file: str, number: int, record: Record) -> None:
    """Refuse a record without a field that its kind requires, or with a field of a wrong type."""
    kind = record.get("kind")
    if not isinstance(kind, str):
        raise InputError(file, "a text", short_repr(kind), number, "kind")
    for field in ("at_us", *_NUMBERS.get(kind, ())):
        if type(record.get(field)) is not int:
            raise InputError(file, "a whole number", short_repr(record.get(field)), number, field)
    _check_optional(file, number, record)
    if kind in ("reject", "wait") and "reason" not in record:
        raise InputError(file, "a text", "nothing", number, "reason")
    if kind == "promise" and type(record.get("start_us", "")) not in (int, type(None)):
        got = short_repr(record["start_us"]) if "start_us" in record else "nothing"
        raise InputError(file, "a whole number or null", got, number, "start_us")
    if kind == "turn" and not _is_turn(record):
        raise InputError(file, "an account of a turn: slots, jobs, shares_ppm and guests", None, number)
    if kind == "start" and "group" in record and not _is_group(record["group"], record["job"]):
        raise InputError(file, "an account of a group", None, number, "group")
    if kind == "start":
        for field, things in (("together", "jobs"), ("full_rows", "rows"), ("closed_rows", "rows")):
            if not _is_numbers(record.get(field, [])):
                raise InputError(file, f"numbers of {things}", None, number, field)
        if not _is_asks(record.get("asks", {})):
            raise InputError(file, "an account of what a job asks for", None, number, "asks")
        if not _is_runs(record.get("runs")):
            raise InputError(file, "[[first node, count, thread mask, processes], ...]", None, number, "runs")
        for field in ("partners", "hosts"):
            if field in record:
                if not _is_search(record[field]):
                    raise InputError(file, "an account of a search", None, number, field)
                _check_optional(file, number, record[field])


def _check_optional(file: str, number: int, record: Record) -> None:
    for field, (expected, types) in _OPTIONAL.items():
        if field in record and type(record[field]) not in types:
            raise InputError(file, expected, short_repr(record[field]), number, field)
        if field in record and types == (int, float) and abs(record[field]) > INT64_MAX:
            raise InputError(file, f"{expected} of at most 63 bits", short_repr(record[field]), number, field)


def _is_runs(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(_is_numbers(run) and len(run) == 4 and run[1] > 0 and run[2] > 0 for run in value)
        and all(max(first, count, processes) <= INT64_MAX for first, count, _mask, processes in value)
    )


def _is_asks(value: object) -> bool:
    """Return whether ``value`` has memory, amounts and nodes that a job asks for, or some of them, and what it is apart from."""
    if not isinstance(value, dict):
        return False
    amounts = [value.get(name, {}) for name in ("resources", "licences")]
    apart = value.get("apart", {})
    return (
        all(isinstance(item, dict) and _is_numbers([*item.values()]) for item in amounts)
        and isinstance(apart, dict)
        and all(_is_spans(nodes) for nodes in (value.get("nodes", []), *apart.values()))
        and _is_numbers([value.get("memory_mb", 0)])
    )


def _is_spans(nodes: object) -> bool:
    """Return whether these are nodes, as (first, number)."""
    return isinstance(nodes, list) and all(
        _is_numbers(run) and len(run) == 2 and run[1] > 0 and max(run) <= INT64_MAX for run in nodes
    )


def _is_search(value: object) -> bool:
    """Return whether ``value`` has the candidates left, the reasons for the others, and the result of a search."""
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


def _is_group(value: object, job: int) -> bool:
    """Return whether ``value`` has the members of a starting job's group, and how the group was found."""
    if not isinstance(value, dict):
        return False
    matched, running, gain = (value.get(key, ()) for key in ("matched", "running", "gain"))
    if not (_is_numbers(matched) and _is_numbers(running) and _is_numbers([value.get(key) for key in _OF_GROUP])):
        return False
    members = {value["primary"], *matched}
    is_whole = len(matched) > 0 and job in members and members.issuperset(running)
    return is_whole and _is_profit(gain) and abs(gain) <= INT64_MAX


def _is_turn(record: Record) -> bool:
    """Return whether a turn has its rows with the jobs and the largest share of each, and the alternates with their shares."""
    slots, jobs, shares, guests = (record.get(key, ()) for key in ("slots", "jobs", "shares_ppm", "guests"))
    return (
        _is_numbers(slots)
        and isinstance(jobs, list)
        and isinstance(guests, list)
        and all(_is_numbers(row) and row for row in jobs)
        and _is_numbers(shares)
        and 1 <= len(slots) == len(jobs) == len(shares)
        and all(_is_numbers(guest) and len(guest) == 2 for guest in guests)
    )


def _is_profit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
