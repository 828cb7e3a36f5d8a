"""Small policies that share time, good and bad, for the conformance check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cosched_plugin import api

WHOLE_PPM = 1_000_000


class RoundRobin:
    """Two slots in turns; a job goes into the first one in which it finds room."""

    slots: Sequence[int] = (0, 1)

    def decide(self, view: api.View) -> Iterator[api.Action]:
        if not view.quantum_us:
            raise api.MachineError("no slots")
        if view.quantum_ended or not view.running:
            yield from self.place(view)
        yield from self.rotate(view)

    def place(self, view: api.View) -> Iterator[api.Action]:
        for job in view.queue:
            start = self.find(job, view)
            if start is not None:
                yield start

    def find(self, job: api.JobSpec, view: api.View) -> api.StartJob | None:
        for slot in self.slots:
            runs = api.first_fit(job, view.free_in(slot), view.machine, view.free_memory_mb)
            if runs is not None:
                return api.StartJob(job.id, runs, job.estimate_us, job.limit_us, slot)
        return None

    def rotate(self, view: api.View) -> Iterator[api.Action]:
        turns = self.turns(view)
        if view.rotation != api.Rotation(turns, view.rotation.left):
            yield api.SetRotation(view.quantum + 1, turns)

    def turns(self, view: api.View) -> tuple[api.Turn, ...]:
        """Return a turn for each slot with a job, in the order of the present rotation, the new ones last."""
        used = view.slots_used
        kept = [turn.slots[0] for turn in view.rotation.turns if turn.slots[0] in used]
        return tuple([self.turn(slot, view) for slot in (*kept, *(slot for slot in used if slot not in kept))])

    def turn(self, slot: int, view: api.View) -> api.Turn:
        return api.Turn((slot,))


class LongTurns(RoundRobin):
    """Turns of as many quanta as the slot has jobs."""

    def turn(self, slot: int, view: api.View) -> api.Turn:
        return api.Turn((slot,), sum(running.slot == slot for running in view.running.values()))


class Pairing(RoundRobin):
    """Three slots: a slot has another one beside it if both have used little of the CPUs, and else guests on its idle nodes.

    Jobs move to lower slots when there is room.
    """

    slots = (0, 1, 2)

    def place(self, view: api.View) -> Iterator[api.Action]:
        alone = tuple([api.Turn(turn.slots[:1]) for turn in view.rotation.turns if turn.slots[0] in view.slots_used])
        if alone != view.rotation.turns:
            yield api.SetRotation(view.quantum + 1, alone)  # so that no new job is paired that must not be
        for job_id, running in sorted(view.running.items()):
            for slot in range(running.slot):
                if all(held & ~free == 0 for held, free in zip(running.layers, view.free_in(slot), strict=True)):
                    yield api.ChangeSlot(job_id, slot)
                    break
        yield from super().place(view)

    def turn(self, slot: int, view: api.View) -> api.Turn:
        rows = {used: [each for each in view.running.values() if each.slot == used] for used in view.slots_used}
        row = rows[slot]
        for other in view.slots_used:
            if other != slot and load(row) + load(rows[other]) < WHOLE_PPM and not disturbed([*row, *rows[other]]):
                return api.Turn((slot, other))
        members = list(row)
        for _, each in sorted(view.running.items()):
            if each.slot != slot and not any(api.share_nodes(each.layers, member.layers) for member in members):
                members.append(each)
        return api.Turn((slot,), 1, tuple([each.job.id for each in members[len(row) :]]))


def load(row: Sequence[api.Running]) -> int:
    """Return the largest share that a job of the row has used in its last quantum; a new job counts as all."""
    return max([running.shares[0] if running.shares else WHOLE_PPM for running in row])


def disturbed(jobs: Sequence[api.Running]) -> bool:
    return any(
        one.job.unpaired and one.slot != other.slot and api.share_nodes(one.layers, other.layers)
        for one in jobs
        for other in jobs
    )


# ---------------------------------------------------------------- forbidden behaviour


class Remembering(RoundRobin):
    """Keep the rotation in memory, instead of looking at that of the manager."""

    def __init__(self) -> None:
        self.last: tuple[api.Turn, ...] = ()

    def rotate(self, view: api.View) -> Iterator[api.Action]:
        turns = tuple([api.Turn((slot,)) for slot in view.slots_used])
        if turns != self.last:
            self.last = turns
            yield api.SetRotation(view.quantum + 1, turns)


class Counting(RoundRobin):
    """Count the quanta in memory; every third turn is a long one."""

    def __init__(self) -> None:
        self.ended = 0

    def rotate(self, view: api.View) -> Iterator[api.Action]:
        self.ended += view.quantum_ended
        yield from super().rotate(view)

    def turn(self, slot: int, view: api.View) -> api.Turn:
        return api.Turn((slot,), 1 + self.ended % 3)


class Trusting(RoundRobin):
    """Set the rotation together with a start only, so that one that the manager has refused is never set again."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        if not view.quantum_us:
            raise api.MachineError("no slots")
        if view.quantum_ended or not view.running:
            started = False
            for action in self.place(view):
                started = True
                yield action
            if started:
                yield from self.rotate(view)


class Still(RoundRobin):
    """Start jobs in two slots, and set no rotation."""

    def rotate(self, view: api.View) -> Iterator[api.Action]:
        return iter(())


class Restless(RoundRobin):
    """Set the rotation that there is once more."""

    def rotate(self, view: api.View) -> Iterator[api.Action]:
        yield api.SetRotation(view.quantum + 1, self.turns(view))


class Reckless(Pairing):
    """Let all slots run together, unpaired jobs or not."""

    def turn(self, slot: int, view: api.View) -> api.Turn:
        return api.Turn((slot, *(other for other in view.slots_used if other != slot)))
