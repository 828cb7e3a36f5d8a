"""How checked values look on the wire: records as maps, lists of records, allocations, free values.

Reading is one loop over a record's precomputed fields; a path to the fault is only put together once there is a fault.
This module knows no message: the tables are in ``vocabulary``, the bytes in ``codec``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.protocol.limits import (
    INT64_MAX,
    INT64_MIN,
    MAX_DEPTH,
    MAX_MAP_ITEMS,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_THREADS,
)

Read: TypeAlias = Callable[[Any], Any]
Write: TypeAlias = Callable[[Any], Any]


class Fault(Exception):
    """A value that cannot be accepted; its path grows as the error travels outwards."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.path = ""

    def under(self, name: str) -> Fault:
        """Return this fault as seen from one level further out."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{name}{joint}{self.path}"
        return self


class Missing:
    """Type of the two marks below."""


ABSENT: Final = Missing()  # the map has no such key
REQUIRED: Final = Missing()  # the field has no default


class Field(NamedTuple):
    """One field of a record: how to check, read and write it."""

    name: str
    exact: type | None  # int or str: checked in place; None: ``read`` checks
    low: int  # smallest and largest integer accepted
    high: int
    read: Read | None
    write: Write | None  # None: written as it is
    default: object  # REQUIRED, or the value that an absent field has


class Record(NamedTuple):
    """A tuple type and its fields in order; ``tag`` is its ``type`` on the wire, None for a record inside another."""

    kind: Any
    tag: str | None
    fields: tuple[Field, ...]
    size: int  # keys of a map that holds every field
    plain_names: tuple[str, ...] | None  # keys in order, when every field is required and written as it is


def record(kind: Any, tag: str | None, *fields: Field) -> Record:
    """Return the record for NamedTuple ``kind``; TypeError if the fields are not exactly those of the tuple, in order."""
    names = tuple(field.name for field in fields)
    if names != kind._fields:
        raise TypeError(f"{kind.__name__} has fields {kind._fields}, not {names}")
    if tag is not None:
        names = ("type", *names)
    plain = all(field.write is None and field.default is REQUIRED for field in fields)
    return Record(kind, tag, fields, len(names), names if plain else None)


def integer(name: str, low: int = 0, high: int = INT64_MAX, default: object = REQUIRED) -> Field:
    """Return a field that holds an integer in [low, high]."""
    return Field(name, int, low, high, None, None, default)


def text(name: str, default: object = REQUIRED) -> Field:
    """Return a field that holds a string."""
    return Field(name, str, 0, 0, None, None, default)


def special(name: str, read: Read, write: Write | None = None, default: object = REQUIRED) -> Field:
    """Return a field that has a reader (and writer) of its own."""
    return Field(name, None, 0, 0, read, write, default)


def inner(name: str, of: Record) -> Field:
    """Return a field that holds one record."""
    return special(name, lambda raw: read_record(of, raw), lambda value: write_record(of, value))


def listed(name: str, of: Record, default: object = REQUIRED, least: int = 0) -> Field:
    """Return a field that holds a list of at least ``least`` records of one kind."""

    def read(raw: Any) -> tuple[Any, ...]:
        return _each(raw, lambda item: read_record(of, item), least)

    return special(name, read, lambda values: [write_record(of, value) for value in values], default)


def integers(name: str, low: int = 0, high: int = INT64_MAX, default: object = REQUIRED) -> Field:
    """Return a field that holds a list of integers in [low, high]."""
    check = checked_integer(low, high)
    return special(name, lambda raw: _each(raw, check), None, default)


def names(name: str, default: object = REQUIRED) -> Field:
    """Return a field that holds a list of names."""
    return special(name, lambda raw: _each(raw, read_name), None, default)


def union(name: str, tables: Mapping[str, Record], writers: Mapping[type, Record], unknown: Read | None) -> Field:
    """Return a field that holds a list of tagged records; ``unknown`` stands in for unknown tags, None refuses them."""

    def read(raw: Any) -> tuple[Any, ...]:
        if type(raw) is not tuple:
            refuse("a list", raw)
        result: list[Any] = []
        try:
            for item in raw:
                result.append(read_tagged(tables, item, unknown))  # noqa: PERF401 - the length tells the item at fault
        except Fault as fault:
            raise fault.under(f"[{len(result)}]")  # noqa: B904 - the same fault, one level out
        return tuple(result)

    def write(values: Any) -> list[dict[str, Any]]:
        return [write_record(writers[type(value)], value) for value in values]

    return special(name, read, write)


# ---------------------------------------------------------------- records


def read_record(of: Record, raw: Any) -> Any:
    """Return the tuple that map ``raw`` describes; raises Fault."""
    kind, _, fields, size, _ = of
    if type(raw) is not dict:
        refuse("a map", raw)
    get = raw.get
    values: list[Any] = []
    add = values.append
    absent = 0
    for name, exact, low, high, read, _, default in fields:
        value = get(name, ABSENT)
        if value is ABSENT:
            if default is REQUIRED:
                raise Fault("field", "required, but missing").under(name)
            absent += 1
            add(default)
        elif exact is int:
            if type(value) is not int or not low <= value <= high:
                _refuse_integer(low, high, value, name)
            add(value)
        elif exact is str:
            if type(value) is not str:
                refuse("a string", value, name)
            add(value)
        else:
            try:
                add(read(value))  # type: ignore[misc]  # a field without exact type has a reader
            except Fault as fault:
                raise fault.under(name)  # noqa: B904 - the same fault, one level out
    if len(raw) + absent != size:
        _read_unknown(of, raw)
    return tuple.__new__(kind, values)


def write_record(of: Record, value: Any) -> dict[str, Any]:
    """Return the map that describes ``value``, without the fields that are at their default."""
    _, tag, fields, _, plain_names = of
    if plain_names is not None:
        return dict(zip(plain_names, value if tag is None else (tag, *value), strict=True))
    raw: dict[str, Any] = {} if tag is None else {"type": tag}
    for (name, _, _, _, _, write, default), item in zip(fields, value, strict=True):
        if default is REQUIRED or item != default:
            raw[name] = item if write is None else write(item)
    return raw


def read_tagged(tables: Mapping[str, Record], raw: Any, unknown: Read | None) -> Any:
    """Return the tuple that map ``raw`` describes, by its ``type``; raises Fault."""
    if type(raw) is not dict:
        refuse("a map", raw)
    tag = raw.get("type")
    if type(tag) is not str:
        refuse("a type name", tag, "type")
    of = tables.get(tag)
    if of is not None:
        return read_record(of, raw)
    if unknown is None:
        raise Fault("unknown", f"unknown type {shown(tag)}").under("type")
    read_free(raw)
    return unknown(read_name(tag))


def _read_unknown(of: Record, raw: dict[str, Any]) -> None:
    """Check the fields that ``of`` does not know: they are ignored, but held to the limits."""
    _check_size(raw)
    known = {field.name for field in of.fields}
    for name, value in raw.items():
        if name not in known and not (name == "type" and of.tag is not None):
            read_free({name: value})


def _check_size(raw: dict[Any, Any]) -> None:
    if len(raw) > MAX_MAP_ITEMS:
        raise Fault("limit", f"a map of {len(raw)} entries; the limit is {MAX_MAP_ITEMS}")


# ---------------------------------------------------------------- values


def _each(raw: Any, read: Read, least: int = 0) -> tuple[Any, ...]:
    if type(raw) is not tuple:
        refuse("a list", raw)
    if len(raw) < least:
        raise Fault("field", f"expected at least {least} item{'s' if least > 1 else ''}, got {len(raw)}")
    result: list[Any] = []
    try:
        for item in raw:
            result.append(read(item))  # noqa: PERF401 - the length tells which item is at fault
    except Fault as fault:
        raise fault.under(f"[{len(result)}]")  # noqa: B904 - the same fault, one level out
    return tuple(result)


def checked_integer(low: int, high: int = INT64_MAX) -> Read:
    """Return a reader of integers in [low, high]."""

    def read(raw: Any) -> Any:
        if type(raw) is not int or not low <= raw <= high:
            _refuse_integer(low, high, raw)
        return raw

    return read


def optional(read: Read) -> Read:
    """Return a reader that also takes nil."""
    return lambda raw: None if raw is None else read(raw)


def read_flag(raw: Any) -> Any:
    """Return a truth value."""
    if type(raw) is not bool:
        refuse("true or false", raw)
    return raw


def read_name(raw: Any) -> Any:
    """Return a short string."""
    if type(raw) is not str:
        refuse("a string", raw)
    if len(raw.encode()) > MAX_NAME_BYTES:
        raise Fault("limit", f"a name of more than {MAX_NAME_BYTES} bytes")
    return raw


def one_of(words: frozenset[str]) -> Read:
    """Return a reader of one of ``words``."""
    expected = f"one of {', '.join(sorted(words))}"

    def read(raw: Any) -> Any:
        if type(raw) is not str or raw not in words:
            refuse(expected, raw)
        return raw

    return read


def read_demand(raw: Any) -> Any:
    """Return a demand: three rates in MB/s."""
    if type(raw) is not tuple or len(raw) != 3:
        refuse("a list of 3 integers", raw)
    return _each(raw, checked_integer(0))


def read_usage(raw: Any) -> Any:
    """Return a job's use of its nodes: class, three shares that make up a whole, and memory."""
    if type(raw) is not tuple or len(raw) != 5 or type(raw[0]) is not str or raw[0] not in ("cpu", "network", "disk"):
        refuse("a list of cpu, network or disk and 4 integers", raw)
    shares = _each(
        (0, *raw[1:]), checked_integer(0, WHOLE_PPM)
    )  # a 0 for the class: places in errors are those in `raw`
    if sum(shares[1:4]) != WHOLE_PPM:
        refuse("shares of cpu, network and disk that make up 1000000", raw)
    return raw


