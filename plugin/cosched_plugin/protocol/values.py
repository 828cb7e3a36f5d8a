"""Readers of single values: numbers, names, demands, allocations, the values of notes. Each returns its value or raises Fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, cast

from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.protocol.errors import Fault, refuse, refuse_integer
from cosched_plugin.protocol.limits import (
    INT64_MAX,
    INT64_MIN,
    MAX_ARRAY_ITEMS,
    MAX_DEPTH,
    MAX_MAP_ITEMS,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_NOTE_BYTES,
    MAX_STRING_BYTES,
    MAX_THREADS,
)
from cosched_plugin.protocol.messages import NoteValue, Run

Read: TypeAlias = Callable[[Any], Any]
Write: TypeAlias = Callable[[Any], Any]
# As `Run` with four values, in a third of the time.
_new_run: Final = partial(tuple.__new__, Run)
_FEW: Final = 4  # lists that are measured one by one
_PLAIN: Final = frozenset({type(None), bool, int, float, str, tuple})  # the types in the value of a note


def frozen(raw: Any) -> Any:
    """Return a value of JSON or TOML with tuples for its lists, as readers expect it."""
    if type(raw) is list:
        return tuple([frozen(item) for item in raw])
    return {key: frozen(item) for key, item in raw.items()} if type(raw) is dict else raw


def read_each(raw: Any, read: Read, least: int = 0) -> tuple[Any, ...]:
    """Return a list of at least ``least`` items, each read by ``read``."""
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


def integer_reader(low: int, high: int = INT64_MAX) -> Read:
    """Return a reader of integers in [low, high]."""

    def read(raw: Any) -> Any:
        if type(raw) is not int or not low <= raw <= high:
            refuse_integer(low, high, raw)
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


def read_text(raw: Any) -> Any:
    """Return a string."""
    if type(raw) is not str:
        refuse("a string", raw)
    return raw


def read_filled(raw: Any) -> Any:
    """Return a string that is not empty."""
    if not read_text(raw):
        refuse("a string that is not empty", raw)
    return raw


def read_name(raw: Any) -> Any:
    """Return a short string."""
    if text_bytes(read_text(raw)) > MAX_NAME_BYTES:
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


def read_usage(raw: Any) -> Any:
    """Return a job's use of its nodes: class, three shares that make up a whole, and memory."""
    if type(raw) is not tuple or len(raw) != 5 or type(raw[0]) is not str or raw[0] not in ("cpu", "network", "disk"):
        refuse("a list of cpu, network or disk and 4 integers", raw)
    # A 0 for the class: places in errors are those in `raw`
    shares = read_each((0, *raw[1:]), integer_reader(0, WHOLE_PPM))
    if sum(shares[1:4]) != WHOLE_PPM:
        refuse("shares of cpu, network and disk that make up 1000000", raw)
    return raw


def row_reader(expected: str, reads: Sequence[Read]) -> Read:
    """Return a reader of lists with one item for each of ``reads``, which change none; ``expected`` names such a list."""
    numbered = tuple(enumerate(reads))

    def read(raw: Any) -> Any:
        if type(raw) is not tuple or len(raw) != len(reads):
            refuse(expected, raw)
        place = 0
        try:
            for place, read_item in numbered:
                read_item(raw[place])
        except Fault as fault:
            raise fault.under(f"[{place}]")  # noqa: B904 - the same fault, one level out
        return raw

    return read


def read_amounts(raw: Any) -> Any:
    """Return countable resources: pairs of a name and a number above 0, each name once."""
    found = read_each(raw, _READ_AMOUNT)
    if len({name for name, _ in found}) < len(found):
        refuse("each name once", raw)
    return found


_READ_AMOUNT: Final = row_reader("a list of a name and an integer", (read_name, integer_reader(1)))


def read_runs(raw: Any) -> Any:
    """Return an allocation: at least one run of ``[first_node, count, thread_mask, processes_per_node]``."""
    if type(raw) is not tuple or not raw:
        return read_each(raw, _read_run, 1)
    for run in raw:
        if not _is_plain_run(run):
            return read_each(raw, _read_run, 1)
    return tuple(map(_new_run, raw))


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
        return _new_run(raw)
    if type(raw) is not tuple or len(raw) != 4:
        refuse("a list of 4 items", raw)
    first, count, mask, processes = raw
    if type(first) is not int or not 0 <= first < MAX_NODES:
        refuse_integer(0, MAX_NODES - 1, first, "[0]")
    if type(count) is not int or not 1 <= count <= MAX_NODES:
        refuse_integer(1, MAX_NODES, count, "[1]")
    if type(processes) is not int or not 1 <= processes <= INT64_MAX:
        refuse_integer(1, INT64_MAX, processes, "[3]")
    return _new_run((first, count, _read_wide_mask(mask), processes))


