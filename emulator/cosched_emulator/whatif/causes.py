"""What most likely explains the distance of a run from the record: for each cause its evidence, and what would tell it.

The run shows what the record would be without the cause: what a user, a class or the machine reached in the run, and never in the
record. So nothing is said of a record that is equal to the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.whatif.distance import PROCESSORS, ClassWait, Compared, Distance, uses_of
from cosched_emulator.whatif.machine_use import FloatArray, IntArray, Look, MachineUse
from cosched_hwmodel.units import SECOND_US

LIMITS, POOLS, OUTAGES, PRIORITIES, HOLDS = "limits", "pools", "outages", "priorities", "holds"
LEAST: Final = 0.05  # of the wait: a cause that touches less is told only where none touches more
_NOTHING: Final = 0.001  # of the wait, which looks at 4,096 instants cannot tell from none
_FEWEST: Final = 3  # users at one number of jobs, or jobs that come in an outage
_OF_USERS: Final = 0.05  # who ask for more than they get: so many of them, too
_SIGMA: Final = 3  # by which they are more than chance
_PLATEAU: Final = 0.5  # of the wait in which jobs of a class fit: so long it is at its most
_SELDOM: Final = 0.1  # of its wait: that in which they fit; of the wait that is another size's: that which others touch
_LOW: Final = 0.93  # of the usual use of the machine: less is an outage
_POINTS: Final = 4_096  # instants of the log's time
_SHORTEST_US: Final = 3600 * SECOND_US  # outage
_AT_ONCE_US: Final = 60 * SECOND_US
_APART: Final = 1.5  # factor by which the ratio of two classes' waits is another one
_REORDERED: Final = 0.3  # of the pairs of jobs in different classes
_SMALL: Final = 0.01  # of the jobs: a class below is left out
_NAMED: Final = 3


class Cause(NamedTuple):
    """What may have kept jobs waiting that the run does not have."""

    name: str
    share: float  # of the recorded wait that it touches, from 0 to 1
    evidence: str
    tell: str  # the option or file that would tell it

    @property
    def words(self) -> str:
        """Return it in a sentence, without what would tell it."""
        return f"{self.name} ({_percent(self.share)} of the wait): {self.evidence}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"


class Limit(NamedTuple):
    """So many jobs of a user at a time, and the users whose jobs never were more."""

    jobs: int
    users: IntArray  # numbers


class Pool(NamedTuple):
    """A class of jobs that never held more than so many processors."""

    kind: str
    name: str
    processors: int
    in_run: int  # held at most in the run
    asked: int  # with those of jobs that waited


class Outage(NamedTuple):
    """A time in which jobs waited that EASY would have started; in microseconds of the log."""

    begin_us: float
    end_us: float
    missing: int  # processors that were idle, on average, beyond the usual ones
    nothing_ran: bool

    def meets(self, other: Outage) -> bool:
        """Tell whether some time is in both."""
        return self.begin_us < other.end_us and other.begin_us < self.end_us


class Seen(NamedTuple):
    """What the record and the run show, for all causes."""

    distance: Distance
    record: MachineUse
    users: IntArray  # number of each job's user, of the jobs of the record; 0: unknown
    limits: tuple[Limit, ...]
    pools: tuple[Pool, ...]  # of one kind
    outages: tuple[Outage, ...]  # that the run does not have
    limit_share: float
    pool_share: float
    outage_share: float
    rest_share: float  # EASY would have started the job, and none of these tells why not: more than in the run


def seen_of(compared: Compared, distance: Distance) -> Seen:
    """Return what the record and the run show."""
    record, run = uses_of(compared)
    names = np.array(compared.classes.get("user", [""] * len(compared.size)))
    _, users = np.unique(np.concatenate([[""], names]), return_inverse=True)
    in_record, in_run = users[1:][record.rows], users[1:][run.rows]
    most = record.most_at_once(in_record)
    asked = record.most_at_once(in_record, asked=True)
    limits = tuple(_limits(most, run.most_at_once(in_run), asked))
    allowed = np.full(len(most), len(record.size) + 1)
    for limit in limits:
        allowed[limit.users] = np.minimum(allowed[limit.users], limit.jobs)
    pools, classes = _pools(compared, record, run)
    caps = np.array([pool.processors for pool in pools], dtype=np.int64)
    why = _Reasons(record, in_record, allowed, classes, caps)
    known = tuple(_outages(run, _Reasons.none(run)))
    outages = tuple(one for one in _outages(record, why) if not any(each.meets(one) for each in known))
    shares = why.shares(outages, known)
    rest = shares[3] - _Reasons.none(run).shares((), known)[3]
    return Seen(distance, record, in_record, limits, pools, outages, *shares[:3], rest)


class _Reasons(NamedTuple):
    """Why a job that waits, and fits, is not started: its user is at a limit, or its class at its most."""

    use: MachineUse
    users: IntArray
    most: IntArray  # by user
    classes: IntArray
    caps: IntArray  # by class

    @classmethod
    def none(cls, use: MachineUse) -> _Reasons:
        """Return no reason at all."""
        nobody = np.zeros(len(use.size), dtype=np.int64)
        return cls(use, nobody, nobody[:1] + len(nobody) + 1, nobody - 1, nobody[:0])

    def at_limit(self, look: Look) -> NDArray[np.bool_]:
        """Tell of each job that waits whether its user's jobs that run, and wait before it, are as many as ever ran."""
        now = np.bincount(self.users[look.running], minlength=len(self.most))
        whose = self.users[look.queue]
        order = np.argsort(whose, kind="stable")
        first = np.searchsorted(whose[order], whose)
        before = np.empty(len(whose), dtype=np.int64)
        before[order] = np.arange(len(whose)) - first[order]
        found: NDArray[np.bool_] = now[whose] + before >= self.most[whose]
        return found

    def at_cap(self, look: Look) -> NDArray[np.bool_]:
        """Tell of each job that waits whether its class would hold more processors than ever."""
        if not len(self.caps):
            return np.zeros(len(look.queue), dtype=np.bool_)
        running = look.running[self.classes[look.running] >= 0]
        now = np.bincount(self.classes[running], weights=self.use.size[running], minlength=len(self.caps))
        own = self.classes[look.queue]
        found: NDArray[np.bool_] = (own >= 0) & (now[own] + self.use.size[look.queue] > self.caps[own])
        return found

    def rest(self, look: Look) -> IntArray:
        """Return the places of the jobs that EASY would start, and neither tells why not."""
        told = self.at_limit(look) | self.at_cap(look)
        return look.startable[~told[look.startable]]

    def rest_beside(self, look: Look, out: int, until_us: float) -> IntArray:
        """Return likewise those that EASY would start with ``out`` processors out of service until then."""
        told = self.at_limit(look) | self.at_cap(look)
        started = self.use.startable(look, out, until_us)
        return started[~told[started]]

    def shares(self, outages: tuple[Outage, ...], known: tuple[Outage, ...]) -> tuple[float, float, float, float]:
        """Return the shares of the wait at a limit, at a cap, in an outage, and held without any of them, or of the ``known`` ones."""
        sums, points = np.zeros(4), 0
        for look, count in self.use.looks_by_wait():
            out, over = (any(one.begin_us <= look.at_us < one.end_us for one in each) for each in (outages, known))
            parts = (
                self.at_limit(look),
                self.at_cap(look),
                np.full(len(look.queue), out),
                () if out or over else self.rest(look),
            )
            shares = [float(np.count_nonzero(part)) for part in parts[:3]] + [float(len(parts[3]))]
            sums += count * np.array(shares) / len(look.queue)
            points += count
        limit, cap, outage, rest = (sums / max(points, 1)).tolist()
        return limit, cap, outage, rest


