"""The queue in columns, and the expected arrivals while the machine works it off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.orders import NOTE, Tally, history, is_short

# The profit of two jobs on the same nodes: utilisation gain and response-time impact (LOMARC paper, section 5.2).
#
# All functions take one job and arrays of candidates, times in seconds, sizes in processes; the profit of each candidate comes
# back in the same order. A candidate is worth matching if its profit is above 0.

# Relative response times are bounded by a minute, as in the paper's metric.
BOUND_S = 60.0
_TERMS = 10_000  # number of terms added one by one
_NOISE = 1e-9  # relative, and far more than the rounding error of such sums


def utilisation_gain_2(size: api.Ints | int, sizes: api.Ints, slowdowns: api.Floats) -> api.Floats:
    """Return the timeless gain per node: nodes gained where both run, less nodes lost where the larger job is slowed alone."""
    gained = np.minimum(size, sizes) * (2.0 / slowdowns - 1.0)
    lost = np.abs(size - sizes) * (1.0 - 1.0 / slowdowns)
    gain: api.Floats = (gained - lost) / np.maximum(size, sizes)
    return gain


def utilisation_gain_1(
    size: api.Ints | int, time_s: api.Floats | float, sizes: api.Ints, times_s: api.Floats, slowdowns: api.Floats
) -> api.Floats:
    """Return the utilisation gain, scaled by the part of the longer run time that is shared."""
    overlap = np.minimum(time_s, times_s) / np.maximum(time_s, times_s)
    gain: api.Floats = utilisation_gain_2(size, sizes, slowdowns) * overlap
    return gain


class Arrivals(NamedTuple):
    """Expected jobs of one kind: their number, and the work of each divided by the machine's processors, in seconds."""

    jobs: float = 0.0
    work_s: float = 0.0


class Future(NamedTuple):
    """Expected arrivals while the queued work is done: one level of forecast."""

    short: Arrivals = Arrivals()
    longer: Arrivals = Arrivals()


class Match(NamedTuple):
    """The current job (or as many as candidates) beside several candidates: sizes in processes, times in seconds."""

    processors: int  # of the machine: the divisor of all work
    size: api.Ints | int  # of the current job
    time_s: api.Floats | float
    sizes: api.Ints  # of the candidates
    times_s: api.Floats
    slowdowns: api.Floats

    def delay_s(self) -> api.Floats:
        """Return the delay of a perfectly packed machine if the pair runs instead of the current job alone."""
        run_s = np.minimum(self.time_s, self.times_s) * (self.slowdowns - 1.0) + np.maximum(self.time_s, self.times_s)
        delay: api.Floats = (run_s * np.maximum(self.size, self.sizes) - self.time_s * self.size) / self.processors
        return delay

    def work_s(self) -> api.Floats:
        """Return the candidates' work divided by the processors."""
        work: api.Floats = self.times_s * self.sizes / self.processors
        return work


def impact_on_waiting(match: Match, work_s: api.Floats, own: int, places: api.Ints, future: Future) -> api.Floats:
    """Return the response-time impact of taking a candidate out of the queue to run beside the current job.

    ``work_s``: work over processors of every pending job, in queue order, the current one at index ``own``, candidates at ``places``.
    Jobs before a candidate are pushed down by the delay, those behind it pulled up by the improvement (paper, figure 5, as
    corrected: the moved job keeps its sum of ratios, the response time starts with the current job's own).
    """
    own_s = match.time_s * match.size / match.processors
    delay = match.delay_s()
    moved_s = match.work_s()
    improvement = moved_s - delay
    places = places - (places > own)
    response = own_s + np.delete(work_s, own).cumsum()  # of every other job, itself included
    inverse = 1.0 / response
    before = np.concatenate(([0.0], inverse.cumsum()))
    at = response[places]
    # Figure 5 as it must be read: in print the moved job's seconds replace the sum of ratios, `response_time` has no first value, and
    # the divisor may be 0. The divisor is the same for all candidates, so it changes no choice.
    increase = delay / own_s + delay * before[places]
    decrease = (at - moved_s * match.slowdowns) / at + improvement * (before[-1] - before[places + 1])
    last = response[-1]
    increase = increase + _short(delay, future.short)
    decrease = decrease + improvement * _later(last, future.longer)
    profit: api.Floats = (decrease - increase) / max(len(response) - 1, 1)
    return profit


