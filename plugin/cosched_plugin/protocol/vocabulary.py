"""Every message, event and action of ``messages`` as a map on the wire, by the annotations of its tuple.

PROTOCOL.md says what they mean; ``fields`` has the marks of annotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, cast, get_args, get_origin

from cosched_hwmodel.composite.job_profile import MOST, Profile, ProfileError, checked
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol import values as v
from cosched_plugin.protocol.errors import Fault, refuse, show
from cosched_plugin.protocol.fields import SPARSE, Form, Inline, Items, Range
from cosched_plugin.protocol.limits import MAX_ARRAY_ITEMS, MAX_NODES, MAX_THREADS


class Missing:
    """Type of the mark below."""


REQUIRED: Final = Missing()  # the field has no default


class Field(NamedTuple):
    """One field of a record: how to check, read and write it."""

    name: str
    exact: type | None  # int or str: checked in place; None: ``read`` checks
    low: int  # smallest and largest integer accepted
    high: int
    read: v.Read
    write: v.Write | None  # None: written as it is
    nil: bool  # None is a value, too
    default: object  # REQUIRED, or the value that an absent field has


class Record:
    """A tuple type and its form; ``tag`` is its ``type`` on the wire, None for a record inside another."""

    __slots__ = ("fields", "kind", "read", "tag", "write")

    def __init__(self, kind: Any, tag: str | None, fields: tuple[Field, ...]) -> None:
        self.kind = kind
        self.tag = tag
        self.fields = fields
        self.read: v.Read = self._first_read
        self.write: Callable[[Any], dict[str, Any]] = self._first_write

    # `read` returns the tuple that a map describes, or raises Fault; `write` the map, without the fields that are at their default.

    def _first_read(self, raw: Any) -> Any:
        self.read = _reader(self)
        return self.read(raw)

    def _first_write(self, value: Any) -> dict[str, Any]:
        self.write = _writer(self)
        return self.write(value)


# ---------------------------------------------------------------- from annotations to records


@cache
def record(kind: Any, tag: str | None = None) -> Record:
    """Return the record of a NamedTuple; TypeError for an annotation that says no form."""
    return _record(kind, tag, kind.__annotations__)


def _record(kind: Any, tag: str | None, hints: Mapping[str, Any]) -> Record:
    for hint in hints.values():
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Inline):
                return _inlined(kind, tag, hint.__origin__, mark)
    return Record(kind, tag, tuple(_field(kind, name, hint) for name, hint in hints.items()))


def _inlined(kind: Any, tag: str | None, inner: Any, mark: Inline) -> Record:
    """Return the record of a tuple that begins with an ``inner`` one, whose fields stand in the same map."""
    told = [name for name in inner._fields if name not in mark.without]
    absent = {name: inner._field_defaults.get(name, 0) for name in mark.without}
    fields = [_field(inner, name, inner.__annotations__[name]) for name in told]
    fields += [_field(kind, name, kind.__annotations__[name]) for name in kind._fields[1:]]
    flat, whole = Record(tuple, tag, tuple(fields)), Record(kind, tag, tuple(fields))
    values_of = attrgetter(*told)

    def read(raw: Any) -> Any:
        values = flat.read(raw)
        return kind(inner(**absent, **dict(zip(told, values, strict=False))), *values[len(told) :])

    whole.read = read
    whole.write = lambda value: flat.write((*values_of(value[0]), *value[1:]))
    return whole


class _Way(NamedTuple):
    """How a value of one type travels."""

    exact: type | None
    low: int
    high: int
    read: v.Read
    write: v.Write | None
    nil: bool = False


def _field(kind: Any, name: str, hint: Any) -> Field:
    if name in kind._field_defaults:
        default = kind._field_defaults[name]
    elif type(None) in get_args(hint):
        default = None
    else:
        default = () if SPARSE in getattr(hint, "__metadata__", ()) else REQUIRED
    return Field(name, *_way(hint), default)


def _way(hint: Any) -> _Way:
    """Return how a value with this annotation travels."""
    if hint is int:
        return _way_of_integers(Range(0))
    if hint is str:
        return _Way(str, 0, 0, v.read_text, None)
    if hint is bool:
        return _special(v.read_flag)
    if hint is Profile:
        return _special(_read_profile, _nested(_PROFILE)[1])
    if hasattr(hint, "_fields"):
        return _special(*_nested(record(hint)))
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _marked(args[0], args[1:])
    if origin is tuple and args[1:] == (...,):
        return _list(args[0], Items())
    if origin is tuple:
        ways = [_way(item) for item in args]
        items = "integers" if all(way.exact is int for way in ways) else "items"
        return _special(v.row_reader(f"a list of {len(ways)} {items}", [way.read for way in ways]))
    if origin in (Union, UnionType) and args[1:] == (type(None),):
        way = _way(args[0])
        write = way.write
        if write is not None:
            write = partial(_write_optional, write)
        return way._replace(read=v.optional(way.read), write=write, nil=True)
    raise TypeError(f"no form for {hint}")


def _nested(of: Record) -> tuple[v.Read, v.Write]:
    """Return how a record inside another is read and written, by what is made for it when it is first wanted."""

    def read(raw: Any) -> Any:
        return of.read(raw)

    def write(value: Any) -> Any:
        return of.write(value)

    return read, write


def _write_optional(write: v.Write, value: Any) -> Any:
    return None if value is None else write(value)


def _marked(base: Any, marks: Sequence[Any]) -> _Way:
    for mark in marks:
        match mark:
            case Range():
                return _way_of_integers(mark)
            case Form(name):
                return _FORMS[name]
            case Items():
                return _list(get_args(base)[0], mark)
            case frozenset():
                return _special(v.one_of(mark))
    return _way(base)


def _way_of_integers(span: Range) -> _Way:
    return _Way(int, *span, v.integer_reader(*span), None)


def _special(read: v.Read, write: v.Write | None = None) -> _Way:
    return _Way(None, 0, 0, read, write)


def _list(item: Any, items: Items) -> _Way:
    """Return how a list travels: of values of one kind, or of records with tags."""
    if get_origin(item) is UnionType:
        return _tagged(get_args(item), items.most or MAX_ARRAY_ITEMS)
    way = _way(item)
    least, most = items

    def read(raw: Any) -> tuple[Any, ...]:
        if most and type(raw) is tuple and len(raw) > most:
            raise Fault("limit", f"{len(raw)} items; the limit is {most}")
        return v.read_each(raw, way.read, least)

    write = way.write
    return _special(read, write and (lambda values: [write(value) for value in values]))


def _tagged(kinds: Sequence[Any], most: int) -> _Way:
    """Return how a list of up to ``most`` records with tags travels; `UnknownAction` among them stands in for unknown tags."""
    tables, writers = by_tag(kinds), by_kind(kinds)
    unknown = m.UnknownAction if m.UnknownAction in kinds else None

    def read(raw: Any) -> tuple[Any, ...]:
        if type(raw) is not tuple:
            refuse("a list", raw)
        if len(raw) > most:
            raise Fault("limit", f"{len(raw)} items; the limit is {most}")
        try:
            return tuple([tables[item["type"]].read(item) for item in raw])  # nearly always; what follows finds errors
        except (KeyError, TypeError, Fault):
            result: list[Any] = []
        try:
            for item in raw:
                result.append(read_tagged(tables, item, unknown))  # noqa: PERF401 - the length tells the item at fault
        except Fault as fault:
            raise fault.under(f"[{len(result)}]")  # noqa: B904 - the same fault, one level out
        return tuple(result)

    return _special(read, lambda values: [writers[type(value)].write(value) for value in values])


# ---------------------------------------------------------------- reading and writing
#
# The code that reads and writes a record is made from its fields when it is first wanted, as `dataclasses` makes methods: a loop over
# the fields takes two to three times as long, and messages are most of the time between two processes. What is made accepts the
# expected form alone; all else is read once more by the loop, which says what is wrong.


def _made(lines: Sequence[str], names: Mapping[str, Any]) -> Any:
    made = dict(names)
    exec("\n".join(lines), made)
    return made["made"]


def _reader(of: Record) -> v.Read:
    names: dict[str, Any] = {"Fault": Fault, "new": tuple.__new__, "kind": of.kind, "slow": partial(_read_slowly, of)}
    required: list[int] = []
    optional_: list[int] = []
    for place, field in enumerate(of.fields):
        names[f"d{place}"], names[f"r{place}"] = field.default, field.read
        (required if field.default is REQUIRED else optional_).append(place)
    known = len(required) + (of.tag is not None)
    lines = ["def made(raw):", " try:", "  size = len(raw)"]
    if not required:  # otherwise what is no map has none of these
        lines[1:1] = [" if type(raw) is not dict:", "  return slow(raw)"]
    for place in required:
        lines += [f"  v{place} = raw[{of.fields[place].name!r}]", *_check(of.fields[place], place, "  ")]
    lines.append(f"  found = {known}")
    for place in optional_:
        lines += [
            *_return_if_all(of, place, "  "),
            f"  v{place} = raw.get({of.fields[place].name!r}, d{place})",
            f"  if v{place} is not d{place}:",
            "   found += 1",
            *_check(of.fields[place], place, "   "),
        ]
    lines += [
        *_return_if_all(of, len(of.fields), "  "),
        " except (KeyError, TypeError, Fault):",
        "  pass",
        " return slow(raw)",
    ]
    return cast("v.Read", _made(lines, names))


def _check(field: Field, place: int, indent: str) -> list[str]:
    value = f"v{place}"
    if field.exact is int:
        wrong = f"type({value}) is not int or not {field.low} <= {value} <= {field.high}"
    elif field.exact is str:
        wrong = f"type({value}) is not str"
    else:
        return [f"{indent}{value} = r{place}({value})"]
    unless = f"{value} is not None and ({wrong})" if field.nil else wrong
    return [f"{indent}if {unless}:", f"{indent} return slow(raw)"]


def _return_if_all(of: Record, place: int, indent: str) -> list[str]:
    """Return the lines that end where every entry of the map was read, before the field at ``place``: the rest is at its default."""
    values = [f"v{at}" if at < place or of.fields[at].default is REQUIRED else f"d{at}" for at in range(len(of.fields))]
    return [f"{indent}if found == size:", f"{indent} return new(kind, ({''.join(f'{value}, ' for value in values)}))"]


def _read_slowly(of: Record, raw: Any) -> Any:
    """Read a record field by field; raises Fault for the first one that is not as it should be."""
    if type(raw) is not dict:
        refuse("a map", raw)
    values: list[Any] = []
    absent = 0
    for field in of.fields:
        value = raw.get(field.name, REQUIRED)
        try:
            if value is not REQUIRED:
                values.append(field.read(value))
                continue
            if field.default is REQUIRED:
                raise Fault("field", "required, but missing")
        except Fault as fault:
            raise fault.under(field.name)  # noqa: B904 - the same fault, one level out
        absent += 1
        values.append(field.default)
    if len(raw) + absent != len(of.fields) + (of.tag is not None):
        _read_unknown(of, raw)
    return tuple.__new__(of.kind, values)


_GROUP: Final = 3  # fields that are compared with their defaults together, which most of them have


def _writer(of: Record) -> Callable[[Any], dict[str, Any]]:
    defaults = tuple(field.default for field in of.fields)
    names: dict[str, Any] = {}
    count = len(defaults)
    head = next((place for place in range(count) if defaults[place] is not REQUIRED), count)
    near = min(head + _GROUP, count)  # what follows is unpacked only where something there has another value
    pairs = [] if of.tag is None else [f"'type': {of.tag!r}"]
    pairs += [f"{of.fields[place].name!r}: {_written(of.fields[place], place, names)}" for place in range(head)]
    lines = ["def made(value):", _unpacked(0, near, " ", whole=near == count), f" raw = {{{', '.join(pairs)}}}"]
    for begin in range(head, count, _GROUP):
        end = min(begin + _GROUP, count)
        if begin == near:
            names["rest"] = defaults[near:]
            lines.append(f" if value[{near}:] == rest:")
            lines.append("  return raw")
        indent = " "
        if end - begin > 2:
            names[f"g{begin}"] = defaults[begin:end]
            lines.append(f" if value[{begin}:{end}] != g{begin}:")
            indent = "  "
        if begin >= near:
            lines.append(_unpacked(begin, end, indent))
        for place in range(begin, end):
            names[f"d{place}"] = defaults[place]
            field = of.fields[place]
            condition = "" if defaults[place] is REQUIRED else f"if v{place} != d{place}: "
            lines.append(f"{indent}{condition}raw[{field.name!r}] = {_written(field, place, names)}")
    made: Callable[[Any], dict[str, Any]] = _made([*lines, " return raw"], names)
    return made


def _unpacked(begin: int, end: int, indent: str, *, whole: bool = False) -> str:
    values = "".join(f"v{place}, " for place in range(begin, end))
    return f"{indent}{values} = value{'' if whole else f'[{begin}:{end}]'}" if values else f"{indent}pass"


def _written(field: Field, place: int, names: dict[str, Any]) -> str:
    if field.write is None:
        return f"v{place}"
    names[f"w{place}"] = field.write
    return f"w{place}(v{place})"


def read_tagged(tables: Mapping[str, Record], raw: Any, unknown: v.Read | None) -> Any:
    """Return the tuple that map ``raw`` describes, by its ``type``; ``unknown`` stands in for unknown tags, None refuses them."""
    if type(raw) is not dict:
        refuse("a map", raw)
    tag = raw.get("type")
    if type(tag) is not str:
        refuse("a type name", tag, "type")
    of = tables.get(tag)
    if of is not None:
        return of.read(raw)
    if unknown is None:
        raise Fault("unknown", f"unknown type {show(tag)}").under("type")
    v.read_free(raw)
    return unknown(v.read_name(tag))


def _read_unknown(of: Record, raw: dict[str, Any]) -> None:
    """Check the fields that ``of`` does not know: they are ignored, but must respect the limits."""
    v.check_size(raw)
    known = {field.name for field in of.fields}
    for name, value in raw.items():
        if name not in known and not (name == "type" and of.tag is not None):
            v.read_free({name: value})


# ---------------------------------------------------------------- forms of their own


def _read_profile(raw: Any) -> Any:
    """Return a job's profile; Fault where its fields contradict each other."""
    profile = _PROFILE.read(raw)
    try:
        return checked(profile)
    except ProfileError as error:
        raise Fault("field", error.text).under(error.where) from None


