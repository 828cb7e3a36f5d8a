"""A belief about pairs of jobs that is learned: by application, refined by user, with trials of what is not known well."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import exp, log, sqrt
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np

from cosched_plugin import api

# Beliefs that remember follow from a note.


class Comparable(api.PairModel, Protocol):
    """A model that tells whether another one says the same."""

    @abstractmethod
    def same_as(self, other: Self) -> bool:
        """Tell whether both say the same."""


_Model = TypeVar("_Model", bound=Comparable)


class FromNote(api.Believer, Generic[_Model]):
    """A belief that follows from its note and from what the site says."""

    _read: api.NoteValue = False  # a cache: a note, and the model in it
    _model: _Model | None = None

    @abstractmethod
    def model_in(self, note: api.NoteValue, given: api.PairModel | None) -> _Model:
        """Return the model that follows from a note."""

    def pairs(self, view: api.View) -> api.PairModel | None:
        """Return the model that follows from the note."""
        note = view.note(None, self.note)
        if self._model is None or note is not self._read:
            model = self.model_in(note, view.given_pairs)
            self._read = note
            if self._model is None or not model.same_as(self._model):
                self._model = model
        return self._model


# What is remembered of measured slowdowns: sums by pair of applications, and by user of an application.
#
# Logarithms of slowdowns are whole numbers, in millionths, so that a note is the same on every machine.

NOTE: Final = "belief"
MICRO: Final = 1_000_000  # of a logarithm
_MOST_NAME: Final = 64  # characters
_WINDOW: Final = 20  # measurements that count: older ones fade
# A measurement so many standard deviations from the mean contradicts it, but at least and at most so far: the first ones of an
# application that has changed widen the deviation themselves.
_SIGMAS: Final = 3
_NEAR, _FAR = 100_000, 200_000
_STRIKES: Final = 3  # so many in a row say that the application is another than it was


class Sum(NamedTuple):
    """Measurements of one kind."""

    times: int = 0  # how many count
    mean: int = 0  # of the logarithms
    variance: int = 0

    def plus(self, value: int) -> Sum:
        """Return the same with one more value."""
        count = min(self.times + 1, _WINDOW)
        away = value - self.mean
        mean = self.mean + round(away / count)
        return Sum(count, mean, ((count - 1) * self.variance + away * (value - mean)) // count)

    def denies(self, value: int) -> bool:
        """Tell whether the value contradicts what was measured before."""
        return self.times > 0 and abs(value - self.mean) > max(_NEAR, min(_SIGMAS * sqrt(self.variance), _FAR))


Sums: TypeAlias = dict[tuple[str, str], Sum]


def short(name: str) -> str:
    """Return a name as it is remembered: longer names that begin alike are one."""
    return name[:_MOST_NAME]


def application(job: api.JobFacts) -> str:
    """Return what a job is an instance of: its name, or else its user; empty where it has neither."""
    return short(job.name) if job.name else f"@{short(job.user)}" if job.user else ""


class Memory:
    """The content of the note; the entries that were written last are the last ones."""

    __slots__ = ("pairs", "strikes", "users")

    def __init__(self, note: api.NoteValue = None) -> None:
        """Read a note; one of another form counts as none."""
        self.pairs: Sums = {}  # by application and the one beside it: slowdowns of the first
        self.users: Sums = {}  # by application and user: by how much the user's jobs are slower than others of the application
        self.strikes: dict[str, int] = {}  # by application: measurements in a row that contradict earlier ones
        if not _is_memory(note):
            return
        names, pairs, users, strikes = cast(
            "tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]", note
        )
        for sums, flat in ((self.pairs, pairs), (self.users, users)):
            for one, other, *of in zip(*[iter(flat)] * 5, strict=True):
                sums[names[one], names[other]] = Sum(*of)
        self.strikes = {names[one]: count for one, count in zip(*[iter(strikes)] * 2, strict=True)}

    def note(self, most: int) -> api.NoteValue:
        """Return the note, with ``most`` pairs and as many users at most: those that were written last."""
        pairs, users, strikes = (dict([*table.items()][-most:]) for table in (self.pairs, self.users, self.strikes))
        names = {name: None for key in [*pairs, *users] for name in key} | dict.fromkeys(strikes)
        place = {name: number for number, name in enumerate(names)}
        flat = [
            tuple([item for (one, other), of in cast(Sums, sums).items() for item in (place[one], place[other], *of)])
            for sums in (pairs, users)
        ]
        struck = tuple([item for name, count in strikes.items() for item in (place[cast(str, name)], cast(int, count))])
        return (tuple(names), *flat, struck)

    def learn(self, job: api.JobFacts, other: str, slowdown_ppm: int) -> None:
        """Add a measured slowdown of ``job`` beside jobs of the application ``other``."""
        own = application(job)
        value = round(log(slowdown_ppm / api.WHOLE_PPM) * MICRO)
        known = self.pairs.get((own, other), Sum())
        user = (own, short(job.user))
        its = self.users.get(user, Sum())
        if known.denies(value) and (not its.times or its.denies(value - known.mean)):
            forgotten = [self._strike(name) for name in dict.fromkeys((own, other))]
            if True in forgotten:
                known, its = self.pairs.get((own, other), Sum()), self.users.get(user, Sum())
        else:
            self.strikes.pop(own, None)
            self.strikes.pop(other, None)
        if known.times and job.user:
            self.users.pop(user, None)
            self.users[user] = its.plus(value - known.mean)
        self.pairs.pop((own, other), None)
        self.pairs[own, other] = known.plus(value)

    def _strike(self, name: str) -> bool:
        """Count a contradiction; at the last one, forget what is known of the application. Tell whether that was so."""
        count = self.strikes.pop(name, 0) + 1
        if count < _STRIKES:
            self.strikes[name] = count
            return False
        for sums in (self.pairs, self.users):
            for key in [key for key in sums if name in key]:
                del sums[key]
        return True


def _is_memory(note: api.NoteValue) -> bool:
    """Tell whether a note has the form that `Memory.note` gives it."""
    if type(note) is not tuple or list(map(type, note)) != [tuple] * 4:
        return False
    names, pairs, users, strikes = cast("tuple[tuple[api.NoteValue, ...], ...]", note)
    if not {*map(type, names)} <= {str} or not {*map(type, (*pairs, *users, *strikes))} <= {int}:
        return False
    places = [*pairs[::5], *pairs[1::5], *users[::5], *users[1::5], *strikes[::2]]
    whole = not (len(pairs) % 5 or len(users) % 5 or len(strikes) % 2)
    counts = (*pairs[2::5], *pairs[4::5], *users[2::5], *users[4::5])
    return whole and all(0 <= cast(int, at) < len(names) for at in places) and all(cast(int, at) >= 0 for at in counts)


# Estimated slowdowns of all pairs of applications, from the pairs that were measured.

# What is believed before anything was measured, in logarithms, and the measurements that this counts as.
_PRIOR: Final = 0.1
_PRIOR_SPREAD: Final = 0.15  # standard deviation of an application's effect
_PRIOR_ERROR: Final = 0.1  # of a pair from the sum of two effects
_PRIOR_NOISE: Final = 0.02  # of one measurement from another of the same pair
_WEIGHT: Final = 2.0
_ROUNDS: Final = 10


class Estimates(NamedTuple):
    """Logarithms of slowdowns, and their standard errors: [application, the one beside it], the last row and column for any other."""

    applications: tuple[str, ...]
    means: api.Floats
    errors: api.Floats


def estimate(pairs: Mapping[tuple[str, str], Sum]) -> Estimates:
    """Return the estimates: a mean, an effect of the application, and one of its neighbour; a measured pair moves to its own mean.

    The sum of two effects fits the 809 measured pairs of NAS applications with a standard deviation of 6 %, for 13 % without.
    """
    names = tuple(sorted({name for pair in pairs for name in pair}))
    place = {name: number for number, name in enumerate(names)}
    size = len(names) + 1
    rows = np.array([place[own] for own, _ in pairs], dtype=np.int64)
    columns = np.array([place[other] for _, other in pairs], dtype=np.int64)
    counts = np.array([each.times for each in pairs.values()], dtype=np.float64)
    logs = np.array([each.mean for each in pairs.values()], dtype=np.float64) / MICRO
    variances = np.array([each.variance for each in pairs.values()], dtype=np.float64) / MICRO**2
    weights = counts / (counts + 1.0)
    total = float(weights.sum()) + _WEIGHT
    mean = (float((weights * logs).sum()) + _WEIGHT * _PRIOR) / total
    of_rows = np.bincount(rows, weights, size)
    of_columns = np.bincount(columns, weights, size)
    own, its = np.zeros(size), np.zeros(size)
    for _ in range(_ROUNDS):
        own = np.bincount(rows, weights * (logs - mean - its[columns]), size) / (of_rows + 1.0)
        its = np.bincount(columns, weights * (logs - mean - own[rows]), size) / (of_columns + 1.0)
    means = mean + own[:, None] + its[None, :]
    spread = _blend((weights * (logs - mean) ** 2).sum(), _PRIOR_SPREAD, total)
    error = _blend((weights * (logs - means[rows, columns]) ** 2).sum(), _PRIOR_ERROR, total)
    noise = _blend((counts * variances).sum(), _PRIOR_NOISE, float(counts.sum()) + _WEIGHT)
    squares = error + spread * (1.0 / (1.0 + of_rows[:, None]) + 1.0 / (1.0 + of_columns[None, :]))
    # A measured pair: its own mean, and what the others say of it, each by its precision.
    here = (rows, columns)
    precisions = counts * (counts + _WEIGHT) / (counts * variances + _WEIGHT * noise)
    before = 1.0 / squares[here]
    means[here] = (means[here] * before + logs * precisions) / (before + precisions)
    squares[here] = 1.0 / (before + precisions)
    return Estimates(names, means, np.sqrt(squares))


def _blend(squares: float, prior: float, total: float) -> float:
    return (float(squares) + _WEIGHT * prior**2) / total


# The belief.

_GRAIN: Final = 0.005  # of a logarithm: smaller differences do not make searches begin anew
MOST: Final = 6.9  # a slowdown of 992, as a logarithm
_USERS_KNOWN_BY: Final = 4  # measurements by which a user's jobs count half by themselves
_MIX: Final = 0x9E3779B97F4A7C15  # splitmix64's: ids that follow each other are drawn apart
_WORD: Final = (1 << 64) - 1


class LearnedPairs(api.PairModel):
    """Slowdowns by estimate: with an error added, or, of a job that is on trial, with the error taken off.

    What else is known of pairs, such as whether both fit into the memory of a node, is as the site says.
    """

    __slots__ = ("_given", "_index", "_spreads", "_tables", "_trials", "_users")
    name: Final = "learned"

    def __init__(
        self,
        estimates: Estimates,
        users: Mapping[tuple[str, str], float],
        *,
        errors: float,
        trials: int,
        given: api.PairModel | None,
    ) -> None:
        """``users``: by how much the logarithm is larger, by application and user."""
        self._index = {name: number for number, name in enumerate(estimates.applications)}
        below, above = (estimates.means + sign * errors * estimates.errors for sign in (-1, 1))
        self._tables = tuple(np.rint(table / _GRAIN) * _GRAIN for table in (above, below))
        # A job that shares nodes may also gain, as it is on more of them: as much as beside its best neighbour.
        self._spreads = tuple(np.minimum(table.min(axis=1), 0.0) for table in self._tables)
        self._users = users
        self._trials = trials
        self._given = given

    def same_as(self, other: LearnedPairs) -> bool:
        """Tell whether both say the same."""
        return (
            self._index == other._index
            and self._users == other._users
            and self._given is other._given
            and all(map(np.array_equal, self._tables, other._tables))
        )

    @property
    def by_usage(self) -> bool:
        """Tell whether the constraints on bounds and memory apply: where the site's model says so."""
        return self._given is not None and self._given.by_usage

    def compete(self, job: api.JobFacts, other: api.JobFacts) -> bool:
        """Tell whether the two compete for parts of a CPU, as the site's model says."""
        return self._given is not None and self._given.compete(job, other)

    def own(self, job: api.JobFacts, cpus: int, cores: int) -> float | None:
        """Return the job's slowdown by itself, as the site's model says."""
        return None if self._given is None else self._given.own(job, cpus, cores)

    def spread(self, job: api.JobFacts) -> float | None:
        """Return the ratio of the job's run times beside its best neighbour and alone on all cores of its nodes, below 1; else None."""
        spread = float(self._spreads[self._is_tried(job)][self._place(job)])
        return exp(spread) if spread < 0.0 else None

    def knows(self, job: api.JobFacts) -> bool:
        """Tell whether the job has a name or a user."""
        return bool(application(job))

    def slowdown(self, job: api.JobFacts, other: api.JobFacts) -> float:
        """Return the estimate for a job beside another one."""
        table = self._tables[self._is_tried(job) or self._is_tried(other)]
        here = self._place(job)
        user = self._users.get((application(job), job.user), 0.0)
        value = float(table[here, self._place(other)]) + (user - float(self._spreads[self._is_tried(job)][here]))
        return exp(min(max(value, 0.0), MOST))

    def beside(self, job: api.JobFacts, others: api.JobColumns) -> api.Beside:
        """Return the larger slowdown of ``job`` and each of the others."""
        jobs = others.jobs
        places = np.array([self._place(other) for other in jobs], dtype=np.int64)
        tried = np.array([self._is_tried(other) for other in jobs], dtype=np.bool_)
        users: api.Floats | float = 0.0
        if self._users:
            users = np.array([self._users.get((application(other), other.user), 0.0) for other in jobs])
        here, is_tried = self._place(job), self._is_tried(job)
        mine = self._users.get((application(job), job.user), 0.0) - float(self._spreads[is_tried][here])
        users = users - np.where(tried, self._spreads[1][places], self._spreads[0][places])
        above, below = (np.maximum(table[here, places] + mine, table[places, here] + users) for table in self._tables)
        logs = np.clip(np.where(tried | is_tried, below, above), 0.0, MOST)
        slowdowns = np.array([exp(value) for value in logs.tolist()])  # bit-identical to `slowdown`
        given = self._given
        if given is None or not given.by_usage:
            return api.Beside(slowdowns, np.zeros(len(jobs), dtype=np.bool_))
        return api.Beside(slowdowns, given.beside(job, others).compete)

    def _place(self, job: api.JobFacts) -> int:
        return self._index.get(application(job), len(self._index))

    def _is_tried(self, job: api.JobFacts) -> bool:
        return is_on_trial(job, self._trials)