def _read_wide_mask(raw: Any) -> int:
    """Return a thread mask that needs more than 63 bits: lower-case hexadecimal digits, no zero in front."""
    digits = raw if type(raw) is str else ""
    if not digits or digits[0] == "0" or len(digits) > MAX_THREADS // 4 or not set(digits) <= set("0123456789abcdef"):
        refuse_integer(1, INT64_MAX, raw, "[2]")
    mask = int(digits, 16)
    if mask <= INT64_MAX:
        refuse("an integer, because the mask fits", raw, "[2]")
    return mask


def write_runs(runs: Any) -> Any:
    """Return an allocation as it is written: masks of nodes with more than 63 threads as hexadecimal text."""
    for run in runs:
        if run[2] > INT64_MAX:  # by number: policies may leave plain tuples
            return [[first, count, mask if mask <= INT64_MAX else f"{mask:x}", ppn] for first, count, mask, ppn in runs]
    return runs


def note_of_runs(runs: Sequence[Run]) -> tuple[NoteValue, ...]:
    """Return an allocation as a part of a note: as it travels, since a note has no integers of more than 64 bits."""
    return tuple(map(tuple, write_runs(runs)))  # plain tuples: a note of these is measured fastest


def runs_of_note(noted: Iterable[Any]) -> tuple[Run, ...]:
    """Return the allocation that `note_of_runs` has made a part of a note."""
    return tuple([_new_run(run if type(run[2]) is int else (*run[:2], int(run[2], 16), run[3])) for run in noted])


def read_value(raw: Any) -> Any:
    """Return the value of a note: nil, a truth value, a number, a string, or lists of them."""
    if type(raw) is not tuple:
        return read_free(raw, maps=False)
    if _plain_bytes(raw) is None:
        read_free(raw, maps=False)  # which tells what is wrong, and where
    size = value_bytes(raw)
    if size > MAX_NOTE_BYTES:
        raise Fault("limit", f"a value of {size} bytes in all; the limit is {MAX_NOTE_BYTES}")
    return raw


def check_note(key: object, value: object) -> None:
    """Raise Fault, with ``key`` or ``value`` and the place in it as path, where a note cannot be sent."""
    part = "key"
    try:
        read_name(key)
        part = "value"
        read_value(value)
    except Fault as fault:
        raise fault.under(part)  # noqa: B904 - the same fault, one level out


# A table of numbers by name, in the form of a note: a part's memory of users, applications or queues.


def table_note(table: Mapping[str, float], most: int) -> NoteValue:
    """Return a table as a note: names and numbers, in their order; if there are more than ``most``, those with the largest numbers."""
    if len(table) > most:
        table = dict(sorted(table.items(), key=lambda row: (-row[1], row[0]))[:most])
    return (tuple(table), tuple(map(float, table.values())))


def read_table(note: NoteValue) -> dict[str, float]:
    """Return the table that `table_note` wrote; an empty one for any other note, and for None."""
    if type(note) is not tuple or len(note) != 2:
        return {}
    names, numbers = note
    if type(names) is not tuple or type(numbers) is not tuple or len(names) != len(numbers):
        return {}
    if not (set(map(type, names)) <= {str} and set(map(type, numbers)) <= {float}):
        return {}
    return dict(zip(cast("tuple[str, ...]", names), cast("tuple[float, ...]", numbers), strict=True))


def note_travels(key: str, value: NoteValue) -> bool:
    """Tell whether a note is of the types and within the limits of the protocol."""
    try:
        check_note(key, value)
    except Fault:
        return False
    return True


def value_bytes(value: Any) -> int:
    """Return how many bytes the value of a note takes in msgpack at most."""
    kind = type(value)
    if kind is tuple or kind is Run:
        size = _plain_bytes(value)
        return 5 + sum([value_bytes(item) for item in value]) if size is None else size
    return 5 + text_bytes(value) if kind is str else 9


_ONE_INTEGER: Final = 5 + 9  # as `_measure` counts


class _Measured:
    """The value that was measured last: in one process scheduler and manager measure the same object, one after the other."""

    value: tuple[Any, ...] = ()
    size: int | None = 5


