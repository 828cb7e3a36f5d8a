"""The loop of a run: batches, rounds, the order at one instant, users and operators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from random import Random

import pytest
from tests.emulator.parts import BELIEF, at_once, job, manager, node_class, play, start
from tests.runs import runs_on

from cosched_emulator import simulate
from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.timeline import END, USER_CHANGE, WAKE, Source, Timeline
from cosched_emulator.run.loop import MOST_ROUNDS
from cosched_emulator.scenario.faults import NodeFault
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.scenario.schema import Change
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composition import composition_named
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol import messages as m


def test_timeline_entries_are_ordered_by_time_rank_and_id() -> None:
    timeline = Timeline()
    entries = [(time, rank, ident) for time in (3, 5, 4) for rank in (WAKE, END, USER_CHANGE) for ident in (2, 1)]
    for time, rank, ident in entries:
        timeline.schedule(time, rank, ident)
    assert timeline.next_us() == 3
    assert [entry[:3] for entry in timeline.pop_due(4)] == sorted(entry for entry in entries if entry[0] <= 4)
    assert list(timeline.pop_due(4)) == []
    assert len(list(timeline.pop_due(5))) == 6
    assert timeline.next_us() is None


def test_a_source_has_one_entry_on_the_timeline() -> None:
    timeline = Timeline()
    numbers = iter(range(5, 1_000_000))
    source = Source(timeline, numbers, lambda number: (number, END, number, 0))
    for number in range(5, 10):
        assert (len(timeline), timeline.next_us(), source.head) == (1, number, number)
        ((_, _, ident, _),) = islice(timeline.pop_due(number), 1)
        assert source.pop() == ident
    assert next(numbers) == 11  # only the head has been read ahead
    empty = Source(timeline, iter(range(0)), lambda number: (number, END, number, 0))
    assert (empty.head, len(timeline)) == (None, 1)
    with pytest.raises(LookupError):
        empty.pop()


def test_submissions_and_faults_take_one_entry_each() -> None:
    managed = manager(node_class(3))
    faults = (NodeFault(at_us, "fail", 0) for at_us in count(1))
    script = [Scripted(at_us, "cancel", 1) for at_us in range(100)]
    agenda = Agenda(managed, (job(number, number) for number in count(1)), script, faults, endless=True)
    for now_us in range(50):
        assert agenda.next_us() == now_us
        agenda.due(now_us)
        assert len(managed.timeline) == 3


def test_scripted_and_planned_changes_of_nodes_come_in_one_order() -> None:
    """At one instant failures precede returns, whatever their source, each in order of node."""
    managed = manager(node_class(5))
    managed.nodes.broken.update((1, 3))
    script = [Scripted(7, "fail-node", 2), Scripted(7, "return-node", 1), Scripted(7, "fail-node", 4)]
    faults = [NodeFault(7, "fail", 0), NodeFault(7, "fail", 2), NodeFault(7, "return", 3)]
    agenda = Agenda(managed, (), script, faults)
    failed, returned = [m.NodeFailed(node) for node in (0, 2, 4)], [m.NodeReturned(node) for node in (1, 3)]
    assert agenda.due(7) == [*failed, *returned]
    assert managed.nodes.broken == {0, 2, 4}


def test_a_planned_failure_happens_though_all_jobs_wait_for_a_node(tmp_path: Path) -> None:
    rows = ["1 0 -1 5 1 -1 -1 1 5 -1 1 1 1 1 -1 -1 -1 -1", "2 5 -1 50 2 -1 -1 2 50 -1 1 1 1 1 -1 -1 -1 -1"]
    (tmp_path / "jobs.swf").write_text("\n".join(["; MaxProcs: 2", *rows]) + "\n")
    happens = [(2.0, "fail", 1), (20.0, "fail", 0), (30.0, "return", 1), (40.0, "return", 0)]
    at = [{"at_s": at_s, "do": do, "node": node} for at_s, do, node in happens]
    run = simulate({"workload": {"swf": str(tmp_path / "jobs.swf")}, "faults": {"at": at}}, "fcfs")
    assert run.jobs.start_s.tolist() == [0, 40]


def test_every_instant_is_one_batch() -> None:
    jobs = [job(1, 0, 50), job(2, 0, 100), job(3, 50, 50)]
    player, _, records = play(at_once, jobs, on=manager(node_class(3)))
    assert player.batches == [
        (1, 0, (m.JobSubmitted(jobs[0].spec), m.JobSubmitted(jobs[1].spec))),
        (2, 50, (m.JobEnded(1, m.COMPLETED), m.JobSubmitted(jobs[2].spec))),
        (3, 100, (m.JobEnded(2, m.COMPLETED), m.JobEnded(3, m.COMPLETED))),
    ]
    assert [(r.state, r.end_us, r.work_us) for r in records.values()] == [
        (m.COMPLETED, 50, 50),
        (m.COMPLETED, 100, 100),
        (m.COMPLETED, 100, 50),
    ]


def test_order_at_one_instant() -> None:
    """Ends, node failures, node returns, users' changes, submissions, wakes; by id within each."""
    jobs = [
        job(1, 0, 100),
        job(2, 0, 999, limit_us=100),
        job(3, 0, 500),
        *(job(n, 0, 500) for n in (4, 5, 6)),
        job(7, 100, 1),
    ]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        if now_us > 0:
            return []
        starts: list[m.Action] = [start(n, n - 1, limit_us=100 if n == 2 else None) for n in (3, 2, 1)]
        return [m.WakeAt(100), *starts]

    script = [
        Scripted(100, "cancel", 5),
        Scripted(100, "hold", 4),
        Scripted(100, "fail-node", 3),
        Scripted(50, "fail-node", 4),
        Scripted(100, "return-node", 4),
        Scripted(100, "fail-node", 2),
        Scripted(100, "cancel", 1),  # it ends at this instant
        Scripted(100, "cancel", 7),  # it is submitted later at this instant
    ]
    player, *_ = play(answer, jobs, on=manager(node_class(5)), script=script)
    assert player.batches[2] == (
        3,
        100,
        (
            m.JobEnded(1, m.COMPLETED),
            m.JobEnded(2, m.TIMEOUT),
            m.NodeFailed(2),
            m.JobEnded(3, m.NODE_FAIL),
            m.NodeFailed(3),
            m.NodeReturned(4),
            m.JobHeld(4),
            m.JobEnded(5, m.CANCELLED),
            m.JobSubmitted(jobs[6].spec),
            m.Woken(100),
        ),
    )


