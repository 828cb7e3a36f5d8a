"""Queue orders: which pending job comes first."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import ClassVar, Final, NamedTuple, cast

from cosched_plugin.api import SECOND_US, Changes, JobSpec, NoteValue, Order, Part, View

# The history of started jobs: one note about the cluster, kept up to date by `Composed`.
#
# It serves the aging of priorities (mean wait) and the forecast of arrivals (number and work of jobs).

NOTE: Final = "history"
# Keys of sorts: a function of Python takes three times as long, and sorts call it for every pending job.
_submission = attrgetter("submit_us")
_processes = attrgetter("processes")
_priority = attrgetter("priority")
_estimate = attrgetter("estimate_us")
_new = tuple.__new__  # a call of the class of a named tuple takes twice as long
_NUMBERS: Final = [int] * 6
# The largest sum in the note. It is a power of two below what an integer of the protocol holds: 146,000 years on one processor.
MOST_US: Final = 1 << 62
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

    def halved(self) -> Tally:
        """Return the tally of half as many jobs, at least one of one."""
        return Tally((self.jobs + 1) // 2, self.work_us // 2)


class History(NamedTuple):
    """The jobs started so far, or as many of them as have sums up to `MOST_US`: older ones are forgotten by halves."""

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
        seen = History(waited_us, since_us, short, longer)
        while max(seen.waited_us, seen.short.work_us, seen.longer.work_us) > MOST_US:
            seen = seen._halved(now_us)
        return seen

    def _halved(self, now_us: int) -> History:
        """Return the history of half the jobs in half the time: means and rates of arrivals stay as they are."""
        since_us = now_us - (now_us - self.since_us) // 2
        return History(self.waited_us // 2, since_us, self.short.halved(), self.longer.halved())

    def note(self) -> NoteValue:
        """Return the history as a note."""
        return (self.waited_us, self.since_us, *self.short, *self.longer)


def history(view: View) -> History:
    """Return the history in the note; an empty one where the note is missing or has another form."""
    return _history(view.note(None, NOTE))


def _history(note: NoteValue) -> History:
    if type(note) is tuple and list(map(type, note)) == _NUMBERS:
        numbers = cast("tuple[int, ...]", note)
        if min(numbers) >= 0:
            waited_us, since_us, a, b, c, d = numbers
            return _new(History, (waited_us, since_us, _new(Tally, (a, b)), _new(Tally, (c, d))))
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


class Fcfs(Order):
    """First come, first served."""

    by_arrival: ClassVar[bool] = True

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs in order of arrival."""
        return jobs


class Shortest(Order):
    """Shortest estimate first."""

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by ascending estimate; `sorted` is stable, which keeps (submission, id) among equals."""
        return sorted(jobs, key=_estimate)


class Widest(Order):
    """Most processes first."""

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by descending size; `sorted` keeps (submission, id) among equals."""
        return sorted(jobs, key=_processes, reverse=True)


class Priority(Order):
    """The highest priority first: the manager's, which it may change while a job waits."""

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by descending priority; `sorted` keeps (submission, id) among equals."""
        return sorted(jobs, key=_priority, reverse=True)


class ClassPriority(RemembersStarts, Order):
    """Short before medium before long jobs, first come, first served among equals; a pending job rises (LOMARC, section 6.2).

    It rises by one class for every ``T_age`` that it has waited. ``T_age`` is the mean wait of the jobs started so far, or a
    fixed number of seconds (``age_s``); no job rises while there is no mean wait.
    """

    def __init__(self, *, age_s: float = 0.0) -> None:
        self._age_us = max(1, round(age_s * SECOND_US)) if age_s else 0

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by class minus the number of classes that they have risen."""
        age_us = self._age_us or history(view).mean_wait_us
        now_us = view.wall_us(view.now_us)
        once_us = now_us - age_us if age_us else -1  # a job submitted by then has risen by one class
        twice_us = once_us - age_us
        # In order of submission, jobs that have risen by two classes come first, then jobs that have risen by one.
        risen = bisect_right(jobs, once_us, key=_submission)
        twice = bisect_right(jobs, twice_us, 0, risen, key=_submission)
        between = jobs[twice:risen]
        short, medium, long = _by_class(jobs[risen:])
        return [
            *jobs[:twice],
            *[job for job in between if job.estimate_us <= MEDIUM_US],
            *short,
            *[job for job in between if job.estimate_us > MEDIUM_US],
            *medium,
            *long,
        ]