def impact_on_running(match: Match, work_s: api.Floats, places: api.Ints, future: Future) -> api.Floats:
    """Return the response-time impact of putting newcomers beside running jobs, pair by pair.

    ``match``: the current jobs are the hosts with the time that they have left, the candidates the newcomers, at ``places`` in the
    queue; ``work_s`` as in `impact_on_waiting`. No job is pushed down.
    """
    host_s = np.asarray(match.time_s * match.size / match.processors)
    delay = match.delay_s()
    newcomer_s = match.work_s()
    improvement = newcomer_s - delay
    first = host_s + newcomer_s
    last = host_s + float(np.add.reduce(work_s))
    # Jobs before the newcomer's own place come after it now; jobs behind it count it at its old place.
    ahead = np.arange(len(work_s))[None, :] < places[:, None]
    response = (host_s[:, None] + work_s.cumsum()[None, :]) + np.where(ahead, newcomer_s[:, None], 0.0)
    inverse = 1.0 / response
    inverse[np.arange(len(places)), places] = 0.0
    increase = delay / host_s + _short(delay, future.short)
    decrease = (first - newcomer_s * match.slowdowns) / first + improvement * np.add.reduce(inverse, axis=1)
    decrease = decrease + improvement * _later(last, future.longer)
    profit: api.Floats = (decrease - increase) / max(len(work_s) - 1, 1)
    return profit


def may_gain(match: Match, work_s: api.Floats, future: Future) -> api.Bools:
    """Tell of each pair, by a cheap bound, whether `impact_on_running` with these arguments might find a gain."""
    response = work_s.cumsum()
    # The case of a host without work left and no job after the newcomer: no other job would have responded sooner.
    others = float(np.add.reduce(1.0 / response)) + float(_later(response[-1], future.longer))
    host_s = match.time_s * match.size / match.processors
    delay = match.delay_s()
    newcomer_s = match.work_s()
    decrease = 1.0 - newcomer_s * match.slowdowns / (host_s + newcomer_s) + np.maximum(newcomer_s - delay, 0.0) * others
    increase = delay / host_s + _short(delay, future.short)
    may: api.Bools = decrease - increase > -_NOISE * (2.0 + decrease + np.abs(increase))
    return may


def _short(delay: api.Floats, short: Arrivals) -> api.Floats:
    increase: api.Floats = short.jobs * delay / max(short.work_s, BOUND_S)
    return increase


def _later(response: api.Floats, longer: Arrivals) -> api.Floats:
    """Return Σ 1/response over jobs that come after all others, each at the mean work; the last one counts by its fraction.

    The first `_TERMS` are added up. The integral stands for further ones, as good as the sum so far out; a burst of
    submissions is a forecast of millions.
    """
    whole = int(longer.jobs)
    terms = min(whole + 1, _TERMS)
    response = np.asarray(response)
    if response.ndim and response.size * terms > _TERMS:  # many pairs share few hosts
        some, alike = np.unique(response, return_inverse=True)
        if len(some) < len(response):
            later: api.Floats = _later(some, longer)[alike]
            return later
    behind = response[..., None] + np.arange(1, terms + 1) * longer.work_s
    inverse = 1.0 / behind
    if terms > whole:
        inverse[..., -1] = (longer.jobs - whole) / behind[..., -1]
    later = np.add.reduce(inverse, axis=-1)
    if terms <= whole:
        since, until = (response + (count + 0.5) * longer.work_s for count in (terms, longer.jobs))
        later = later + np.log(until / since) / longer.work_s
    return later


# Jobs in columns, one row for each: entered once and read many times.

_FIELDS: Final = 13
_SIZE: Final = 1
_ESTIMATE: Final = 2
_MATCHABLE: Final = 5
_LEAST: Final = 64  # rows of a new job table