def test_a_refusal_is_sent_in_a_second_round_at_the_same_instant() -> None:
    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        if any(isinstance(event, m.JobSubmitted) for event in events):
            return [start(1, 0), m.StartTogether((start(2, 0), start(3, 1)))]
        if any(isinstance(event, m.ActionRefused) and event.job_ids == (2, 3) for event in events):
            return [start(2, 1), start(3, 1)]
        return [start(3, 1)] if m.JobEnded(2, m.COMPLETED) in events else []

    player, managed, records = play(answer, [job(1, 5), job(2, 5), job(3, 5)])
    assert [(seq, now_us) for seq, now_us, _ in player.batches] == [(1, 5), (2, 5), (3, 5), (4, 105), (5, 205)]
    assert player.batches[1][2] == (m.ActionRefused(1, 1, "node 0 is not free there", (2, 3)),)
    assert player.batches[2][2] == (m.ActionRefused(2, 1, "node 1 is not free there", (3,)),)
    assert managed.refused == 2
    assert [r.end_us for r in records.values()] == [105, 105, 205]


def test_endless_refusal_ends_the_run() -> None:
    with pytest.raises(InvariantError, match=r"actions are still refused.*job 9 is not waiting") as caught:
        play(lambda _now_us, _events: [start(9)], [job(1)])
    assert caught.value.exit_code == 4
    assert str(MOST_ROUNDS) in str(caught.value)


def test_the_inventory_is_that_after_the_last_answered_batch() -> None:
    jobs = [job(1), job(2, 50)]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return [*at_once(now_us, events), m.SetNote(None, "now", now_us), m.WakeAt(now_us + 70)] if now_us < 100 else []

    player, managed, _ = play(answer, jobs)
    first, second, third, *_ = player.inventories
    assert first == managed.inventory()._replace(seq=0, now_us=0, notes=(), wakes=())
    assert (second.seq, second.now_us, second.pending, second.wakes) == (1, 0, (), (70,))
    assert [(running.spec.id, running.start_us) for running in second.running] == [(1, 0)]
    assert second.notes == (m.Note(None, "now", 0),)
    assert player.batches[2][2] == (m.Woken(70),)
    assert third.wakes == (70, 120)  # due, but not answered
    assert [running.spec.id for running in third.running] == [1, 2]
    assert managed.inventory().wakes == ()


