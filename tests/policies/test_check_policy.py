"""The conformance suite passes every policy of ours, and catches what no policy may do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from cosched_plugin.api import (
    Action,
    RejectJob,
    ResumeJob,
    ReviseJob,
    SetNote,
    StartJob,
    StartTogether,
    SuspendJob,
    View,
    WakeAt,
    first_fit,
    layers_of,
    minus,
)
from cosched_plugin.core.engine import Policy
from cosched_plugin.core.state import Running, State
from cosched_plugin.errors import PluginError
from cosched_plugin.policies.composed import PRESETS, compose
from cosched_plugin.testing import PolicyCheckError, Report, check_policy

COMPOSITIONS = [{"preset": name} for name in PRESETS] + [
    {"order": "shortest", "backfill": "easy", "placement": "packed"},
    {"backfill": "conservative", "placement": "packed"},
    {"backfill": "none", "placement": {"name": "lessconsume-threshold", "threshold": 1}},
    {"backfill": "easy", "placement": {"name": "first-fit", "extend_limit": True}},
    {"preset": "lomarc-r", "matching": {"future": "all", "weak_load": 0}},
    {"preset": "lomarc-r", "matching": {"future": "none"}, "order": {"age_s": 30}, "backfill": "sjbf"},
    {"preset": "lomarc-u1", "matching": {"cpu": "standard", "weak_load": 1}, "backfill": "none"},
    {"preset": "am", "matching": {"weak_load": 1, "max_slowdown": 2.5}, "order": "shortest"},
    {"preset": "ac", "order": "fcfs"},
]


@pytest.mark.parametrize("table", COMPOSITIONS, ids=str)
def test_ours_pass(table: dict[str, object]) -> None:
    report = check_policy(lambda: compose(table), seed=3, runs=8)
    assert report.runs == 8
    assert report.batches > report.runs * 20
    assert report.decisions > report.jobs * 0.8  # nearly every job starts, and some more than once


def test_report_is_one_line() -> None:
    report = check_policy(Greedy, runs=2)
    assert "\n" not in str(report)
    assert str(report.jobs) in str(report)
    assert report == check_policy(Greedy, runs=2)
    assert report != check_policy(Greedy, runs=2, seed=2)
    assert isinstance(report, Report)


# ---------------------------------------------------------------- policies, good and bad


class Greedy:
    """Start whatever fits, in order of submission: sound, if unfair."""

    def decide(self, view: View) -> Iterator[Action]:
        for job in view.queue:
            runs = first_fit(job, view.free, view.machine, view.free_memory_mb)
            if runs is not None:
                yield StartJob(job.id, runs, job.estimate_us, job.limit_us)


class Group(Greedy):
    """Start whatever fits, all in one decision, with notes and wakes: what few policies use."""

    def decide(self, view: View) -> Iterator[Action]:
        starts: list[StartJob] = []
        free = view.free
        for job in view.queue:
            if job.memory_mb or view.note(job.id, "alone"):
                continue
            runs = first_fit(job, free, view.machine, view.free_memory_mb)
            if runs is not None:
                start = StartJob(job.id, runs, job.estimate_us, job.limit_us)
                starts.append(start)
                free = minus(free, layers_of(runs, view.machine.depth))
        if starts:
            yield StartTogether(tuple(starts))
        for job in view.queue:
            if job.memory_mb and not view.note(job.id, "alone"):
                yield SetNote(job.id, "alone", True)
                if view.now_us + 1_000_000 not in view.wakes():
                    yield WakeAt(view.now_us + 1_000_000)
            elif job.memory_mb and job.submit_us < view.now_us:
                yield RejectJob(job.id, "memory is out of fashion")
        if view.note(None, "waiting") != view.queued:
            yield SetNote(None, "waiting", view.queued)


class Stateful(Greedy):
    """Remember how many passes there were, and be idle in some of them."""

    def __init__(self) -> None:
        self.passes = 0

    def decide(self, view: View) -> Iterator[Action]:
        self.passes += 1
        if self.passes % 7:
            yield from super().decide(view)


class StatefulEstimates(Greedy):
    """Learn from the past in the process, where a restart loses it."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            assert isinstance(action, StartJob)
            self.seen.add(action.job_id)
            yield action._replace(estimate_us=action.estimate_us + len(self.seen))


class Starving(Greedy):
    """Never start wide jobs."""

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            assert isinstance(action, StartJob)
            if sum(count * processes for _, count, _, processes in action.runs) < 4:
                yield action


class HalfHearted(Greedy):
    """Start one job a pass."""

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            yield action
            return


class DoubleStarting(Greedy):
    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            yield action
            yield action


class Overcommitting(Greedy):
    def decide(self, view: View) -> Iterator[Action]:
        for job in view.queue:
            runs = first_fit(job, view.machine.exists, view.machine, view.machine.memory_mb)
            assert runs is not None
            yield StartJob(job.id, runs, job.estimate_us, job.limit_us)


class Raising(Greedy):
    def decide(self, view: View) -> Iterator[Action]:
        yield from super().decide(view)
        if len(view.running) > 2:
            raise KeyError("lost")


class SleepingBadly(Greedy):
    """Wake itself for ever."""

    def decide(self, view: View) -> Iterator[Action]:
        yield from super().decide(view)
        if not view.wakes():
            yield WakeAt(view.now_us + 1)


