"""Features: what each stands for, and what a peer that lacks one is told instead.

Both ends know a feature, or neither uses it. A scheduler's action of a feature that was not agreed on is unknown to the manager. What a
manager has to tell a scheduler that lacks the feature is left out, told in older words, or makes the scheduler say hello again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import (
    CANCELLED,
    CAPABILITIES,
    ELIGIBLE,
    FEATURES,
    HARDWARE,
    KILL,
    MODIFIED,
    PRIORITY,
    PROFILE,
    REQUEUE,
    RESOURCES,
    RESYNC,
    SLOTS,
    STARTED,
    SUBMIT,
    SUSPENDED,
    UNKNOWN,
    UNKNOWN_ENDS,
    Action,
    ActionRefused,
    Capabilities,
    ChangeSlot,
    Event,
    Events,
    JobEnded,
    JobModified,
    JobResumed,
    JobRevised,
    JobSpec,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    KillJob,
    QuantumEnded,
    RequeueJob,
    ResumeJob,
    ReviseJob,
    SetNote,
    SetRotation,
    StartJob,
    StartTogether,
    SubmitJob,
    SuspendJob,
    UnknownAction,
    WakeAt,
    Welcome,
)

# Actions that may be used only where both ends know the feature: their names on the wire, and the feature.
FEATURE_ACTIONS: Final[Mapping[type, tuple[str, str]]] = {
    SetNote: ("set_note", "notes"),
    StartTogether: ("start_together", "groups"),
    WakeAt: ("wake_at", "wakes"),
    ReviseJob: ("revise_job", "revise"),
    SuspendJob: ("suspend_job", "suspend"),
    ResumeJob: ("resume_job", "suspend"),
    SetRotation: ("set_rotation", SLOTS),
    ChangeSlot: ("change_slot", SLOTS),
    RequeueJob: ("requeue_job", REQUEUE),
    KillJob: ("kill_job", KILL),
    SubmitJob: ("submit_job", SUBMIT),
}
DISK: Final = "disk"  # the feature that `suspend_job` needs besides, to set `to_disk`
OVERLOOKED: Final = (DISK, SLOTS)  # features with a field in an action that a manager may know without them


def needed_feature(action: Action, features: Sequence[str]) -> str | None:
    """Return the feature without which ``action`` may not be used and that ``features`` lack; None: it may be used."""
    _, feature = FEATURE_ACTIONS.get(type(action), ("", None))
    return feature if feature is not None and feature not in features else overlooked_feature(action, features)


def overlooked_feature(action: Action, features: Sequence[str]) -> str | None:
    """Return the feature that ``features`` lack and without which a manager overlooks a field of ``action``; None: there is none."""
    if SLOTS not in features and any(start.slot for start in _starts(action)):
        return SLOTS
    return DISK if isinstance(action, SuspendJob) and action.to_disk and DISK not in features else None


def _starts(action: Action) -> tuple[StartJob, ...]:
    match action:
        case StartJob():
            return (action,)
        case StartTogether():
            return action.starts
        case _:
            return ()


# What a scheduler that lacks features is told, and which features it must not lack.

EVENT_FEATURES: Final[Mapping[type, str]] = {
    JobStarted: STARTED,
    JobModified: MODIFIED,
    JobRevised: MODIFIED,
    JobSuspended: SUSPENDED,
    JobResumed: SUSPENDED,
}


# Features of actions alone: what a manager tells does not depend on them.
OF_ACTIONS: Final = frozenset({"notes", "groups", "wakes", "revise", "suspend", "disk", SUBMIT})


def tells_all(features: Sequence[str]) -> bool:
    """Tell whether a scheduler with these features is told every event as it is."""
    return set(FEATURES) - OF_ACTIONS <= set(features)


def unknown_kinds(features: Sequence[str]) -> frozenset[type]:
    """Return the types of actions that may be unknown, as a whole or by a field, to a manager with these features."""
    kinds = {kind for kind, (_, feature) in FEATURE_ACTIONS.items() if feature not in features}
    fields: set[type] = {StartJob, StartTogether} if SLOTS not in features else set()
    return frozenset(kinds | fields | ({SuspendJob} if DISK not in features else set()))


def lacking(features: Sequence[str], required: Sequence[str], inventory: Welcome) -> RemoteProtocolError | None:
    """Return why a scheduler with these features cannot be served, or None: it would see what it cannot understand."""
    for feature in required:
        if feature not in features:
            return RemoteProtocolError(
                "unsupported", "features", f"expected the feature {feature}: this manager uses it"
            )
    slots = inventory.slots
    if slots is not None and SLOTS not in features and (slots.turns or any(job.slot for job in inventory.running)):
        text = f"expected the feature {SLOTS}: jobs share the machine's time here"
        return RemoteProtocolError("unsupported", "features", text)
    if CAPABILITIES not in features and inventory.capabilities != Capabilities():
        text = f"expected the feature {CAPABILITIES}: this manager cannot do all that the protocol says"
        return RemoteProtocolError("unsupported", "features", text)
    return None


def told_welcome(welcome: Welcome, features: Sequence[str]) -> Welcome:
    """Return the welcome as a scheduler with these features is told it: without fields that it does not know."""
    if SLOTS not in features:
        welcome = welcome._replace(slots=None)
    if HARDWARE not in features:
        welcome = welcome._replace(nodes=tuple([item._replace(hardware=None) for item in welcome.nodes]))
    if RESOURCES not in features:
        nodes = tuple([item._replace(resources=()) for item in welcome.nodes])
        welcome = welcome._replace(nodes=nodes, licences=())
    running = [item._replace(spec=_told_job(item.spec, features)) for item in welcome.running]
    if SUSPENDED not in features:
        running = [item._replace(held=False) for item in running]
    if REQUEUE not in features and KILL not in features:
        running = [item._replace(leaving=False) for item in running]
    pending = [item._replace(spec=_told_job(item.spec, features)) for item in welcome.pending]
    return welcome._replace(running=tuple(running), pending=tuple(pending))


def told_batch(batch: Events, features: Sequence[str]) -> Events | str:
    """Return the batch as a scheduler with these features is told it; or the feature without which it cannot be told."""
    told: list[Event] = []
    for event in batch.events:
        needed = EVENT_FEATURES.get(type(event))
        if needed is not None and needed not in features:
            return needed
        match event:
            case QuantumEnded() if SLOTS not in features:
                continue
            case ActionRefused(seq) if seq < batch.seq - 1 and RESYNC not in features:
                return RESYNC
            case JobEnded(job_id, state) if state == UNKNOWN and UNKNOWN_ENDS not in features:
                told.append(JobEnded(job_id, CANCELLED))
            case JobSubmitted(job):
                told.append(JobSubmitted(_told_job(job, features)))
            case JobModified(job):
                told.append(JobModified(_told_job(job, features)))
            case JobStarted() if event.job is not None:
                told.append(event._replace(job=_told_job(event.job, features)))
            case _:
                told.append(event)
    return batch._replace(events=tuple(told))


def _told_job(job: JobSpec, features: Sequence[str]) -> JobSpec:
    """Return a job without the fields that a scheduler with these features does not know."""
    if job.profile is not None and PROFILE not in features:
        job = job._replace(profile=None)
    if job.priority and PRIORITY not in features:
        job = job._replace(priority=0)
    if job.eligible and ELIGIBLE not in features:
        job = job._replace(eligible=())
    if (job.resources or job.licences) and RESOURCES not in features:
        job = job._replace(resources=(), licences=())
    return job


def known_action(action: Action, features: Sequence[str]) -> Action:
    """Return ``action``, or an unknown one where the two ends did not agree on its feature."""
    if needed_feature(action, features) is None:
        return action
    name, _ = FEATURE_ACTIONS.get(type(action), ("start_job with a slot", ""))
    return UnknownAction(f"{name} (not agreed on)")  # a name that no action has