# The other reading of the same sentence of the paper: once in each T_age one job rises, the one that has waited longest.

LIFTS: Final = "lifts"
MOST_LIFTED: Final = 500  # jobs in the note; where so many are pending, others rise when some of them have started


class Lifts(NamedTuple):
    """The jobs that have risen: the history, when a job rose last, and by how many classes each pending job has."""

    seen: History = History()
    last_us: int = 0
    levels: Mapping[int, int] = {}

    def note(self) -> NoteValue:
        """Return the note: that of the history, the time, and the jobs with their classes."""
        return (self.seen.note(), self.last_us, tuple(self.levels), tuple(self.levels.values()))

    def later(self, jobs: Iterable[JobSpec], age_us: int, now_us: int) -> Lifts:
        """Return the lifts once one of ``jobs``, in order of submission, has risen after each ``age_us`` since the last time."""
        due = (now_us - self.last_us) // age_us if age_us else 0
        if due <= 0:
            return self
        levels = dict(self.levels)
        nth = 1  # lift that is given next
        for job in jobs:
            room = _class_of(job) - levels.get(job.id, 0)
            nth = max(nth, -((self.last_us - job.submit_us) // age_us))  # no lift from before its submission
            if nth > due or (room > 0 and job.id not in levels and len(levels) >= MOST_LIFTED):
                break
            if room > 0:
                given = min(room, due - nth + 1)
                levels[job.id] = levels.get(job.id, 0) + given
                nth += given
        return Lifts(self.seen, self.last_us + due * age_us, levels)


def lifts(view: View) -> Lifts:
    """Return the lifts in the note; none where the note is missing or has another form."""
    note = view.note(None, LIFTS)
    if type(note) is not tuple or list(map(type, note)) != [tuple, int, tuple, tuple]:
        return Lifts()
    seen, last_us, jobs, levels = cast("tuple[NoteValue, int, tuple[int, ...], tuple[int, ...]]", note)
    if len(jobs) != len(levels) or not {*map(type, jobs), *map(type, levels)} <= {int}:
        return Lifts()
    return Lifts(_history(seen), last_us, dict(zip(jobs, levels, strict=True)))


class OneRises(ClassPriority):
    """`ClassPriority` in which one job rises by a class after every ``T_age``: of those that can, the one that has waited longest.

    Nothing rises before the first start.
    """

    note: ClassVar[str] = LIFTS

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by class minus the number of classes that they have risen; `sorted` keeps (submission, id) among equals."""
        levels = self._later(view.queue, view).levels
        return sorted(jobs, key=lambda job: _class_of(job) - levels.get(job.id, 0))

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Return the new value of the note after jobs have started: they may have risen before that."""
        if not changes.started:
            return view.note(None, LIFTS)
        now_us = view.wall_us(view.now_us)
        queued = list(view.queue)
        before = self._later(sorted([*queued, *changes.started], key=lambda job: (job.submit_us, job.id)), view)
        pending = {job.id for job in queued}
        levels = {job_id: level for job_id, level in before.levels.items() if job_id in pending}
        return Lifts(before.seen.plus(changes.started, now_us), before.last_us or now_us, levels).note()

    def _later(self, jobs: Iterable[JobSpec], view: View) -> Lifts:
        found = lifts(view)
        if not found.last_us:
            return found
        return found.later(jobs, self._age_us or found.seen.mean_wait_us, view.wall_us(view.now_us))


def _class_of(job: JobSpec) -> int:
    """Return 0 for a short job, 1 for a medium one, 2 for a long one."""
    return (job.estimate_us > SHORT_US) + (job.estimate_us > MEDIUM_US)


def _by_class(jobs: list[JobSpec]) -> tuple[list[JobSpec], list[JobSpec], list[JobSpec]]:
    """Return the short, the medium and the long ones of ``jobs``, each in their order."""
    short: list[JobSpec] = []
    medium: list[JobSpec] = []
    long: list[JobSpec] = []
    for job in jobs:
        estimate_us = job.estimate_us
        if estimate_us <= SHORT_US:
            short.append(job)
        elif estimate_us <= MEDIUM_US:
            medium.append(job)
        else:
            long.append(job)
    return short, medium, long
