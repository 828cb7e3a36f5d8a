"""Why jobs wait: sentences about a state in which the reason is known."""

from __future__ import annotations

from typing import Any

import pytest

from cosched_emulator.expected_starts.bookkeeping import Bookkeeping, Ended
from cosched_emulator.expected_starts.estimates import Estimate, Estimating
from cosched_emulator.expected_starts.history import History, PastRun
from cosched_emulator.expected_starts.ranges import FEWEST
from cosched_emulator.expected_starts.reasons import NODES, ORDER, RESERVATION, Reason, Reasons
from cosched_emulator.manager.manager import MANAGER_FEATURES
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.config import choose
from cosched_plugin.protocol import messages as m

HOUR_US = 3_600_000_000
CPU = ("cpu", 900_000, 50_000, 50_000, 100_000)


def job(number: int, processes: int, **more: Any) -> m.JobSpec:
    return m.JobSpec(number, number, processes, HOUR_US, HOUR_US, **more)


def state(pending: list[m.JobSpec], busy: int, threads_per_core: int = 1) -> m.Welcome:
    """Return a state of four nodes with two cores, of which the first ``busy`` run job 7."""
    nodes = (m.NodeClass(4, 1, 2, threads_per_core, 1000, 0, 0, 0),)
    running = (
        (m.RunningJob(job(7, 2 * busy), 7, (m.Run(0, busy, ThreadMask(3), 2),), HOUR_US, HOUR_US),) if busy else ()
    )
    return m.Welcome(
        1, MANAGER_FEATURES, 1, HOUR_US // 2, nodes, (), m.Belief("none", "bulk-synchronous", ()), running,
        tuple(m.PendingJob(each, held=False) for each in pending), (), (),
    )  # fmt: skip


def reasons(welcome: m.Welcome, policy: str) -> list[Reason]:
    records: list[dict[str, Any]] = []
    choice = choose(policy)
    choice.scheduler(welcome, records.append).handle(welcome.now_us, [])
    estimating = Estimating(welcome, choice.scheduler, History(), 1)
    estimating.predict()
    told = Reasons(welcome, records, choice.settings)
    return [told.of(each.spec, estimating.of(each.spec.id)) for each in welcome.pending]


def test_a_job_of_unknown_usage_needs_nodes_of_its_own_while_half_the_threads_are_free() -> None:
    """Not `Resources`: its user can do something about it."""
    unknown, known = job(8, 8), job(9, 8, usage=CPU)
    first, second = reasons(state([unknown, known], 2, threads_per_core=2), "lomarc-r")
    assert first.kind == NODES
    assert first.text.startswith("needs 4 nodes of its own, because its usage is unknown, and 2 are empty")
    assert "the next is free at 1:00:00" in first.text
    assert second.text.startswith("needs 4 nodes, empty or beside a partner, and 2 are empty")


def test_a_job_that_would_fit_is_told_of_the_reservation() -> None:
    wide, long, short = job(8, 8), job(9, 2)._replace(estimate_us=2 * HOUR_US, limit_us=None), job(10, 8)
    told = reasons(state([wide, long, short], 3), "easy")
    assert told[0] == (
        NODES,
        "needs 8 threads, and 2 of 8 are free; the next is free at 1:00:00, by the estimates of running jobs; "
        "it has the reservation, for 1:00:00 at the latest",
    )
    assert told[1] == (
        RESERVATION,
        "needs 2 threads, and 2 of 8 are free; job 8 has the reservation, for 1:00:00, and would be delayed",
    )
    assert told[2].text.endswith("job 8 has the reservation")


def test_of_threads_where_resources_or_licences_are_lacking_none_is_free() -> None:
    """The threads are there: what the job waits for is what it asked for besides."""
    before = state([job(8, 1, licences=(("matlab", 1),)), job(9, 1, resources=(("gpu", 2),))], 1)
    (running,) = before.running
    (nodes,) = before.nodes
    holds = running._replace(spec=running.spec._replace(licences=(("matlab", 2),), resources=(("gpu", 1),)))
    welcome = before._replace(
        running=(holds,), licences=(("matlab", 2),), nodes=(nodes._replace(nodes=1, resources=(("gpu", 2),)), nodes)
    )
    told = [Reasons(welcome, ()).of(each.spec, None) for each in welcome.pending]
    assert told == [
        (NODES, "needs 1 thread with matlab:1, and 0 of 10 are free"),
        (NODES, "needs 1 thread with gpu:2, and 0 of 10 are free"),
    ]
    free = Reasons(welcome._replace(running=()), ()).of(welcome.pending[1].spec, None)
    assert free.text.startswith("needs 1 thread with gpu:2, and 2 of 10 are free; other jobs come first")


