"""Features: what each stands for, and what a peer that lacks one is told instead.

Both ends know a feature, or neither uses it. A scheduler's action of a feature that was not agreed on is unknown to the manager. What a
manager has to tell a scheduler that lacks the feature is left out, told in older words, or makes the scheduler say hello again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.fields import Feature

# Actions that may be used only where both ends know the feature: their names on the wire, and the feature.
FEATURE_ACTIONS: Final[Mapping[type, tuple[str, str]]] = {
    m.SetNote: ("set_note", "notes"),
    m.StartTogether: ("start_together", "groups"),
    m.WakeAt: ("wake_at", "wakes"),
    m.ReviseJob: ("revise_job", "revise"),
    m.SuspendJob: ("suspend_job", "suspend"),
    m.ResumeJob: ("resume_job", "suspend"),
    m.SetRotation: ("set_rotation", m.SLOTS),
    m.ChangeSlot: ("change_slot", m.SLOTS),
    m.RequeueJob: ("requeue_job", m.REQUEUE),
    m.KillJob: ("kill_job", m.KILL),
    m.SubmitJob: ("submit_job", m.SUBMIT),
}
DISK: Final = "disk"  # the feature that `suspend_job` needs besides, to set `to_disk`
OVERLOOKED: Final = (DISK, m.SLOTS)  # features with a field in an action that a manager may know without them


def needed_feature(action: m.Action, features: Sequence[str]) -> str | None:
    """Return the feature without which ``action`` may not be used and that ``features`` lack; None: it may be used."""
    _, feature = FEATURE_ACTIONS.get(type(action), ("", None))
    return feature if feature is not None and feature not in features else overlooked_feature(action, features)


def overlooked_feature(action: m.Action, features: Sequence[str]) -> str | None:
    """Return the feature that ``features`` lack and without which a manager overlooks a field of ``action``; None: there is none."""
    if m.SLOTS not in features and any(start.slot for start in m.starts_of(action)):
        return m.SLOTS
    return DISK if isinstance(action, m.SuspendJob) and action.to_disk and DISK not in features else None


# What a scheduler that lacks features is told, and which features it must not lack.

EVENT_FEATURES: Final[Mapping[type, str]] = {
    m.JobStarted: m.STARTED,
    m.JobModified: m.MODIFIED,
    m.JobRevised: m.MODIFIED,
    m.JobSuspended: m.SUSPENDED,
    m.JobResumed: m.SUSPENDED,
}


# Features of actions alone: what a manager tells does not depend on them.
OF_ACTIONS: Final = frozenset({"notes", "groups", "wakes", "revise", "suspend", "disk", m.SUBMIT})


def tells_all(features: Sequence[str]) -> bool:
    """Tell whether a scheduler with these features is told every event as it is."""
    return set(m.FEATURES) - OF_ACTIONS <= set(features)


def unknown_kinds(features: Sequence[str]) -> frozenset[type]:
    """Return the types of actions that may be unknown, as a whole or by a field, to a manager with these features."""
    kinds = {kind for kind, (_, feature) in FEATURE_ACTIONS.items() if feature not in features}
    fields: set[type] = {m.StartJob, m.StartTogether} if m.SLOTS not in features else set()
    return frozenset(kinds | fields | ({m.SuspendJob} if DISK not in features else set()))


def lacking(features: Sequence[str], required: Sequence[str], inventory: m.Welcome) -> RemoteProtocolError | None:
    """Return why a scheduler with these features cannot be served, or None: it would see what it cannot understand."""
    for feature in required:
        if feature not in features:
            return RemoteProtocolError(
                "unsupported", "features", f"expected the feature {feature}: this manager uses it"
            )
    slots = inventory.slots
    if slots is not None and m.SLOTS not in features and (slots.turns or any(job.slot for job in inventory.running)):
        text = f"expected the feature {m.SLOTS}: jobs share the machine's time here"
        return RemoteProtocolError("unsupported", "features", text)
    if m.APART not in features and any(item.apart for item in inventory.nodes):
        text = f"expected the feature {m.APART}: some jobs are never beside each other here"
        return RemoteProtocolError("unsupported", "features", text)
    if m.DEVICES not in features and any(item.same_nodes for item in inventory.nodes):
        text = f"expected the feature {m.DEVICES}: jobs share all of some nodes or none here"
        return RemoteProtocolError("unsupported", "features", text)
    if m.CAPABILITIES not in features and inventory.capabilities != m.Capabilities():
        text = f"expected the feature {m.CAPABILITIES}: this manager cannot do all that the protocol says"
        return RemoteProtocolError("unsupported", "features", text)
    return None


def welcome_for(welcome: m.Welcome, features: Sequence[str]) -> m.Welcome:
    """Return the welcome as a scheduler with these features is told it: without fields that it does not know."""
    running = [_adapted(item._replace(spec=_adapted(item.spec, features)), features) for item in welcome.running]
    pending = welcome.pending
    kind: Any = m.JobSpec
    if _left_out(kind, tuple(features)):  # else 100,000 jobs would be copied for nothing
        pending = tuple([item._replace(spec=_adapted(item.spec, features)) for item in pending])
    nodes = tuple([_adapted(item, features) for item in welcome.nodes])
    return _adapted(welcome, features)._replace(nodes=nodes, running=tuple(running), pending=pending)


def batch_for(batch: m.Events, features: Sequence[str]) -> m.Events | str:
    """Return the batch as a scheduler with these features is told it; or the feature without which it cannot be told."""
    adapted: list[m.Event] = []
    for event in batch.events:
        needed = EVENT_FEATURES.get(type(event))
        if needed is not None and needed not in features:
            return needed
        match event:
            case m.QuantumEnded() if m.SLOTS not in features:
                continue
            case m.ActionRefused(seq) if seq < batch.seq - 1 and m.RESYNC not in features:
                return m.RESYNC
            case m.JobEnded(job_id, state) if state == m.UNKNOWN and m.UNKNOWN_ENDS not in features:
                adapted.append(m.JobEnded(job_id, m.CANCELLED))
            case m.JobSubmitted(job):
                adapted.append(m.JobSubmitted(_adapted(job, features)))
            case m.JobModified(job):
                adapted.append(m.JobModified(_adapted(job, features)))
            case m.JobStarted() if event.job is not None:
                adapted.append(event._replace(job=_adapted(event.job, features)))
            case _:
                adapted.append(event)
    return batch._replace(events=tuple(adapted))


Described = TypeVar("Described", m.JobSpec, m.RunningJob, m.NodeClass, m.Welcome)


def _adapted(described: Described, features: Sequence[str]) -> Described:
    """Return a record without the fields that a scheduler with these features does not know."""
    kind: Any = type(described)
    left_out = _left_out(kind, tuple(features))
    return described._replace(**left_out) if left_out else described


@lru_cache(maxsize=64)
def _left_out(kind: Any, features: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the fields that belong to features of which a scheduler needs one and has none, and their defaults."""
    return {
        name: kind._field_defaults[name]
        for name, hint in kind.__annotations__.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Feature) and not set(mark.names) & set(features)
    }


def known_action(action: m.Action, features: Sequence[str]) -> m.Action:
    """Return ``action``, or an unknown one where the two ends did not agree on its feature."""
    if needed_feature(action, features) is None:
        return action
    name, _ = FEATURE_ACTIONS.get(type(action), ("start_job with a slot", ""))
    return m.UnknownAction(f"{name} (not agreed on)")  # a name that no action has
