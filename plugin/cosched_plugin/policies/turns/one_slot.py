"""Policies that start jobs in slot 0 only, on machines where another policy has left jobs in other slots, or a rotation."""

from __future__ import annotations

from collections.abc import Iterator

from cosched_plugin.api import Action, Policy, SetRotation, Turn, View


class OneSlot:
    """A policy that knows nothing of slots.

    Jobs that another policy has left in other slots keep turns of their own until they have ended. Then slot 0 runs all the time.
    """

    __slots__ = ("_policy",)

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, view: View) -> Iterator[Action]:
        """Yield the decisions of one pass."""
        return _with_turns(self._policy, view) if view.quantum_us else self._policy.decide(view)


def _with_turns(policy: Policy, view: View) -> Iterator[Action]:
    yield from _own_turns(view)  # first: no job may be paired with one that the policy starts
    yield from policy.decide(view)
    yield from _own_turns(view)


def _own_turns(view: View) -> Iterator[Action]:
    """Give each slot with a job a turn of its own; take the rotation away where all jobs are in slot 0."""
    slots, turns = view.slots_used, view.rotation.turns
    if not any(slots):
        slots = ()
    if {(turn.slots, bool(turn.guests)) for turn in turns} != {((slot,), False) for slot in slots}:
        kept = [turn.slots[0] for turn in turns if turn.slots[0] in slots]
        order = (*kept, *[slot for slot in slots if slot not in kept])
        yield SetRotation(view.quantum + 1, tuple([Turn((slot,)) for slot in order]))
