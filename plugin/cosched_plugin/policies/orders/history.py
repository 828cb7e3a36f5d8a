"""The history of started jobs: one note about the cluster, kept up to date by `Composed`.

It serves the aging of priorities (mean wait) and the forecast of arrivals (number and work of jobs).
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
    """A number of jobs, and their total work: Σ processes x estimate, in microseconds."""

    jobs: int = 0
    work_us: int = 0

    def plus(self, job: JobSpec) -> Tally:
        """Return the tally with one more job."""
        return Tally(self.jobs + 1, self.work_us + job.processes * job.estimate_us)


class History(NamedTuple):
    """The jobs started so far."""

    waited_us: int = 0  # total over all started jobs
    since_us: int = 0  # submission of the first job
    short: Tally = Tally()
    longer: Tally = Tally()

    @property
    def mean_wait_us(self) -> int:
        """Return the mean wait, rounded down; 0 if no job has waited."""
        jobs = self.short.jobs + self.longer.jobs
        return self.waited_us // jobs if jobs else 0

    def plus(self, jobs: Iterable[JobSpec], now_us: int) -> History:
        """Return the history with jobs that have just been started; ``now_us`` is in the time of submissions."""
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
        """Return the history as a note."""
        return (self.waited_us, self.since_us, *self.short, *self.longer)


def history(view: View) -> History:
    """Return the history in the note; an empty one where the note is missing or has another form."""
    note = view.note(None, NOTE)
    if type(note) is tuple and list(map(type, note)) == _NUMBERS:
        waited_us, since_us, a, b, c, d = note
        return History(waited_us, since_us, Tally(a, b), Tally(c, d))  # type: ignore[arg-type]
    return History()


class RemembersStarts(Part):
    """The base of parts that use the history: they share one note."""

    note: ClassVar[str] = NOTE

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Return the new value of the note after jobs have started."""
        if not changes.started:
            return view.note(None, NOTE)
        return history(view).plus(changes.started, view.wall_us(view.now_us)).note()


def is_short(job: JobSpec) -> bool:
    """Tell whether the job is expected to take at most a minute."""
    return job.estimate_us <= SHORT_US
