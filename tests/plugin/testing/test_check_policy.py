"""The conformance check passes all of our policies, and catches forbidden behaviour."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from tests.processes import run_python

from cosched_hwmodel.units import seconds_text
from cosched_plugin import api
from cosched_plugin.common.errors import MachineError, PluginError
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.state import State
from cosched_plugin.ledger.running import Running
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.protocol.messages import COMPLETED
from cosched_plugin.testing import check
from cosched_plugin.testing.check import PolicyCheckError, Report, check_policy
from cosched_plugin.testing.verdict import apart

S = 1_000_000
COMPOSITIONS = [{"preset": name} for name in PRESETS] + [
    {"order": "shortest", "backfill": "easy", "placement": "packed"},
    {"backfill": "conservative", "placement": "packed"},
    {"backfill": "none", "placement": {"name": "lessconsume-threshold", "threshold": 1}},
    {"backfill": "easy", "placement": {"name": "first-fit", "extend_limit": True}},
    {"preset": "lc", "placement": {"may_wait": True}},
    {"preset": "rua", "backfill": {"thresholds": [1.0, 1.5]}, "placement": {"limit_factors": [1.15, 1.5]}},
    {"preset": "lomarc-r", "matching": {"future": "all", "weak_load": 0}},
    {"preset": "lomarc-r", "matching": {"future": "none"}, "order": {"age_s": 30}, "backfill": "sjbf"},
    {"preset": "lomarc-u1", "matching": {"cpu": "standard", "weak_load": 1}, "backfill": "none"},
    {"preset": "am", "matching": {"weak_load": 1, "max_slowdown": 2.5}, "order": "shortest"},
    {"preset": "ac", "order": "fcfs"},
    {"preset": "pss", "order": {"name": "class-one-rises", "age_s": 30}},
    {"preset": "lomarc-u1", "order": "class-one-rises"},
    {"preset": "lomarc-r", "slices": "classes"},
    {"preset": "lomarc-r", "fairness": "slack"},
    {"preset": "am", "slices": "classes", "fairness": "slack", "matching": {"weak_load": 1}},
    {"preset": "glts", "slices": "none", "matching": {"fairness_tries": "all"}},
    {"preset": "glts-nh", "slices": "none", "matching": {"fairness_tries": "one"}},
    {"preset": "glts", "slices": "none"},
    {"preset": "ssp", "slices": "none"},
]


@pytest.mark.by_default(16)
@pytest.mark.parametrize("table", COMPOSITIONS, ids=str)
@pytest.mark.parametrize("runs", [4, pytest.param(9, marks=pytest.mark.slow)])  # the first four sites are of all kinds
def test_our_policies_pass(table: dict[str, object], runs: int) -> None:
    report = check_policy(lambda: compose(table), seed=3, runs=runs)
    assert (report.runs, report.declined) == (runs, 0)
    assert report.batches > report.runs * 20
    assert report.decisions > report.jobs * 0.8  # nearly every job starts, and some more than once


@pytest.mark.by_default(1)
@pytest.mark.parametrize("table", [{"preset": "glts"}, {"preset": "ssp"}, {"preset": "cstws"}], ids=str)
@pytest.mark.parametrize("seed", range(40, 46))
def test_time_slices_pass_on_more_machines(table: dict[str, object], seed: int) -> None:
    assert check_policy(lambda: compose(table), seed=seed, runs=6).declined == 0


def test_report_is_one_line() -> None:
    report = check_policy(Greedy, runs=2)
    assert "\n" not in str(report)
    assert str(report.jobs) in str(report)
    assert report == check_policy(Greedy, runs=2)
    assert report != check_policy(Greedy, runs=2, seed=2)
    assert isinstance(report, Report)


# ---------------------------------------------------------------- policies, good and bad


class Greedy:
    """Start whatever fits, in order of submission: valid, though unfair."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for job in view.queue:
            runs = api.first_fit(job, view.free, view.machine, view.free_memory_mb)
            if runs is not None:
                yield api.StartJob(job.id, runs, job.estimate_us, job.limit_us)