def test_wakes_arrive_once_each_and_after_everything_else() -> None:
    asked = iter([[m.WakeAt(30), m.WakeAt(20), m.WakeAt(30)], [m.WakeAt(100)]])
    player, *_ = play(lambda now_us, events: [*at_once(now_us, events), *next(asked, [])], [job(1)])
    assert [(now_us, events) for _, now_us, events in player.batches[1:]] == [
        (20, (m.Woken(20),)),
        (30, (m.Woken(30),)),
        (100, (m.JobEnded(1, m.COMPLETED), m.Woken(100))),
    ]


def test_a_job_that_is_too_large_is_rejected_and_the_run_continues() -> None:
    player, _, records = play(at_once, [job(1, processes=5), job(2, 3)])
    assert (records[1].state, records[1].end_us, records[1].intervals) == (m.REJECTED, 0, ())
    assert records[1].reason == "5 processes wanted, the machine holds 4 of this kind"
    assert [now_us for _, now_us, _ in player.batches] == [3, 103]  # the scheduler does not get the job
    assert records[2].state == m.COMPLETED


def test_a_job_may_be_rejected_by_the_scheduler() -> None:
    _, _, records = play(lambda _now_us, events: [m.RejectJob(1, "never fits")] if len(events) else [], [job(1, 7)])
    assert (records[1].state, records[1].end_us, records[1].reason) == (m.REJECTED, 7, "never fits")


def test_jobs_without_further_events_have_no_end() -> None:
    script = [Scripted(0, "hold", 1), Scripted(10, "hold", 2)]
    _, _, records = play(
        lambda now_us, _events: [start(3)] if now_us == 20 else [], [job(1, 0), job(2, 0), job(3, 20)], script=script
    )
    assert [record.end_us for record in records.values()] == [120 if number == 3 else None for number in records]
    assert [record.state for record in records.values()] == ["PENDING", "PENDING", m.COMPLETED]


def test_a_job_of_no_length_ends_at_the_instant_of_its_start() -> None:
    for contention in (False, True):
        player, _, records = play(at_once, [job(1, 4, 0, demand=(9, 0, 0))], on=manager(contention=contention))
        assert [(seq, now_us) for seq, now_us, _ in player.batches] == [(1, 4), (2, 4)]
        assert records[1].intervals[0][:2] == (4, 4)


# ---------------------------------------------------------------- users and operators


def test_pending_held_and_running_jobs_may_be_cancelled() -> None:
    jobs = [job(1), job(2), job(3)]
    script = [
        Scripted(10, "cancel", 1),
        Scripted(10, "hold", 3),
        Scripted(20, "cancel", 2),
        Scripted(30, "cancel", 3),
        Scripted(30, "cancel", 2),  # again: no effect
    ]
    player, _, records = play(lambda now_us, _events: [start(1)] if now_us == 0 else [], jobs, script=script)
    assert [(r.state, r.end_us, r.work_us) for r in records.values()] == [
        (m.CANCELLED, 10, 10),
        (m.CANCELLED, 20, 0),
        (m.CANCELLED, 30, 0),
    ]
    assert [now_us for _, now_us, _ in player.batches] == [0, 10, 20, 30]
    assert records[1].intervals[0][:2] == (0, 10)
    assert not records[2].intervals


def test_held_jobs_are_not_started_before_they_are_released() -> None:
    script = [Scripted(10, "hold", 1), Scripted(40, "release", 1), Scripted(41, "release", 1), Scripted(42, "hold", 1)]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return [start(1)] if m.JobHeld(1) in events or m.JobReleased(1) in events else []

    player, _, records = play(answer, [job(1)], script=script)
    assert [events for _, _, events in player.batches[1:]] == [
        (m.JobHeld(1),),
        (m.ActionRefused(2, 0, "job 1 is not waiting to be started", (1,)),),
        (m.JobReleased(1),),
        (m.JobEnded(1, m.COMPLETED),),  # a running job cannot be held, a job that is not held cannot be released
    ]
    assert records[1].intervals[0].start_us == 40


@pytest.mark.parametrize("contention", [False, True])
def test_jobs_fail_with_their_node(contention: bool) -> None:
    script = [Scripted(30, "fail-node", 0), Scripted(35, "fail-node", 0), Scripted(60, "return-node", 0)]
    jobs = [job(1, demand=(1, 0, 0)), job(2, demand=(1, 0, 0)), job(3, 60)]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        starts: list[m.Action] = [start(1), start(2, 1), start(3)]
        return starts[:2] if now_us == 0 else starts[2:] if now_us == 60 else []

    player, _, records = play(answer, jobs, on=manager(contention=contention), script=script)
    assert [(now_us, events) for _, now_us, events in player.batches[1:3]] == [
        (30, (m.NodeFailed(0), m.JobEnded(1, m.NODE_FAIL))),
        (60, (m.NodeReturned(0), m.JobSubmitted(jobs[2].spec))),
    ]
    assert player.inventories[2].down == (0,)
    assert [(r.state, r.end_us, r.work_us) for r in records.values()] == [
        (m.NODE_FAIL, 30, 30),
        (m.COMPLETED, 100, 100),
        (m.COMPLETED, 160, 100),
    ]


