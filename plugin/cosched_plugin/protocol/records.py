"""Records: a tuple type's form as a map of fields, with reading and writing of such maps.

Reading is one loop over a record's precomputed fields; a path is built only once there is a fault.
This module does not know any message: the tables are in ``vocabulary``, the bytes in ``codec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cosched_plugin.protocol.faults import Fault, refuse, refuse_integer, show
from cosched_plugin.protocol.limits import INT64_MAX
from cosched_plugin.protocol.values import Read, Write, check_size, integer_reader, read_each, read_free, read_name


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


def records(name: str, of: Record, default: object = REQUIRED, least: int = 0) -> Field:
    """Return a field that holds a list of at least ``least`` records of one kind."""

    def read(raw: Any) -> tuple[Any, ...]:
        return read_each(raw, lambda item: read_record(of, item), least)

    return special(name, read, lambda values: [write_record(of, value) for value in values], default)


def integers(name: str, low: int = 0, high: int = INT64_MAX, default: object = REQUIRED) -> Field:
    """Return a field that holds a list of integers in [low, high]."""
    check = integer_reader(low, high)
    return special(name, lambda raw: read_each(raw, check), None, default)


def names(name: str, default: object = REQUIRED) -> Field:
    """Return a field that holds a list of names."""
    return special(name, lambda raw: read_each(raw, read_name), None, default)


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
                refuse_integer(low, high, value, name)
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
        raise Fault("unknown", f"unknown type {show(tag)}").under("type")
    read_free(raw)
    return unknown(read_name(tag))


def _read_unknown(of: Record, raw: dict[str, Any]) -> None:
    """Check the fields that ``of`` does not know: they are ignored, but must respect the limits."""
    check_size(raw)
    known = {field.name for field in of.fields}
    for name, value in raw.items():
        if name not in known and not (name == "type" and of.tag is not None):
            read_free({name: value})