# ---------------------------------------------------------------- limits by user


def _limits(most: IntArray, in_run: IntArray, asked: IntArray) -> Iterator[Limit]:
    """Yield the numbers of jobs at which users stop, though they asked for more, and had it in the run.

    One that no user exceeds is everybody's; of others, those at which more users stop than at those beside it.
    """
    wanting = np.flatnonzero(asked > most)
    wanting = wanting[wanting > 0]  # 0 is no user
    counts = np.bincount(most[wanting], minlength=int(most.max(initial=0)) + 2)
    highest, of_all = int(most[1:].max(initial=0)), False
    for jobs in np.flatnonzero(counts >= max(_FEWEST, _OF_USERS * len(wanting))).tolist()[::-1]:
        beside = (counts[jobs - 1] + counts[jobs + 1]) / 2 if jobs > 1 else counts[jobs + 1]
        users = wanting[most[wanting] == jobs]
        if 2 * np.count_nonzero(in_run[users] > jobs) < len(users):
            continue
        if jobs == highest:
            of_all = True
            yield Limit(jobs, np.arange(1, len(most)))
        elif of_all and jobs + 1 == highest:  # who seldom asks for much stops just below it
            continue
        elif counts[jobs] - beside >= _SIGMA * max(1.0, beside) ** 0.5:
            yield Limit(jobs, users)


