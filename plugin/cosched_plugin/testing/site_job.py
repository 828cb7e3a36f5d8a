"""A job of the small resource manager that `cosched_plugin.testing.check` plays against a policy."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_plugin.protocol.messages import JobSpec, JobStarted, Run, RunningJob, StartJob


class SiteJob:
    """The manager's state of a job."""

    __slots__ = (
        "estimate_us",
        "held",
        "idle_us",
        "kept",
        "leaving",
        "limit_us",
        "measured_ppm",
        "on_disk",
        "quanta",
        "ready_us",
        "run_us",
        "runs",
        "shares",
        "since_us",
        "slot",
        "spec",
        "start_us",
        "started_by",
        "state",
        "suspended_us",
        "waited_us",
        "waiting_us",
        "worked_us",
    )

    def __init__(self, spec: JobSpec, run_us: int) -> None:
        self.spec = spec
        self.run_us = run_us
        self.state = "new"  # new, pending, running (suspended or not), ended
        self.held = False
        self.start_us = 0
        self.runs: tuple[Run, ...] = ()
        self.estimate_us = 0
        self.limit_us: int | None = None
        self.started_by: tuple[int, int] | None = (
            None  # batch and number of the action that started it; None: the manager did
        )
        self.leaving = False  # it is to be killed or requeued
        self.kept = False  # the manager has suspended it, and it alone resumes it
        self.suspended_us: int | None = None  # start of its suspension
        self.on_disk = False  # suspended to disk
        self.idle_us = 0  # time from its start to `since_us` without work
        self.since_us = 0  # when it last resumed, or will
        self.worked_us = 0  # work done before `since_us`
        self.ready_us = 0  # when it last resumed after a return from disk, or will
        self.measured_ppm = 0
        self.slot = 0
        self.quanta = 0
        self.shares: tuple[int, ...] = ()
        self.waited_us = 0  # time from its start in which it was not suspended, and its slot did not run
        self.waiting_us: int | None = None  # since when that is so; None: it may run, or is suspended

    def start(self, start: StartJob | JobStarted, now_us: int) -> None:
        """Start it."""
        self.state, self.start_us, self.runs = "running", now_us, start.runs
        self.held = self.kept = self.leaving = False
        self.estimate_us, self.limit_us = start.estimate_us, start.limit_us
        self.suspended_us, self.since_us = None, now_us
        self.idle_us = self.worked_us = self.ready_us = 0
        self.slot, self.quanta, self.shares = start.slot, 0, ()
        self.waited_us, self.waiting_us = 0, None

    def told(self) -> RunningJob:
        """Return its entry in a welcome while it is running."""
        return RunningJob(
            self.spec,
            self.start_us,
            self.runs,
            self.estimate_us,
            self.limit_us,
            self.suspended_us,
            self.measured_ppm,
            self.idle_us,
            self.on_disk,
            self.ready_us,
            self.slot,
            self.quanta,
            self.shares,
            self.kept,
            self.leaving,
        )

    def progressed_us(self, now_us: int) -> int:
        """Return its time without suspensions since its start."""
        return self.worked_us + (max(0, now_us - self.since_us) if self.suspended_us is None else 0)

    def ran_us(self, now_us: int) -> int:
        """Return the time for which it could run since its start."""
        return self.progressed_us(now_us) - self.waited_us - self._waits_us(now_us)

    def let_run(self, now_us: int, *, may_run: bool) -> None:
        """Let it run from now on, or wait for its slot."""
        if may_run or self.suspended_us is not None:
            self.waited_us += self._waits_us(now_us)
            self.waiting_us = None
        elif self.waiting_us is None:
            self.waiting_us = now_us

    def _waits_us(self, now_us: int) -> int:
        """Return for how long it has waited for its slot by now, without its way back from disk."""
        return 0 if self.waiting_us is None else max(0, now_us - max(self.waiting_us, self.ready_us))

    @property
    def is_killed(self) -> bool:
        """Return whether its limit ends it."""
        return self.limit_us is not None and self.limit_us < self.run_us + self.idle_us

    @property
    def end_us(self) -> int | None:
        """Return when it will end or be killed at its limit; None while it is suspended or waits for its slot."""
        if self.suspended_us is not None or self.waiting_us is not None:
            return None
        lasts_us = self.run_us + self.idle_us
        lasts_us = lasts_us if self.limit_us is None else min(self.limit_us, lasts_us)
        return self.start_us + lasts_us + self.waited_us

    @property
    def nodes(self) -> set[int]:
        """Return its present or last nodes."""
        return {node for node, _ in node_shares(self.runs)}


def places(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the (node, thread) pairs that ``runs`` name, with repetitions."""
    return [
        (node, thread)
        for first, count, mask, _ in runs
        for node in range(first, first + count)
        for thread in range(mask.bit_length())
        if mask >> thread & 1
    ]


def node_shares(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the (node, processes) pairs of ``runs``."""
    return [(node, processes) for first, count, _, processes in runs for node in range(first, first + count)]