@pytest.mark.parametrize("contention", [False, True])
def test_jobs_of_a_failed_node_are_requeued(contention: bool) -> None:
    script = [Scripted(30, "fail-node", 0), Scripted(60, "return-node", 0)]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return [start(1)] if now_us in (0, 60) else []

    player, _, records = play(
        answer, [job(1, demand=(1, 0, 0))], on=manager(contention=contention), script=script, requeue=True
    )
    assert player.batches[1][2] == (m.NodeFailed(0), m.JobRequeued(1))
    assert (records[1].state, records[1].end_us, records[1].work_us) == (m.COMPLETED, 160, 100)
    assert [each[:2] for each in records[1].intervals] == [(0, 30), (60, 160)]


def test_changes_at_one_instant_take_effect_in_order() -> None:
    # The effect of the first change is not yet committed when the next one is examined, but must count.
    jobs = [job(1, 0, 500), job(2, 0, 500), job(3, 0), job(4, 0)]
    script = [
        Scripted(50, "fail-node", 0),
        Scripted(50, "fail-node", 0),
        Scripted(50, "return-node", 0),
        Scripted(50, "fail-node", 1),
        Scripted(50, "cancel", 1),  # it has lost its node at this instant
        Scripted(50, "hold", 2),  # likewise lost
        Scripted(50, "hold", 3),
        Scripted(50, "release", 3),
        Scripted(50, "hold", 4),
        Scripted(50, "hold", 4),
        Scripted(50, "cancel", 4),
        Scripted(50, "release", 4),
    ]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return [start(1, 0), start(2, 1)] if now_us == 0 else []

    player, managed, _ = play(answer, jobs, script=script, requeue=True)
    assert player.batches[1][2] == (
        m.NodeFailed(0),
        m.JobRequeued(1),
        m.NodeFailed(1),
        m.JobRequeued(2),
        m.NodeReturned(0),
        m.JobEnded(1, m.CANCELLED),
        m.JobHeld(2),
        m.JobHeld(3),
        m.JobReleased(3),
        m.JobHeld(4),
        m.JobEnded(4, m.CANCELLED),
    )
    assert managed.nodes.down == {1}
    assert [(job_id, waiting.held) for job_id, waiting in sorted(managed.pending.items())] == [(2, True), (3, False)]


