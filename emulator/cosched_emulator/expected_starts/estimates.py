"""Estimates of starts: one run ahead with predicted run times, then runs with drawn ones, for as long as there is time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from cosched_emulator.expected_starts.forecast import Forecast, RunTime, Start, forecast
from cosched_emulator.expected_starts.history import DAY_US, History
from cosched_emulator.expected_starts.ranges import Guess, quantile
from cosched_hwmodel.draws import key, uniform
from cosched_plugin.protocol.messages import JobSpec, PendingJob, Run, Welcome
from cosched_plugin.protocol.scheduler import SchedulerFactory

DRAWS: Final = 10
FURTHEST_US: Final = 30 * DAY_US  # no run ahead goes beyond it
TAILS: Final = (0.1, 0.9)  # of the draws, which a range corrects


class Estimate(NamedTuple):
    """When a pending job will start, as the runs ahead have it so far."""

    at_us: int  # the median
    low_us: int  # 10 and 90 % of the draws, not corrected
    high_us: int
    runs: tuple[Run, ...]  # its nodes in the run whose start is nearest to the median; empty: not known
    bound: bool  # it starts after `at_us`: the runs have not come further
    draws: int  # 0: of the run with predicted run times

    def guess(self, now_us: int) -> Guess:
        """Return the wait from ``now_us`` on."""
        return Guess(*(max(0, at_us - now_us) for at_us in (self.at_us, self.low_us, self.high_us)))


# What a state has been asked so far. Each step takes as long as one run ahead; after any of them `of` has the best answer.
class Estimating:
    """The estimates of the pending jobs of one state."""

    def __init__(
        self,
        welcome: Welcome,
        make: SchedulerFactory,
        history: History,
        seed: int,
        wanted: Collection[int] | None = None,
        expired: Callable[[], bool] = lambda: False,
    ) -> None:
        """``wanted`` are the jobs that count; None: all pending ones that are not held. ``expired`` ends a run ahead."""
        self.welcome = welcome
        self.wanted = [job.spec.id for job in welcome.pending if not job.held] if wanted is None else list(wanted)
        self._make = make
        self._history = history
        self._seed = seed
        self._expired = expired
        self._first_id = 1 + max(
            [job.spec.id for job in welcome.pending] + [job.spec.id for job in welcome.running], default=0
        )
        self._predicted: Forecast | None = None
        self._drawn: list[Forecast] = []

    def with_job(self, spec: JobSpec, now_us: int) -> Estimating:
        """Return the estimates, not made yet, of one more job that is submitted at ``now_us``, when nothing else has happened."""
        pending = (*self.welcome.pending, PendingJob(spec, held=False))
        welcome = self.welcome._replace(pending=pending, now_us=now_us)
        return Estimating(welcome, self._make, self._history, self._seed, [spec.id], self._expired)

    @property
    def draws(self) -> int:
        """Return the number of runs with drawn run times."""
        return len(self._drawn)

    def predict(self) -> None:
        """Run ahead once with predicted run times, and no arrivals."""
        self._predicted = self._run(self._history.predicted_us)

    def draw(self) -> bool:
        """Run ahead once more with drawn run times and arrivals; tell whether it counts: it was not cut short."""
        number, history = key(self._seed, "draw", len(self._drawn)), self._history

        def run_time(spec: JobSpec, expected_us: int, elapsed_us: int) -> int:
            return history.drawn_us(spec, expected_us, elapsed_us, uniform(number, "run time", spec.id))

        arrivals = history.arrivals(self.welcome.now_us, self._first_id, number)
        drawn = self._run(run_time, arrivals)
        whole = not self._expired()
        if whole:
            self._drawn.append(drawn)
        return whole

    def _run(self, run_time: RunTime, arrivals: Iterable[JobSpec] = ()) -> Forecast:
        until_us = self.welcome.now_us + FURTHEST_US
        return forecast(
            self.welcome, self._make, run_time, self.wanted, arrivals, until_us=until_us, expired=self._expired
        )

    def of(self, job_id: int) -> Estimate | None:
        """Return the estimate of a job so far; None before the first run."""
        runs = self._drawn or ([] if self._predicted is None else [self._predicted])
        return _estimate(job_id, runs, len(self._drawn)) if runs else None

    def all(self) -> Mapping[int, Estimate]:
        """Return the estimates of all jobs so far."""
        found = {job_id: self.of(job_id) for job_id in self.wanted}
        return {job_id: estimate for job_id, estimate in found.items() if estimate is not None}


def _estimate(job_id: int, runs: list[Forecast], draws: int) -> Estimate:
    """Return the estimate of a job from runs ahead; one in which it does not start says when it does not yet."""
    starts = [run.starts.get(job_id) or Start(run.reached_us, ()) for run in runs]
    times = sorted([start.at_us for start in starts])
    at_us = round(quantile(times, 0.5))
    low_us, high_us = (round(quantile(times, share)) for share in TAILS)
    nearest = min(starts, key=lambda start: (abs(start.at_us - at_us), start.at_us))
    return Estimate(at_us, low_us, high_us, nearest.runs, not nearest.runs, draws)
