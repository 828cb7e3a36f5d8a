"""Policies that know nothing of slots take over from gang scheduling while a rotation runs, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.emulator.manager.time_sharing.site import QUANTUM_US, rotating_of, share, time_shared, under
from tests.emulator.parts import Answer, job

from cosched_emulator.manager.manager import Manager
from cosched_plugin.api import Rotation
from cosched_plugin.common.slots import Member, pairing_refusal
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.policies.composition.resolved import resolve
from cosched_plugin.protocol import messages as m

CHANGE_US = 4 * QUANTUM_US + 1
JOBS = [
    job(number, number % 9 * QUANTUM_US, 300_000 + number * 977_123 % 2_000_000, processes=1 + number % 4)
    for number in range(1, 15)
]


def preset(name: str, manager: Manager) -> Answer:
    return under(lambda: compose({"preset": name}), manager)


def one_after_the_other(first: Answer, second: Answer) -> Answer:
    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return (first if now_us < CHANGE_US else second)(now_us, events)

    return answer


def unpaired_jobs_are_alone(manager: Manager) -> bool:
    jobs = {number: Member(each.slot, each.layers, each.job.spec.unpaired) for number, each in manager.running.items()}
    return all(pairing_refusal(turn, jobs) is None for turn in rotating_of(manager).rotation.turns)


@pytest.mark.parametrize(
    "name",
    [name if name in ("easy", "rua", "glts") else pytest.param(name, marks=pytest.mark.slow) for name in PRESETS],
)
def test_jobs_in_slots_run_to_their_end_under_a_policy_without_slots(name: str) -> None:
    manager = time_shared(4, swap_mb=100)
    jobs = sorted(
        [each._replace(spec=each.spec._replace(unpaired=each.spec.id % 4 == 0)) for each in JOBS],
        key=lambda each: (each.spec.submit_us, each.spec.id),
    )
    turns: list[int] = []

    def watched(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        assert unpaired_jobs_are_alone(manager)
        turns.append(len(rotating_of(manager).rotation.turns))
        return second(now_us, events)

    second = preset(name, manager)
    done = share(one_after_the_other(preset("blind", manager), watched), jobs, manager)
    assert {record.state for record in done.records.values()} == {m.COMPLETED}
    assert turns[0] > 1
    if resolve({"preset": name})["backfill"]["name"] != "gang":
        assert rotating_of(manager).rotation == Rotation()
        after = {number for number, record in done.records.items() if record.intervals[0].start_us >= CHANGE_US}
        assert len(after) > 2
        assert all(part.slot == 0 for quantum in done.quanta for part in quantum.parts if part.job_id in after)


def test_gang_scheduling_takes_over_from_a_policy_without_slots() -> None:
    manager = time_shared(4)
    jobs = sorted(JOBS, key=lambda each: (each.spec.submit_us, each.spec.id))
    done = share(one_after_the_other(preset("easy", manager), preset("paired-gang", manager)), jobs, manager)
    assert {record.state for record in done.records.values()} == {m.COMPLETED}
    assert {quantum.start_us >= CHANGE_US for quantum in done.quanta} == {True}