def read_self_slowdown(raw: Any) -> Any:
    """Return how a job slows itself down: two numbers of millionths above 0."""
    if type(raw) is not tuple or len(raw) != 2:
        refuse("a list of 2 integers", raw)
    return _each(raw, checked_integer(1))


def read_runs(raw: Any) -> Any:
    """Return an allocation: at least one run of ``[first_node, count, thread_mask, processes_per_node]``."""
    if type(raw) is not tuple or not raw:
        return _each(raw, _read_run, 1)
    for run in raw:
        if not _is_plain_run(run):
            return _each(raw, _read_run, 1)
    return raw


def _is_plain_run(raw: Any) -> bool:
    if type(raw) is not tuple or len(raw) != 4:
        return False
    first, count, mask, processes = raw
    return (
        type(first) is int
        and type(count) is int
        and type(mask) is int
        and type(processes) is int
        and 0 <= first < MAX_NODES
        and 1 <= count <= MAX_NODES
        and 1 <= mask <= INT64_MAX
        and 1 <= processes <= INT64_MAX
    )


def _read_run(raw: Any) -> Any:
    if _is_plain_run(raw):
        return raw
    if type(raw) is not tuple or len(raw) != 4:
        refuse("a list of 4 items", raw)
    first, count, mask, processes = raw
    if type(first) is not int or not 0 <= first < MAX_NODES:
        _refuse_integer(0, MAX_NODES - 1, first, "[0]")
    if type(count) is not int or not 1 <= count <= MAX_NODES:
        _refuse_integer(1, MAX_NODES, count, "[1]")
    if type(processes) is not int or not 1 <= processes <= INT64_MAX:
        _refuse_integer(1, INT64_MAX, processes, "[3]")
    return (first, count, _read_wide_mask(mask), processes)


