"""What the site believes of pairs, corrected by what is measured of them; of pairs of which it says nothing, what is learned.

A belief that is wrong is dear: a policy takes the pairs of which it says the best, and so those of which it is most wrong. What came
out is compared with what was told: of all pairs by a straight line, and what the line leaves over by application, pair and user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf, log
from typing import ClassVar, Final, NamedTuple, TypeAlias, cast

import numpy as np

from cosched_plugin import api
from cosched_plugin.policies.belief.learned import (
    MICRO,
    FromNote,
    LearnedPairs,
    Memory,
    application,
    is_on_trial,
    model_of,
    neighbours,
    short,
)

NOTE: Final = "correction"
_GRAIN: Final = 0.02  # of a logarithm: smaller changes do not make searches begin anew
_FAR: Final = 0.3  # the logarithm of 1.35: what policies accept lies below
# Policies take pairs up to a slowdown that leaves them better ones. Where no better ones can be told apart, two jobs that do a quarter
# more together than one after the other are good enough, and any others are not: on W2, seeds 1 to 3, a usage that is .3 wrong keeps
# 97 % of its gain, not 87. On halves of nodes, where a model tells of spread, such pairs would lose.
ENOUGH: Final = 1.6
HOPELESS: Final = 2.0  # two jobs that each take twice as long do no more together than one after the other

# Of all pairs: what came out against what was told. Logarithms are whole numbers, in millionths.

# What an offset of 0 and a slope of 1 count as before anything was measured: so many measurements, and such a sum of squares.
_TRUST: Final = 4
_TRUST_SQUARES: Final = 0.1


class Rule(NamedTuple):
    """What a told logarithm becomes."""

    offset: int = 0
    slope: int = MICRO  # millionths

    def shift(self, told: float) -> float:
        """Return by how much the logarithm is larger that is believed where ``told`` is told."""
        return (self.offset + (self.slope - MICRO) * told) / MICRO

    def differs(self, other: Rule) -> bool:
        """Tell whether two rules differ enough to begin searches anew."""
        return any(abs(self.shift(told) - other.shift(told)) > _GRAIN for told in (0.0, _FAR))


class Line(NamedTuple):
    """Measurements: what came out against what was told."""

    times: int = 0  # how many count
    told: int = 0  # means
    found: int = 0
    squares: int = 0  # mean square of the deviation of what was told
    products: int = 0  # mean product of both deviations

    def plus(self, told: int, found: int, window: int) -> Line:
        """Return the same with one more measurement; of more than ``window`` the older ones fade."""
        times = min(self.times + 1, window)
        away, out = told - self.told, found - self.found
        return Line(
            times,
            self.told + round(away / times),
            self.found + round(out / times),
            (times - 1) * (times * self.squares + away * away) // times**2,
            (times - 1) * (times * self.products + away * out) // times**2,
        )

    @property
    def rule(self) -> Rule:
        """Return the rule that fits best; where little was measured, one near to trust."""
        squares, products = (self.times * each / MICRO**2 for each in (self.squares, self.products))
        slope = min(max((products + _TRUST_SQUARES) / (squares + _TRUST_SQUARES), 0.0), 1.0)
        offset = (self.found - slope * self.told) * self.times / (self.times + _TRUST)
        return Rule(round(offset), round(slope * MICRO))


# By application, pair and user: what the rule leaves over.

_MOST: Final = 1_000  # cells, and pairs of which nothing is told, that are remembered
_ERRORS: Final = 0.75  # standard errors that are added to what is learned of those
_PRIME: Final = 1_000_003
_WINDOW: Final = 20  # measurements of a cell that count: older ones fade
# Until so much was measured again, it is assumed that measurements of one kind differ as much as all do.
_DOUBT: Final = 10
Key: TypeAlias = tuple[str, str, str]  # an application, its user, and the application beside it


class Cell(NamedTuple):
    """Measurements of one kind."""

    times: int  # how many count
    told: int  # mean of the logarithms
    over: int  # mean of what came out less what was told
    variance: int  # of that
    last: int  # the two jobs that were measured last

    def plus(self, told: int, found: int, jobs: int) -> Cell:
        """Return the same with one more measurement; of the same two jobs once more, it says nothing new of their kind."""
        if self.times and jobs == self.last:
            return self
        times = min(self.times + 1, _WINDOW)
        away = found - told - self.over
        over = self.over + round(away / times)
        variance = ((times - 1) * self.variance + away * (found - told - over)) // times
        return Cell(times, self.told + round((told - self.told) / times), over, variance, jobs)


Effects: TypeAlias = Mapping[tuple[int, str, str], float]  # logarithms by level and names


def effects_of(cells: Mapping[Key, Cell], rule: Rule) -> Effects:
    """Return what the rule leaves over: first by application, then by the one beside it, by pair, and by user of an application.

    Each level takes what the ones before it leave, so far as its groups differ by more than the measurements within them do.
    """
    names = [*cells]
    times, told, over, variance = (
        np.array(each, dtype=np.float64) for each in zip(*[cell[:4] for cell in cells.values()], strict=True)
    )
    rest = over / MICRO - [rule.shift(each) for each in (told / MICRO).tolist()]
    found = {}
    for level, groups in enumerate(_levels(names)):
        known = {group: place for place, group in enumerate(dict.fromkeys(groups))}
        places = np.array([known[group] for group in groups])
        counts = np.bincount(places, times)
        means = np.bincount(places, times * rest) / counts
        free = counts.sum() - len(counts)  # how often something was measured again
        squares = times * (variance / MICRO**2 + (rest - means[places]) ** 2)
        whole = times * (variance / MICRO**2 + rest**2)
        within = float((squares.sum() + _DOUBT * whole.sum() / counts.sum()) / (free + _DOUBT))
        between = max(0.0, float(((counts * means**2).sum() - len(counts) * within) / counts.sum()))
        if not between:
            continue
        shares = means * between / (between + within / counts)
        rest = rest - shares[places]
        rounded = (np.rint(shares / _GRAIN) * _GRAIN).tolist()
        found.update({(level, *group): share for group, share in zip(known, rounded, strict=True) if share})
    return found


def _levels(names: Iterable[Key]) -> Sequence[Sequence[tuple[str, str]]]:
    names = [*names]
    return (
        [(own, "") for own, _, _ in names],
        [(other, "") for _, _, other in names],
        [(own, other) for own, _, other in names],
        [(own, user) for own, user, _ in names],
    )


# The memory.


class Correction:
    """The content of the note; the cells that were written last are the last ones."""

    __slots__ = ("cells", "learned", "line", "rule")

    def __init__(self, note: api.NoteValue = None) -> None:
        """Read a note; one of another form counts as none."""
        self.rule, self.line = Rule(), Line()
        self.cells: dict[Key, Cell] = {}
        self.learned: api.NoteValue = ()  # of pairs of which the site says nothing
        if not _is_correction(note):
            return
        rule, line, names, flat, self.learned = cast(
            "tuple[tuple[int, int], tuple[int, ...], tuple[str, ...], tuple[int, ...], api.NoteValue]", note
        )
        self.rule, self.line = Rule(*rule), Line(*line)
        for own, user, other, *of in zip(*[iter(flat)] * 8, strict=True):
            self.cells[names[own], names[user], names[other]] = Cell(*of)

    def note(self, most: int) -> api.NoteValue:
        """Return the note, with ``most`` cells at most: those that were written last."""
        cells = dict([*self.cells.items()][-most:])
        place = {name: number for number, name in enumerate(dict.fromkeys(name for key in cells for name in key))}
        flat = [item for key, cell in cells.items() for item in (*[place[name] for name in key], *cell)]
        return (tuple(self.rule), tuple(self.line), tuple(place), tuple(flat), self.learned)

    def learn(self, job: api.JobFacts, other: api.JobFacts, told: float, slowdown: float, window: int) -> None:
        """Add what came out of a pair of which ``told`` was told."""
        before, after = (round(log(each) * MICRO) for each in (told, slowdown))
        self.line = self.line.plus(before, after, window)
        rule = self.line.rule
        if rule.differs(self.rule):
            self.rule = rule
        own, beside = application(job), application(other)
        if own and beside:
            key, jobs = (own, short(job.user), beside), (job.id * _PRIME + other.id) % _PRIME**3
            self.cells[key] = self.cells.pop(key, Cell(0, 0, 0, 0, 0)).plus(before, after, jobs)


def _is_correction(note: api.NoteValue) -> bool:
    """Tell whether a note has the form that `Correction.note` gives it."""
    if type(note) is not tuple or len(note) != 5 or list(map(type, note[:4])) != [tuple] * 4:
        return False
    rule, line, names, flat = cast("tuple[tuple[api.NoteValue, ...], ...]", note[:4])
    if not {*map(type, names)} <= {str} or not {*map(type, (*rule, *line, *flat))} <= {int}:
        return False
    if (len(rule), len(line), len(flat) % 8) != (2, 5, 0):
        return False
    places = [*flat[::8], *flat[1::8], *flat[2::8]]
    counts = [*line[:1], *line[3:4], *flat[6::8]]
    whole = all(0 <= cast(int, at) < len(names) for at in places) and all(cast(int, count) >= 0 for count in counts)
    return whole and all(cast(int, times) > 0 for times in flat[3::8])


# The belief.


class CorrectedPairs(api.OnGiven):
    """What the site says, by rule and effects; of a job on trial the lower of this and what the site says."""

    __slots__ = ("_effects", "_learned", "_neutral", "_rule", "_trials")
    name: Final = "corrected"

    def __init__(
        self, given: api.PairModel | None, rule: Rule, effects: Effects, learned: LearnedPairs | None, trials: int
    ) -> None:
        """``learned``: what is believed of pairs of which ``given`` says nothing; None: they share no nodes."""
        super().__init__(given)
        self._rule = rule
        self._effects = effects
        self._neutral = rule == Rule() and not effects
        self._learned = learned
        self._trials = trials

    def same_as(self, other: CorrectedPairs) -> bool:
        """Tell whether both say the same."""
        same = (self._rule, self._effects) == (other._rule, other._effects)
        if self._learned is None or other._learned is None:
            return same and self._given is other._given and self._learned is other._learned
        return same and self._given is other._given and self._learned.same_as(other._learned)

    def knows(self, job: api.JobFacts) -> bool:
        """Tell whether the site's model knows the job, or something may be learned of it."""
        return (self._given is not None and self._given.knows(job)) or self._learns_of(job)

    def _learns_of(self, job: api.JobFacts) -> bool:
        return self._learned is not None and self._learned.knows(job)

    def told(self, job: api.JobFacts, other: api.JobFacts) -> float | None:
        """Return what the site says of a job beside another one; None where it says nothing."""
        told = api.known_slowdown(self._given, job, other)
        return None if told == inf else told

    def slowdown(self, job: api.JobFacts, other: api.JobFacts) -> float:
        """Return what the site says, corrected, or else what is learned."""
        told = api.known_slowdown(self._given, job, other)
        if told < inf:
            return self._corrected(told, job, other)
        if self._learned is None or not (self._learned.knows(job) and self._learned.knows(other)):
            return inf
        learned = self._learned.slowdown(job, other)
        return learned if learned < ENOUGH else inf

    def slowdown_on(
        self,
        job: api.JobFacts,
        mask: api.ThreadMask,
        other: api.JobFacts,
        other_mask: api.ThreadMask,
        *,
        kind: int = 0,
        threads: tuple[int, int] = (1, 1),
    ) -> float:
        """Return the same on certain hardware threads."""
        if self._given is None or api.known_slowdown(self._given, job, other) == inf:
            return self.slowdown(job, other)
        told = self._given.slowdown_on(job, mask, other, other_mask, kind=kind, threads=threads)
        return self._corrected(told, job, other)

    def _corrected(self, told: float, job: api.JobFacts, other: api.JobFacts) -> float:
        if self._neutral:
            return told
        own_shift = 0.0  # what is known of these applications
        if self._effects:
            own, beside, effect = application(job), application(other), self._effects.get
            own_shift += effect((0, own, ""), 0.0) + effect((1, beside, ""), 0.0)
            own_shift += effect((2, own, beside), 0.0) + effect((3, own, short(job.user)), 0.0)
        shift = self._rule.shift(log(told)) + own_shift
        found = min(max(told * exp(shift), api.LEAST_SLOWDOWN), api.MOST_SLOWDOWN) if shift else told
        if found <= told or self._is_tried(job) or self._is_tried(other):
            return min(told, found)
        if own_shift or self.spread(job) is not None:
            return inf if found >= HOPELESS > told else found
        return told if found < ENOUGH else inf

    def _is_tried(self, job: api.JobFacts) -> bool:
        return is_on_trial(job, self._trials)

    def spread(self, job: api.JobFacts) -> float | None:
        """Return the job's ratio alone on a half of each node, as the site's model says, or as learned."""
        if self._given is not None and self._given.knows(job):
            return self._given.spread(job)
        return None if self._learned is None else self._learned.spread(job)

    def beside(self, job: api.JobFacts, others: api.JobColumns) -> api.Beside:
        """Return the larger slowdown of ``job`` and each of the others."""
        jobs, given = others.jobs, self._given
        if given is None or not given.knows(job):
            slow = [self.both(job, other) for other in jobs]
            return api.Beside(np.array(slow, dtype=np.float64), np.zeros(len(jobs), dtype=np.bool_))
        told = given.beside(job, others)
        if self._neutral:
            slow = told.slowdowns.tolist()
        elif self._effects or not given.mutual:  # each of the two has its own
            slow = [inf if other.id == job.id else self.both(job, other) for other in jobs]
        else:
            slow = [
                self._corrected(each, job, other) if each < inf else inf
                for each, other in zip(told.slowdowns.tolist(), jobs, strict=True)
            ]
        if self._learns_of(job):
            slow = [
                self.both(job, other) if other.id != job.id and (each == inf or not given.knows(other)) else each
                for each, other in zip(slow, jobs, strict=True)
            ]
        return api.Beside(np.array(slow, dtype=np.float64), told.compete)


