"""What a manager does itself, and what it cannot say: contradictions are errors that name both facts, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.plugin.core.parts import (
    LIMITED,
    NOW_US,
    PLAIN,
    RUNNING,
    START_LIMITED,
    START_PLAIN,
    WELCOME,
    core_with,
    looks,
)
from tests.runs import runs_on

from cosched_plugin.common.errors import PolicyError, RemoteProtocolError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m

HERE = runs_on((1, 1, 3, 2))
NEW = m.JobSpec(9, 500, 2, 300, 400)
OTHER = m.RunningJob(m.JobSpec(8, 0, 1, 500), 800, runs_on((0, 1, 2, 1)), 500, None)
TWICE = OTHER._replace(runs=runs_on((0, 1, 1, 1), (0, 1, 2, 1)), spec=OTHER.spec._replace(processes=2))
SWAP = WELCOME._replace(nodes=tuple(item._replace(swap_mb=100) for item in WELCOME.nodes), resume_us=30)


def told(*events: m.Event, welcome: m.Welcome = WELCOME) -> SchedulerCore:
    """Return a core that has heard of these events, and whose caches are right."""
    core = core_with(welcome=welcome)
    core.handle(NOW_US + 100, events)
    core.check()
    return core


# ---------------------------------------------------------------- what a manager does itself


@pytest.mark.parametrize(("job_id", "described"), [(2, False), (2, True), (4, False), (9, True)])
def test_a_job_that_the_manager_starts_runs_from_then_on(job_id: int, described: bool) -> None:
    """It was pending, held, or nobody had heard of it."""
    spec = {2: PLAIN, 4: WELCOME.pending[3].spec, 9: NEW}[job_id]
    runs = HERE if spec.processes == 2 else runs_on((2, 1, 1, 1))
    event = m.JobStarted(job_id, NOW_US + 40, runs, 150, spec.limit_us, job=spec if described else None)
    core = told(event)
    running = core.view.running[job_id]
    assert (running.job, running.start_us, running.end_us, running.runs) == (spec, NOW_US + 40, NOW_US + 190, runs)
    assert job_id not in [job.id for job in core.view.queue]
    assert core.view.note(2, "seen") == 3
    core.handle(NOW_US + 101, (m.JobRequeued(job_id),))
    assert job_id in [job.id for job in core.view.queue]


def test_a_start_that_happens_elsewhere_and_later_is_where_the_manager_says() -> None:
    core = core_with(START_PLAIN)
    core.handle(NOW_US, ())
    core.handle(NOW_US + 100, (m.JobStarted(2, NOW_US + 80, runs_on((0, 1, 2, 1), (2, 1, 1, 1)), 120, None),))
    core.check()
    assert core.view.running[2].start_us == NOW_US + 80
    assert core.view.free == (0b010, 0b010)
    assert not core.view.ended


def test_a_start_may_take_the_threads_of_a_job_that_ends_in_the_same_batch() -> None:
    told(m.JobEnded(1, m.COMPLETED), m.JobStarted(3, NOW_US, runs_on((0, 1, 1, 1)), 100, 200))


def test_a_modified_job_keeps_its_notes_and_its_place() -> None:
    core = told(
        m.JobModified(PLAIN._replace(processes=3, name="new", estimate_us=7)),
        m.JobModified(RUNNING._replace(name="run")),
    )
    assert [(job.id, job.processes) for job in core.view.queue] == [(2, 3), (3, 1), (5, 1)]
    assert core.view.note(2, "seen") == 3
    assert core.view.running[1].job.name == "run"
    core.handle(
        NOW_US + 101,
        (m.JobModified(PLAIN._replace(submit_us=50)), m.JobModified(WELCOME.pending[3].spec._replace(name="held"))),
    )
    assert [job.id for job in core.view.queue] == [3, 5, 2]
    core.handle(NOW_US + 102, (m.JobReleased(4),))
    assert core.view.queue[1].name == "held"


def test_the_limit_of_a_running_job_may_fall() -> None:
    core = core_with(START_LIMITED)
    core.handle(NOW_US, ())
    core.handle(NOW_US + 100, (m.JobRevised(3, 140, 180),))
    running = core.view.running[3]
    assert (running.end_us, running.limit_us) == (NOW_US + 140, 180)


@pytest.mark.parametrize("to_disk", [False, True])
def test_only_the_manager_resumes_what_it_has_suspended(to_disk: bool) -> None:
    core = told(m.JobSuspended(1, NOW_US + 50, to_disk), welcome=SWAP)
    running = core.view.running[1]
    assert (running.suspended_us, running.held, running.on_disk) == (NOW_US + 50, True, to_disk)
    assert not core.view.may_resume(running)
    for decision in (m.ResumeJob(1), m.SuspendJob(1, to_disk=True)):
        core._policy.decisions = [decision]  # type: ignore[attr-defined]
        with pytest.raises(PolicyError):
            core.handle(NOW_US + 100, ())
    core = told(m.JobSuspended(1, NOW_US + 50, to_disk), m.JobResumed(1, NOW_US + 90), welcome=SWAP)
    resumed = core.view.running[1]
    lost_us = 70 if to_disk else 40
    assert (resumed.suspended_us, resumed.held, resumed.idle_us) == (None, False, lost_us)
    assert resumed.end_us == 900 + 500 + lost_us
    # A scheduler that is made from the manager's present state knows the same.
    entry = m.RunningJob(RUNNING, 900, WELCOME.running[0].runs, 500, None, NOW_US + 50, on_disk=to_disk, held=True)
    assert SchedulerCore(core._policy, SWAP._replace(running=(entry,))).view.running[1].held


# ---------------------------------------------------------------- contradictions


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([m.JobSubmitted(RUNNING)], "job 1 is submitted, and it runs"),
        ([m.JobSubmitted(PLAIN)], "job 2 is submitted, and it waits to be started"),
        ([m.JobSubmitted(WELCOME.pending[3].spec)], "job 4 is submitted, and it is held"),
        ([m.JobSubmitted(NEW._replace(submit_us=5_000))], "job 9 was submitted at 5000 us, and now is 1100 us"),
        ([m.JobRequeued(77)], "job 77 was requeued, and it was never heard of, or has ended"),
        ([m.NodeFailed(999)], "node 999 failed, and the machine has nodes 0 to 2"),
        ([m.NodeReturned(3)], "node 3 returned, and the machine has nodes 0 to 2"),
        ([m.ProgressMeasured(77, 2_000_000)], "job 77 was measured, and it was never heard of, or has ended"),
        ([m.ProgressMeasured(2, 2_000_000)], "job 2 was measured, and it waits to be started"),
        ([m.ActionRefused(9, 0, "no")], "an action of batch 9 was refused, and the last one answered is 8"),
        ([m.ActionRefused(8, 2, "no")], "action 2 of batch 8 was refused, and its reply has 2 actions"),
        ([m.ActionRefused(8, 0, "no", (3,))], r"action 0 of batch 8 was refused for jobs \[3\], and it starts \[\]"),
        ([m.JobStarted(9, NOW_US, HERE, 1, 400)], "job 9 started without a description, and it was never heard of"),
        ([m.JobStarted(2, NOW_US + 500, HERE, 1, None)], "job 2 started at 1500 us, and now is 1100 us"),
        ([m.JobStarted(2, NOW_US, HERE, 1, None, job=NEW)], "job 2 started, described as job 9"),
        ([m.JobStarted(2, NOW_US, runs_on((1, 1, 1, 1)), 1, None)], "job 2 has 2 processes, and its runs hold 1"),
        ([m.JobStarted(2, NOW_US, runs_on((9, 1, 3, 2)), 1, None)], "job 2 runs on node 9, and the machine has nodes 0 to 2"),
        ([m.JobStarted(2, NOW_US, runs_on((2, 1, 3, 2)), 1, None)], "job 2 has thread 1 of a node that has 1 threads"),
        ([m.JobStarted(2, NOW_US, HERE, 1, 50)], "the limit of job 2 is none, and what it was granted is 50 us"),
        ([m.JobStarted(2, NOW_US, HERE, 1, None, slot=1)], "job 2 runs in slot 1: this machine has no slots"),
        ([m.JobStarted(3, NOW_US, runs_on((0, 1, 1, 1)), 1, 200)], "jobs 1 and 3 both run on thread 0 of node 0"),
        ([m.JobModified(NEW)], "job 9 is modified, and it was never heard of, or has ended"),
        ([m.JobModified(RUNNING._replace(processes=2))], "job 1 is to have 2 processes, and it runs with 1"),
        ([m.JobRevised(2, 1, None)], "job 2 was granted another limit, and it waits to be started"),
        ([m.JobRevised(1, 1, 5)], "the limit of job 1 is none, and what it was granted is 5 us"),
        ([m.JobSuspended(2, NOW_US)], "job 2 was suspended, and it waits to be started"),
        ([m.JobSuspended(1, 5_000)], "job 1 changed at 5000 us, which is not between 900 us and now, 1100 us"),
        ([m.JobSuspended(1, NOW_US), m.JobSuspended(1, 1_050)], "job 1 was suspended at 1050 us, and it is since 1000 us"),
        ([m.JobResumed(1, NOW_US)], "job 1 was resumed, and it is not suspended"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_events_that_contradict_what_was_said_name_both_facts(events: list[m.Event], words: str) -> None:
    core = core_with(m.WakeAt(9_000), m.WakeAt(9_001))
    core.handle(NOW_US, ())
    with pytest.raises(RemoteProtocolError, match=f"what happened cannot have happened: {words}") as caught:
        core.handle(NOW_US + 100, events)
    assert caught.value.code == "state"
    assert caught.value.path.startswith("events")
    assert_in_words(str(caught.value))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"running": (WELCOME.running[0], OTHER._replace(runs=runs_on((0, 1, 1, 1))))}, "jobs 1 and 8 both run on thread 0 of node 0"),
        ({"running": (OTHER._replace(spec=OTHER.spec._replace(processes=4)),)}, "job 8 has 4 processes, and its runs hold 1"),
        ({"running": (OTHER._replace(spec=LIMITED, limit_us=200),)}, "job 3 is both running and pending"),
        ({"running": (OTHER, OTHER)}, "job 8 is both running and running"),
        ({"running": (TWICE,)}, "job 8 has two runs on one node"),
        ({"pending": (WELCOME.pending[0], WELCOME.pending[0])}, "a job is pending twice"),
        ({"pending": (m.PendingJob(NEW._replace(submit_us=7_000), False),)}, "job 9 was submitted at 7000 us, and now is 1000 us"),
        ({"down": (999,)}, "node 999 is down, and the machine has nodes 0 to 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_welcome_that_contradicts_itself_names_both_facts(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"the welcome contradicts itself: {words}") as caught:
        core_with(welcome=WELCOME._replace(**changes))
    assert_in_words(str(caught.value))


def assert_in_words(text: str, not_there: Iterable[str] = (".py", "Error", "/")) -> None:
    assert not [word for word in not_there if word in text]


def test_the_end_of_a_job_that_is_not_known_is_none() -> None:
    """The scheduler may have rejected it, while a user took it back."""
    assert looks(told(m.JobEnded(77, m.CANCELLED))) == looks(told(m.Woken(1)))