def test_progress_counts_the_jobs_that_ended() -> None:
    told: list[int] = []
    script = [Scripted(10, "hold", 3), Scripted(20, "fail-node", 1), Scripted(30, "cancel", 3)]
    play(at_once, [job(1), job(2), job(3, 5)], on=manager(node_class(2)), script=script, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 3


# ---------------------------------------------------------------- contention


def test_contention_is_settled_once_after_the_last_round() -> None:
    # Jobs 1 and 2 start in the first round, job 3 in the second: all three are slowed from the same instant on.
    jobs = [job(n, 0, 100, demand=(6, 0, 0)) for n in (1, 2, 3)]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        if any(isinstance(event, m.JobSubmitted) for event in events):
            return [start(1, mask=1), start(2, mask=2), start(3, mask=2)]
        return [start(3, mask=4)] if any(isinstance(event, m.ActionRefused) for event in events) else []

    _, _, records = play(answer, jobs, on=manager(node_class(1, threads=4), contention=True))
    assert [record.end_us for record in records.values()] == [300, 300, 300]
    assert [record.work_us for record in records.values()] == [100, 100, 100]


def test_a_limit_kills_a_slowed_job_and_frees_the_other() -> None:
    jobs = [job(1, 0, 100, demand=(6, 0, 0), limit_us=100), job(2, 0, 100, demand=(6, 0, 0), limit_us=100)]

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return [start(1, mask=1, limit_us=100), start(2, mask=2, limit_us=200)] if now_us == 0 else []

    _, _, records = play(answer, jobs, on=manager(contention=True))
    assert (records[1].state, records[1].end_us, records[1].work_us) == (m.TIMEOUT, 100, 50)
    assert (records[2].state, records[2].end_us, records[2].work_us) == (m.COMPLETED, 150, 100)
    assert records[2].limit_us == 200


class Anyhow:
    """A scheduler that starts jobs anywhere, and makes mistakes."""

    def __init__(self, seed: int, machine: Machine) -> None:
        self._random = Random(seed)
        self._machine = machine
        self._waiting: dict[int, m.JobSpec] = {}
        self._specs: dict[int, m.JobSpec] = {}

    def __call__(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        random = self._random
        refused = False
        for event in events:
            match event:
                case m.JobSubmitted(spec):
                    self._specs[spec.id] = self._waiting[spec.id] = spec
                case m.JobRequeued(job_id):
                    self._waiting[job_id] = self._specs[job_id]
                case m.JobEnded(job_id, _):
                    self._waiting.pop(job_id, None)
                case m.ActionRefused():
                    refused = True
                    self._waiting |= {job_id: self._specs[job_id] for job_id in event.job_ids}
                case _:
                    pass
        if refused:
            return [m.WakeAt(now_us + random.randint(1, 20))]
        actions: list[m.Action] = []
        for job_id in random.sample(sorted(self._waiting), min(2, len(self._waiting))):
            spec = self._waiting.pop(job_id)
            nodes = random.sample(range(self._machine.nodes), spec.processes)
            runs = runs_on(*[(node, 1, 1 << random.randrange(2), 1) for node in nodes])
            limit_us = None if spec.limit_us is None else spec.limit_us + random.choice((0, 30))
            actions.append(m.StartJob(job_id, runs, spec.estimate_us, limit_us))
        if self._waiting:
            actions.append(m.WakeAt(now_us + random.randint(1, 50)))
        return actions


@pytest.mark.parametrize(
    ("composition", "seeds"),
    [
        ("bulk-synchronous", 10),
        *(pytest.param(name, 25, marks=pytest.mark.slow) for name in ("bulk-synchronous", "paper")),
    ],
)
def test_random_schedulers_keep_the_managers_accounts_consistent(composition: str, seeds: int) -> None:
    states: set[str] = set()
    for seed in range(seeds):
        random = Random(seed)
        nodes = (node_class(3),)
        machine = Machine(nodes)
        truth = ContendedNodes(machine, BandwidthModel(("memory_bandwidth",)), composition_named(composition))
        submits = sorted(random.randrange(300) for _ in range(20))
        jobs = [
            job(number, at, random.randint(0, 80), processes=random.randint(1, 3), demand=(random.randint(0, 6), 0, 0),
                limit_us=random.choice((None, 60)))
            for number, at in enumerate(submits, 1)
        ]  # fmt: skip
        changes: tuple[Change, ...] = (
            "cancel",
            "hold",
            "release",
            "release",
            "fail-node",
            "return-node",
            "return-node",
        )
        script = (
            [
                Scripted(
                    random.randrange(600),
                    change,
                    random.randrange(3) if change.endswith("node") else random.randint(1, 20),
                )
                for change in random.choices(changes, k=20)
            ]
            + [Scripted(1000, "return-node", node) for node in range(3)]
            + [Scripted(1000, "release", n) for n in range(1, 21)]
        )
        managed = Manager(nodes, BELIEF, truth)
        _, _, records = play(Anyhow(seed, machine), jobs, on=managed, script=script, requeue=seed % 2 == 0)
        assert not managed.running
        busy: set[tuple[int, int, int]] = set()
        for each in jobs:
            record = records[each.spec.id]
            states.add(record.state)
            assert record.end_us is not None
            for stay in record.intervals:
                assert each.spec.submit_us <= stay.start_us <= stay.end_us <= record.end_us
                held = {(node, mask, at) for node, _, mask, _ in stay.runs for at in range(stay.start_us, stay.end_us)}
                assert not held & busy, "two jobs on one thread"
                busy |= held
            if record.intervals and record.state in (m.COMPLETED, m.TIMEOUT):
                stay = record.intervals[-1]
                wall_us = stay.end_us - stay.start_us
                assert record.work_us <= each.run_us
                assert wall_us >= record.work_us
                assert record.limit_us is None or wall_us <= record.limit_us
                assert (record.work_us == each.run_us) == (record.state == m.COMPLETED)
                if record.state == m.TIMEOUT:
                    assert wall_us == record.limit_us
    assert states == {m.COMPLETED, m.TIMEOUT, m.CANCELLED, m.NODE_FAIL}