class Group(Greedy):
    """Start whatever fits, all in one decision, with notes and wakes, which few policies use."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        starts: list[api.StartJob] = []
        free = view.free
        for job in view.queue:
            if job.memory_mb or view.note(job.id, "alone"):
                continue
            runs = api.first_fit(job, free, view.machine, view.free_memory_mb)
            if runs is not None:
                start = api.StartJob(job.id, runs, job.estimate_us, job.limit_us)
                starts.append(start)
                free = api.minus(free, api.layers_of(runs, view.machine.depth))
        if starts:
            yield api.StartTogether(tuple(starts))
        for job in view.queue:
            if job.memory_mb and not view.note(job.id, "alone"):
                yield api.SetNote(job.id, "alone", True)
                if view.now_us + 1_000_000 not in view.wakes():
                    yield api.WakeAt(view.now_us + 1_000_000)
            elif job.memory_mb and job.submit_us < view.now_us:
                yield api.RejectJob(job.id, "memory is out of fashion")
        if view.note(None, "waiting") != view.queued:
            yield api.SetNote(None, "waiting", view.queued)


class Stateful(Greedy):
    """Count the passes, and be idle in some of them."""

    def __init__(self) -> None:
        self.passes = 0

    def decide(self, view: api.View) -> Iterator[api.Action]:
        self.passes += 1
        if self.passes % 7:
            yield from super().decide(view)


class StatefulEstimates(Greedy):
    """Learn from ended jobs in memory, which a restart loses."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for action in super().decide(view):
            assert isinstance(action, api.StartJob)
            self.seen.add(action.job_id)
            yield action._replace(estimate_us=action.estimate_us + len(self.seen))


class Starving(Greedy):
    """Never start wide jobs."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for action in super().decide(view):
            assert isinstance(action, api.StartJob)
            if sum(count * processes for _, count, _, processes in action.runs) < 4:
                yield action


class HalfHearted(Greedy):
    """Start one job a pass."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for action in super().decide(view):
            yield action
            return


class DoubleStarting(Greedy):
    def decide(self, view: api.View) -> Iterator[api.Action]:
        for action in super().decide(view):
            yield action
            yield action


class Overcommitting(Greedy):
    def decide(self, view: api.View) -> Iterator[api.Action]:
        for job in view.queue:
            runs = api.first_fit(job, view.machine.exists, view.machine, view.machine.memory_mb)
            assert runs is not None
            yield api.StartJob(job.id, runs, job.estimate_us, job.limit_us)


class Raising(Greedy):
    def decide(self, view: api.View) -> Iterator[api.Action]:
        yield from super().decide(view)
        if len(view.running) > 2:
            raise KeyError("lost")


class SleepingBadly(Greedy):
    """Request wakes without end."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        yield from super().decide(view)
        if not view.wakes():
            yield api.WakeAt(view.now_us + 1)


class Pausing(Greedy):
    """Suspend each very slow job for a second: valid, though useless."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for job_id in sorted(view.running):
            running = view.running[job_id]
            if running.suspended_us is not None and running.suspended_us < view.now_us:
                yield api.ResumeJob(job_id)
                running = view.running[job_id]  # its end and limit have been put off, too
                yield api.ReviseJob(job_id, running.end_us - running.start_us, running.limit_us)
            elif running.suspended_us is None and running.measured_ppm > 2_000_000:
                yield api.SuspendJob(job_id)
                if view.now_us + 1_000_000 not in view.wakes():
                    yield api.WakeAt(view.now_us + 1_000_000)
        yield from super().decide(view)


