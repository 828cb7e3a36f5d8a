"""Slurm's multifactor priority against the reference, its note, and the number of jobs that a pass looks at."""

from __future__ import annotations

from random import Random

import pytest
from tests.plugin.policies.harness import random_jobs, starts_under
from tests.plugin.policies.lomarc.lomarc_cases import GOOD, SECOND_US, welcome
from tests.reference import multifactor as reference
from tests.runs import runs_on

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.multifactor import MOST_USERS, NOTE, Decay, Multifactor, Tree, Use, halved, noted_use
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.limits import INT64_MAX, MAX_SPAN_US
from cosched_plugin.protocol.values import note_travels

NODES, THREADS = 40, 8
SHARES = {"a": 3, "b": 1, "a/ann": 2, "a/deep": 5, "a/deep/dan": 1, "a/deep/eve": 4, "b/bob": 1, "b/idle": 7}
ACCOUNTS = {"a": ("", 3), "b": ("", 1), "ann": ("a", 2), "deep": ("a", 5)}
ACCOUNTS |= {"dan": ("deep", 1), "eve": ("deep", 4), "bob": ("b", 1), "idle": ("b", 7)}
USERS = ("ann", "dan", "eve", "bob")


def job_of(number: int, user: str, processes: int, submit_us: int, ppn_max: int = 0, priority: int = 0) -> m.JobSpec:
    return m.JobSpec(number, submit_us, processes, 10**12, user=user, ppn_max=ppn_max, priority=priority)


def core_of(order: dict[str, object], notes: tuple[m.Note, ...] = ()) -> SchedulerCore:
    told = welcome(m.NodeClass(NODES, 1, THREADS, 1, 512, 0, 0, 0), GOOD, (), notes=notes)._replace(now_us=0)
    return SchedulerCore(compose({"preset": "fcfs", "order": {"name": "multifactor", **order}}), told)


def order_of(part: Multifactor, jobs: list[m.JobSpec], view: View) -> list[int]:
    return [job.id for job in part.arrange(sorted(jobs, key=lambda job: (job.submit_us, job.id)), view)]


@pytest.mark.by_default(4)
@pytest.mark.parametrize("seed", range(8))
def test_the_order_agrees_with_the_reference_and_with_a_restarted_one(seed: int) -> None:
    random = Random(seed)
    period, half_life = random.choice(((300, 7_200), (60, 3_600), (100, 0), (31, 200)))
    site = reference.Site(1_000, 10_000, 2_000, 9_000.0, half_life, period, seed % 2 == 0, NODES, NODES * THREADS)
    settings: dict[str, object] = {
        "age": 1_000, "fair_share": 10_000, "size": 2_000, "max_age_s": 9_000.0, "half_life_s": float(half_life),
        "period_s": float(period), "favor_small": site.favor_small, "shares": SHARES,
    }  # fmt: skip
    core = core_of(settings)
    lasting = Multifactor(**settings)  # type: ignore[arg-type]  # a table of settings
    spent: dict[int, reference.Spent] = {}
    running: list[int] = []
    now = 0
    for step in range(1, 80):
        now += random.choice((0, 1, 5, 40, 40, 900)) + 1
        ended = [job_id for job_id in running if random.random() < 0.2]
        running = [job_id for job_id in running if job_id not in ended]
        for job_id in ended:
            spent[job_id] = spent[job_id]._replace(end=now)
        events: list[m.JobEnded | m.JobSubmitted] = [m.JobEnded(job_id, "COMPLETED") for job_id in ended]
        if len(running) < NODES:
            job = job_of(step, random.choice(USERS), random.randint(1, THREADS), now * SECOND_US)
            events.append(m.JobSubmitted(job))
            running.append(step)
            spent[step] = reference.Spent(job.user, job.processes, now, float("inf"))
        core.handle(now * SECOND_US, tuple(events))
        assert sorted(core.view.running) == sorted(running)
        if random.random() < 0.5:
            continue
        waiting = [
            reference.Waiting(
                number, random.choice(USERS), random.randint(0, now), nodes, nodes * 4, random.randint(-50, 500)
            )
            for number, nodes in enumerate(random.sample(range(1, NODES + 1), 12))
        ]
        jobs = [
            job_of(one.id, one.user, one.cpus, one.submit * SECOND_US, ppn_max=4, priority=one.extra)  # type: ignore[arg-type]  # whole
            for one in waiting
        ]
        arranged = order_of(lasting, jobs, core.view)
        assert arranged == order_of(Multifactor(**settings), jobs, core.view)  # type: ignore[arg-type]  # as above
        used = reference.usage(spent.values(), now, site)
        priorities = {one.id: reference.priority(one, now, used, ACCOUNTS, site) for one in waiting}
        assert not reference.out_of_order(arranged, priorities, 1.5)


