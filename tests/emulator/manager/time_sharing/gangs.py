"""Small gang schedulers for tests: slots in turns, with or without a second one beside each."""

from __future__ import annotations

from collections.abc import Iterator

from cosched_plugin.api import Action, JobSpec, SetRotation, StartJob, Turn, View, first_fit


class Gang:
    """Places jobs first come, first served into the lowest slot with room, when a quantum ends or nothing runs.

    All slots take turns. With ``pairs`` the next slot runs beside each one.
    """

    def __init__(self, pairs: bool = False, most_slots: int = 100) -> None:
        self.pairs = pairs
        self.most_slots = most_slots

    def decide(self, view: View) -> Iterator[Action]:
        """Place what there is room for, and keep all slots in the rotation.

        A rotation that came too late was refused, so that jobs may be in a slot that no turn names.
        """
        if not view.quantum_us:
            return
        if view.quantum_ended or not view.running:
            for job in view.queue:
                slot = self.room_for(view, job)
                if slot is None:
                    break
                runs = first_fit(job, view.free_in(slot), view.machine, view.free_memory_mb)
                assert runs is not None
                yield StartJob(job.id, runs, job.estimate_us, job.limit_us, slot)
        turns = self.turns(view)
        named = {turn.slots[0] for turn in view.rotation.turns}
        if turns != view.rotation.turns and (view.quantum_ended or not named.issuperset(view.slots_used)):
            yield SetRotation(view.quantum + 1, turns)

    def room_for(self, view: View, job: JobSpec) -> int | None:
        """Return the lowest slot in which a job has a place."""
        for slot in range(min(len(view.slots_used) + 1, self.most_slots)):
            if first_fit(job, view.free_in(slot), view.machine, view.free_memory_mb) is not None:
                return slot
        return None

    def turns(self, view: View) -> tuple[Turn, ...]:
        """Return the turns of the slots in use, in the order of the rotation, new ones last."""
        used = list(view.slots_used)
        before = [turn.slots[0] for turn in view.rotation.turns if turn.slots[0] in used]
        order = before + [slot for slot in used if slot not in before]
        if not self.pairs or len(order) < 2:
            return tuple(Turn((slot,)) for slot in order)
        return tuple(Turn((slot, order[(index + 1) % len(order)])) for index, slot in enumerate(order))


class PairedGang(Gang):
    """The same with pairs."""

    def __init__(self) -> None:
        super().__init__(pairs=True)
