"""The schema of Batsim 4's JSON messages, for both ends: reading, checking and writing. What they mean is told elsewhere.

A message is ``{"now": seconds, "events": [{"timestamp": seconds, "type": text, "data": object}, ...]}``, the same in both
directions. Whoever reads one gets plain values of it, or `RemoteProtocolError` with the place (``events[3].data.alloc``), what was
expected there, and what came. Batsim writes and reads times with six decimals, so whole microseconds carry them exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple, NoReturn

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.errors import RemoteProtocolError, show

MAX_MESSAGE_BYTES: Final = 1 << 26  # a workload of 100,000 jobs with a profile each takes 10 MB
MOST_REASON: Final = 500  # characters of a failure that the other end is told
_OUR_END: Final = (b"cosched-plugin: ", b"cosched-emulator: ")  # what its reason begins with
LARGEST: Final = 1e30
_NUMBERS: Final = (float, int)  # a truth value is none
LATEST_S: Final = 9.0e9  # beyond it six decimals of seconds are no longer exact

# Final states of a job, in JOB_COMPLETED.
SUCCESS: Final = "COMPLETED_SUCCESSFULLY"
FAILED: Final = "COMPLETED_FAILED"
WALLTIME: Final = "COMPLETED_WALLTIME_REACHED"
KILLED: Final = "COMPLETED_KILLED"

FROM_BATSIM: Final = frozenset(
    {
        "SIMULATION_BEGINS", "JOB_SUBMITTED", "JOB_COMPLETED", "JOB_KILLED", "REQUESTED_CALL", "RESOURCE_STATE_CHANGED", "NOTIFY",
        "ANSWER", "QUERY", "FROM_JOB_MSG", "SIMULATION_ENDS",
    }
)  # fmt: skip
FROM_SCHEDULER: Final = frozenset(
    {
        "EXECUTE_JOB", "REJECT_JOB", "CALL_ME_LATER", "KILL_JOB", "SET_RESOURCE_STATE", "QUERY", "NOTIFY", "REGISTER_PROFILE",
        "REGISTER_JOB", "SET_JOB_METADATA", "CHANGE_JOB_STATE", "TO_JOB_MSG", "ANSWER",
    }
)  # fmt: skip

Data = Mapping[str, Any]


class BatsimEvent(NamedTuple):
    """One event of a message, whose data have not been read yet."""

    at_us: int
    type: str
    data: Data
    path: str  # in the message, such as `events[3]`


class BatsimMessage(NamedTuple):
    """A message whose frame is right: each event has a known type, and a time up to that of the message."""

    now_us: int
    events: Sequence[BatsimEvent]


def refuse(path: str, expected: str, got: Any, code: str = "field") -> NoReturn:
    """Raise the error for a value that cannot be accepted."""
    raise RemoteProtocolError(code, path, f"expected {expected}, got {show(got)}")


def read_message(frame: bytes, known: frozenset[str]) -> BatsimMessage:
    """Return a message whose events are of the ``known`` types; raises RemoteProtocolError."""
    raw = read_json(frame)
    if type(raw) is not dict:
        refuse("", "an object with now and events", raw)
    now_us = microseconds(raw, "now", "")
    events = raw.get("events")
    if type(events) is not list:
        refuse("events", "a list", events)
    found = []
    for number, each in enumerate(events):
        try:
            at_s, kind, data = each["timestamp"], each["type"], each["data"]
            fine = type(at_s) in _NUMBERS  # first: a million times a long string has no end
            at_us = round(at_s * SECOND_US) if fine else -1
            fine = 0 <= at_us <= now_us and kind in known and type(data) is dict
        except (LookupError, TypeError, ValueError, OverflowError):
            fine = False
        if not fine:
            _refuse_event(each, f"events[{number}]", now_us, known)
        found.append(BatsimEvent(at_us, kind, data, f"events[{number}]"))
    return BatsimMessage(now_us, found)


def _refuse_event(each: Any, path: str, now_us: int, known: frozenset[str]) -> NoReturn:
    """Say what is wrong with the frame of an event."""
    if type(each) is not dict:
        refuse(path, "an object with timestamp, type and data", each)
    at_us = microseconds(each, "timestamp", path)
    if at_us > now_us:
        text = f"expected a time up to that of the message, {seconds(now_us)}, got {seconds(at_us)}"
        raise RemoteProtocolError("clock", f"{path}.timestamp", text)
    kind = each.get("type")
    if type(kind) is not str:
        refuse(f"{path}.type", "a string", kind)
    if kind not in known:
        refuse(f"{path}.type", "a type of event that this side of Batsim 4's protocol has", kind, "unknown")
    refuse(f"{path}.data", "an object", each.get("data"))


def read_json(frame: bytes) -> Any:
    """Return the value of a JSON text in UTF-8; raises RemoteProtocolError, code ``malformed``."""
    if frame.startswith(_OUR_END):
        raise RemoteProtocolError(
            "internal", "", f"the other end gave up: {frame[:MOST_REASON].decode('utf-8', 'replace')}"
        )
    try:
        value = _DECODER.decode(frame.decode("utf-8"))
        if _HALVES.search(frame):  # names with half a character could be written to no file
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except (ValueError, RecursionError) as error:
        text = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        begins = show(frame[:60].decode("utf-8", "backslashreplace"))
        raise RemoteProtocolError("malformed", "", f"expected a JSON text, got {begins}: {text}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_HALVES: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
write_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def write_message(now_us: int, events: Iterable[str]) -> bytes:
    """Return the frame of a message with events that `write_event` has made."""
    return f'{{"now":{seconds(now_us)},"events":[{",".join(events)}]}}'.encode()


def write_event(at_us: int, kind: str, data: str) -> str:
    """Return an event as JSON; ``data`` is JSON already."""
    return f'{{"timestamp":{seconds(at_us)},"type":"{kind}","data":{data}}}'


# A text as JSON: ten times as fast as an encoder's general way.
write_text: Final = encode_basestring_ascii


def seconds(at_us: int) -> str:
    """Return a time as Batsim writes it: seconds with six decimals."""
    return f"{at_us / SECOND_US:.6f}"  # exact up to `LATEST_S`


# ---------------------------------------------------------------- single values


def microseconds(data: Data, key: str, path: str) -> int:
    """Return a time in seconds as whole microseconds, rounded."""
    raw: Any = data.get(key)
    if type(raw) not in (int, float) or not 0 <= raw <= LATEST_S:
        refuse(_under(path, key), f"a time in seconds, 0 to {LATEST_S:.0f}", raw)
    at_us: int = round(raw * SECOND_US)
    return at_us


def text(data: Data, key: str, path: str) -> str:
    """Return a string that is not empty."""
    raw = data.get(key)
    if type(raw) is not str or not raw:
        refuse(_under(path, key), "a string", raw)
    return raw


def whole(data: Data, key: str, path: str, least: int, most: int = (1 << 53)) -> int:
    """Return an integer in a range; 3.0 is one as well."""
    raw = data.get(key)
    if type(raw) is float and raw.is_integer():
        raw = int(raw)
    if type(raw) is not int or not least <= raw <= most:
        refuse(_under(path, key), f"a whole number, {least} to {most}", raw)
    return raw


def number(data: Data, key: str, path: str, least: float = 0.0) -> float:
    """Return a finite number of at least ``least``."""
    raw: Any = data.get(key)
    if type(raw) not in (int, float) or not least <= raw <= LARGEST:
        refuse(_under(path, key), f"a number, {least:g} to {LARGEST:g}", raw)
    return float(raw)


def obj(data: Data, key: str, path: str) -> dict[str, Any]:
    """Return an object."""
    raw = data.get(key)
    if type(raw) is not dict:
        refuse(_under(path, key), "an object", raw)
    return raw


def listed(data: Data, key: str, path: str) -> list[Any]:
    """Return a list."""
    raw = data.get(key)
    if type(raw) is not list:
        refuse(_under(path, key), "a list", raw)
    return raw


def names(data: Data, key: str, path: str) -> list[str]:
    """Return a list of at least one string."""
    raw = listed(data, key, path)
    if not raw or any(type(each) is not str for each in raw):
        refuse(_under(path, key), "a list of at least one string", raw)
    return raw


def flag(data: Data, key: str, path: str, default: bool = False) -> bool:
    """Return a truth value."""
    raw = data.get(key, default)
    if type(raw) is not bool:
        refuse(_under(path, key), "true or false", raw)
    return raw


def walltime_us(job: Data, path: str) -> int | None:
    """Return a job's limit; None where it has none, or -1."""
    raw = job.get("walltime")
    if raw is None or raw == -1:
        return None
    return max(1, microseconds(job, "walltime", path))


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# ---------------------------------------------------------------- sets of hosts


