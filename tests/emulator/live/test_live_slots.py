"""A live manager whose jobs take turns: late answers, and ends between two looks at the clock."""

from __future__ import annotations

from collections.abc import Iterable

from tests.emulator.live.test_live_random import Books, live_manager
from tests.emulator.submissions import submit_job
from tests.runs import runs_on

from cosched_emulator import prepare
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.manager.record import StayEnded
from cosched_emulator.users.requests import Done, Requester
from cosched_plugin.protocol import messages as m

S = 1_000_000
ANN = Requester("ann", False)


def site() -> LiveManager:
    prepared = prepare(
        {
            "cluster": {"nodes": 4},
            "clock": {"mode": "real"},
            "time_sharing": {"tick_ms": 0.0},
            "workload": {"programs": "compute", "jitter": 0.0, "null_statements": 33_333},
        }
    )
    return live_manager(prepared, Books())


def submit(live: LiveManager, at_us: int, run_us: int) -> int:
    done = live.command(at_us, ANN, submit_job(4, run_us, None, run_us=run_us))
    assert isinstance(done, Done)
    return max(live.manager.jobs)


def wide(number: int, slot: int) -> m.StartJob:
    return m.StartJob(number, runs_on((0, 4, 1, 1)), 60 * S, None, slot)


def turns(*slots: int) -> tuple[m.Turn, ...]:
    return tuple(m.Turn((slot,)) for slot in slots)


def answer(live: LiveManager, at_us: int, actions: Iterable[m.Action]) -> None:
    batch = live.batch()
    assert batch is not None
    live.answer(at_us, batch[0], list(actions))


def test_an_end_between_two_looks_at_the_clock_is_recorded_exactly() -> None:
    live = site()
    first, second = submit(live, 0, 1_500_000), submit(live, 0, 4 * S)
    answer(live, 0, [wide(first, 0), wide(second, 1), m.SetRotation(1, turns(0, 1))])
    iteration_us = 1_000 + 920
    alone_us = round(1_500_000 / iteration_us) * iteration_us
    assert live.due_by(1_900_000) == S  # only the end of the quantum is known
    live.advance(2 * S + 900_000)
    ended = [event for event in live.outbox._events if isinstance(event, m.JobEnded)]
    assert ended == [m.JobEnded(first, m.COMPLETED)]
    (left,) = [change for change in live.drain() if isinstance(change, StayEnded) and change.job_id == first]
    assert left.stay.end_us == S + alone_us


def test_late_answers_about_slots_that_have_vanished_are_stale() -> None:
    live = site()
    first, second = submit(live, 0, 1_500_000), submit(live, 0, 9 * S)
    answer(live, 0, [wide(first, 0), wide(second, 1), m.SetRotation(1, turns(0, 1))])
    live.advance(S)
    batch = live.batch()
    assert batch is not None
    live.advance(4_500_000)  # job 1 has ended meanwhile
    live.answer(4_500_000, batch[0], [
        m.SetRotation(2, (m.Turn((1, 0)),)), m.SetRotation(2, (m.Turn((1,), 1, (first,)),)), m.ChangeSlot(first, 5),
        m.SetRotation(2, turns(1)),
    ])  # fmt: skip
    refused = live.batch()
    assert refused is not None
    assert [event.reason for event in refused[2] if isinstance(event, m.ActionRefused)] == [
        "stale: slot 0 has no job", f"stale: job {first} does not run", f"stale: job {first} does not run",
    ]  # fmt: skip
    slots = live.manager.inventory().slots
    assert slots is not None
    assert (slots.turns, slots.quantum) == (turns(1), 4)
    assert [text for _, text in live.decisions][-1] == "turns 1"