def _read_wide_mask(raw: Any) -> int:
    """Return a thread mask that needs more than 63 bits: lower-case hexadecimal digits, no zero in front."""
    digits = raw if type(raw) is str else ""
    if not digits or digits[0] == "0" or len(digits) > MAX_THREADS // 4 or not set(digits) <= set("0123456789abcdef"):
        _refuse_integer(1, INT64_MAX, raw, "[2]")
    mask = int(digits, 16)
    if mask <= INT64_MAX:
        refuse("an integer, because the mask fits", raw, "[2]")
    return mask


def write_runs(runs: Any) -> Any:
    """Return an allocation as it is written: masks of nodes with more than 63 threads as hexadecimal text."""
    for run in runs:
        if run[2] > INT64_MAX:
            return [[first, count, mask if mask <= INT64_MAX else f"{mask:x}", ppn] for first, count, mask, ppn in runs]
    return runs


def read_value(raw: Any) -> Any:
    """Return the value of a note: nil, a truth value, a number, a string, or lists of them."""
    return read_free(raw, maps=False)


def read_pairs(raw: Any) -> Any:
    """Return parameters: a list of ``[name, value]``, with values as in notes."""
    return _each(raw, _read_pair)


def _read_pair(raw: Any) -> Any:
    if type(raw) is not tuple or len(raw) != 2:
        refuse("a list of name and value", raw)
    return (read_name(raw[0]), read_value(raw[1]))


def read_free(raw: Any, maps: bool = True, depth: int = 0) -> Any:
    """Return ``raw``, once it has been held to the limits; Fault otherwise."""
    kind = type(raw)
    if raw is None or kind is bool or kind is str:
        return raw
    if kind is int:
        if not INT64_MIN <= raw <= INT64_MAX:
            _refuse_integer(INT64_MIN, INT64_MAX, raw)
        return raw
    if kind is float:
        if not math.isfinite(raw):
            refuse("a finite number", raw)
        return raw
    if depth == MAX_DEPTH and kind in (tuple, dict):
        raise Fault("limit", f"more than {MAX_DEPTH} levels of nesting")
    if kind is tuple:
        return _each(raw, lambda item: read_free(item, maps, depth + 1))
    if kind is dict and maps:
        _check_size(raw)
        for name, item in raw.items():
            read_name(name)
            try:
                read_free(item, maps, depth + 1)
            except Fault as fault:
                raise fault.under(name)  # noqa: B904 - the same fault, one level out
        return raw
    return refuse("nil, true, false, a number, a string or a list", raw)


# ---------------------------------------------------------------- words for people


def refuse(expected: str, got: Any, name: str = "") -> NoReturn:
    """Raise the Fault that tells what was expected and what came."""
    fault = Fault("field", f"expected {expected}, got {shown(got)}")
    raise fault.under(name) if name else fault


def _refuse_integer(low: int, high: int, got: Any, name: str = "") -> NoReturn:
    if high < INT64_MAX:
        refuse(f"an integer in {low} .. {high}", got, name)
    if low > INT64_MIN and not (type(got) is int and got > high):
        refuse(f"an integer >= {low}", got, name)
    refuse("an integer of 64 bits", got, name)


def shown(value: Any) -> str:
    """Return a short text for any value that came off the wire."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value if len(value) <= 40 else value[:37] + "...")
        case tuple() | list():
            return "a list"
        case dict():
            return "a map"
        case bytes():
            return "binary data"
        case _:
            return "an extension type"