def _plain_bytes(value: tuple[Any, ...]) -> int | None:
    """Return the result of `value_bytes` for a value within all limits with texts in ASCII; None for another value."""
    if len(value) == 1 and type(value[0]) is int and INT64_MIN <= value[0] <= INT64_MAX:
        return _ONE_INTEGER  # a promised start: a policy may write hundreds of such notes at one event
    if value is not _Measured.value:
        _Measured.size = _measure(value)
        _Measured.value = value  # kept alive, so that no other object can be mistaken for it
    return _Measured.size


def _measure(value: Sequence[Any], depth: int = 0) -> int | None:
    """Measure many items at once, as a policy may write hundreds of numbers at every event.

    ``depth`` is that of the items' list; a list of a few lists, such as columns, is measured list by list.
    """
    kinds = set(map(type, value))
    if not kinds <= _PLAIN or len(value) > MAX_ARRAY_ITEMS:
        return None
    size = 5 + 9 * len(value)
    if str in kinds:
        texts = value if len(kinds) == 1 else _of(str, value)
        joined = "".join(texts)
        if not joined.isascii() or len(joined) > MAX_STRING_BYTES:
            return None
        size += len(joined) - 4 * len(texts)
    if float in kinds and not math.isfinite(sum(value if len(kinds) == 1 else _of(float, value))):
        return None
    if int in kinds:
        numbers = value if len(kinds) == 1 else _of(int, value)
        if min(numbers) < INT64_MIN or max(numbers) > INT64_MAX:
            return None
    if tuple not in kinds:
        return size
    if depth + 1 == MAX_DEPTH:
        return None
    lists = value if len(kinds) == 1 else _of(tuple, value)
    if len(lists) > _FEW:
        below = _measure(list(chain.from_iterable(lists)), depth + 1)
        return None if below is None else size + below - 5 - 4 * len(lists)
    for each in lists:
        below = _measure(each, depth + 1)
        if below is None:
            return None
        size += below - 9
    return size


def _of(kind: type, items: Sequence[Any]) -> list[Any]:
    return [item for item in items if type(item) is kind]


def text_bytes(text: str) -> int:
    """Return the length of a string as UTF-8; Fault where it has no such form."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise Fault("field", "a string that has no form in UTF-8") from None


def read_pairs(raw: Any) -> Any:
    """Return parameters: a list of ``[name, value]``, with values as in notes."""
    return read_each(raw, _READ_PAIR)


_READ_PAIR: Final = row_reader("a list of name and value", (read_name, read_value))


def read_free(raw: Any, maps: bool = True, depth: int = 0) -> Any:
    """Return ``raw`` if it is within the limits; Fault otherwise."""
    kind = type(raw)
    if raw is None or kind is bool:
        return raw
    if kind is str:
        size = text_bytes(raw)
        if size > MAX_STRING_BYTES:
            raise Fault("limit", f"a string of {size} bytes; the limit is {MAX_STRING_BYTES}")
        return raw
    if kind is int:
        if not INT64_MIN <= raw <= INT64_MAX:
            refuse_integer(INT64_MIN, INT64_MAX, raw)
        return raw
    if kind is float:
        if not math.isfinite(raw):
            refuse("a finite number", raw)
        return raw
    if depth == MAX_DEPTH and kind in (tuple, Run, dict):
        raise Fault("limit", f"more than {MAX_DEPTH} levels of nesting")
    if kind is tuple or kind is Run:  # a policy may note where it would put a job
        if len(raw) > MAX_ARRAY_ITEMS:
            raise Fault("limit", f"a list of {len(raw)} items; the limit is {MAX_ARRAY_ITEMS}")
        read = 0  # as `read_each`, which takes twice as long
        try:
            for item in raw:
                read_free(item, maps, depth + 1)
                read += 1
        except Fault as fault:
            raise fault.under(f"[{read}]")  # noqa: B904 - the same fault, one level out
        return raw
    if kind is dict and maps:
        check_size(raw)
        for name, item in raw.items():
            read_name(name)
            try:
                read_free(item, maps, depth + 1)
            except Fault as fault:
                raise fault.under(name)  # noqa: B904 - the same fault, one level out
        return raw
    return refuse("nil, true, false, a number, a string or a list", raw)


def check_size(raw: dict[Any, Any]) -> None:
    """Raise Fault where a map has more entries than the limit allows."""
    if len(raw) > MAX_MAP_ITEMS:
        raise Fault("limit", f"a map of {len(raw)} entries; the limit is {MAX_MAP_ITEMS}")
