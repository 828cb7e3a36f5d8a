"""Quanta and turns: what runs when, at which instant, and what the scheduler is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import pytest
from tests.emulator.manager.time_sharing.gangs import Gang, PairedGang
from tests.emulator.manager.time_sharing.site import QUANTUM_US, clusters, rotating_of, share, time_shared, under
from tests.emulator.parts import Answer, job, play
from tests.runs import runs_on

from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.timeline import FOREVER_US
from cosched_emulator.nodeos.programs import Barrier, Compute, Loop, Program, Wait
from cosched_emulator.nodeos.skeletons.paired_gang import fine_program
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol import messages as m

S = 1_000_000


def wide(number: int, slot: int = 0, nodes: int = 4) -> m.StartJob:
    """Start a job of as many processes on the first nodes, in a slot."""
    return m.StartJob(number, runs_on((0, nodes, 1, 1)), S, None, slot)


def big(number: int, submit_us: int = 0, run_us: int = 3 * S, processes: int = 4, **rest: int | None) -> WorkloadJob:
    return job(number, submit_us, run_us, processes=processes, **rest)  # type: ignore[arg-type]


Actions: TypeAlias = Sequence[m.Action]


def once(first: Actions, later: dict[int, Actions] | None = None) -> Answer:
    """Return a scheduler that answers the first batch, and the first one at or after given times."""
    left = {0: first, **(later or {})}

    def answer(now_us: int, _events: Sequence[m.Event]) -> list[m.Action]:
        for at_us in sorted(left):
            if at_us <= now_us:
                return list(left.pop(at_us))
        return []

    return answer


def turns(*slots: tuple[int, ...], quanta: int = 1) -> tuple[m.Turn, ...]:
    return tuple(m.Turn(each, quanta) for each in slots)


def test_a_pair_shares_the_cpu_and_a_guest_fills_idle_nodes() -> None:
    rotation = m.SetRotation(1, (m.Turn((0,), 1, (3,)), m.Turn((1,))))
    starts = [wide(1, nodes=2), wide(2, 1), m.StartJob(3, runs_on((2, 2, 1, 1)), S, None, 2)]
    done = share(once([*starts, rotation]), [big(1, processes=2), big(2, run_us=S), big(3, run_us=2 * S, processes=2)])
    assert done.turns() == [(1, 3), (2,), (1, 3), (1,)]
    assert [(part.role, part.slot, part.paired) for part in done.quanta[0].parts] == [
        ("row", 0, False), ("guest", 2, False),
    ]  # fmt: skip
    both = share(once([wide(1), wide(2, 1), m.SetRotation(1, turns((0, 1)))]), [big(1), big(2)])
    quantum = both.quanta[0]
    assert (quantum.nodes, quantum.paired_nodes, [part.paired for part in quantum.parts]) == (4, 4, [True, True])
    assert [part.role for part in quantum.parts] == ["row", "partner"]
    assert sum(part.consumed_us for part in quantum.parts) == 4 * S
    assert max(end or 0 for end in both.ends_s().values()) == 6.0


def test_a_late_rotation_takes_effect_with_the_next_quantum() -> None:
    """The reply names a quantum that has ended: the turn after the one that runs now comes next."""
    managed = time_shared()
    jobs = [big(1), big(2), big(3)]
    for each in jobs:
        managed.accept(each)
    managed.commit(1, 0, [m.JobSubmitted(each.spec) for each in jobs], [
        wide(1), wide(2, 1), wide(3, 2), m.SetRotation(1, turns((0,), (1,), (2,))),
    ])  # fmt: skip
    managed.settle(0)
    pass_quantum(managed, 1)
    pass_quantum(managed, 2)  # now the turn of slot 2 runs
    assert managed.commit(2, 2_400_000, (), [m.SetRotation(2, turns((2,), (0,), (1,)))]) == []
    managed.settle(2_400_000)
    assert managed.inventory().slots == m.SlotState(QUANTUM_US, 2, turns((2,), (0,), (1,)))
    ended = pass_quantum(managed, 3)
    assert (ended.slot, ended.left) == (2, 0)
    assert managed.inventory().slots == m.SlotState(QUANTUM_US, 3, turns((0,), (1,), (2,)))
    # One for the quantum that runs takes effect at once; what ran until then gets no share, as it was not half of it.
    rotating_of(managed).run(3_200_000)
    assert managed.commit(3, 3_200_000, (), [m.SetRotation(4, turns((1,), (2,), (0,)))]) == []
    managed.settle(3_200_000)
    ended = pass_quantum(managed, 4)
    assert (ended.slot, ended.shares) == (1, ((2, S),))
    refused = managed.commit(4, 4 * S, (), [m.SetRotation(6, turns((0,))), m.SetRotation(5, turns((7,)))])
    assert [event.reason for event in refused if isinstance(event, m.ActionRefused)] == [
        "a rotation from quantum 6 on: the next one is 5", "slot 7 has no job",
    ]  # fmt: skip


def pass_quantum(managed: Manager, number: int) -> m.QuantumEnded:
    """Let the quantum that runs end, and the next one begin."""
    at_us = number * QUANTUM_US
    rotating_of(managed).run(at_us)
    for time_us, _, _, version in managed.timeline.pop_due(at_us):
        event = managed.quantum_event(version, ())
        if event is not None:
            assert (time_us, event.quantum) == (at_us, number)
            managed.apply(at_us, [event])
            managed.settle(at_us)
            managed.check()
            return event
    raise AssertionError(f"quantum {number} has no end")


def test_a_rotation_that_missed_several_quanta_goes_on_where_the_scheduler_will_think_it_is() -> None:
    managed = time_shared()
    jobs = [big(1, run_us=9 * S), big(2, run_us=9 * S)]
    for each in jobs:
        managed.accept(each)
    managed.commit(1, 0, [m.JobSubmitted(each.spec) for each in jobs], [
        wide(1), wide(2, 1), m.SetRotation(1, turns((0,), (1,))),
    ])  # fmt: skip
    managed.settle(0)
    events = [pass_quantum(managed, number) for number in (1, 2, 3)]
    late = m.SetRotation(2, turns((0,), (1,)))
    assert managed.commit(2, 3_100_000, (), [late]) == []
    there = rotating_of(managed).rotation.__class__(late.turns)
    for event in events[1:]:
        there = there.ended(event.slot, event.left)
    assert rotating_of(managed).rotation == there
    assert there.turns == turns((1,), (0,))  # not the turns as they were sent


def test_a_late_rotation_that_lets_nothing_run_yet_stops_no_job() -> None:
    managed = time_shared()
    jobs = [big(1, run_us=1_500_000), big(2)]
    for each in jobs:
        managed.accept(each)
    managed.commit(1, 0, [m.JobSubmitted(each.spec) for each in jobs], [
        wide(1, 1), wide(2), m.SetRotation(1, turns((1,))),
    ])  # fmt: skip
    managed.settle(0)
    pass_quantum(managed, 1)
    rotating_of(managed).run(1_200_000)
    assert managed.commit(2, 1_200_000, (), [m.SetRotation(1, ())]) == []  # late: there is to be no rotation any more
    managed.settle(1_200_000)
    rotating_of(managed).run(2 * S)
    managed.check()
    end = managed.end_event(1, managed.jobs[1].version)
    assert end == m.JobEnded(1, m.COMPLETED)
    managed.commit(3, 1_500_000, [end], ())
    managed.settle(1_500_000)
    managed.check()
    rotating_of(managed).run(FOREVER_US)  # slot 0 runs from then on
    assert managed.timeline.next_us() is not None
    assert [entry[0] for entry in sorted(managed.timeline.heap) if entry[2] == 2] == [4_500_000]


def test_a_job_of_a_millisecond_and_one_that_ends_between_bursts() -> None:
    def program_of(job: WorkloadJob) -> Program:
        return Program((Loop(1, (Compute(500), Wait(500), Barrier())),)) if job.spec.id == 1 else fine_program(0.5)

    manager = time_shared(program_of=program_of)
    done = share(
        once([wide(1), wide(2, 1), m.SetRotation(1, turns((0,), (1,)))]), [big(1, run_us=1_000), big(2)], manager
    )
    assert done.records[1].end_us == 1_920  # with the barrier
    assert (done.records[1].cpu_us, done.records[1].dispatched_us) == (500, 1_920)
    assert done.records[2].state == "COMPLETED"
    assert done.quanta[1].start_us == S


def test_the_end_of_a_process_that_was_stopped_before_its_last_barrier_opened() -> None:
    """What a stopped process waits for completes meanwhile, so the job ends at the first instant of its next quantum."""
    program = Program((Loop(1, (Compute(S - 100), Barrier())),))
    manager = time_shared(
        program_of=lambda job: program if job.spec.id == 1 else Program((Loop(1, (Compute(3 * S),)),))
    )
    done = share(once([wide(1), wide(2, 1), m.SetRotation(1, turns((0,), (1,)))]), [big(1), big(2)], manager)
    assert done.ends_s() == {1: 2.0, 2: 5.0}
    assert done.turns()[2] == ()  # it could run for no time at all
    assert done.records[1].dispatched_us == S


def test_limits_count_only_time_for_which_a_job_could_run() -> None:
    jobs = [big(1, run_us=3 * S, limit_us=1_500_000), big(2, run_us=3 * S, limit_us=3 * S)]
    starts = [wide(1)._replace(limit_us=1_500_000), wide(2, 1)._replace(limit_us=3 * S)]
    done = share(once([*starts, m.SetRotation(1, turns((0,), (1,)))]), jobs)
    assert (done.records[1].state, done.records[1].end_us) == (m.TIMEOUT, 2_500_000)
    assert (done.records[1].work_us, done.records[1].dispatched_us) == (1_500_000, 1_500_000)
    assert (done.records[2].state, done.records[2].end_us) == (m.COMPLETED, 5 * S)  # at its limit it has completed
    plain = share(once([starts[0]]), jobs[:1])
    assert (plain.records[1].state, plain.records[1].end_us) == (m.TIMEOUT, 1_500_000)


def test_a_revised_limit_counts_from_the_time_that_the_job_could_run() -> None:
    jobs = [big(1, run_us=3 * S, limit_us=S), big(2)]
    revision = m.ReviseJob(1, S, 2 * S)
    answer = once(
        [wide(1)._replace(limit_us=S + 500_000), wide(2, 1), m.SetRotation(1, turns((0,), (1,)))], {S: [revision]}
    )
    done = share(answer, jobs)
    assert (done.records[1].state, done.records[1].end_us) == (m.TIMEOUT, 3 * S)


def test_a_machine_without_slots_refuses_them() -> None:
    in_slot = m.StartJob(1, runs_on((0, 1, 1, 1)), 100, None, 1)
    player, managed, _ = play(once([in_slot, m.SetRotation(1, ()), m.ChangeSlot(1, 1)]), [job(1)])
    refused = [
        event.reason for _, _, events in player.batches for event in events if isinstance(event, m.ActionRefused)
    ]
    assert refused == ["this machine has no slots"] * 3
    assert managed.inventory().slots is None


@pytest.mark.parametrize(("policy", "kind"), [(Gang, 0), (PairedGang, 1)], ids=["exact", "fluid and pairs"])
def test_gangs_conserve_cpu_time_and_restart_at_every_batch(policy: type[Gang], kind: int) -> None:
    def program_of(each: WorkloadJob) -> Program:
        return fine_program(each.run_us / S, 450_000 if each.spec.id % 3 else 950_000)

    manager = time_shared(8, cluster=clusters(8)[kind], program_of=program_of)
    jobs = [
        big(number, (number * 377_123) % (6 * S), 200_000 + (number * 912_367) % (3 * S), 1 + (number * 5) % 8)
        for number in range(1, 19)
    ]
    jobs.sort(key=lambda each: (each.spec.submit_us, each.spec.id))
    done = share(under(policy, manager), jobs, manager)
    assert all(record.state == m.COMPLETED for record in done.records.values())
    used: dict[int, int] = dict.fromkeys(done.records, 0)
    allowed: dict[int, int] = dict.fromkeys(done.records, 0)
    for quantum in done.quanta:
        length_us = quantum.end_us - quantum.start_us
        assert 0 < length_us <= QUANTUM_US
        assert sum(part.consumed_us for part in quantum.parts) <= 8 * length_us
        for part in quantum.parts:
            assert part.allowed_us <= length_us
            used[part.job_id] += part.consumed_us
            allowed[part.job_id] += part.allowed_us
            processes = done.records[part.job_id].job.spec.processes
            assert part.consumed_us <= part.allowed_us * processes
    for number, record in done.records.items():
        processes = record.job.spec.processes
        assert record.cpu_us is not None
        assert abs(used[number] - record.cpu_us * processes) <= processes
        assert allowed[number] == record.dispatched_us
        assert record.work_us == record.job.run_us
    assert any(quantum.paired_nodes for quantum in done.quanta) == (policy is PairedGang)
    assert max(len(turn) for turn in done.turns()) > 1


def test_a_quantum_is_over_when_the_last_job_that_waits_for_its_turn_is_suspended() -> None:
    later: dict[int, Actions] = {500_000: [m.SuspendJob(2)], 700_000: [m.ResumeJob(2)]}
    jobs = [big(1, run_us=300_000), big(2, run_us=S), big(3, 500_000), big(4, 700_000)]
    done = share(once([wide(1), wide(2, 1), m.SetRotation(1, turns((0,), (1,)))], later), jobs)
    assert [(each.number, each.start_us, each.end_us) for each in done.quanta] == [
        (1, 0, 500_000),
        (1, 700_000, 1_700_000),
    ]
    assert done.ends_s()[2] == 1.7


@pytest.mark.parametrize("change", ["cancel", "fail-node"])
def test_jobs_that_are_taken_away_in_a_quantum(change: str) -> None:
    target = 1 if change == "cancel" else 0
    script = [Scripted(1_400_000, "cancel" if change == "cancel" else "fail-node", target)]
    jobs = [big(1, run_us=4 * S), big(2, run_us=2 * S, processes=2)]
    starts = [wide(1), m.StartJob(2, runs_on((1, 2, 1, 1)), S, None, 1)]
    done = share(once([*starts, m.SetRotation(1, turns((0,), (1,)))]), jobs, script=script)
    state = m.CANCELLED if change == "cancel" else m.NODE_FAIL
    first = done.records[1]
    assert (first.state, first.end_us, first.dispatched_us) == (state, 1_400_000, S)
    assert (first.work_us, first.cpu_us) == (S, S)
    assert done.turns() == [(1,), (2,), (2,)]
    assert done.ends_s()[2] == 3.0


def test_a_job_that_is_requeued_and_starts_again_in_one_quantum_has_no_share_of_it() -> None:
    """What it consumed before belongs to a run that is lost."""
    script = [Scripted(700_000, "fail-node", 3), Scripted(710_000, "return-node", 3)]
    later: dict[int, Actions] = {710_000: [wide(1, 5)]}
    starts: Actions = [wide(1), wide(2, 1, 2), m.SetRotation(1, turns((0,), (1,)))]
    done = share(once(starts, later), [big(1), big(2, processes=2)], script=script, requeue=True)
    assert [event.shares for _, event in done.quantum_events()][:2] == [(), ((2, S),)]


def test_a_rotation_of_lists_is_told_as_if_it_had_tuples() -> None:
    lists = m.SetRotation(1, cast("Any", [m.Turn(cast("Any", [0]), 1, cast("Any", [2]))]))
    manager = time_shared()
    share(once([wide(1), wide(2, 1), lists]), [big(1), big(2)], manager)
    assert rotating_of(manager).state().turns == (m.Turn((0,), 1, (2,)),)
