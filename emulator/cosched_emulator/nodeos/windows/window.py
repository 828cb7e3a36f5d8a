"""A window: jobs that share nodes are simulated until the rate of each is known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.fluid.window import half_width
from cosched_emulator.nodeos.windows.job import Pace, Use, WindowJob

_BATCHES: Final = 8  # for which the quantile of `half_width` is


class WindowPlan(NamedTuple):
    """How long a window lasts."""

    least_us: int = 10_000_000
    most_us: int = 30_000_000
    warm_up_us: int = 500_000  # that does not count, after each change
    tolerance: float = 0.02  # half width of the 95 % interval of each job's rate, relative

    def check(self) -> WindowPlan:
        """Return the plan, or raise `ConfigurationError` if a window cannot be that long."""
        if self.least_us < self.warm_up_us + _BATCHES:
            raise ConfigurationError("least_us", f"more than the warm-up of {self.warm_up_us}", str(self.least_us))
        if self.most_us < self.least_us:
            raise ConfigurationError("most_us", f"at least {self.least_us}", str(self.most_us))
        return self


class Window:
    """The batches of one window, which begins anew when a job enters another phase, or still reads its memory."""

    def __init__(self, jobs: Sequence[WindowJob], plan: WindowPlan, now_us: int) -> None:
        self._jobs = jobs
        self._plan = plan
        self._batch_us = (plan.least_us - plan.warm_up_us) // _BATCHES
        self._begin(now_us)

    def _begin(self, now_us: int) -> None:
        self.sample_us = now_us + self._plan.warm_up_us  # when the next sample is due
        self._most_us = now_us + self._plan.most_us
        self._situations = [job.situation() for job in self._jobs]
        self._samples: list[list[int]] = []  # work done by each job
        self._uses: list[list[Use]] = []  # at the first sample
        self._works: list[list[int]] = []  # likewise
        self._since_us = 0  # time of it

    def sample(self, now_us: int) -> bool:
        """Take a sample; return whether the rates are known well enough."""
        if self._situations != [job.situation() for job in self._jobs]:
            self._begin(now_us)
            return False
        if not self._samples:
            if any(process.paging for job in self._jobs for process in job.record.processes):
                self._begin(now_us)
                return False
            self._since_us = now_us
            self._uses = [job.uses(now_us) for job in self._jobs]
            self._works = [job.exact_works() for job in self._jobs]
        self._samples.append([job.exact_us() for job in self._jobs])
        self.sample_us = now_us + self._batch_us
        batches, odd = divmod(len(self._samples) - 1, _BATCHES)
        if odd or not batches:
            return False
        means = list(zip(*self._samples[::batches], strict=True))
        works = [[b - a for a, b in pairwise(row)] for row in means]
        if now_us + _BATCHES * self._batch_us > self._most_us:  # one job may have been starved, but not all of them
            return any(map(sum, works))
        return all(sum(row) and half_width(row) < self._plan.tolerance for row in works)

    def paces(self, now_us: int) -> list[Pace]:
        """Return the paces of the jobs since the first sample."""
        return [
            Pace(
                now_us,
                now_us - self._since_us,
                tuple([new - old for new, old in zip(job.exact_works(), self._works[index], strict=True)]),
                tuple([new.minus(old) for new, old in zip(job.uses(now_us), self._uses[index], strict=True)]),
            )
            for index, job in enumerate(self._jobs)
        ]