def is_on_trial(job: api.JobFacts, trials: int) -> bool:
    """Tell whether a job is the one in so many that is on trial; of 0 none is."""
    return bool(trials) and (job.id * _MIX & _WORD) >> 32 < (1 << 32) // trials


def model_of(memory: Memory, given: api.PairModel | None, *, errors: float, trials: int) -> LearnedPairs:
    """Return the model that follows from what is remembered, and from what else the site says."""
    users = {
        key: round(its.mean / MICRO * its.times / (its.times + _USERS_KNOWN_BY) / _GRAIN) * _GRAIN
        for key, its in memory.users.items()
    }
    known = {key: value for key, value in sorted(users.items()) if value}
    return LearnedPairs(estimate(memory.pairs), known, errors=errors, trials=trials, given=given)


class Learned(FromNote[LearnedPairs]):
    """Learns from the slowdowns that the manager measures of jobs beside others of one application."""

    note: ClassVar[str] = NOTE
    provides: ClassVar[api.Needs] = frozenset({api.PAIR_BELIEF})

    def __init__(self, *, trials: int = 20, errors: float = 0.75, most_pairs: int = 1_000) -> None:
        self._trials = trials
        self._errors = errors
        self._most = most_pairs

    def remember(self, changes: api.Changes, view: api.View) -> api.NoteValue:
        """Add measured slowdowns."""
        note = view.note(None, NOTE)
        memory: Memory | None = None
        for running in changes.measured:
            beside = {application(other.job) for other in neighbours(running, view)}
            if len(beside) != 1 or "" in beside or not application(running.job):
                continue  # among neighbours of several kinds it is not known which one it was
            memory = memory or Memory(note)
            memory.learn(running.job, beside.pop(), running.measured_ppm)
        return note if memory is None else memory.note(self._most)

    def model_in(self, note: api.NoteValue, given: api.PairModel | None) -> LearnedPairs:
        """Return the model that follows from a note."""
        return model_of(Memory(note), given, errors=self._errors, trials=self._trials)


def neighbours(running: api.Running, view: api.View) -> list[api.Running]:
    """Return the running jobs that share nodes with one."""
    nodes_by_job = view.nodes_by_job
    nodes = nodes_by_job[running.job.id]
    return [
        other
        for job_id, other in view.running.items()
        if nodes_by_job[job_id] & nodes and job_id != running.job.id and other.suspended_us is None
    ]