def _of_limits(seen: Seen) -> Cause | None:
    if not seen.limits:
        return None
    users = int(np.count_nonzero(np.unique(seen.users)))
    told = " and ".join(
        f"{len(one.users)} of {users} users never ran more than {one.jobs} job{'s' * (one.jobs > 1)} at once"
        for one in sorted(seen.limits, key=lambda one: -len(one.users))[:_NAMED]
    )
    evidence = f"{told}, although they had more pending; under the baseline they ran more"
    return Cause(
        LIMITS, seen.limit_share, evidence, "--facts of `sacctmgr -P show qos` and `show assoc`, or [[limits]]"
    )


# ---------------------------------------------------------------- pools of processors


def _pools(compared: Compared, record: MachineUse, run: MachineUse) -> tuple[tuple[Pool, ...], IntArray]:
    """Return the classes that never held as many processors as in the run, of the kind that most wait is of, and that of each job."""
    best: tuple[float, tuple[Pool, ...], IntArray] = 0.0, (), np.full(len(record.size), -1)
    for kind in ("partition", "queue", "QOS"):
        names = compared.classes.get(kind)
        if names is None or len(set(names)) < 2:
            continue
        distinct, places = np.unique(np.array(names), return_inverse=True)
        own = places[record.rows]
        most = record.most_at_once(own, record.size)
        in_run = run.most_at_once(places[run.rows], run.size)
        asked = record.most_at_once(own, record.size, asked=True)
        found = [
            place
            for place, name in enumerate(distinct.tolist())
            if name and most[place] < min(in_run[place], asked[place]) and 1.05 * most[place] < record.processors
        ]
        pools = [Pool(kind, str(distinct[at]), *(int(each[at]) for each in (most, in_run, asked))) for at in found]
        stays = _plateaus(record, own, pools, found)
        pools = [pool for pool, share in zip(pools, stays, strict=True) if share >= _PLATEAU]
        at_of = {pool.name: place for place, pool in enumerate(pools)}
        classes = np.array([at_of.get(str(name), -1) for name in distinct.tolist()], dtype=np.int64)[own]
        wait = float(np.sum((record.start_us - record.submit_us)[classes >= 0]))
        if pools and wait > best[0]:
            best = wait, tuple(pools), classes
    return best[1:]


def _plateaus(record: MachineUse, own: IntArray, pools: list[Pool], places: list[int]) -> FloatArray:
    """Return for what share of the wait in which its jobs fit each class is at its most; 0 where they seldom do."""
    if not pools:
        return np.zeros(0)
    index = np.full(int(own.max()) + 1, -1)
    index[places] = np.arange(len(places))
    classes = index[own]
    why = _Reasons.none(record)._replace(classes=classes, caps=np.array([pool.processors for pool in pools]))
    waits, fit, full = np.zeros((3, len(pools)))
    for look, count in record.looks_by_wait():
        queue, fits = classes[look.queue], record.size[look.queue] <= look.idle
        share = count / len(queue)
        waits += share * np.bincount(queue[queue >= 0], minlength=len(pools))
        fit += share * np.bincount(queue[(queue >= 0) & fits], minlength=len(pools))
        full += share * np.bincount(queue[why.at_cap(look) & fits], minlength=len(pools))
    return np.where(fit > _SELDOM * waits, full / np.maximum(fit, 1e-9), 0)


def _of_pools(seen: Seen) -> Cause | None:
    if not seen.pools:
        return None
    told = "; ".join(
        f"{pool.kind} {pool.name.removeprefix(f'{pool.kind} ')} never held more than {pool.processors:,} of {seen.record.processors:,} "
        f"processors, though it asked for {pool.asked:,} (baseline: up to {pool.in_run:,})"
        for pool in sorted(seen.pools, key=lambda pool: -pool.asked)[:_NAMED]
    )
    return Cause(POOLS, seen.pool_share, told, "--facts of `scontrol show partition`, or [[partitions]]")


# ---------------------------------------------------------------- outages