class Jobs:
    """Many jobs in columns."""

    __slots__ = (
        "_jobs",
        "_rows",
        "_shares",
        "ids",
        "matchable",
        "short",
        "sizes",
        "submits_us",
        "times_s",
        "used",
        "willing",
    )

    ids: api.Ints
    sizes: api.Ints
    submits_us: api.Ints

    def __init__(self, numbers: api.Ints, jobs: Sequence[api.JobSpec], rows: api.Ints) -> None:
        """``numbers`` [field, job]: see `_row`; these jobs are those of the ``rows`` of ``jobs``."""
        self._jobs, self._rows = jobs, rows
        self.ids, self.sizes, estimates_us, self.submits_us = numbers[:4]
        self.times_s: api.Floats = estimates_us / api.SECOND_US  # run time alone
        self.short: api.Bools = numbers[4] > 0
        self.matchable: api.Bools = numbers[5] > 0  # of medium length or longer, of known usage, and willing to share
        self.used: api.Bools = numbers[6] > 0  # their usage is known
        self.willing: api.Bools = numbers[7] > 0  # they may share nodes
        self._shares: api.Ints = numbers[8:]

    @classmethod
    def of(cls, jobs: Sequence[api.JobSpec], model: api.PairModel | None) -> Jobs:
        """Return the columns of ``jobs``; ``model`` is the believed model of pairs."""
        job_table = JobTable()
        job_table.renew(len(jobs), model)
        return job_table.columns(job_table.rows(jobs))

    @property
    def jobs(self) -> Sequence[api.JobSpec]:
        """Return the jobs themselves."""
        return [self._jobs[row] for row in self._rows.tolist()]

    @property
    def usage(self) -> api.UsageColumns:
        """Return the usage of the jobs; `UNKNOWN_USAGE` where it is not known."""
        return api.UsageColumns.of(self.ids, *self._shares)


class JobTable:
    """The columns of all jobs requested so far; ``renewals``: how often the table was emptied."""

    __slots__ = ("_numbers", "_row_of", "jobs", "model", "renewals")

    def __init__(self) -> None:
        self.model: api.PairModel | None = None  # the believed model of pairs
        self.jobs: list[api.JobSpec] = []  # by row
        self._row_of: dict[int, int] = {}
        self._numbers: api.Ints = np.zeros((_FIELDS, _LEAST), dtype=np.int64)
        self.renewals = 0

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def room(self) -> int:
        """Return the number of rows, unused ones included."""
        return int(self._numbers.shape[1])

    def rows(self, jobs: Sequence[api.JobSpec]) -> api.Ints:
        """Return the row of each job; new jobs are entered."""
        row_of = self._row_of
        try:
            return np.array([row_of[job.id] for job in jobs], dtype=np.int64)
        except KeyError:
            self._enter({job.id: job for job in jobs if job.id not in row_of})
            return np.array([row_of[job.id] for job in jobs], dtype=np.int64)

    def row(self, job: api.JobSpec) -> int:
        """Return the row of one job, entered if it is new."""
        row = self._row_of.get(job.id)
        return int(self.rows([job])[0]) if row is None else row

    def sizes_and_estimates_us(self, rows: api.Ints) -> tuple[api.Ints, api.Ints]:
        """Return sizes and estimates of the jobs of these rows."""
        return self._numbers[_SIZE, rows], self._numbers[_ESTIMATE, rows]

    def rows_within(self, processes: int, among: slice) -> api.Ints:
        """Return the rows ``among`` some of jobs that may share nodes and are no larger: few, because most jobs are short."""
        sizes, matchable = self._numbers[_SIZE, among], self._numbers[_MATCHABLE, among]
        rows: api.Ints = ((sizes <= processes) & (matchable > 0)).nonzero()[0] + among.start
        return rows

    def columns(self, rows: api.Ints) -> Jobs:
        """Return the jobs of these rows."""
        return Jobs(self._numbers[:, rows], self.jobs, rows)

    def renew(self, queued: int, model: api.PairModel | None) -> None:
        """Set the believed model of pairs; forget all jobs if it is another model, or most rows cannot be ``queued`` jobs."""
        if self.model is not model or len(self._row_of) > 2 * queued + 1000:
            self.model = model
            self._row_of.clear()
            self.jobs = []  # a new list: columns made of the old one keep it
            self.renewals += 1

    def _enter(self, jobs: dict[int, api.JobSpec]) -> None:
        first = len(self._row_of)
        last = first + len(jobs)
        if last > self.room:
            grown = np.zeros((_FIELDS, 2 * last), dtype=np.int64)
            grown[:, :first] = self._numbers[:, :first]
            self._numbers = grown
        self._numbers[:, first:last] = np.array([_row(job, self.model) for job in jobs.values()], dtype=np.int64).T
        self.jobs += jobs.values()
        self._row_of.update(zip(jobs, range(first, last), strict=True))