class Hesitant(Greedy):
    """Suspend each job when it starts, and resume it at once: valid, though useless. None of it happens where a start is refused."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for start in super().decide(view):
            yield start
            if isinstance(start, api.StartJob):
                yield api.SuspendJob(start.job_id)
                yield api.ResumeJob(start.job_id)


class Swapping(Greedy):
    """Suspend each job that has run for ten minutes to disk for another ten, if there is room, and start others meanwhile.

    A job that returns from disk is suspended for a second on its nodes, which must not make it ready earlier. Valid, though useless.
    """

    def decide(self, view: api.View) -> Iterator[api.Action]:
        more = True
        while more:  # a job that leaves makes room for others to return, and the other way round
            more = False
            for action in (action for job_id in sorted(view.running) for action in self._swapped(job_id, view)):
                yield action
                more = True
        for action in super().decide(view):
            yield action
            yield from _wake(view, 600)

    def _swapped(self, job_id: int, view: api.View) -> Iterator[api.Action]:
        running = view.running[job_id]
        stopped_us = running.suspended_us
        if stopped_us is None:
            on_its_way = running.ready_us - view.resume_us < view.now_us < running.ready_us
            if on_its_way and not view.note(job_id, "stopped"):
                yield api.SetNote(job_id, "stopped", True)
                yield api.SuspendJob(job_id)
                yield from _wake(view, 1)
            elif self._is_due(running, view):
                yield api.SetNote(job_id, "swapped", True)
                yield api.SuspendJob(job_id, to_disk=True)
                yield from _wake(view, 600)
        elif stopped_us + (600 * S if running.on_disk else 1) <= view.now_us and (
            not running.on_disk or view.may_resume(running)
        ):
            yield api.ResumeJob(job_id)
            yield from _wake(view, 1)

    def _is_due(self, running: Running, view: api.View) -> bool:
        memory_mb = running.job.memory_mb
        room = all(memory_mb * count <= view.free_swap_mb[node] for node, count in api.each_node(running.runs))
        return room and not view.note(running.job.id, "swapped") and view.now_us >= running.start_us + 600 * S


def _wake(view: api.View, seconds: int) -> Iterator[api.Action]:
    if view.now_us + seconds * S not in view.wakes():
        yield api.WakeAt(view.now_us + seconds * S)


class Choosy(Greedy):
    """Decline machines of several kinds of nodes; ``late``: only after a start."""

    def __init__(self, *, late: bool = False, most: int = 1) -> None:
        self._late = late
        self._most = most

    def decide(self, view: api.View) -> Iterator[api.Action]:
        if len(view.machine.classes) > self._most and (view.running or not self._late):
            raise MachineError("nodes of several kinds")
        yield from super().decide(view)


class Forgetful(Pausing):
    """Suspend slow jobs, and never resume them."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        for action in super().decide(view):
            if isinstance(action, api.ResumeJob):
                return
            yield action


class Stingy(Greedy):
    """Take back time that was granted."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        yield from super().decide(view)
        for job_id, running in sorted(view.running.items()):
            if running.limit_us is not None and running.limit_us > 1:
                yield api.ReviseJob(job_id, 1, running.limit_us - 1)


class Hurried(Greedy):
    """Resume a job that is not suspended."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        yield from super().decide(view)
        for job_id in sorted(view.running):
            yield api.ResumeJob(job_id)


def mutating(change: Callable[[api.View], None]) -> type[Greedy]:
    class Mutating(Greedy):
        def decide(self, view: api.View) -> Iterator[api.Action]:
            yield from super().decide(view)
            change(view)

    return Mutating


def _lend_memory(view: api.View) -> None:
    view.free_memory_mb[0] += 1  # type: ignore[index]


def _forget_ends(view: api.View) -> None:
    view.releases.clear()  # type: ignore[attr-defined]


def _evict(view: api.View) -> None:
    view.running.clear()  # type: ignore[attr-defined]


def _change_plan(view: api.View) -> None:
    view.availability().append((1 << 60, view.machine.exists))  # type: ignore[attr-defined]