def test_only_nodes_that_a_job_may_have_count() -> None:
    """Nodes 0 and 1 are in use, 2 and 3 empty: whoever may have 1 and 2 alone must not be told of four."""
    of_partition = [job(8, 4, eligible=((1, 2),)), job(9, 3, eligible=((1, 2),), exclusive=True)]
    threads, nodes = [Reasons(state(of_partition, 2), ()).of(each, None) for each in of_partition]
    assert threads == (NODES, "needs 4 threads, and 2 of 4 that it may have are free")
    assert nodes == (NODES, "needs 2 nodes of its own, as it asked for them, and 1 of the 2 that it may have is empty")


def test_memory_of_running_jobs_is_not_free() -> None:
    """There are threads: what the job waits for is memory."""
    before = state([job(8, 3, memory_mb=600)], 3)
    (running,) = before.running
    holds = running._replace(spec=running.spec._replace(memory_mb=300), runs=(m.Run(0, 3, ThreadMask(1), 1),))
    (told,) = [Reasons(before._replace(running=(holds,)), ()).of(each.spec, None) for each in before.pending]
    assert told.kind == ORDER  # one process on each of three nodes, one on the empty one
    (told,) = [
        Reasons(before._replace(running=(holds._replace(spec=holds.spec._replace(memory_mb=500)),)), ()).of(
            each.spec, None
        )
        for each in before.pending
    ]
    assert told == (
        NODES,
        "needs 3 threads with 600 MiB a process, and 5 of 8 are free, with room for 1 of its 3 processes",
    )


def test_room_comes_when_enough_of_a_node_is_free_not_when_all_of_it_is() -> None:
    """Of two threads job 7 holds one for an hour, and another job the other one for ten."""
    before = state([job(8, 1), job(9, 1, memory_mb=600)], 1)._replace(nodes=(m.NodeClass(1, 1, 2, 1, 1000, 0, 0, 0),))
    (running,) = before.running
    short = running._replace(spec=job(7, 1, memory_mb=100), runs=(m.Run(0, 1, ThreadMask(1), 1),))
    long = short._replace(
        spec=job(6, 1, memory_mb=500), runs=(m.Run(0, 1, ThreadMask(2), 1),), estimate_us=10 * HOUR_US
    )
    first, second = reasons(before._replace(running=(short, long)), "easy")
    assert "0 of 2 are free; the next is free at 1:00:00" in first.text
    assert "the next is free at 10:00:00" in second.text  # it waits for memory, too


def test_a_promise_and_an_exclusive_job() -> None:
    (promised,) = reasons(state([job(8, 8)], 1), "conservative")
    assert promised.text.endswith("it is promised a start at 1:00:00")
    (alone,) = reasons(state([job(8, 3, exclusive=True)], 3), "easy")
    assert alone.text.startswith("needs 2 nodes of its own, as it asked for them, and 1 is empty")


def test_what_a_policy_of_others_says_comes_first() -> None:
    welcome = state([job(8, 1)], 0)
    told = Reasons(welcome, [{"kind": "wait", "job": 8, "reason": "it is Sunday"}])
    assert told.of(welcome.pending[0].spec, None) == (ORDER, "it is Sunday")


def test_two_estimates_of_a_job_count_once_it_has_started() -> None:
    """The first, and one of the later ones; a job that never started counts for nothing."""
    books = Bookkeeping()
    for number in range(2 * FEWEST):
        for at_us in range(3):
            guess = Estimate(HOUR_US, HOUR_US, HOUR_US, (), bound=False, draws=10)
            books.note(at_us * HOUR_US // 4, {number: guess, 1000 + number: guess})
        scored = books.end([Ended(number, 2 * HOUR_US, PastRun("", 1, 1, 1)), Ended(1000 + number, None, None)])
        assert scored[0].guess.wait_us == HOUR_US
        assert scored[0].wait_us == 2 * HOUR_US  # the first one was made at time 0
        assert len(scored) == 2
    record = books.record()
    assert record.starts == 4 * FEWEST
    assert record.median_error_us == HOUR_US
    assert record.held is not None
    assert record.held > 0.9  # the errors are always the same
    fresh = Bookkeeping()
    fresh.learn(scored)
    assert fresh.record().starts == 2


@pytest.mark.parametrize("policy", ["easy", "lomarc-r"])
def test_a_job_that_does_not_wait_is_no_estimate(policy: str) -> None:
    """Else ranges would be those of jobs that start at once."""
    welcome = state([job(8, 2, usage=CPU)], 1)
    estimating = Estimating(welcome, choose(policy).scheduler, History(), 1)
    estimating.draw()
    books = Bookkeeping()
    books.note(welcome.now_us, estimating.all())
    assert books.end([Ended(8, welcome.now_us, None)]) == []
