"""Bookkeeping of time sharing: threads by slot, and the rotation. One code for both ends of the protocol.

PROTOCOL.md ("Slots", section 4) is the specification. A slot is a row of the matrix of gang scheduling (Ousterhout 1982): all
threads of the machine, for a part of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common.allocation import ThreadPool
from cosched_plugin.common.threads import Layers, busy_refusal, on_nodes, share_nodes
from cosched_plugin.protocol.limits import MAX_SLOTS
from cosched_plugin.protocol.messages import JobSpec, Run, Turn

# What CPU share a job will have in its next quantum: of use to a scheduler, and shown to users. Shares are integers, in millionths.

# Of the last quanta of a job, the newest first; paired gang paper, section 2.3, equation 1
WEIGHTS: Final = (4, 3, 2, 1)


def predict(shares: Sequence[int], *, pad: bool = False) -> int:
    """Return the predicted share; ``shares``: those of the last quanta that count, the newest first, four at most.

    With fewer than four, the weights are those of the measured quanta, as parts of their sum; with ``pad``, quanta that are
    missing count as whole ones. A job without a measured quantum is taken for one that needs the whole CPU.
    """
    if not shares:
        return WHOLE_PPM
    total = weights = 0
    for weight, share in zip(WEIGHTS, shares, strict=False):
        total += weight * (share if share < WHOLE_PPM else WHOLE_PPM)  # ticks may log more than there is
        weights += weight
    if pad:
        missing = sum(WEIGHTS) - weights
        return (total + missing * WHOLE_PPM) // sum(WEIGHTS)
    return total // weights


NO_SLOTS: Final = "this machine has no slots"  # the error of actions that need them


class _SlotPool(ThreadPool):
    """The pool of a slot above 0; it counts its jobs, as their threads do not show while their nodes are out of service."""

    __slots__ = ("jobs",)

    def __init__(self, base: ThreadPool) -> None:
        """Have the memory, the swap space and the nodes in service of ``base``, the pool of slot 0."""
        super().__init__(base.machine)
        self.free_memory_mb = base.free_memory_mb
        self.free_swap_mb = base.free_swap_mb
        self.counts = base.counts
        self.up = base.up
        self.free = _in_service(base)
        self.jobs = 0  # that hold threads

    def take(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> None:
        """Give these threads to ``job``; they must be free."""
        super().take(job, runs, layers)
        self.jobs += 1

    def give_back(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> None:
        """Take these threads back from ``job``; those of nodes out of service stay unavailable."""
        super().give_back(job, runs, layers)
        self.jobs -= 1


class SlotPools:
    """The free threads of each slot. Memory, swap space and nodes in service are the same for all slots."""

    __slots__ = ("_above", "base")

    def __init__(self, base: ThreadPool) -> None:
        """``base`` is the pool of slot 0."""
        self.base = base
        self._above: dict[int, _SlotPool] = {}  # the pools of other slots, where a job is or has just been

    def pool(self, slot: int) -> ThreadPool:
        """Return the pool of a slot; one in which no job is has all threads of the nodes in service free.

        If no job takes threads of it then, `drop` it.
        """
        if not slot:
            return self.base
        pool = self._above.get(slot)
        if pool is None:
            pool = self._above[slot] = _SlotPool(self.base)
        return pool

    def free(self, slot: int) -> Layers:
        """Return the free threads of a slot."""
        if not slot:
            return self.base.free
        pool = self._above.get(slot)
        return _in_service(self.base) if pool is None else pool.free

    def drop(self, slot: int) -> None:
        """Forget a slot above 0 if no job holds threads in it."""
        if slot in self._above and not self._above[slot].jobs:
            del self._above[slot]

    def clear(self) -> None:
        """Release all jobs' resources; nodes out of service stay out of service."""
        self.base.clear()
        self._above.clear()

    def fail_node(self, node: int) -> None:
        """Take ``node`` out of service, in all slots."""
        for pool in (self.base, *self._above.values()):
            pool.fail_node(node)

    def return_node(self, node: int, holders: Mapping[int, Iterable[Layers]]) -> None:
        """Put ``node`` back into service; ``holders``: by slot, the threads of each of its jobs that are on their nodes."""
        self.base.return_node(node, holders.get(0, ()))
        for slot, pool in self._above.items():
            pool.return_node(node, holders.get(slot, ()))

    def change_refusal(self, slot: int, present: int, layers: Layers) -> str | None:
        """Return why a running job on these threads cannot change to ``slot``, or None; ``present`` is its own."""
        reason = slot_refusal(slot)
        if reason is None and slot == present:
            reason = f"it is in slot {slot} already"
        return reason or busy_refusal(layers, self.free(slot))


def _in_service(base: ThreadPool) -> Layers:
    return on_nodes(base.machine.exists, base.up)