def _grow_node(view: api.View) -> None:
    view.machine.threads_of[0] += 8


def _change_counts(view: api.View) -> None:
    view.thread_counts(view.free)[0] += 1


@pytest.mark.parametrize(("preset", "eased"), [("easy", 0), ("glts", 0), ("co-execution", 0), ("batch-contiguous", 1)])
def test_the_report_says_where_jobs_had_to_ask_for_less(preset: str, eased: int) -> None:
    report = check_policy(lambda: compose({"preset": preset}), first=4, runs=1)
    assert (report.asking, report.eased) == (1, eased)
    assert f"jobs had to ask for less in {eased} of 1 runs with node sets and amounts" in str(report)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Stateful, "a restart changes decisions"),
        (StatefulEstimates, "a restart changes decisions"),
        (Starving, "does not start jobs that could run: [job "),
        (HalfHearted, "one more pass"),
        (DoubleStarting, "does not wait"),
        (Overcommitting, "is not free there"),
        (Raising, "KeyError: 'lost'"),
        (SleepingBadly, "no end after"),
        (Forgetful, "these jobs are suspended"),
        (Stingy, "is below the job's own"),
        (Hurried, "is not suspended"),
        (partial(Choosy, late=True), "MachineError: nodes of several kinds"),
        (mutating(_lend_memory), "free memory differs"),
        (mutating(_forget_ends), "releases"),
        (mutating(_evict), "free threads differ"),
        (mutating(_change_plan), "AttributeError: 'Availability' object has no attribute 'append'"),
        (mutating(_grow_node), "machine.threads_of"),
        (mutating(_change_counts), "ValueError: assignment destination is read-only"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_policies_are_caught(policy: Callable[[], Policy], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_MOST_BATCHES", 300)  # more than any run here needs
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(policy, seed=5)
    error = caught.value
    assert problem in error.problem
    assert (error.seed, error.exit_code) == (5, 1)
    assert 1 <= error.run <= 20
    assert isinstance(error, PluginError)
    text = str(error)
    assert f"run {error.run} of seed 5" in text
    assert f"at {seconds_text(error.now_us)} s" in text
    assert all(type(event).__name__ in text for event in error.events[:5])
    assert len(text) < 2_500
    # ... and the description replays it: the same error again, and no error in earlier runs.
    with pytest.raises(PolicyCheckError) as again:
        check_policy(policy, seed=5, runs=error.run)
    assert again.value.args == error.args
    if error.run > 1:
        check_policy(policy, seed=5, runs=error.run - 1)


class Idle:
    """Decide nothing."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        return iter(())


def test_many_jobs_that_could_start_make_a_short_text() -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(Idle)
    assert len(str(caught.value)) < 1_000
    assert re.search(r"start jobs that could run: \[job 1 \(8 processes, 4500 s\), .*, 37 more\]", caught.value.problem)


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        ([1, 2], [1, 3], "[1] 2, not 3"),
        ([1], [1, 3], "[1] None, not 3"),
        ({1: (1, 2)}, {1: (1, 3)}, "[1][1] 2, not 3"),
        ({1: 5}, {2: 5}, "[1] 5, not None"),
        ((api.RejectJob(1, "a" * 300),), (api.RejectJob(1, "a" * 299 + "b"),), "[0].reason 'aaa"),
    ],
)
def test_a_difference_is_told_where_it_is(one: object, other: object, text: str) -> None:
    assert apart(one, other).startswith(text)


class Endless(Idle):
    """Never return, also where something interrupts it with an error that policies catch."""

    def decide(self, view: api.View) -> Iterator[api.Action]:
        while True:
            with suppress(Exception):
                time.sleep(0.001)


class EndlessAtLast(Idle):
    """The same where the machine is looked at before the first decision."""

    def check_site(self, view: api.View) -> None:
        while True:
            pass


@pytest.mark.parametrize("policy", [Endless, EndlessAtLast])
def test_a_policy_that_never_answers_is_caught(policy: Callable[[], Policy]) -> None:
    with pytest.raises(
        PolicyCheckError, match=r"does not answer within 0.2 s: it is at test_check_policy.py:\d+, in "
    ) as caught:
        check_policy(policy, deadline_s=0.2)
    assert caught.value.run == 1
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_one_policy_object_for_all_runs_is_caught() -> None:
    only = Greedy()
    with pytest.raises(PolicyCheckError, match="a new policy at every call"):
        check_policy(lambda: only)


@pytest.mark.parametrize("policy", [Greedy, Group, Pausing, Hesitant, Swapping])
@pytest.mark.parametrize("runs", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_valid_policies_pass(policy: Callable[[], Policy], runs: int) -> None:
    assert check_policy(policy, seed=5, runs=runs).jobs > 100


def test_a_policy_may_decline_a_machine_but_not_all() -> None:
    report = check_policy(Choosy, seed=5)
    assert 0 < report.declined < 10
    assert str(report).endswith(f"; declined the machines of {report.declined} runs")
    assert report.jobs < check_policy(Greedy, seed=5).jobs
    with pytest.raises(PolicyCheckError, match="declines every machine; this one as: nodes of several kinds"):
        check_policy(partial(Choosy, most=0), seed=5)


def _left(self: State, cause: Running) -> None:
    """Keep measurements when neighbours start and end."""


def _lazy(self: State, job_id: int, at_us: int) -> None:
    """Resume a job without putting off its limit."""
    self.version += 1
    self.running[job_id] = running = self.running[job_id]._replace(suspended_us=None)
    self._disturb(running)


def _at_once(self: State, job_id: int, at_us: int) -> None:
    """Resume a job that was suspended during its return from disk as if it were ready."""
    running = self.running[job_id]
    if not running.on_disk and running.ready_us > self.now_us:
        self.running[job_id] = running._replace(ready_us=self.now_us)
    RESUME(self, job_id, at_us)


def _forget_silently(self: State, job_id: int, how: str) -> None:
    """Remove a job without reporting its end."""
    FORGET(self, job_id, how)
    self.ended.clear()


def _in_another_state(self: State, job_id: int, how: str) -> None:
    """Report that all jobs have completed, whatever their end state."""
    FORGET(self, job_id, COMPLETED)


def _as_if_it_ran(self: State, job_id: int) -> api.JobSpec:
    """Report the end of a job as if it had never been suspended."""
    job = LEAVE(self, job_id)
    self.ended = [(running._replace(suspended_us=None, idle_us=0), how) for running, how in self.ended]
    return job


RESUME = State.resume
FORGET = State.forget
LEAVE = State.leave


@pytest.mark.parametrize(
    ("method", "instead", "policy"),
    [
        ("_disturb", _left, Pausing),
        ("resume", _lazy, Pausing),
        ("resume", _at_once, Swapping),
        ("forget", _forget_silently, Greedy),
        ("forget", _in_another_state, Greedy),
        ("leave", _as_if_it_ran, Pausing),
    ],
)
def test_the_core_and_the_manager_must_agree(
    method: str, instead: Callable[..., None], policy: Callable[[], Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends follow the rules of the protocol where no event reports a change; this manager violates one of them."""
    monkeypatch.setattr(State, method, instead)
    with pytest.raises(
        PolicyCheckError, match=r"not what the manager says: (running|ended)|a restart changes|below the job's own"
    ):
        check_policy(policy, seed=5, runs=40)


def test_the_check_needs_only_the_plugin() -> None:
    """It ships with the plugin: no emulator, no sockets, no command line."""
    code = "import sys, cosched_plugin.testing.check; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = run_python("-c", code).out.split()
    assert "cosched_plugin" in loaded
    assert not {"cosched_emulator", "zmq", "click"} & set(loaded)
