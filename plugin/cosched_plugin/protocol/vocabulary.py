"""Tables: every message, event and action of ``messages`` with the fields it has on the wire. PROTOCOL.md says what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cosched_hwmodel.composite.job_profile import MOST, Profile, ProfileError, checked
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import Fault, refuse, refuse_integer, show
from cosched_plugin.protocol.limits import INT64_MAX, INT64_MIN, MAX_ARRAY_ITEMS, MAX_NODES, MAX_SLOTS, MAX_THREADS
from cosched_plugin.protocol.values import (
    Read,
    Write,
    check_size,
    integer_reader,
    one_of,
    optional,
    read_amounts,
    read_demand,
    read_each,
    read_flag,
    read_free,
    read_name,
    read_pairs,
    read_ranges,
    read_runs,
    read_self_slowdown,
    read_shares,
    read_text,
    read_usage,
    read_value,
    write_runs,
)

# Records: a tuple type's form as a map of fields, with reading and writing of such maps.
#
# Reading is one loop over a record's precomputed fields; a path is built only once there is a fault.
# This module does not know any message: the tables are in ``vocabulary``, the bytes in ``codec``.


class Missing:
    """Type of the two marks below."""


ABSENT: Final = Missing()  # the map has no such key
REQUIRED: Final = Missing()  # the field has no default


class Field(NamedTuple):
    """One field of a record: how to check, read and write it."""

    name: str
    exact: type | None  # int or str: checked in place; None: ``read`` checks
    low: int  # smallest and largest integer accepted
    high: int  # of a union: the most items
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


def union(
    name: str,
    tables: Mapping[str, Record],
    writers: Mapping[type, Record],
    unknown: Read | None,
    most: int = MAX_ARRAY_ITEMS,
) -> Field:
    """Return a field that holds a list of up to ``most`` tagged records.

    ``unknown`` stands in for unknown tags, None refuses them.
    """

    def read(raw: Any) -> tuple[Any, ...]:
        if type(raw) is not tuple:
            refuse("a list", raw)
        if len(raw) > most:
            raise Fault("limit", f"{len(raw)} items; the limit is {most}")
        result: list[Any] = []
        try:
            for item in raw:
                result.append(read_tagged(tables, item, unknown))  # noqa: PERF401 - the length tells the item at fault
        except Fault as fault:
            raise fault.under(f"[{len(result)}]")  # noqa: B904 - the same fault, one level out
        return tuple(result)

    def write(values: Any) -> list[dict[str, Any]]:
        return [write_record(writers[type(value)], value) for value in values]

    return Field(name, None, 0, most, read, write, REQUIRED)


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


def _limit(default: object) -> Field:
    return special("limit_us", optional(integer_reader(1)), None, default)


def _flag(name: str) -> Field:
    return special(name, read_flag, None, False)


def _runs() -> Field:
    return special("runs", read_runs, write_runs)


def _node(name: str) -> Field:
    return integer(name, 0, MAX_NODES - 1)


def _slot(default: object = REQUIRED) -> Field:
    return integer("slot", 0, MAX_SLOTS - 1, default)


def _write_slots(slots: m.SlotState | None) -> Any:
    return None if slots is None else write_record(_SLOT_STATE, slots)


def _note(kind: Any, tag: str | None) -> Record:
    return record(
        kind,
        tag,
        special("job_id", optional(integer_reader(0)), None, None),
        special("key", read_name, read_name),
        special("value", read_value, read_value),
    )


# Issue slots are relative to a core; these bounds are those of the hardware model.
_PROFILE: Final = record(
    Profile,
    None,
    *[integer(name, 0, MOST[name], default) for name, default in Profile._field_defaults.items()],
)
_CACHE: Final = record(
    m.CacheLevel,
    None,
    integer("level", 1),
    integer("size_kb", 1),
    integer("cores", 1, MAX_THREADS),
    integer("miss_ns", default=0),
    integer("accesses_ms", default=0),
)
_HARDWARE: Final = record(
    m.NodeHardware,
    None,
    integer("integer_slots_ppm", default=0),
    integer("floating_slots_ppm", default=0),
    records("caches", _CACHE, ()),
)


def _read_profile(raw: Any) -> Any:
    """Return a job's profile; Fault where its fields contradict each other."""
    profile = read_record(_PROFILE, raw)
    try:
        return checked(profile)
    except ProfileError as error:
        raise Fault("field", error.text).under(error.field) from None


def _write_hardware(hardware: m.NodeHardware | None) -> Any:
    return None if hardware is None else write_record(_HARDWARE, hardware)


