"""Random decisions about slots against a live manager: late rotations and moves, vanished slots, requeued guests, unpaired jobs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.emulator.live.test_live_random import SHARED, SITES, Life, assert_same

from cosched_emulator.users.requests import SubmitJob
from cosched_plugin import api
from cosched_plugin.common.slots import Member, joining_refusal, pairing_refusal
from cosched_plugin.common.threads import busy_refusal, layers_of
from cosched_plugin.ledger.entries import members

MOST_SLOTS = 5
POLICY = f"{__name__}:RandomSlots"
SITES[POLICY] = {**SHARED, "preemption": {"resume_s": 20.0}}


class RandomSlots:
    """Draws decisions that are possible as far as the view knows; what it draws depends on the view alone."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        random = Random(f"{view.now_us}/{view.quantum}/{view.queued}/{len(view.running)}")
        for _ in range(random.randrange(6)):
            yield from self.change(random, view)
        for job in view.queue if random.random() < 0.6 or not view.running else ():
            yield from self.start(random, view, job)
        named = {turn.slots[0] for turn in view.rotation.turns}
        if not named.issuperset(view.slots_used) or random.random() < 0.2:
            yield self.rotation(random, view, list(view.slots_used))
        for job_id, running in sorted(view.running.items()):
            if running.suspended_us is not None and random.random() < 0.8:
                yield from self.resume(job_id, running, view)
        if (view.running or view.queue) and not view.wakes():
            yield api.WakeAt(view.now_us + 30_000_000)

    def change(self, random: Random, view: api.View) -> Iterator[api.Action]:
        """Yield a change of a running job, or of the rotation, or nothing."""
        used = list(view.slots_used)
        if random.random() < 0.3:
            yield self.rotation(random, view, random.sample(used, random.randint(0, len(used))))
        if not view.running:
            return
        job_id = random.choice(sorted(view.running))
        running, slot = view.running[job_id], random.randrange(MOST_SLOTS)
        if running.suspended_us is not None:
            yield from self.resume(job_id, running, view)
        elif random.random() < 0.3:
            yield api.SuspendJob(job_id, to_disk=random.random() < 0.5)  # jobs take no memory, so disks have room
        elif (
            slot != running.slot
            and busy_refusal(running.layers, view.free_in(slot)) is None
            and self.may_join(running.job, slot, running.layers, view)
        ):
            yield api.ChangeSlot(job_id, slot)

    def resume(self, job_id: int, running: api.Running, view: api.View) -> Iterator[api.Action]:
        if not running.on_disk or view.may_resume(running):
            yield api.ResumeJob(job_id)

    def start(self, random: Random, view: api.View, job: api.JobSpec) -> Iterator[api.Action]:
        slot = random.randrange(MOST_SLOTS)
        runs = api.first_fit(job, view.free_in(slot), view.machine, view.free_memory_mb)
        if runs is not None and self.may_join(job, slot, layers_of(runs, view.machine.depth), view):
            yield api.StartJob(job.id, runs, job.estimate_us, job.limit_us, slot)

    def may_join(self, job: api.JobSpec, slot: int, layers: api.Layers, view: api.View) -> bool:
        member = Member(slot, layers, job.unpaired)
        return joining_refusal(job.id, member, view.rotation.turns, members(view.running)) is None

    def rotation(self, random: Random, view: api.View, slots: list[int]) -> api.SetRotation:
        random.shuffle(slots)
        turns = []
        for slot in slots:
            own = (slot, *[other for other in slots if other != slot and random.random() < 0.25])
            others = [job_id for job_id, running in sorted(view.running.items()) if running.slot not in own]
            guests = tuple([job_id for job_id in others if random.random() < 0.2])
            turn = api.Turn(own, random.choice((1, 1, 2, 3)), guests)
            turns.append(turn if pairing_refusal(turn, members(view.running)) is None else api.Turn((slot,)))
        return api.SetRotation(view.quantum + 1, tuple(turns))


class SlotLife(Life):
    """A life in which some jobs are never paired."""

    def submission(self) -> SubmitJob:
        wish = super().submission()
        return wish._replace(job=wish.job._replace(unpaired=self.draws.chance(0.2)))


@pytest.mark.parametrize(
    ("late", "seeds", "rounds"),
    [
        (True, range(1), 150),
        *[
            pytest.param(late, range(k, k + 5), 500, marks=pytest.mark.slow)
            for late in (False, True)
            for k in (1, 6, 11)
        ],
    ],
)
def test_random_slots_keep_scheduler_manager_and_replay_equal(late: bool, seeds: range, rounds: int) -> None:
    quanta = unpaired = 0
    refusals: list[str] = []
    for seed in seeds:
        life = SlotLife(POLICY, seed, late=late)
        life.go(rounds)
        unpaired += sum(job.job.spec.unpaired for job in life.live.manager.jobs.values())
        live, books = life.replayed()
        assert_same(live, life.live)
        assert books.changes == life.books.changes
        life.run_out()
        assert None not in life.books.states.values()
        assert life.live.manager.processes is not None
        quanta += life.live.manager.processes.quantum
        refusals += life.refusals
    assert quanta > 20 * len(seeds)
    assert unpaired
    assert any("slot" in text or "beside" in text or "not free there" in text for text in refusals) or not late