def _read_classes(raw: Any) -> Any:
    """Return the node classes of a machine; Fault if the machine as a whole exceeds the limits."""
    classes = _CLASSES.read(raw)
    for index, item in enumerate(classes):
        if item.threads > MAX_THREADS:
            raise Fault("limit", f"{item.threads} hardware threads a node; the limit is {MAX_THREADS}").under(
                f"[{index}]"
            )
    nodes = sum([item.nodes for item in classes])
    if nodes > MAX_NODES:
        raise Fault("limit", f"{nodes} nodes in all; the limit is {MAX_NODES}")
    return classes


def _write_classes(classes: Any) -> Any:
    return [record(m.NodeClass).write(item) for item in classes]


# Issue slots are relative to a core; the bounds are those of the hardware model.
_PROFILE: Final = _record(Profile, None, {name: Annotated[int, Range(0, most)] for name, most in MOST.items()})
_FORMS: Final[Mapping[str, _Way]] = {
    "amounts": _special(v.read_amounts),
    "classes": _special(_read_classes, _write_classes),
    "filled": _special(v.read_filled),
    "name": _special(v.read_name, v.read_name),
    "pairs": _special(v.read_pairs, v.read_pairs),
    "runs": _special(v.read_runs, v.write_runs),
    "usage": _special(v.read_usage),
    "value": _special(v.read_value, v.read_value),
}


_CLASSES: Final = _list(m.NodeClass, Items(1))


# ---------------------------------------------------------------- the tables: by ``type`` on the wire, and by Python type


def tag_of(kind: type) -> str:
    """Return the ``type`` of a message, event or action on the wire."""
    if kind is m.ErrorReport:
        return "error"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def by_kind(kinds: Sequence[Any]) -> dict[type, Record]:
    """Return the records of kinds with tags; no scheduler makes an unknown action, but a manager records what it has received."""
    return {kind: record(kind, None if kind is m.UnknownAction else tag_of(kind)) for kind in kinds}


def by_tag(kinds: Sequence[Any]) -> dict[str, Record]:
    """Return the same records by their tags."""
    return {of.tag: of for of in by_kind(kinds).values() if of.tag is not None}


JOB: Final = record(m.JobSpec)
EVENTS_BY_TAG: Final = by_tag(get_args(m.Event))
ACTIONS_BY_TAG: Final = by_tag(get_args(m.Action))
ACTIONS_BY_KIND: Final = by_kind(get_args(m.Action))
MESSAGES_BY_TAG: Final = by_tag(get_args(m.Message))
MESSAGES_BY_KIND: Final = by_kind(get_args(m.Message))
