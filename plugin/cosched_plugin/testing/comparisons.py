"""The comparisons of `cosched_plugin.testing.check`: the policy's view with the manager's state, a reply with its decoded form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.errors import ProtocolError
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.running import Ended
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.messages import Action, Actions, Events, NoteValue, Welcome

SomeMessage = TypeVar("SomeMessage", Welcome, Events)


class Watched:
    """A policy, and the ended jobs in its view at its last decision."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.ended: Sequence[Ended] = ()

    def decide(self, view: View) -> Iterator[Action]:
        """Return the decisions of the policy."""
        self.ended = view.ended
        return self._policy.decide(view)


def arrived(message: SomeMessage) -> SomeMessage:
    """Return a message as another process receives it: equal, but without common objects."""
    copy = decode(encode(message))
    assert isinstance(copy, type(message))
    return copy


def find_difference(seen: View, told: View, notes: Mapping[tuple[int | None, str], NoteValue]) -> str | None:
    """Return the first difference of the policy's view, after its answer, from that of a scheduler with a new welcome."""
    pairs: dict[str, tuple[object, object]] = {
        "queue": (seen.queue, told.queue),
        "running": (dict(seen.running), dict(told.running)),
        "ended": (list(seen.ended), list(told.ended)),
        "releases": (list(seen.releases), list(told.releases)),
        "on_disk": (list(seen.on_disk), list(told.on_disk)),
        "resume_us": (seen.resume_us, told.resume_us),
        "free": (seen.free, told.free),
        "in_service": (seen.in_service, told.in_service),
        "free_memory_mb": (list(seen.free_memory_mb), list(told.free_memory_mb)),
        "wakes": (list(seen.wakes()), list(told.wakes())),
        "plan": (seen.availability(), told.availability()),
        "thread_counts": (seen.thread_counts(seen.free).tolist(), told.thread_counts(told.free).tolist()),
        "rotation": (seen.rotation, told.rotation),
        "quantum": ((seen.quantum, seen.quantum_us), (told.quantum, told.quantum_us)),
        "free_in": ([seen.free_in(slot) for slot in told.slots_used], [told.free_in(slot) for slot in told.slots_used]),
        "notes": ({key: seen.note(*key) for key in notes}, notes),
    }
    for name in Machine.__slots__:
        pairs[f"machine.{name}"] = (getattr(seen.machine, name), getattr(told.machine, name))
    for name, (one, other) in pairs.items():
        if one != other:
            return f"{name} {one}, not {other}"
    return None


def find_loss(seq: int, now_us: int, actions: Sequence[Action]) -> str | None:
    """Return the error if a reply cannot be sent to another process or read there, or arrives changed; None if it arrives."""
    reply = Actions(seq, now_us, tuple(actions))
    try:
        copy = decode(encode(reply))
    except ProtocolError as error:
        return f"a reply cannot travel: {error}"
    assert isinstance(copy, Actions)
    for action, other in zip(reply.actions, copy.actions, strict=True):
        if not _is_same(action, other):
            return f"a decision changes on its way to the manager: {action}, arrived as {other}"
    return None


def _is_same(one: object, other: object) -> bool:
    """Return whether two values are equal and of equal types, also inside: True is not 1."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other