def corrected_by(
    correction: Correction, given: api.PairModel | None, trials: int, *, learn: bool = False
) -> CorrectedPairs:
    """Return the model that follows from what is remembered, and from what the site says."""
    memory = Memory(correction.learned) if learn else None
    learned = None if memory is None else model_of(memory, given, errors=_ERRORS, trials=trials)
    effects = effects_of(correction.cells, correction.rule) if correction.cells else {}
    return CorrectedPairs(given, correction.rule, effects, learned, trials)


class Corrected(FromNote[CorrectedPairs]):
    """Corrects what the site says by what the manager measures of jobs beside one other.

    ``trials``: one job in so many is believed as told, if that is lower, so that a belief that has become right is noticed, and tried
    beside others of which nothing is told. ``window``: measurements of all pairs that count. ``learn``: pairs of which nothing is told
    are learned; else they share no nodes.
    """

    note: ClassVar[str] = NOTE
    provides: ClassVar[api.Needs] = frozenset({api.PAIR_BELIEF})

    def __init__(self, *, trials: int = 40, window: int = 50, learn: bool = False) -> None:
        self._trials = trials
        self._learn = learn
        self._window = window

    def remember(self, changes: api.Changes, view: api.View) -> api.NoteValue:
        """Add measured slowdowns of jobs that have one neighbour: of several it is not known which one it was."""
        note, given = view.note(None, NOTE), view.given_pairs
        correction: Correction | None = None
        learned: Memory | None = None
        for running in changes.measured:
            others = neighbours(running, view)
            if len(others) != 1:
                continue
            correction = correction or Correction(note)
            job, other = running.job, others[0].job
            told, alone = _told_of(running, others[0], given, view)
            if told < inf:  # a measured slowdown has the job's own, too
                slowdown = running.measured_ppm / api.WHOLE_PPM / alone
                correction.learn(job, other, told, slowdown, self._window)
            elif self._learn and application(job) and application(other):
                learned = learned or Memory(correction.learned)
                learned.learn(job, application(other), running.measured_ppm)
                correction.learned = learned.note(_MOST)
        return note if correction is None else correction.note(_MOST)

    def model_in(self, note: api.NoteValue, given: api.PairModel | None) -> CorrectedPairs:
        """Return the model that follows from a note."""
        return corrected_by(Correction(note), given, self._trials, learn=self._learn)