def _outages(use: MachineUse, why: _Reasons) -> Iterator[Outage]:
    """Yield the times in which at each look some job could have started, nothing tells why it did not, and less was used than usual."""
    looks = [(time_us, look, len(why.rest(look)) > 0) for time_us, look in use.looks_by_time(_POINTS)]
    if not looks:
        return
    usual = float(np.mean([use.processors - look.idle for _, look, _ in looks]))
    step_us = float(use.now_us[-1] - use.now_us[0]) / _POINTS
    run: list[tuple[float, Look]] = []
    for time_us, look, held in [*looks, (np.inf, looks[-1][1], False)]:
        if held and (not run or time_us - run[-1][0] < 2 * step_us):
            run.append((time_us, look))
            continue
        if len(run) > 2 and run[-1][0] - run[0][0] + step_us >= _SHORTEST_US:
            used = float(np.mean([use.processors - look.idle for _, look in run]))
            looked = [look for _, look in run]
            if used < _LOW * usual and (_all_wait(use, run[0][0], run[-1][0] + step_us) or _on_fewer(why, looked)):
                nothing = any(not len(look.running) for _, look in run)
                yield Outage(run[0][0], run[-1][0] + step_us, round(usual - used), nothing)
        run = [(time_us, look)] if held else []


def _all_wait(use: MachineUse, begin_us: float, end_us: float) -> bool:
    """Tell whether most jobs that come then, and fit, wait; where a few jobs are held, the others start at once."""
    come = np.flatnonzero((use.submit_us >= begin_us) & (use.submit_us < end_us))
    idle = use.idle[np.searchsorted(use.now_us, use.submit_us[come])]
    at_once = use.start_us[come] - use.submit_us[come] < _AT_ONCE_US
    fit = (idle >= use.size[come]) | at_once
    return int(np.count_nonzero(fit)) >= _FEWEST and 2 * int(np.count_nonzero(at_once)) < int(np.count_nonzero(fit))


def _on_fewer(why: _Reasons, looks: list[Look]) -> bool:
    """Tell whether jobs start and wait then as EASY has them on fewer processors: without those that stay idle to the end.

    EASY may know when they return, or not. Jobs that are held for reasons of their own fit beside these processors, too, as soon as
    others end; and those that start instead are not the ones that end before the return.
    """
    use, begin_us, end_us = why.use, looks[0].at_us, looks[-1].at_us
    held = {int(job) for look in looks for job in look.queue[why.rest(look)]}
    begun = np.unique(use.start_us[(use.start_us >= begin_us) & (use.start_us <= end_us)])
    if len(begun) < _FEWEST or len(held) < _FEWEST:
        return False
    first, last = np.searchsorted(use.now_us, [begin_us, end_us])
    stay = np.minimum.accumulate(use.idle[first : last + 1][::-1])[::-1].clip(0)  # from each instant on
    out, out_then = (
        stay[np.searchsorted(use.now_us[first : last + 1], each)].tolist()
        for each in ([look.at_us for look in looks], begun)
    )
    for until_us in (end_us, math.inf):
        still = sum(len(why.rest_beside(look, each, until_us)) > 0 for look, each in zip(looks, out, strict=True))
        if 2 * still < len(looks) and 2 * use.out_of_turn(begun, out_then, until_us) < 1:
            return True
    return False


def _of_outages(seen: Seen) -> Cause | None:
    if not seen.outages:
        return None
    longest = max(seen.outages, key=lambda one: one.end_us - one.begin_us)
    hours, begin = (longest.end_us - longest.begin_us) / 3.6e9, longest.begin_us / 3.6e9
    times = f"{len(seen.outages)} times" if len(seen.outages) > 1 else "once"
    what = (
        "nothing ran on any processor"
        if longest.nothing_ran
        else f"about {longest.missing:,} processors fewer than usual ran jobs"
    )
    evidence = f"{times} jobs that fit did not start for an hour or more; the longest, {hours:,.0f} h from hour {begin:,.0f} on: {what}"
    tell = "--facts of `sacctmgr -P show event` and `scontrol show reservation`, or [[script]]"
    return Cause(OUTAGES, seen.outage_share, evidence, tell)


# ---------------------------------------------------------------- priorities, and what is left