class Rotation(NamedTuple):
    """The turns in order, the next one first, and how many quanta of that one are still to come (0: all of them)."""

    turns: tuple[Turn, ...] = ()  # the turns in order, the next one first; the one that ran last is the last
    # how many of the first turn are still to come; 0: all of them. While it is above 0, the turn that ran last is the
    # first
    left: int = 0

    def ended(self, slot: int, left: int) -> Rotation:
        """Return the rotation after a quantum of the turn that begins with ``slot``, of which ``left`` quanta are still to come."""
        for index, turn in enumerate(self.turns):
            if turn.slots[0] == slot:
                first = index if left else index + 1
                return Rotation((*self.turns[first:], *self.turns[:first]), left)
        return self


def rotation_of(turns: Iterable[Turn]) -> Rotation:
    """Return the rotation that an action sets; a policy may have left lists in it."""
    return Rotation(tuple([Turn(tuple(slots), quanta, tuple(guests)) for slots, quanta, guests in turns]))


class Member(NamedTuple):
    """A running job as time sharing sees it."""

    slot: int
    layers: Layers
    unpaired: bool


def slot_refusal(slot: object) -> str | None:
    """Return why there can be no such slot, or None."""
    if type(slot) is not int or not 0 <= slot < MAX_SLOTS:
        return f"slot {slot!r}: expected a number from 0 to {MAX_SLOTS - 1}"
    return None


def quantum_refusal(quantum: object, ended: int) -> str | None:
    """Return why a rotation cannot begin with ``quantum``, or None; ``ended`` is the number of the last quantum that has ended."""
    if type(quantum) is not int or not 1 <= quantum <= ended + 1:
        return f"a rotation from quantum {quantum!r} on: the next one is {ended + 1}"
    return None


def members_of(turn: Turn, jobs: Mapping[int, Member]) -> list[int]:
    """Return the jobs that a turn lets run, in order of id."""
    slots, guests = set(turn.slots), set(turn.guests)
    return sorted([job_id for job_id, member in jobs.items() if member.slot in slots or job_id in guests])


def rotation_refusal(turns: Sequence[Turn], jobs: Mapping[int, Member]) -> str | None:
    """Return why ``turns`` cannot be the rotation of these running jobs, or None."""
    named: set[int] = set()
    occupied = {member.slot for member in jobs.values()}
    unpaired = _unpaired(jobs)
    for turn in turns:
        reason = _turn_refusal(turn, jobs, occupied) or _pairing_refusal(turn, jobs, unpaired)
        if reason is not None:
            return reason
        if turn.slots[0] in named:
            return f"two turns begin with slot {turn.slots[0]}"
        named.add(turn.slots[0])
    return None


def _turn_refusal(turn: Turn, jobs: Mapping[int, Member], occupied: Collection[int]) -> str | None:
    if type(turn.quanta) is not int or turn.quanta < 1:
        return f"a turn of {turn.quanta!r} quanta"
    if not turn.slots:
        return "a turn without a slot"
    if len(set(turn.slots)) < len(turn.slots) or len(set(turn.guests)) < len(turn.guests):
        return f"turn {list(turn.slots)} with guests {list(turn.guests)} names one of them twice"
    for slot in turn.slots:
        if type(slot) is not int or slot not in occupied:
            return f"slot {slot!r} has no job"
    for guest in turn.guests:
        if type(guest) is not int or guest not in jobs:
            return f"job {guest!r} does not run"
        if jobs[guest].slot in turn.slots:
            return f"job {guest} is in slot {jobs[guest].slot} and cannot be a guest of a turn of that slot"
    return None


def pairing_turns(job_id: int, slot: int, turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns in which a job of this slot may have jobs of other slots beside it."""
    return [
        turn
        for turn in turns
        # A guest that was requeued starts again.
        if (len(turn.slots) > 1 or turn.guests) and (slot in turn.slots or job_id in turn.guests)
    ]


def joining_refusal(job_id: int, member: Member, turns: Iterable[Turn], jobs: Mapping[int, Member]) -> str | None:
    """Return why a job cannot become a member of its slot, as a new job or from another slot, or None."""
    joined = {**jobs, job_id: member}
    unpaired = _unpaired(joined)
    for turn in pairing_turns(job_id, member.slot, turns) if unpaired else ():
        reason = _pairing_refusal(turn, joined, unpaired)
        if reason is not None:
            return reason
    return None


def pairing_refusal(turn: Turn, jobs: Mapping[int, Member]) -> str | None:
    """Return why these jobs cannot run in one turn, or None: an unpaired job would have one of another slot on its nodes."""
    return _pairing_refusal(turn, jobs, _unpaired(jobs))


def _pairing_refusal(turn: Turn, jobs: Mapping[int, Member], unpaired: Iterable[int]) -> str | None:
    if len(turn.slots) == 1 and not turn.guests:  # most turns of strict gang scheduling
        return None
    there: list[int] | None = None
    for job_id in unpaired:
        own = jobs[job_id]
        if own.slot in turn.slots or job_id in turn.guests:
            there = members_of(turn, jobs) if there is None else there
            for other in there:
                # In one slot, two jobs may have different threads of a node.
                if jobs[other].slot != own.slot and share_nodes(jobs[other].layers, own.layers):
                    return f"job {job_id} must not run beside job {other}"
    return None


def _unpaired(jobs: Mapping[int, Member]) -> list[int]:
    return sorted([job_id for job_id, member in jobs.items() if member.unpaired])