class Pair(NamedTuple):
    """What was measured of jobs beside others before: elsewhere, as in an accounting."""

    job: api.JobFacts
    other: api.JobFacts
    slowdown: float
    runs: int
    error: float  # of the logarithm, standard


def correction_of(pairs: Iterable[Pair], given: api.PairModel | None) -> api.NoteValue:
    """Return the note of a scheduler that has measured this; a pair counts by its runs, up to the measurements of a cell."""
    correction, learned = Correction(), Memory()
    for pair in pairs:
        told = api.known_slowdown(given, pair.job, pair.other)
        own, beside, runs = application(pair.job), application(pair.other), min(pair.runs, _WINDOW)
        for _ in range(runs):
            if told < inf:
                correction.learn(pair.job, pair.other, told, pair.slowdown, window=1_000_000)
            else:
                learned.learn(pair.job, beside, round(pair.slowdown * api.WHOLE_PPM))
        key = own, short(pair.job.user), beside
        if key in correction.cells:
            variance = round(runs * (pair.error * MICRO) ** 2)
            correction.cells[key] = correction.cells[key]._replace(times=runs, variance=variance)
    correction.learned = learned.note(_MOST)
    return correction.note(_MOST)


def _told_of(
    running: api.Running, other: api.Running, given: api.PairModel | None, view: api.View
) -> tuple[float, float]:
    """Return what the site says of a running job where it is: beside another one (inf: nothing), and by itself."""
    told = api.known_slowdown(given, running.job, other.job)
    if given is None or told == inf:
        return inf, 1.0
    if given.by_seat:
        own, its = (api.SeatOf(each.job, each.runs) for each in (running, other))
        told = api.slowdowns_on(own, its, given, view)[0]
    return told, api.alone_on(running, given, view)
