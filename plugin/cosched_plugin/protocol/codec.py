"""Messages to frames and back: the only place where bytes are made or read.

For any input bytes, the result is a checked message or RemoteProtocolError, nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import msgpack  # type: ignore[import-untyped]

from cosched_plugin.protocol.errors import Fault, LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol.limits import (
    INT64_MAX,
    MAGIC,
    MAX_ARRAY_ITEMS,
    MAX_FRAME_BYTES,
    MAX_STRING_BYTES,
)
from cosched_plugin.protocol.messages import (
    END_STATES,
    Actions,
    Events,
    JobEnded,
    JobSpec,
    JobSubmitted,
    Message,
    StartJob,
)
from cosched_plugin.protocol.values import read_runs, write_runs
from cosched_plugin.protocol.vocabulary import (
    ACTIONS_BY_KIND,
    ACTIONS_BY_TAG,
    EVENTS_BY_KIND,
    EVENTS_BY_TAG,
    JOB,
    MESSAGES_BY_KIND,
    MESSAGES_BY_TAG,
    Record,
    read_record,
    read_tagged,
    write_record,
)

# Fast paths for batches and replies, the most frequent messages; the tables of ``vocabulary`` give the same results.
#
# A reader here accepts exactly the expected form and leaves everything else, above all faults, to the tables. The tables alone
# give every result in three times the time. A test compares the two.

_new = tuple.__new__
_ENDED: Final = EVENTS_BY_TAG["job_ended"]
_SUBMITTED: Final = EVENTS_BY_TAG["job_submitted"]
_START: Final = ACTIONS_BY_TAG["start_job"]
# The most items of a batch and of a reply, as the tables say.
_MOST: Final[Mapping[type[tuple[Any, ...]], int]] = {
    kind: next(field.high for field in MESSAGES_BY_KIND[kind].fields if field.name in ("events", "actions"))
    for kind in (Events, Actions)
}


def read_batch(raw: Any) -> Message | None:
    """Return the Events or Actions that ``raw`` describes, or None when the tables must decide."""
    try:
        tag = raw["type"]
        if tag == "events":
            items, readers, kind = raw["events"], _EVENT_READERS, cast("type[tuple[Any, ...]]", Events)
        elif tag == "actions":
            items, readers, kind = raw["actions"], _ACTION_READERS, Actions
        else:
            return None
        seq = raw["seq"]
        now_us = raw["now_us"]
        greeting = raw.get("greeting", 0)
        if (
            len(raw) != 4 + ("greeting" in raw)
            or type(greeting) is not int
            or not 0 <= greeting <= INT64_MAX
            or type(seq) is not int
            or not 1 <= seq <= INT64_MAX
            or type(now_us) is not int
            or not 0 <= now_us <= INT64_MAX
            or type(items) is not tuple
            or len(items) > _MOST[kind]
        ):
            return None
        return cast(
            "Message", _new(kind, (seq, now_us, tuple([readers[item["type"]](item) for item in items]), greeting))
        )
    except (KeyError, TypeError, Fault):
        return None


def write(message: Message) -> dict[str, Any]:
    """Return the map that describes ``message``; raises KeyError for any other object."""
    if type(message) is Events:
        seq, now_us, events, greeting = message
        written = [_EVENT_WRITERS[type(event)](event) for event in events]
        if greeting:
            return {"type": "events", "seq": seq, "now_us": now_us, "events": written, "greeting": greeting}
        return {"type": "events", "seq": seq, "now_us": now_us, "events": written}
    if type(message) is Actions:
        seq, now_us, actions, greeting = message
        written = [_ACTION_WRITERS[type(action)](action) for action in actions]
        if greeting:
            return {"type": "actions", "seq": seq, "now_us": now_us, "actions": written, "greeting": greeting}
        return {"type": "actions", "seq": seq, "now_us": now_us, "actions": written}
    return write_record(MESSAGES_BY_KIND[type(message)], message)


def _read_ended(raw: Any) -> Any:
    job_id = raw["job_id"]
    state = raw["state"]
    if (
        len(raw) == 3
        and type(job_id) is int
        and 0 <= job_id <= INT64_MAX
        and type(state) is str
        and state in END_STATES
    ):
        return _new(JobEnded, (job_id, state))
    return read_record(_ENDED, raw)


def _read_submitted(raw: Any) -> Any:
    job = raw["job"]
    if len(raw) == 2 and type(job) is dict:
        return _new(JobSubmitted, (_read_job(job),))
    return read_record(_SUBMITTED, raw)


def _read_job(raw: dict[str, Any]) -> Any:
    """Read the common shape of a job: the required fields, a limit and a user; the rest at its default."""
    job_id = raw["id"]
    submit_us = raw["submit_us"]
    processes = raw["processes"]
    estimate_us = raw["estimate_us"]
    limit_us = None
    user = ""
    if len(raw) > 4:
        limit_us = raw.get("limit_us")
        user = raw.get("user", "")
    if (
        len(raw) == 4 + (limit_us is not None) + (user != "")
        and type(job_id) is int
        and type(submit_us) is int
        and type(processes) is int
        and type(estimate_us) is int
        and type(user) is str
        and 0 <= job_id <= INT64_MAX
        and 0 <= submit_us <= INT64_MAX
        and 1 <= processes <= INT64_MAX
        and 1 <= estimate_us <= INT64_MAX
        and (limit_us is None or (type(limit_us) is int and 1 <= limit_us <= INT64_MAX))
    ):
        return _new(JobSpec, (job_id, submit_us, processes, estimate_us, limit_us, user) + _JOB_REST)  # noqa: RUF005 - faster
    return read_record(JOB, raw)


def _read_start(raw: Any) -> Any:
    job_id = raw["job_id"]
    estimate_us = raw["estimate_us"]
    limit_us = raw.get("limit_us")
    if (
        len(raw) == 4 + (limit_us is not None)
        and type(job_id) is int
        and type(estimate_us) is int
        and 0 <= job_id <= INT64_MAX
        and 1 <= estimate_us <= INT64_MAX
        and (limit_us is None or (type(limit_us) is int and 1 <= limit_us <= INT64_MAX))
    ):
        return _new(StartJob, (job_id, read_runs(raw["runs"]), estimate_us, limit_us, 0))
    return read_record(_START, raw)


def _write_ended(event: Any) -> dict[str, Any]:
    job_id, state = event
    return {"type": "job_ended", "job_id": job_id, "state": state}


def _write_submitted(event: Any) -> dict[str, Any]:
    job = event[0]
    job_id, submit_us, processes, estimate_us, limit_us, user = job[:6]
    if type(user) is not str or job[6:] != _JOB_REST:
        return {"type": "job_submitted", "job": write_record(JOB, job)}
    raw = {"id": job_id, "submit_us": submit_us, "processes": processes, "estimate_us": estimate_us}
    if limit_us is not None:
        raw["limit_us"] = limit_us
    if user:
        raw["user"] = user
    return {"type": "job_submitted", "job": raw}


def _write_start(action: Any) -> dict[str, Any]:
    job_id, runs, estimate_us, limit_us, slot = action
    raw = {"type": "start_job", "job_id": job_id, "runs": write_runs(runs), "estimate_us": estimate_us}
    if limit_us is not None:
        raw["limit_us"] = limit_us
    if slot:
        raw["slot"] = slot
    return raw


def _readers(tables: dict[str, Record], **short: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return {tag: partial(read_record, of) for tag, of in tables.items()} | short


def _writers(tables: dict[type, Record], short: dict[type, Callable[[Any], Any]]) -> dict[type, Callable[[Any], Any]]:
    return {kind: partial(write_record, of) for kind, of in tables.items()} | short


_JOB_REST: Final = tuple(field.default for field in JOB.fields[6:])
_EVENT_READERS: Final = _readers(EVENTS_BY_TAG, job_ended=_read_ended, job_submitted=_read_submitted)
_ACTION_READERS: Final = _readers(ACTIONS_BY_TAG, start_job=_read_start)
_EVENT_WRITERS: Final = _writers(EVENTS_BY_KIND, {JobEnded: _write_ended, JobSubmitted: _write_submitted})
_ACTION_WRITERS: Final = _writers(ACTIONS_BY_KIND, {StartJob: _write_start})


class _Packers(threading.local):
    """One packer for each thread, which is a third faster than a new one for each message."""

    def __init__(self) -> None:
        self.pack = msgpack.Packer(use_bin_type=True).pack


_PACKERS: Final = _Packers()


def encode(message: Message) -> list[bytes]:
    """Return the two frames of ``message``.

    Raises LocalProtocolError for a value without a form on the wire (a foreign type, an integer beyond 64 bits) or one too large.
    """
    try:
        body: bytes = _PACKERS.pack(write(message))
    except (KeyError, TypeError, ValueError, OverflowError, Fault) as error:
        raise LocalProtocolError(f"{type(message).__name__} cannot be sent: {error}") from error
    if len(body) > MAX_FRAME_BYTES:
        raise LocalProtocolError(f"{type(message).__name__} has {len(body)} bytes; the limit is {MAX_FRAME_BYTES}")
    return [MAGIC, body]


def decode(frames: Sequence[bytes]) -> Message:
    """Return the message in ``frames``; raises RemoteProtocolError with code, path and text for an invalid one."""
    if len(frames) != 2 or frames[0] != MAGIC:
        raise RemoteProtocolError("frame", "", f"expected 2 frames, the first of them {MAGIC.decode()}")
    raw = unpack(frames[1], MAX_FRAME_BYTES)
    batch = read_batch(raw)
    if batch is not None:
        return batch
    try:
        message: Message = read_tagged(MESSAGES_BY_TAG, raw, None)
    except Fault as fault:
        raise RemoteProtocolError(fault.code, fault.path, fault.text) from None
    return message


# Not by the packer of the thread: that keeps the buffer of the largest message, and answers to users may have 64 MiB.
def pack(raw: Mapping[str, Any], plain: Callable[[Any], Any] | None = None) -> bytes:
    """Return a map of plain values as bytes; TypeError, ValueError or OverflowError for values without a form there.

    ``plain`` gives the plain value of another one when its turn comes.
    """
    body: bytes = msgpack.packb(raw, use_bin_type=True, default=plain)
    return body


def unpack(body: bytes, most_bytes: int) -> Any:
    """Return the one value in ``body``, lists as tuples; RemoteProtocolError beyond the limits, or for invalid msgpack."""
    if len(body) > most_bytes:
        raise RemoteProtocolError("limit", "", f"{len(body)} bytes in a frame; the limit is {most_bytes}")
    try:
        if len(body) <= MAX_STRING_BYTES:  # too short to hold a string or list beyond its limit
            return msgpack.unpackb(body, use_list=False)
        return msgpack.unpackb(body, use_list=False, max_str_len=MAX_STRING_BYTES, max_array_len=MAX_ARRAY_ITEMS)
    except Exception as error:  # msgpack documents no closed list of what bad bytes may raise
        text = str(error) or type(error).__name__
        raise RemoteProtocolError("malformed", "", f"not acceptable as msgpack: {text}") from None