class Pausing(Greedy):
    """Stop for a second whoever is very slow: sound, if of no use."""

    def decide(self, view: View) -> Iterator[Action]:
        for job_id in sorted(view.running):
            running = view.running[job_id]
            if running.suspended_us is not None and running.suspended_us < view.now_us:
                yield ResumeJob(job_id)
                late_us = view.now_us - running.suspended_us
                limit_us = view.running[job_id].limit_us  # which has waited, too
                yield ReviseJob(job_id, running.end_us + late_us - running.start_us, limit_us)
            elif running.suspended_us is None and running.measured_ppm > 2_000_000:
                yield SuspendJob(job_id)
                if view.now_us + 1_000_000 not in view.wakes():
                    yield WakeAt(view.now_us + 1_000_000)
        yield from super().decide(view)


class Forgetful(Pausing):
    """Stop whoever is slow, and never let it go on."""

    def decide(self, view: View) -> Iterator[Action]:
        for action in super().decide(view):
            if isinstance(action, ResumeJob):
                return
            yield action


class Stingy(Greedy):
    """Take back time that was granted."""

    def decide(self, view: View) -> Iterator[Action]:
        yield from super().decide(view)
        for job_id, running in sorted(view.running.items()):
            if running.limit_us is not None and running.limit_us > 1:
                yield ReviseJob(job_id, 1, running.limit_us - 1)


class Hurried(Greedy):
    """Let a job go on that never stopped."""

    def decide(self, view: View) -> Iterator[Action]:
        yield from super().decide(view)
        for job_id in sorted(view.running):
            yield ResumeJob(job_id)


def mutating(change: Callable[[View], None]) -> type[Greedy]:
    class Mutating(Greedy):
        def decide(self, view: View) -> Iterator[Action]:
            yield from super().decide(view)
            change(view)

    return Mutating


def _lend_memory(view: View) -> None:
    view.free_memory_mb[0] += 1  # type: ignore[index]


def _forget_ends(view: View) -> None:
    view.releases.clear()  # type: ignore[attr-defined]


def _evict(view: View) -> None:
    view.running.clear()  # type: ignore[attr-defined]


def _change_plan(view: View) -> None:
    view.plan().append((1 << 60, view.machine.exists))


def _grow_node(view: View) -> None:
    view.machine.threads_of[0] += 8


def _change_counts(view: View) -> None:
    view.thread_counts(view.free)[0] += 1


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Stateful, "a restart changes decisions"),
        (StatefulEstimates, "a restart changes decisions"),
        (Starving, "these could start"),
        (HalfHearted, "one more pass"),
        (DoubleStarting, "does not wait"),
        (Overcommitting, "is not free there"),
        (Raising, "KeyError: 'lost'"),
        (SleepingBadly, "no end after"),
        (Forgetful, "these are suspended"),
        (Stingy, "is below the job's own"),
        (Hurried, "is not suspended"),
        (mutating(_lend_memory), "free memory differs"),
        (mutating(_forget_ends), "releases"),
        (mutating(_evict), "free threads differ"),
        (mutating(_change_plan), "plan"),
        (mutating(_grow_node), "machine.threads_of"),
        (mutating(_change_counts), "thread_counts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_ones_are_caught(policy: Callable[[], Policy], problem: str) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(policy, seed=5)
    error = caught.value
    assert problem in error.problem
    assert (error.seed, error.exit_code) == (5, 1)
    assert 1 <= error.run <= 20
    assert isinstance(error, PluginError)
    text = str(error)
    assert f"run {error.run} of seed 5" in text
    assert f"at {error.now_us} us" in text
    assert all(repr(event) in text for event in error.events[:12])
    # ... and the description replays it: the same again, and nothing wrong in the runs before.
    with pytest.raises(PolicyCheckError) as again:
        check_policy(policy, seed=5, runs=error.run)
    assert again.value.args == error.args
    if error.run > 1:
        check_policy(policy, seed=5, runs=error.run - 1)


def test_one_policy_for_all_is_caught() -> None:
    only = Greedy()
    with pytest.raises(PolicyCheckError, match="a new policy at every call"):
        check_policy(lambda: only)


@pytest.mark.parametrize("policy", [Greedy, Group, Pausing])
def test_good_ones_pass(policy: Callable[[], Policy]) -> None:
    assert check_policy(policy, seed=5).jobs > 100


def _left(self: State, cause: Running) -> None:
    """Leave measurements as they are, whoever comes and goes."""


def _lazy(self: State, job_id: int) -> None:
    """Let a job go on, and its limit as it was."""
    self.version += 1
    self.running[job_id] = running = self.running[job_id]._replace(suspended_us=None)
    self._disturb(running)


@pytest.mark.parametrize(("method", "instead"), [("_disturb", _left), ("resume", _lazy)])
def test_the_core_and_the_manager_must_agree(
    method: str, instead: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends follow the protocol by themselves where no event tells; this manager does so in its own way."""
    monkeypatch.setattr(State, method, instead)
    with pytest.raises(PolicyCheckError, match=r"not what the manager says: running|a restart changes|would fall"):
        check_policy(Pausing, seed=5, runs=40)


def test_the_suite_stands_alone() -> None:
    """It ships with the plugin: no emulator, no sockets, no command line."""
    code = "import sys, cosched_plugin.testing; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        timeout=60,
    ).stdout.split()
    assert "cosched_plugin" in loaded
    assert not {"cosched_emulator", "zmq", "click", "msgpack"} & set(loaded)