@pytest.mark.parametrize(
    "event", [m.JobStarted(9, 0, runs_on((0, 4, 255, 8)), 10**12, job=job_of(9, "ann", 32, 0)), None]
)
def test_use_from_before_a_period_that_is_told_or_taken_back_in_it_counts_at_once(event: m.JobStarted | None) -> None:
    """As for a scheduler that is restarted then: the manager starts a job itself, or refuses a start late."""
    core = core_of({"period_s": 100.0})
    lasting = Multifactor(period_s=100.0)
    jobs = [job_of(1, "ann", 1, 0), job_of(2, "bob", 1, 0)]
    if event is None:
        core.handle(0, (m.JobSubmitted(job_of(9, "ann", 32, 0)),))
    now_us = 150 * SECOND_US
    core.handle(now_us, ())
    before = order_of(lasting, jobs, core.view)
    core.handle(now_us, (m.ActionRefused(1, 0, "did not start", (9,)) if event is None else event,))
    after = order_of(lasting, jobs, core.view)
    assert after == order_of(Multifactor(period_s=100.0), jobs, core.view)
    assert (before, after) == (([2, 1], [1, 2]) if event is None else ([1, 2], [2, 1]))


def test_an_example_of_fair_share_by_hand() -> None:
    """Two accounts with equal shares; the only user of the first has used all: its factor is 1/4, the other's 1."""
    tree = Tree({"a/ann": 1, "b/bob": 1})
    factors = tree.factors({"ann": 100}, 1)
    assert [factors.of(user) / 2**30 for user in ("ann", "bob")] == [0.25, 1]
    assert tree.factors({"ann": 100}, 2).of("ann") == 2**29
    # Of a user who is not in the tree, the share is that of an account with one share: a third.
    assert tree.factors({"ann": 1, "zoe": 1}, 1).of("zoe") / 2**30 == pytest.approx(2**-1.5)
    assert tree.factors({}, 1).of("ann") == 2**30
    assert Tree({"a/ann": 0, "a/eve": 1}).factors({"ann": 1}, 1).of("ann") == 0


@pytest.mark.parametrize("exponent", [0.0, 1e-9, 0.25, 1.0, 1.7, 13.5, 39.9, 41.0, 1e9])
def test_powers_of_a_half_agree_with_floats(exponent: float) -> None:
    assert halved(round(exponent * 2**32)) / 2**40 == pytest.approx(0.5**exponent, rel=1e-9, abs=2**-39)


def test_use_counts_in_full_when_its_period_ends_and_less_later() -> None:
    decay = Decay(100 * SECOND_US, 100 * SECOND_US)
    assert [decay.use(8, 50 * SECOND_US, period) for period in range(4)] == [0, 400_000, 1_000_000, 1_300_000]
    assert decay.at(Use(1, {"ann": 64}, {"ann": 8, "bob": 1}), 3) == Use(3, {"ann": 20}, {})


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        (1, 2, 3, 4),
        (0, ("a",), (1,), ()),
        (0, (1,), (1,), (1,)),
        (0, ("a",), (-1,), (0,)),
        (0, ("a",), (0.5,), (0,)),
    ],
)
def test_an_invalid_note_is_ignored(value: object) -> None:
    assert noted_use(value) == Use()  # type: ignore[arg-type]  # that is the point


def test_the_note_is_bounded() -> None:
    users = {f"user{number:06}": INT64_MAX * number for number in range(MOST_USERS + 5)}
    note = Use(5, users, {}).note()
    assert note_travels(NOTE, note)
    assert len(noted_use(note).before) == MOST_USERS


def test_the_longest_spans_and_the_largest_note_are_within_bounds() -> None:
    core = core_of({}, (m.Note(None, NOTE, (0, ("ann",), (2**62,), (2**62,))),))
    core.handle(0, (m.JobSubmitted(job_of(1, "ann", NODES * THREADS, 0)), m.JobSubmitted(job_of(2, "ann", 1, 0))))
    core.handle(MAX_SPAN_US, (m.JobEnded(1, "COMPLETED"),))
    assert note_travels(NOTE, core.view.note(None, NOTE))


def test_without_a_weight_of_fair_share_there_is_no_note() -> None:
    core = core_of({"fair_share": 0})
    core.handle(0, (m.JobSubmitted(job_of(1, "ann", 1, 0)),))
    core.handle(SECOND_US, (m.JobEnded(1, "COMPLETED"),))
    assert core.view.note(None, NOTE) is None


@pytest.mark.parametrize("order", ["fcfs", "shortest"])
def test_a_depth_limits_how_far_a_pass_looks(order: str) -> None:
    """As deep as the queue it changes nothing; a depth of one is no backfilling."""
    jobs = random_jobs(Random(3), 8, "over", 60)

    def starts(backfill: object) -> dict[int, int]:
        return starts_under({"order": order, "backfill": backfill}, jobs, 8)

    assert starts({"name": "easy", "depth": 1_000}) == starts("easy")
    assert starts({"name": "easy", "depth": 1}) == starts("none")
    assert starts({"name": "easy", "depth": 3}) not in (starts("easy"), starts("none"))
