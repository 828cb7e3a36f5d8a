"""What a policy remembers of the jobs that it has started: one note about the cluster, kept up to date by `Composed`.

It serves the aging of priorities (mean wait) and the forecast of arrivals (how many jobs come, and how much work they bring).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, NamedTuple

from cosched_plugin.api import SECOND_US, Changes, JobSpec, NoteValue, Part, View

NOTE: Final = "history"
_NUMBERS: Final = [int] * 6
# The LOMARC paper's classes of jobs by run time, section 6.2.
SHORT_US: Final = 60 * SECOND_US
MEDIUM_US: Final = 3_600 * SECOND_US


class Tally(NamedTuple):
    """So many jobs, and what they make up together: Σ processes x estimate, in microseconds."""

    jobs: int = 0
    work_us: int = 0

    def plus(self, job: JobSpec) -> Tally:
        """Return the tally with one job more."""
        return Tally(self.jobs + 1, self.work_us + job.processes * job.estimate_us)


class History(NamedTuple):
    """The jobs started so far."""

    waited_us: int = 0  # by all of them together
    since_us: int = 0  # submission of the first
    short: Tally = Tally()
    longer: Tally = Tally()

    @property
    def mean_wait_us(self) -> int:
        """Return the mean wait, rounded down; 0 if nobody has waited."""
        jobs = self.short.jobs + self.longer.jobs
        return self.waited_us // jobs if jobs else 0

    def plus(self, jobs: Iterable[JobSpec], now_us: int) -> History:
        """Return the history with jobs that have just been started, at ``now_us`` as submissions count."""
        waited_us, since_us, short, longer = self
        for job in jobs:
            waited_us += now_us - job.submit_us
            if not short.jobs and not longer.jobs:
                since_us = job.submit_us
            since_us = min(since_us, job.submit_us)
            if is_short(job):
                short = short.plus(job)
            else:
                longer = longer.plus(job)
        return History(waited_us, since_us, short, longer)

    def note(self) -> NoteValue:
        """Return what to keep of it."""
        return (self.waited_us, self.since_us, *self.short, *self.longer)


def history(view: View) -> History:
    """Return what the note says; the empty history where there is none, or one that is none of ours."""
    note = view.note(None, NOTE)
    if type(note) is tuple and [type(number) for number in note] == _NUMBERS:
        waited_us, since_us, a, b, c, d = note
        return History(waited_us, since_us, Tally(a, b), Tally(c, d))  # type: ignore[arg-type]
    return History()


class RemembersStarts(Part):
    """The base of parts that look at `history`: they share one note."""

    note: ClassVar[str] = NOTE

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Return what the note is to say now that jobs have started."""
        if not changes.started:
            return view.note(None, NOTE)
        return history(view).plus(changes.started, view.wall_us(view.now_us)).note()


def is_short(job: JobSpec) -> bool:
    """Tell whether the job should take at most a minute."""
    return job.estimate_us <= SHORT_US
