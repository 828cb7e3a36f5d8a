"""Slurm's multifactor priority (`priority/multifactor`): age, fair share by decayed use in a tree of accounts, and size.

What a job's QOS, partition and nice value are worth never changes while it waits: that sum is the priority which its manager tells.

All numbers are integers. Uses are sums over jobs, and a restarted scheduler adds them up in another order than the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isqrt
from operator import attrgetter
from typing import Final, NamedTuple, cast

import numpy as np

from cosched_plugin.api import SECOND_US, Changes, Ints, JobSpec, NoteValue, Order, View

NOTE: Final = "multifactor"
MOST_USERS: Final = 10_000  # in the note: those with most use. Each takes 27 bytes and its name, of the MiB of a note
_MOST: Final = 1 << 62  # the largest use in the note, below what an integer of the protocol holds
_BITS: Final = 40
_ONE: Final = 1 << _BITS  # 1, as a factor or a share
_FINE: Final = 32  # bits of an exponent's fraction
_MILLI_US: Final = 1_000
_PARTS: Final = 30  # bits of a factor: with a weight up to 10 ** 9 it fits a column of integers
_PART: Final = 1 << _PARTS
_priority, _submission, _user = attrgetter("priority"), attrgetter("submit_us"), attrgetter("user")


def _roots() -> tuple[int, ...]:
    """Return 2 ** -(1/2), 2 ** -(1/4), ...: each is the square root of the one before."""
    found = [_ONE >> 1]
    for _ in range(_FINE):
        found.append(isqrt(found[-1] << _BITS))
    return tuple(found[1:])


_ROOTS: Final = _roots()


def halved(exponent: int) -> int:
    """Return 2 ** -(``exponent`` / 2 ** 32), in parts of `_ONE`; the same on every machine, unlike a power of floats."""
    whole, part = exponent >> _FINE, exponent & (1 << _FINE) - 1
    if whole > _BITS:
        return 0
    value = _ONE
    bit = 1 << _FINE - 1
    for root in _ROOTS:
        if part & bit:
            value = value * root >> _BITS
        bit >>= 1
    return value >> whole


# Use: hardware threads x time. As in Slurm, what was used in a period counts in full at its end, and less by a constant factor after
# each further period. So all priorities stay the same within a period, whenever a scheduler is restarted in it: they follow from the
# use up to its begin, which the note (jobs that have ended) and the running jobs tell.


class Use(NamedTuple):
    """The use of the jobs that have ended, by user, in thread-milliseconds."""

    period: int = 0  # number of the period in which it was written
    before: Mapping[str, int] = {}  # up to the begin of that period, decayed
    within: Mapping[str, int] = {}  # since

    def note(self) -> NoteValue:
        """Return the use as a note; of too many users, that of those with most."""
        users = sorted({*self.before, *self.within}, key=lambda user: (-self._of(user), user))[:MOST_USERS]
        before, within = ([min(of.get(user, 0), _MOST) for user in users] for of in (self.before, self.within))
        return (self.period, tuple(users), tuple(before), tuple(within))

    def _of(self, user: str) -> int:
        return self.before.get(user, 0) + self.within.get(user, 0)


def noted_use(note: NoteValue) -> Use:
    """Return the use in a note; none where it is missing or has another form."""
    if type(note) is not tuple or list(map(type, note)) != [int, tuple, tuple, tuple]:
        return Use()
    period, users, before, within = cast("tuple[int, tuple[str, ...], tuple[int, ...], tuple[int, ...]]", note)
    amounts = (*before, *within)
    if not (
        len(users) == len(before) == len(within) and {*map(type, users)} <= {str} and {*map(type, amounts)} <= {int}
    ):
        return Use()
    if min((period, *amounts)) < 0:
        return Use()
    return Use(period, dict(zip(users, before, strict=True)), dict(zip(users, within, strict=True)))


class Decay:
    """How much use counts after a number of periods."""

    __slots__ = ("half_life_us", "lost", "period_us")

    def __init__(self, period_us: int, half_life_us: int) -> None:
        """``half_life_us``: 0 for none."""
        self.period_us = period_us
        self.half_life_us = half_life_us
        self.lost = _ONE - self.kept(1)  # of 1, in a period

    def kept(self, periods: int) -> int:
        """Return what is left of a use of 1 after a number of periods, in parts of `_ONE`."""
        if not self.half_life_us:
            return _ONE
        return halved((periods * self.period_us << _FINE) // self.half_life_us)

    def use(self, threads: int, since_us: int, period: int) -> int:
        """Return the use of a job since its start, as it counts at the begin of a period."""
        periods = period - since_us // self.period_us  # that it has been through, the first one in part
        if periods <= 0:
            return 0
        whole = periods - 1
        kept = self.kept(whole)
        # Of 0, 1, ... whole - 1 periods
        sum_kept = ((_ONE - kept) << _BITS) // self.lost if self.lost else whole << _BITS
        first_us = self.period_us - since_us % self.period_us
        return threads * (first_us * kept + self.period_us * sum_kept) // (_MILLI_US << _BITS)

    def at(self, use: Use, period: int) -> Use:
        """Return a use as it counts in a later period; users of whom nothing is left are forgotten."""
        later = period - use.period
        if later <= 0:
            return use
        old, new = self.kept(later), self.kept(later - 1)
        both = [(user, use.before.get(user, 0), use.within.get(user, 0)) for user in {**use.before, **use.within}]
        before = {user: amount * old + added * new >> _BITS for user, amount, added in both}
        return Use(period, {user: amount for user, amount in before.items() if amount}, {})


# The account tree: the classic formula (Slurm's `PriorityFlags=NO_FAIR_TREE`).


class Tree:
    """Accounts and users with their shares. A path is names joined by `/`, the account below the root first; a leaf is a user."""

    __slots__ = ("_leaf", "_level", "_shares")

    def __init__(self, shares: Mapping[str, int]) -> None:
        self._shares: dict[str, int] = {}
        self._level: dict[str, int] = {}  # the shares of all children of a path
        for path, share in shares.items():
            names = path.split("/")
            for depth in range(1, len(names)):  # an account that is not listed has one share
                self._shares.setdefault("/".join(names[:depth]), 1)
            self._shares[path] = share
        for path, share in self._shares.items():
            above = _above(path)
            self._level[above] = self._level.get(above, 0) + share
        self._leaf: dict[str, str] = {}  # the path of each user; of several, the first
        for path in self._shares:
            if path not in self._level:
                self._leaf.setdefault(path.rpartition("/")[2], path)

    def path(self, user: str) -> str:
        """Return a user's path; one who is not in the tree has a share of the root's own."""
        return self._leaf.get(user) or f"/{user}"

    def factors(self, use: Mapping[str, int], damping: int) -> Factors:
        """Return the fair-share factors that follow from a use by user."""
        used: dict[str, int] = {}
        strangers = 0
        for user, amount in use.items():
            path = self.path(user)
            strangers += path[0] == "/"
            while path:
                used[path] = used.get(path, 0) + amount
                path = _above(path)
        level = {**self._level, "": self._level.get("", 0) + strangers}
        return Factors(self, self._shares, level, used, max(1, sum(use.values())), damping)


class Factors:
    """The fair-share factors of a period, each worked out when it is asked for."""

    __slots__ = ("_damping", "_effective", "_factors", "_level", "_shares", "_total", "_tree", "_used")

    def __init__(
        self,
        tree: Tree,
        shares: Mapping[str, int],
        level: Mapping[str, int],
        used: Mapping[str, int],
        total: int,
        damping: int,
    ) -> None:
        self._tree = tree
        self._shares = shares
        self._level = level
        self._used = used
        self._total = total
        self._damping = damping
        self._effective: dict[str, tuple[int, int]] = {}
        self._factors: dict[str, int] = {}

    def of(self, user: str) -> int:
        """Return 2 ** -(effective use / share / damping), in parts of a factor."""
        found = self._factors.get(user)
        if found is None:
            share, effective = self._standing(self._tree.path(user))
            exponent = (effective << _FINE) // (share * self._damping) if share else (_BITS + 1) << _FINE
            found = self._factors[user] = halved(exponent) >> _BITS - _PARTS
        return found

    def _standing(self, path: str) -> tuple[int, int]:
        """Return an account's or user's part of all shares, and its effective part of all use."""
        found = self._effective.get(path)
        if found is None:
            above = _above(path)
            part, level = self._shares.get(path, 1), max(1, self._level.get(above, 0))
            norm = (self._used.get(path, 0) << _BITS) // self._total
            if above:
                share, effective = self._standing(above)
                found = (share * part // level, norm + (effective - norm) * part // level)
            else:
                found = ((part << _BITS) // level, norm)
            self._effective[path] = found
        return found


def _above(path: str) -> str:
    return path.rpartition("/")[0]


class Multifactor(Order):
    """The highest priority first: weighted factors of age, fair share and size, and the priority that the manager tells."""

    def __init__(
        self,
        *,
        age: int = 1_000,
        fair_share: int = 10_000,
        size: int = 1_000,
        max_age_s: float = 604_800.0,
        half_life_s: float = 604_800.0,
        period_s: float = 300.0,
        favor_small: bool = False,
        damping: int = 1,
        shares: Mapping[str, int] | None = None,
    ) -> None:
        self._weights = (age, fair_share, size)
        self._max_age_us = max(1, round(max_age_s * SECOND_US))
        self._unit_us = (self._max_age_us >> _PARTS) + 1  # of ages: their columns stay within 64 bits
        self._favor_small = favor_small
        self._damping = damping
        self._tree = Tree(shares or {})
        self._decay = Decay(round(period_s * SECOND_US), round(half_life_s * SECOND_US))
        # Caches: of a period, and of the machine by (processes, threads of each, most on a node)
        self._begun = (-1, 0)  # the period, and the manager's interventions: they change what running jobs have used
        self._factors = Tree({}).factors({}, 1)
        self._sizes: dict[tuple[int, int, int], int] = {}

    @property
    def note(self) -> str:
        """Return the key of the note with the use; without a weight of it there is none."""
        return NOTE if self._weights[1] else ""

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Add what the jobs that have ended have used."""
        note = view.note(None, NOTE)
        if not changes.ended:
            return note
        decay = self._decay
        period = view.wall_us(view.now_us) // decay.period_us
        _, before, within = decay.at(noted_use(note), period)
        before, within = dict(before), dict(within)
        for ended in changes.ended:
            running = ended.running
            user, start_us = running.job.user, running.start_us
            span_us = max(0, ended.at_us - max(start_us, period * decay.period_us))
            before[user] = before.get(user, 0) + decay.use(running.threads, start_us, period)
            within[user] = within.get(user, 0) + running.threads * span_us // _MILLI_US
        return Use(period, before, within).note()

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        """Return the jobs by descending priority; a stable sort keeps (submission, id) among equals."""
        period = view.wall_us(view.now_us) // self._decay.period_us
        if (period, view.interventions) != self._begun:
            self._begin(period, view)
        age, fair_share, size = self._weights
        of_manager = _column(map(_priority, jobs), len(jobs))
        total = np.zeros(len(jobs), dtype=np.int64)
        if age:
            ages_us = period * self._decay.period_us - _column(map(_submission, jobs), len(jobs))
            units = np.clip(ages_us, 0, self._max_age_us) // self._unit_us
            total += age * ((units << _PARTS) // max(1, self._max_age_us // self._unit_us))
        if fair_share:
            total += fair_share * _column(map(self._factors.of, map(_user, jobs)), len(jobs))
        if size:
            total += size * _column(map(self._size_in(view), jobs), len(jobs))
        ranks = (total >> _PARTS) + of_manager.clip(-_MOST, _MOST)
        return [jobs[place] for place in np.argsort(-ranks, kind="stable").tolist()]

    def _begin(self, period: int, view: View) -> None:
        self._begun = (period, view.interventions)
        if not self._weights[1]:
            return
        decay = self._decay
        use = dict(decay.at(noted_use(view.note(None, NOTE)), period).before)
        for running in view.all_running.values():
            amount = decay.use(running.threads, running.start_us, period)
            if amount:
                use[running.job.user] = use.get(running.job.user, 0) + amount
        self._factors = self._tree.factors({user: amount for user, amount in use.items() if amount}, self._damping)

    def _size_in(self, view: View) -> Callable[[JobSpec], int]:
        """Return the function that gives the mean of a job's parts of all nodes and of all threads, in parts of a factor."""
        machine, sizes = view.machine, self._sizes

        def part(job: JobSpec) -> int:
            shape = (job.processes, job.threads_per_process, job.ppn_max)
            found = sizes.get(shape)
            if found is None:
                threads = job.processes * job.threads_per_process
                nodes = -(-threads // max(1, job.ppn_max * job.threads_per_process or machine.depth))
                half = min(_PART, ((nodes << _PARTS) // machine.nodes + (threads << _PARTS) // machine.threads) // 2)
                found = sizes[shape] = _PART - half if self._favor_small else half
            return found

        return part


def _column(values: Iterable[int], count: int) -> Ints:
    return np.fromiter(values, dtype=np.int64, count=count)