def _reordered(classes: tuple[ClassWait, ...], jobs: int, *, turned: bool) -> tuple[float, ClassWait, ClassWait] | None:
    """Return the share of the pairs of jobs of different classes that wait otherwise beside each other, and two such classes.

    The class that the record is kinder to comes first. ``turned``: only pairs count of which the other one waits longer in the run.
    """
    large = [one for one in classes if one.jobs >= max(_SMALL * jobs, 2)]
    other, every, pairs = 0.0, 0.0, []
    for place, one in enumerate(large):
        for two in large[place + 1 :]:
            weight = float(one.jobs * two.jobs)
            every += weight
            left, right = one.recorded * two.simulated, two.recorded * one.simulated
            order = (one.recorded - two.recorded) * (one.simulated - two.simulated)
            if max(left, right) > _APART * min(left, right) and not (turned and order >= 0):
                other += weight
                pairs.append((weight, one, two) if left < right else (weight, two, one))
    if not pairs:
        return None
    _, first, last = max(pairs, key=lambda each: each[0])
    return other / every, first, last


def _moved(classes: tuple[ClassWait, ...]) -> float:
    """Return the share of all wait that is another class's in the run."""
    parts = np.array([[one.jobs * one.recorded, one.jobs * one.simulated] for one in classes]).reshape(-1, 2)
    if not parts.sum(axis=0).all():
        return 0.0
    recorded, simulated = (parts / parts.sum(axis=0)).T
    return float(np.abs(recorded - simulated).sum()) / 2


def _of_order_alone(seen: Seen, moved: float) -> bool:
    """Tell whether jobs start in another order than EASY's, and nothing else explains that so much wait is another size's.

    Else waits of sizes part where queues are longer, too.
    """
    others = max(seen.limit_share, seen.pool_share, seen.outage_share, seen.rest_share)
    return moved >= LEAST and others <= _SELDOM * moved and _out_of_turn(seen)


def _out_of_turn(seen: Seen) -> bool:
    """Tell whether EASY would not have made some of the starts then."""
    return seen.record.out_of_turn(seen.record.starts()) >= LEAST


def _of_priorities(seen: Seen) -> Cause | None:
    found = []
    for kind, classes in seen.distance.classes.items():
        if kind == "user":  # they differ by chance, too
            continue
        reordered = _reordered(classes, seen.distance.jobs, turned=kind == PROCESSORS)
        if reordered is not None and reordered[0] >= _REORDERED:
            found.append((_moved(classes), kind, reordered))
    sizes = seen.distance.classes.get(PROCESSORS, ())
    if not found and _of_order_alone(seen, _moved(sizes)):
        reordered = _reordered(sizes, seen.distance.jobs, turned=False)
        found = [(_moved(sizes), PROCESSORS, reordered)] if reordered is not None else []
    if not found:
        return None
    share, kind, (others, first, last) = max(found, key=lambda each: each[0])
    label = {PROCESSORS: "jobs of {} processors"}.get(kind, f"{kind} {{}}")
    names = [label.format(each.name.removeprefix(f"{kind} ")) for each in (first, last)]
    evidence = (
        f"{names[0]} waited {first.recorded:,.0f} min and {names[1]} {last.recorded:,.0f}, under the baseline "
        f"{first.simulated:,.0f} and {last.simulated:,.0f}; {100 * others:.0f} % of the pairs of jobs of two classes are reversed so"
    )
    known = max(seen.limit_share, seen.pool_share, seen.outage_share)  # these change the order of classes, too
    tell = "--facts of `scontrol show config` and `sacctmgr -P show qos`, or --policy and --set order"
    return Cause(PRIORITIES, share * (1 - known), evidence, tell)


def _of_holds(seen: Seen) -> Cause | None:
    share = _percent(seen.rest_share)
    evidence = f"for {share} of the wait EASY would have started the job at once, and no other cause was found"
    tell = "`sacct` with SubmitLine and Reason: holds, begin times, dependencies, memory, GPUs"
    return Cause(HOLDS, seen.rest_share, evidence, tell)


CAUSES: Final[Mapping[str, Callable[[Seen], Cause | None]]] = {
    LIMITS: _of_limits,
    POOLS: _of_pools,
    OUTAGES: _of_outages,
    PRIORITIES: _of_priorities,
    HOLDS: _of_holds,
}


def causes_of(seen: Seen) -> tuple[Cause, ...]:
    """Return what most likely explains the distance, by the wait that it touches; empty where run and record are alike."""
    found = [cause for make in CAUSES.values() if (cause := make(seen)) is not None and cause.share >= _NOTHING]
    found.sort(key=lambda cause: -cause.share)
    told = [cause for cause in found if cause.share >= LEAST]
    if not told and any(cause.name == OUTAGES for cause in found) and _out_of_turn(seen):
        # It is over soon, and jobs start so in the whole log.
        found = [cause for cause in found if cause.name != OUTAGES]
    return tuple(told or found[:1])
