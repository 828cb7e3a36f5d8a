"""The table of the conversation: which end may send which message in which state, and the next state."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from cosched_plugin.protocol.messages import (
    SLOTS,
    Action,
    Actions,
    ChangeSlot,
    Events,
    Hello,
    Ready,
    ResumeJob,
    ReviseJob,
    SetNote,
    SetRotation,
    StartJob,
    StartTogether,
    SuspendJob,
    WakeAt,
    Welcome,
)


class Role(enum.Enum):
    """The two ends."""

    SCHEDULER = "scheduler"
    MANAGER = "manager"


class State(enum.Enum):
    """States of the conversation."""

    START = "start"  # no message yet
    GREETED = "greeted"  # the scheduler said hello; the manager owes a welcome
    WELCOMED = "welcomed"  # the manager told its state; the scheduler owes a ready
    READY = "ready"  # the manager may send a batch
    OPEN = "open"  # a batch is out; the scheduler owes an answer
    CLOSED = "closed"  # over, until a scheduler says hello

    __hash__ = object.__hash__  # Enum's own is a function in Python, and every message looks up its state


Table: TypeAlias = Mapping[State, Mapping[type, State]]

SPEAKER: Final[Mapping[type, Role]] = {
    Hello: Role.SCHEDULER,
    Welcome: Role.MANAGER,
    Ready: Role.SCHEDULER,
    Events: Role.MANAGER,
    Actions: Role.SCHEDULER,
}  # Ping, Pong, ErrorReport and Bye: either

TRANSITIONS: Final[Table] = {
    State.START: {Hello: State.GREETED},
    State.GREETED: {Hello: State.GREETED, Welcome: State.WELCOMED},
    State.WELCOMED: {Hello: State.GREETED, Welcome: State.WELCOMED, Ready: State.READY},
    State.READY: {Hello: State.GREETED, Events: State.OPEN},
    State.OPEN: {Hello: State.GREETED, Events: State.OPEN, Actions: State.READY},
    State.CLOSED: {Hello: State.GREETED},
}

# Messages that may be received although the state does not expect them, by role and state.
CROSSING: Final[Mapping[Role, Mapping[State, frozenset[type]]]] = {
    Role.SCHEDULER: {
        State.START: frozenset(),
        State.GREETED: frozenset({Events}),  # sent before the manager received our hello
        State.WELCOMED: frozenset({Events}),
        State.READY: frozenset({Welcome}),  # answer to a hello that we had repeated
        State.OPEN: frozenset({Welcome}),
        State.CLOSED: frozenset({Welcome, Events}),
    },
    Role.MANAGER: {
        State.START: frozenset(),
        State.GREETED: frozenset({Ready, Actions}),  # sent before the scheduler said hello again
        State.WELCOMED: frozenset({Actions}),
        State.READY: frozenset({Ready, Actions}),  # sent twice, because we had asked twice
        State.OPEN: frozenset({Ready}),
        State.CLOSED: frozenset({Ready, Actions}),
    },
}

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
