"""What is known of past jobs: how long they ran of what they asked for, and when they came.

The run time of a job that runs or is pending is drawn from what it asks for, times a past ratio of run time to request. A ratio counts
what was expected at the end, so the slowdown by neighbours, which the scheduler plans with, is not counted twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from cosched_hwmodel.draws import uniform
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import JobSpec

ALIKE: Final = 20  # last jobs of the same user and the same request whose ratios are drawn from
OWN: Final = 30  # likewise of the user, where none are alike
ALL: Final = 500  # likewise of all users, of which those count whose request is
NEAREST: Final = 50  # nearest: large requests are exaggerated more
LAST_RUNS: Final = 2  # whose mean is predicted: Tsafrir, Etsion and Feitelson 2007
DAYS: Final = 14  # that arrivals are drawn from
DAY_US: Final = 86_400 * SECOND_US
_submission = attrgetter("submit_us")


class PastRun(NamedTuple):
    """A job that has run."""

    user: str  # empty: unknown
    request_us: int  # the run time that it asked for
    expected_us: int  # the run time expected at its end: the request, and what neighbours and suspensions added
    run_us: int


class _OfUser:
    """The last jobs of one user."""

    __slots__ = ("alike", "ratios", "runs_us")

    def __init__(self) -> None:
        self.ratios: deque[float] = deque(maxlen=OWN)
        self.alike: dict[int, deque[float]] = {}  # by request
        self.runs_us: deque[int] = deque(maxlen=LAST_RUNS)


class History:
    """The last runs, by user and request, and the submissions of the last days."""

    def __init__(self) -> None:
        self._all: deque[tuple[float, float]] = deque(maxlen=ALL)  # log of the request, ratio
        self._near: dict[int, list[float]] = {}  # cache: ratios of all users by request
        self._users: dict[str, _OfUser] = {}
        self._arrived: deque[JobSpec] = deque()
        self._since_us: int | None = None  # first submission that was ever seen

    def end(self, run: PastRun) -> None:
        """Learn how long a job has run."""
        ratio = run.run_us / max(1, run.expected_us)
        self._all.append((math.log(max(1, run.request_us)), ratio))
        self._near.clear()
        if not run.user:
            return
        user = self._users.setdefault(run.user, _OfUser())
        user.ratios.append(ratio)
        user.runs_us.append(run.run_us)
        user.alike.setdefault(run.request_us, deque(maxlen=ALIKE)).append(ratio)

    def arrive(self, job: JobSpec) -> None:
        """Learn that a job was submitted; jobs must come in order of submission."""
        if self._since_us is None:
            self._since_us = job.submit_us
        self._arrived.append(job)
        while self._arrived[0].submit_us < job.submit_us - DAYS * DAY_US:
            self._arrived.popleft()

    # ------------------------------------------------------------ run times

    def drawn_us(self, spec: JobSpec, expected_us: int, elapsed_us: int, draw: float) -> int:
        """Return a run time for a job, longer than ``elapsed_us``; ``expected_us`` is what its plan counts with.

        ``draw``, in [0, 1), picks the ratio. A job that has outlived all comparable ones runs for as long again.
        """
        least = elapsed_us / max(1, expected_us)
        for ratios in self._comparable(spec):
            if elapsed_us:
                ratios = [ratio for ratio in ratios if ratio > least]  # noqa: PLW2901 - the same, of those still possible
            if ratios:
                return max(elapsed_us + 1, round(expected_us * ratios[int(draw * len(ratios))]))
        outlived = elapsed_us >= expected_us or (elapsed_us > 0 and len(self._all) > 0)
        return 2 * elapsed_us if outlived else expected_us

    def predicted_us(self, spec: JobSpec, expected_us: int, elapsed_us: int) -> int:
        """Return the mean of the user's last two runs, at most what was asked for; a job that outlived it gets double its time.

        Of a user who is unknown, or without runs, the median ratio of jobs with such requests is taken.
        """
        user = self._users.get(spec.user)
        if user is not None:
            alone_us = min(spec.estimate_us, sum(user.runs_us) / len(user.runs_us))
            run_us = round(alone_us * expected_us / max(1, spec.estimate_us))
        else:
            near = sorted(self._of_all(spec))
            run_us = round(expected_us * min(1.0, near[len(near) // 2])) if near else expected_us
        return max(1, run_us if run_us > elapsed_us else 2 * elapsed_us)

    def _comparable(self, spec: JobSpec) -> Iterator[deque[float] | list[float]]:
        """Yield the ratios of jobs like this one, the most alike first."""
        user = self._users.get(spec.user)
        if user is not None:
            alike = user.alike.get(spec.estimate_us)
            if alike is not None:
                yield alike
            yield user.ratios
        yield self._of_all(spec)

    def _of_all(self, spec: JobSpec) -> list[float]:
        """Return the ratios of those of all users' last jobs whose requests are nearest."""
        found = self._near.get(spec.estimate_us)
        if found is None:
            request = math.log(max(1, spec.estimate_us))
            nearest = sorted(self._all, key=lambda past: abs(past[0] - request))[:NEAREST]
            found = self._near[spec.estimate_us] = [ratio for _, ratio in nearest]
        return found

    # ------------------------------------------------------------ arrivals

    def arrivals(self, now_us: int, first_id: int, seed: int) -> Iterator[JobSpec]:
        """Yield jobs that may be submitted after ``now_us``: for each day to come, those of a day drawn from the last ones."""
        known = 0 if self._since_us is None else min(DAYS, (now_us - self._since_us) // DAY_US)
        arrived = self._arrived
        day, job_id = 0, first_id
        while known:
            back = 1 + int(uniform(seed, "day of arrivals", day) * known)
            begin_us = now_us - back * DAY_US
            shift_us = (back + day) * DAY_US
            low = bisect_right(arrived, begin_us, key=_submission)
            for job in islice(arrived, low, None):
                if job.submit_us > begin_us + DAY_US:
                    break
                yield job._replace(id=job_id, submit_us=job.submit_us + shift_us)
                job_id += 1
            day += 1