JOB: Final = record(
    m.JobSpec,
    None,
    integer("id"),
    integer("submit_us"),
    integer("processes", 1),
    integer("estimate_us", 1),
    _limit(None),
    text("user", ""),
    text("name", ""),
    integer("ppn_min", 1, default=1),
    integer("ppn_max", 0, default=0),
    integer("threads_per_process", 1, default=1),
    integer("memory_mb", 0, default=0),
    _flag("exclusive"),
    special("eligible", read_ranges, None, ()),
    special("resources", read_amounts, None, ()),
    special("licences", read_amounts, None, ()),
    special("demand", optional(read_demand), None, None),
    special("usage", optional(read_usage), None, None),
    special("self_slowdown", optional(read_self_slowdown), None, None),
    _flag("unpaired"),
    special("profile", optional(_read_profile), lambda profile: write_record(_PROFILE, profile), None),
    integer("priority", INT64_MIN, default=0),
)
_NODE_CLASS: Final = record(
    m.NodeClass,
    None,
    integer("nodes", 1, MAX_NODES),
    integer("sockets", 1, MAX_THREADS),
    integer("cores_per_socket", 1, MAX_THREADS),
    integer("threads_per_core", 1, MAX_THREADS),
    integer("memory_mb"),
    integer("memory_bandwidth_mbs"),
    integer("network_mbs"),
    integer("disk_mbs"),
    integer("swap_mb", default=0),
    special("hardware", optional(lambda raw: read_record(_HARDWARE, raw)), _write_hardware, None),
    special("resources", read_amounts, None, ()),
)


def _read_classes(raw: Any) -> Any:
    """Return the node classes of a machine; Fault if the machine as a whole exceeds the limits."""
    assert _CLASSES.read is not None
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


_CLASSES: Final = records("nodes", _NODE_CLASS, least=1)
_RUNNING: Final = record(
    m.RunningJob,
    None,
    inner("spec", JOB),
    integer("start_us"),
    _runs(),
    integer("estimate_us", 1),
    _limit(None),
    special("suspended_us", optional(integer_reader(0)), None, None),
    integer("measured_ppm", default=0),
    integer("idle_us", default=0),
    _flag("on_disk"),
    integer("ready_us", default=0),
    _slot(0),
    integer("quanta", default=0),
    integers("shares", default=()),
    _flag("held"),
    _flag("leaving"),
)
_PENDING: Final = record(m.PendingJob, None, inner("spec", JOB), _flag("held"))
_BELIEF: Final = record(
    m.Belief,
    None,
    text("contention"),
    text("composition"),
    names("resources", ()),
    special("parameters", read_pairs, read_pairs, ()),
)
_START: Final = record(
    m.StartJob, "start_job", integer("job_id"), _runs(), integer("estimate_us", 1), _limit(None), _slot(0)
)
_STARTED: Final = record(m.StartJob, None, *_START.fields)  # inside start_together, where there is nothing else

_TURN: Final = record(
    m.Turn,
    None,
    special("slots", lambda raw: read_each(raw, integer_reader(0, MAX_SLOTS - 1), 1)),
    integer("quanta", 1, default=1),
    integers("guests", default=()),
)
_SLOT_STATE: Final = record(
    m.SlotState,
    None,
    integer("quantum_us", 1),
    integer("quantum", default=0),
    records("turns", _TURN, ()),
    integer("left", default=0),
)

_CAPABILITIES: Final = record(
    m.Capabilities,
    None,
    special("limits_grow", read_flag, None, True),
    integer("limit_grain_us", 1, default=1),
    integer("limit_late_us", default=0),
    special("atomic_groups", read_flag, None, True),
    _flag("picks_threads"),
    special("layout", one_of(m.LAYOUTS), None, m.ANY_LAYOUT),
)