def read_hosts(data: Data, key: str, path: str, hosts: int) -> list[int]:
    """Return the hosts of an interval set, ascending, such as those of ``0-3 5``; each is below ``hosts``.

    Batsim reads ``0,1`` as host 0 alone, without a word; here it is refused.
    """
    raw = text(data, key, path)
    intervals: set[tuple[int, int]] = set()
    for part in raw.split(" "):
        first, hyphen, last = part.partition("-")
        ends = (first, last if hyphen else first)
        if not all(each.isascii() and each.isdigit() and len(each) < 10 for each in ends):
            refuse(_under(path, key), "intervals joined by a space, such as 0-3 5", raw)
        low, high = int(ends[0]), int(ends[1])
        if low > high:
            refuse(_under(path, key), "intervals in ascending order, such as 0-3 5", raw)
        if high >= hosts:
            refuse(_under(path, key), f"hosts 0 to {hosts - 1}", raw)
        intervals.add((low, high))
    found: list[int] = []
    for low, high in sorted(intervals):  # which may overlap, and be many
        found += range(max(low, found[-1] + 1) if found else low, high + 1)
    return found


def write_hosts(hosts: Sequence[int]) -> str:
    """Return an interval set in its canonical form; ``hosts`` ascend."""
    if len(hosts) == 1:
        return str(hosts[0])
    parts: list[str] = []
    first = last = hosts[0]
    for host in (*hosts[1:], -1):
        if host == last + 1:
            last = host
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = host
    return " ".join(parts)
