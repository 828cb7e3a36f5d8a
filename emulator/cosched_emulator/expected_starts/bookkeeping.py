"""What estimates rest on as a cluster goes on: past runs and arrivals, and how far the estimates of its jobs were off.

Kept apart from any process, so that a new one can take it over: the runs come again from the accounts, the errors as `Scored`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cosched_emulator.expected_starts.estimates import Estimate
from cosched_emulator.expected_starts.history import History, PastRun
from cosched_emulator.expected_starts.ranges import MOST, Guess, Ranges
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.messages import JobSpec, Welcome

_SEED: Final = 1  # of the moments of waits whose estimates count


class Ended(NamedTuple):
    """A job that has left the queue, and maybe run."""

    job_id: int
    start_us: int | None  # None: it never started
    run: PastRun | None


class Scored(NamedTuple):
    """An estimate whose job has started."""

    guess: Guess
    wait_us: int  # from the estimate on
    held: bool | None  # whether the range that was told holds it; None: none was told


class Record(NamedTuple):
    """How good the last estimates were."""

    starts: int
    median_error_us: int | None
    held: float | None  # share of the ranges that hold the start


class _Noted(NamedTuple):
    """An estimate that counts once its job starts."""

    at_us: int
    guess: Guess
    told: tuple[int, int] | None


class Bookkeeping:
    """Past runs, and estimates with what became of them.

    Two estimates of each job count: the first, and one of the later ones, each of these with the same chance.
    """

    def __init__(self) -> None:
        self.history = History()
        self.ranges = Ranges()
        self._scored: deque[Scored] = deque(maxlen=MOST)
        self._noted: dict[int, list[_Noted]] = {}
        self._later: dict[int, int] = {}  # by job: how many estimates after the first
        self._arrived = 0  # last job whose submission is known

    def arrive(self, jobs: Iterable[JobSpec]) -> None:
        """Learn submissions; known ones are left out."""
        for job in sorted(jobs, key=lambda job: (job.submit_us, job.id)):
            if job.id > self._arrived:
                self._arrived = job.id
                self.history.arrive(job)

    def end(self, ended: Iterable[Ended]) -> list[Scored]:
        """Learn of jobs that have ended; return the estimates that have proved right or wrong by that."""
        found: list[Scored] = []
        for job_id, start_us, run in ended:
            if run is not None:
                self.history.end(run)
            found += self._start(job_id, start_us)
        return found

    def look(self, welcome: Welcome) -> list[Scored]:
        """Learn from a state which jobs have started; return the estimates of these."""
        found: list[Scored] = []
        for job in welcome.running:
            if job.spec.id in self._noted:
                found += self._start(job.spec.id, job.start_us)
        return found

    def note(self, now_us: int, estimates: Mapping[int, Estimate]) -> None:
        """Note the estimates of a state, each as long as its job is pending."""
        for job_id, estimate in estimates.items():
            if estimate.bound or estimate.at_us <= now_us:
                continue  # a job that does not wait says nothing of waits
            guess = estimate.guess(now_us)
            noted = _Noted(now_us, guess, self.ranges.of(guess))
            kept = self._noted.setdefault(job_id, [])
            if not kept:
                kept.append(noted)
                continue
            later = self._later[job_id] = self._later.get(job_id, 0) + 1
            if len(kept) == 1:
                kept.append(noted)
            elif uniform(_SEED, "estimate that counts", job_id, later) * later < 1:
                kept[1] = noted

    def learn(self, scored: Iterable[Scored]) -> None:
        """Learn how far estimates were off."""
        for each in scored:
            self.ranges.learn(each.guess, each.wait_us)
            self._scored.append(each)

    def record(self) -> Record:
        """Return how good the last estimates were."""
        errors = sorted([abs(each.wait_us - each.guess.wait_us) for each in self._scored])
        held = [each.held for each in self._scored if each.held is not None]
        return Record(
            len(errors), errors[len(errors) // 2] if errors else None, sum(held) / len(held) if held else None
        )

    def _start(self, job_id: int, start_us: int | None) -> list[Scored]:
        self._later.pop(job_id, None)
        found = []
        for at_us, guess, told in self._noted.pop(job_id, []):
            if start_us is not None:
                wait_us = max(0, start_us - at_us)
                found.append(Scored(guess, wait_us, None if told is None else told[0] <= wait_us <= told[1]))
        self.learn(found)
        return found