_EVENTS: Final = (
    record(m.JobSubmitted, "job_submitted", inner("job", JOB)),
    record(m.JobEnded, "job_ended", integer("job_id"), special("state", one_of(m.END_STATES))),
    record(m.JobRequeued, "job_requeued", integer("job_id")),
    record(m.JobHeld, "job_held", integer("job_id")),
    record(m.JobReleased, "job_released", integer("job_id")),
    record(
        m.JobStarted,
        "job_started",
        integer("job_id"),
        integer("start_us"),
        _runs(),
        integer("estimate_us", 1),
        _limit(None),
        _slot(0),
        special("job", optional(lambda raw: read_record(JOB, raw)), lambda job: write_record(JOB, job), None),
    ),
    record(m.JobModified, "job_modified", inner("job", JOB)),
    record(m.JobRevised, "job_revised", integer("job_id"), integer("estimate_us", 1), _limit(None)),
    record(m.JobSuspended, "job_suspended", integer("job_id"), integer("at_us"), _flag("to_disk")),
    record(m.JobResumed, "job_resumed", integer("job_id"), integer("at_us")),
    record(m.NodeFailed, "node_failed", _node("node")),
    record(m.NodeReturned, "node_returned", _node("node")),
    record(m.ProgressMeasured, "progress_measured", integer("job_id"), integer("slowdown_ppm", 1)),
    record(m.Woken, "woken", integer("at_us")),
    record(
        m.ActionRefused,
        "action_refused",
        integer("seq", 1),
        integer("action"),
        text("reason"),
        integers("job_ids", default=()),
    ),
    record(
        m.QuantumEnded,
        "quantum_ended",
        integer("quantum", 1),
        _slot(),
        integer("left", default=0),
        special("shares", read_shares, None, ()),
    ),
)
_ACTIONS: Final = (
    _START,
    record(m.StartTogether, "start_together", records("starts", _STARTED, least=1)),
    record(m.ReviseJob, "revise_job", integer("job_id"), integer("estimate_us", 1), _limit(None)),
    record(m.SuspendJob, "suspend_job", integer("job_id"), _flag("to_disk")),
    record(m.ResumeJob, "resume_job", integer("job_id")),
    record(m.SetRotation, "set_rotation", integer("quantum", 1), records("turns", _TURN)),
    record(m.ChangeSlot, "change_slot", integer("job_id"), _slot()),
    _note(m.SetNote, "set_note"),
    record(m.WakeAt, "wake_at", integer("at_us")),
    record(m.RejectJob, "reject_job", integer("job_id"), text("reason")),
    record(m.RequeueJob, "requeue_job", integer("job_id")),
    record(m.KillJob, "kill_job", integer("job_id")),
    record(m.SubmitJob, "submit_job", inner("job", JOB)),
)


def _by_tag(records: tuple[Record, ...]) -> dict[str, Record]:
    return {each.tag: each for each in records if each.tag is not None}


def _by_kind(records: tuple[Record, ...]) -> dict[type, Record]:
    return {each.kind: each for each in records}


# By their ``type`` on the wire, and by their Python type.
EVENTS_BY_TAG: Final = _by_tag(_EVENTS)
EVENTS_BY_KIND: Final = _by_kind(_EVENTS)
ACTIONS_BY_TAG: Final = _by_tag(_ACTIONS)
# No scheduler makes an unknown action, but a manager records what it has received.
ACTIONS_BY_KIND: Final = {**_by_kind(_ACTIONS), m.UnknownAction: record(m.UnknownAction, None, text("type"))}

_MESSAGES: Final = (
    record(
        m.Hello,
        "hello",
        integers("versions", 1),
        names("features", ()),
        text("instance"),
        text("policy", ""),
        _flag("standby"),
        integer("greeting", default=0),
        special("arguments", lambda raw: read_each(raw, read_text), None, ()),
    ),
    record(
        m.Welcome,
        "welcome",
        integer("version", 1),
        names("features", ()),
        integer("seq"),
        integer("now_us"),
        special("nodes", _read_classes, _CLASSES.write),
        integers("down", 0, MAX_NODES - 1, ()),
        inner("belief", _BELIEF),
        records("running", _RUNNING),
        records("pending", _PENDING),
        records("notes", _note(m.Note, None), ()),
        integers("wakes", default=()),
        integer("resume_us", default=0),
        integer("greeting", default=0),
        special("slots", optional(lambda raw: read_record(_SLOT_STATE, raw)), _write_slots, None),
        special(
            "capabilities",
            lambda raw: read_record(_CAPABILITIES, raw),
            lambda value: write_record(_CAPABILITIES, value),
            m.Capabilities(),
        ),
        special("licences", read_amounts, None, ()),
        integer("switch_us", default=0),
        integer("image_mbs", default=0),
    ),
    record(m.Ready, "ready", integer("seq"), integer("greeting", default=0)),
    record(
        m.Events,
        "events",
        integer("seq", 1),
        integer("now_us"),
        union("events", EVENTS_BY_TAG, EVENTS_BY_KIND, None),
        integer("greeting", default=0),
    ),
    record(
        m.Actions,
        "actions",
        integer("seq", 1),
        integer("now_us"),
        union("actions", ACTIONS_BY_TAG, ACTIONS_BY_KIND, m.UnknownAction),
        integer("greeting", default=0),
    ),
    record(
        m.Resync,
        "resync",
        text("reason", ""),
        special("unsettled", read_shares, None, ()),
        integer("greeting", default=0),
    ),
    record(m.Ping, "ping", integer("token", INT64_MIN)),
    record(m.Pong, "pong", integer("token", INT64_MIN)),
    record(m.ErrorReport, "error", text("code"), text("path", ""), text("text", "")),
    record(m.Bye, "bye", text("reason", "")),
)

MESSAGES_BY_TAG: Final = _by_tag(_MESSAGES)
MESSAGES_BY_KIND: Final = _by_kind(_MESSAGES)
