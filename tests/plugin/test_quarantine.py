"""Jobs on which a policy fails are set aside: which ones, what the others get, and when they come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.runs import runs_on

from cosched_plugin.api import first_fit
from cosched_plugin.common.errors import PolicyError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m
from cosched_plugin.quarantine import MOST, PolicyFailed, Quarantine
from cosched_terminal.console import Log

Fails = Callable[[set[str]], bool]


class Sour:
    """First come, first served; it raises where the names of the pending jobs are as they must not be."""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails

    def decide(self, view: View) -> Iterator[m.Action]:
        if self._fails({job.name for job in view.queue}):
            raise ValueError("sour")
        for job in view.queue:
            runs = first_fit(job, view.free, view.machine, view.free_memory_mb)
            if runs is None:
                return
            yield m.StartJob(job.id, runs, job.estimate_us, job.limit_us)


def job(number: int, name: str = "") -> m.JobSpec:
    return m.JobSpec(number, number, 1, 1_000, None, name=name)


def welcome(*jobs: m.JobSpec, nodes: int = 1, notes: tuple[m.Note, ...] = ()) -> m.Welcome:
    belief = m.Belief("none", "bulk-synchronous", ())
    pending = tuple([m.PendingJob(each, False) for each in jobs])
    machine = (m.NodeClass(nodes, 1, 1, 1, 0, 0, 0, 0),)
    return m.Welcome(m.PROTOCOL_VERSION, m.FEATURES, 0, 1_000, machine, (), belief, (), pending, notes, ())


def setting_aside(fails: Fails) -> tuple[Quarantine, list[str]]:
    told: list[str] = []
    return Quarantine(lambda each: SchedulerCore(Sour(fails), each), Log(write=told.append)), told


def bad(names: set[str]) -> bool:
    return "bad" in names


def started(actions: list[m.Action]) -> list[int]:
    return [action.job_id for action in actions if isinstance(action, m.StartJob)]


def test_the_job_is_named_and_the_others_run() -> None:
    owner, told = setting_aside(bad)
    scheduler = owner(welcome(job(1), job(2, "bad"), job(3), nodes=2))
    actions = scheduler.handle(1_000, ())
    assert started(actions) == [1, 3]
    (note,) = [action for action in actions if isinstance(action, m.SetNote)]
    assert note[:2] == (2, m.SET_ASIDE)
    assert str(note.value).startswith("ValueError: sour (test_quarantine.py:")
    assert told == [f"warning: job 2 is set aside, as the policy fails on it: {note.value}"]
    assert started(scheduler.handle(2_000, [m.JobEnded(1, m.COMPLETED), m.JobSubmitted(job(4))])) == [4]


def test_in_the_middle_of_a_conversation_the_scheduler_begins_anew() -> None:
    owner, _ = setting_aside(bad)
    scheduler = owner(welcome(job(1)))
    assert started(scheduler.handle(1_000, ())) == [1]
    with pytest.raises(PolicyFailed, match="ValueError: sour"):
        scheduler.handle(2_000, [m.JobSubmitted(job(2, "bad"))])
    assert owner.jobs == {}  # it may have been a defect that a fresh start ends
    again = owner(welcome(job(1), job(2, "bad")))
    assert started(again.handle(2_000, ())) == [1]
    assert owner.jobs.keys() == {2}
    later = owner(welcome(job(2, "bad"), job(3)))  # the same process takes over again
    assert started(later.handle(3_000, ())) == [3]


def test_a_job_that_is_released_with_the_first_batch() -> None:
    owner, _ = setting_aside(bad)
    told = welcome(job(1), job(2, "bad"))
    scheduler = owner(told._replace(pending=(told.pending[0], told.pending[1]._replace(held=True))))
    assert started(scheduler.handle(1_000, [m.JobReleased(2)])) == [1]
    assert owner.jobs.keys() == {2}


def test_a_job_that_comes_with_the_first_batch() -> None:
    owner, _ = setting_aside(bad)
    scheduler = owner(welcome(job(1)))
    assert started(scheduler.handle(1_000, [m.JobSubmitted(job(2, "bad"))])) == [1]
    assert owner.jobs.keys() == {2}


@pytest.mark.parametrize("back", [m.JobReleased(2), m.JobModified(job(2, "good"))])
def test_it_comes_back_when_a_user_releases_or_changes_it(back: m.JobReleased | m.JobModified) -> None:
    owner, _ = setting_aside(bad)
    scheduler = owner(welcome(job(2, "bad")))
    assert started(scheduler.handle(1_000, ())) == []
    if isinstance(back, m.JobModified):
        assert scheduler.handle(2_000, [back]) == [
            m.StartJob(2, runs_on((0, 1, 1, 1)), 1_000, None),
            m.SetNote(2, m.SET_ASIDE, None),
        ]
    else:
        assert scheduler.handle(1_500, [m.JobHeld(2)]) == []
        with pytest.raises(PolicyFailed):
            scheduler.handle(2_000, [back])
    assert owner.jobs == {}


@pytest.mark.parametrize("reconnected", [False, True])
def test_one_that_a_user_holds_as_well_and_changes_waits_for_its_release(reconnected: bool) -> None:
    owner, _ = setting_aside(bad)
    scheduler = owner(welcome(job(2, "bad")))
    scheduler.handle(1_000, ())
    if reconnected:
        there = welcome(job(2, "bad"))
        scheduler = owner(there._replace(pending=(m.PendingJob(job(2, "bad"), True),)))
        scheduler.handle(1_500, ())
    else:
        scheduler.handle(1_500, [m.JobHeld(2)])
    assert started(scheduler.handle(2_000, [m.JobModified(job(2, "good"))])) == []
    assert started(scheduler.handle(2_500, [m.JobReleased(2)])) == [2]


def test_of_a_job_that_has_ended_nothing_is_said() -> None:
    owner, _ = setting_aside(bad)
    scheduler = owner(welcome(job(2, "bad")))
    assert len(scheduler.handle(1_000, ())) == 1
    assert scheduler.handle(2_000, [m.JobEnded(2, m.CANCELLED)]) == []
    assert owner.jobs == {}


def test_of_two_that_fail_together_one_is_set_aside() -> None:
    owner, _ = setting_aside(lambda names: {"one", "other"} <= names)
    scheduler = owner(welcome(job(1, "one"), job(2), job(3, "other"), job(4), nodes=4))
    assert started(scheduler.handle(1_000, ())) == [1, 2, 4]


def test_a_restart_finds_the_same_and_takes_back_what_does_not_hold() -> None:
    notes = (m.Note(1, m.SET_ASIDE, "long ago"), m.Note(2, m.SET_ASIDE, "long ago"))
    owner, _ = setting_aside(bad)
    actions = owner(welcome(job(1), job(2, "bad"), notes=notes)).handle(1_000, ())
    assert started(actions) == [1]
    assert actions[1:] == [m.SetNote(1, m.SET_ASIDE, None)]


def test_without_any_pending_job_it_is_the_policy_that_fails() -> None:
    owner, _ = setting_aside(lambda _: True)
    with pytest.raises(PolicyError, match="ValueError: sour"):
        owner(welcome(job(1), job(2))).handle(1_000, ())
    assert owner.jobs == {}


def test_a_policy_that_fails_on_too_many_ends() -> None:
    owner, _ = setting_aside(bad)
    with pytest.raises(PolicyError):
        owner(welcome(*[job(number, "bad") for number in range(1, MOST + 2)])).handle(1_000, ())
    assert len(owner.jobs) == MOST


@pytest.mark.by_default(6)
@pytest.mark.parametrize("seed", range(20))
def test_any_few_of_many_are_found_with_few_trials(seed: int) -> None:
    random = Random(seed)
    sour = set(random.sample(range(1, 1_001), random.randrange(1, 5)))
    trials = 0

    def make(each: m.Welcome) -> SchedulerCore:
        nonlocal trials
        trials += 1
        return SchedulerCore(Sour(bad), each)

    owner = Quarantine(make, Log(write=lambda _: None))
    jobs = [job(number, "bad" if number in sour else "") for number in range(1, 1_001)]
    assert len(started(owner(welcome(*jobs, nodes=1_000)).handle(1_000, ()))) == 1_000 - len(sour)
    assert owner.jobs.keys() == sour
    assert trials <= 2 + 13 * len(sour)
