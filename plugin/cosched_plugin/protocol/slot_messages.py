"""The vocabulary of time sharing: slots, the rotation that takes turns among them, and what jobs consume in a quantum.

Part of `messages`, which re-exports it. PROTOCOL.md ("Slots", section 4) is the specification.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SLOTS: Final = "slots"  # the feature
MOST_SHARES: Final = 4  # consumed shares that the manager keeps of a job (paired gang paper, section 2.2)


class Turn(NamedTuple):
    """What may run in ``quanta`` quanta in a row: the jobs of these slots, and the guests, all of them together."""

    slots: tuple[int, ...]  # at least one; the first one names the turn
    quanta: int = 1
    guests: tuple[int, ...] = ()  # ids of running jobs of other slots


class SlotState(NamedTuple):
    """The time sharing of a machine in a `Welcome`."""

    quantum_us: int  # length of a quantum
    quantum: int = 0  # number of the last quantum that has ended; 0: none yet
    turns: tuple[Turn, ...] = ()  # the rotation, the next turn first; none: slot 0 runs all the time
    left: int = 0  # quanta of the first turn that are still to come; 0: all of them


class QuantumEnded(NamedTuple):
    """A quantum ended; ``shares`` are those of the jobs that could run for at least half of it, by job id.

    A share is the CPU time that was logged for the job, as a part of the time for which it could run, in millionths: the mean
    over its processes.
    """

    quantum: int  # its number, from 1
    slot: int  # the first slot of the turn that it belonged to
    left: int = 0  # quanta of that turn that are still to come
    shares: tuple[tuple[int, int], ...] = ()  # (job id, share)


class SetRotation(NamedTuple):
    """Set the rotation: the first turn is that of quantum number ``quantum``; if that has ended, a later one.

    No two turns have the same first slot. Without turns, slot 0 runs all the time.
    """

    quantum: int
    turns: tuple[Turn, ...]


class ChangeSlot(NamedTuple):
    """Move a running job to another slot, in which its threads are free; it stays on its nodes."""

    job_id: int
    slot: int