def is_willing(job: api.JobSpec, model: api.PairModel | None) -> bool:
    """Tell whether a job may share nodes."""
    return not job.exclusive and api.may_meet(job, model)


def may_share(job: api.JobSpec, model: api.PairModel | None) -> bool:
    """Tell whether a job may be matched: it is not short (no gain), and may share nodes."""
    return not is_short(job) and is_willing(job, model)


def _row(job: api.JobSpec, model: api.PairModel | None) -> tuple[int, ...]:
    bound, *shares = job.usage or api.UNKNOWN_USAGE
    return (
        job.id,
        job.processes,
        job.estimate_us,
        job.submit_us,
        is_short(job),
        may_share(job, model),
        job.usage is not None,
        is_willing(job, model),
        api.BOUNDS.index(bound),
        *shares,
    )


class QueueTable:
    """A queue in columns."""

    __slots__ = ("_columns", "_future", "_job_table", "_work_s", "jobs", "rows")

    def __init__(self, jobs: list[api.JobSpec], job_table: JobTable) -> None:
        self.jobs = jobs
        self.rows: api.Ints = job_table.rows(jobs)  # of the job table
        self._job_table = job_table
        self._columns: Jobs | None = None
        self._work_s: api.Floats | None = None
        self._future: tuple[int, api.NoteValue, Future] | None = None  # with the instant and the history that it is of

    @property
    def columns(self) -> Jobs:
        """Return the jobs themselves; few scans of a queue need them."""
        if self._columns is None:
            self._columns = self._job_table.columns(self.rows)
        return self._columns

    def place(self, job: api.JobSpec) -> int:
        """Return a job's place in the queue."""
        return int((self.rows == self._job_table.row(job)).argmax())

    def work_s(self, processors: int) -> api.Floats:
        """Return each job's work divided by the number of processors, in seconds."""
        if self._work_s is None:
            self._work_s = self.columns.times_s * self.columns.sizes / processors
        return self._work_s

    def future(self, view: api.View) -> Future:
        """Return the expected arrivals while the machine works off this queue, by all arrivals so far."""
        now_us, note = view.now_us, view.note(None, NOTE)
        known = self._future
        if known is None or known[0] != now_us or known[1] is not note:
            known = self._future = (now_us, note, self._expected(view))
        return known[2]

    def _expected(self, view: api.View) -> Future:
        seen = history(view)
        first_us = int(np.minimum.reduce(self.columns.submits_us))
        if seen.short.jobs or seen.longer.jobs:
            first_us = min(first_us, seen.since_us)
        now_us = view.wall_us(view.now_us)  # as submissions count
        if now_us <= first_us:
            return Future()
        processors = view.machine.cores
        work_s = self.work_s(processors)
        short = self.columns.short
        spans = float(np.add.reduce(work_s)) * api.SECOND_US / (now_us - first_us)

        def arrivals(started: Tally, pending: api.Floats) -> Arrivals:
            jobs = started.jobs + len(pending)
            # In floats: a quotient of integers beyond 2**53 rounds differently, and may break ties the other way.
            work = float(started.work_us) / float(processors * api.SECOND_US) + float(np.add.reduce(pending))
            return Arrivals(jobs * spans, work / jobs) if jobs else Arrivals()

        return Future(arrivals(seen.short, work_s[short]), arrivals(seen.longer, work_s[~short]))


def queue_table(pending: api.PendingJobs, job_table: JobTable) -> QueueTable:
    """Return a queue in columns, computed once; ``job_table`` must always be the same one, not renewed in between."""
    table = pending.memo
    if not isinstance(table, QueueTable):
        table = pending.memo = QueueTable(pending.jobs, job_table)
    return table
