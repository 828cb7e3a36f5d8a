"""Limits of Slurm that no scheduler is told of: of users, accounts, QOS and licences.

slurmdbd tells what QOS and associations let jobs have at a time (`KnownLimits`). What runs counts, then what waits, in order: a job for
which there is no room is held for the scheduler, so that no start is planned that Slurm would refuse (`Room`). Slurm stays the judge:
where less is known here than there, a start fails; where more was forbidden, a job would never start, so doubts are for the job.

Others Slurm alone counts, and says so once a job has been placed: its reason is AssocGrpMemLimit, say. Such a job is held again, and
set aside (`Limits`). Each end of a job with the same user, account, QOS or licence lets the first of those that wait try again, and
each start of one that has tried lets the next: so no end costs more than one attempt that fails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.limits import (
    LIMIT_REASONS,
    NO_LIMIT,
    TRES,
    UNBOUND,
    Association,
    Limit,
    Limited,
    Qos,
    Usage,
    accounts_above,
)
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.site.snapshots import PENDING, PolledJob
from cosched_plugin.slurm.records import SlurmJob

RETRY_US: Final = 600 * SECOND_US  # the longest time that a job is set aside: an operator may have raised the limit
_LIMITS: Final = re.compile(r"QOS|Assoc|Account|Invalid(Account|QOS)|Max\w+PerAccount|MaxGRES|Licenses")
# No end of another job helps against these: what the job asks for is above a limit by itself, or it may not be there at all.
_FOR_EVER: Final = re.compile(r"PerJob|PerNode|Min|NotAllowed|Invalid|Wall|Time|Threshold")
_ONE_FOR_ONE: Final = re.compile(r"Jobs")  # limits of numbers of jobs: one end makes room for one


class Limits:
    """The jobs that are set aside, by the protocol's number."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[str, int]] = {}  # the reason, and until when
        self._asks: dict[int, tuple[object, ...]] = {}  # what those jobs ask for
        self._tried: dict[int, str] = {}  # jobs that may try again, and the reason why they had not started
        self._on_nodes: Mapping[int, SlurmJob] = {}  # at the last poll, by Slurm's number

    def set_aside(self, number: int, reason: str, now_us: int) -> bool:
        """Set a job aside that did not start in time, if that is for a limit."""
        self._tried.pop(number, None)
        if not _LIMITS.match(reason):
            return False
        self._waiting[number] = reason, now_us + RETRY_US
        self._asks.pop(number, None)
        return True

    def words(self, number: int) -> str:
        """Return why a job is set aside; empty if it is not."""
        reason = self._waiting.get(number, ("", 0))[0]
        if not reason:
            return ""
        until = "its user must change it" if _FOR_EVER.search(reason) else "until a job that counts for the limit ends"
        return f"{reason}: {until}"

    def due_us(self) -> Iterable[int]:
        """Return when jobs may try again although nothing has ended."""
        return [until_us for _, until_us in self._waiting.values()]

    def look(self, on_nodes: Mapping[int, SlurmJob], records: Mapping[int, SlurmJob], now_us: int) -> None:
        """Let jobs try again for which something has ended since the last poll, or that ask for something else by now."""
        ended = [job for number, job in self._on_nodes.items() if number not in on_nodes]
        self._on_nodes = on_nodes
        self._waiting = {
            number: each
            for number, each in self._waiting.items()
            if number in records and now_us < each[1] and not self._has_changed(number, records[number])
        }
        self._asks = {number: asks for number, asks in self._asks.items() if number in self._waiting}
        started = [number for number in self._tried if number not in records or records[number].job_id in on_nodes]
        for number in started:
            reason = self._tried.pop(number)
            if number in records and not _ONE_FOR_ONE.search(reason):
                ended.append(records[number])
        for job in ended:
            self._let_one_try(job, records)

    def _has_changed(self, number: int, job: SlurmJob) -> bool:
        if not job.held:  # it is as it was placed
            return False
        wishes = (job.limit_min, job.node_count, job.tasks, job.cpus, job.memory_per_node, job.memory_per_cpu)
        asks = (job.account, job.qos, job.partition, *wishes, job.per_node, job.per_job, job.licences)
        return self._asks.setdefault(number, asks) != asks

    def _let_one_try(self, ended: SlurmJob, records: Mapping[int, SlurmJob]) -> None:
        for number, (reason, _) in sorted(self._waiting.items()):
            if not _FOR_EVER.search(reason) and _shares(records[number], ended, reason):
                del self._waiting[number]
                self._tried[number] = reason
                return


def _shares(job: SlurmJob, ended: SlurmJob, reason: str) -> bool:
    """Return whether the end of a job may make room for another one."""
    if reason == "Licenses":
        return not {name for name, _ in job.licences or ()}.isdisjoint(name for name, _ in ended.licences or ())
    return (
        job.user == ended.user
        or (job.account, job.qos) == (ended.account, ended.qos)
        or (bool(job.account) and job.account == ended.account)
        or (bool(job.qos) and job.qos == ended.qos)
    )


def hold_beyond_arrays(
    polled: dict[int, PolledJob], records: Mapping[int, SlurmJob], running: Mapping[int, int]
) -> None:
    """Hold those pending tasks for which their arrays' `%N` leaves no room now; ``running`` counts the others by array."""
    taken = Counter(running)
    for number in sorted(number for number, job in records.items() if job.most_tasks):
        job, each = records[number], polled.get(number)
        if each is not None and each.state == PENDING and not each.held:
            if taken[job.array_id] >= job.most_tasks:
                polled[number] = each._replace(held=True)
            taken[job.array_id] += 1


# ---------------------------------------------------------------- limits that are known


class Facts(NamedTuple):
    """What of a job says which limits bind it."""

    user: str
    account: str
    qos: str
    partition: str  # empty where it may be in several: Slurm alone knows which
    partition_qos: str


Key: TypeAlias = tuple[str, ...]  # of jobs that count together


class KnownLimits:
    """The QOS and associations of a cluster."""

    def __init__(self, qos: Iterable[Qos], associations: Sequence[Association]) -> None:
        self._qos = {each.name: each for each in qos}
        self._accounts = {each.account: each for each in associations if not each.user}
        self._users = {(each.account, each.user, each.partition): each for each in associations if each.user}
        self._parents = {name: each.parent for name, each in self._accounts.items()}
        self._found: dict[Facts, tuple[tuple[Key, Limit], ...]] = {}

    def of(self, facts: Facts) -> tuple[tuple[Key, Limit], ...]:
        """Return the groups in which a job counts, and what binds it there."""
        found = self._found.get(facts)
        if found is None:
            found = self._found[facts] = tuple(self._of(facts))
        return found

    # As acct_policy.c of Slurm 24.11 to 26.05: the first QOS that bounds an amount is the one that counts, and takes the place of what
    # associations say of it; a number of jobs of each user or account takes that of MaxJobs.
    def _of(self, facts: Facts) -> Iterator[tuple[Key, Limit]]:
        mine = [self._qos[name] for name in dict.fromkeys((facts.partition_qos, facts.qos)) if name in self._qos]
        if mine and mine[-1].first:
            mine.reverse()
        bound: set[tuple[str, int]] = set()
        for qos in mine:
            for each, most in (("", qos.together), ("user", qos.of_user), ("account", qos.of_account)):
                if most != NO_LIMIT:
                    who = {"user": facts.user, "account": facts.account}.get(each, "")
                    yield ("qos", qos.name, each, who), Limit(_without(most, each, bound), each, qos=qos.name)
                    bound |= {(each, number) for number, value in enumerate(most) if value != UNBOUND}
        factor = next((qos.factor for qos in mine if qos.factor is not None), 1.0)
        yield from self._of_associations(facts, bound, factor)

    def _of_associations(self, facts: Facts, bound: set[tuple[str, int]], factor: float) -> Iterator[tuple[Key, Limit]]:
        user = self._users.get((facts.account, facts.user, facts.partition)) or self._users.get(
            (facts.account, facts.user, "")
        )
        own = [] if user is None else [user]
        if user is not None and user.each_jobs != UNBOUND:
            most = NO_LIMIT if {("user", 0), ("account", 0)} & bound else Limited(user.each_jobs)
            yield ("each", *user[:2], user.partition), Limit(most, "user", user.user, user.account)
        above = accounts_above(facts.account, self._parents)
        for one in [*own, *[self._accounts[name] for name in above if name in self._accounts]]:
            if one.together != NO_LIMIT:
                most = Limited(one.together.jobs, *[_times(value, factor) for value in one.together[1:]])
                key = ("association", *one[:2], one.partition)
                yield key, Limit(_without(most, "", bound), user=one.user, account=one.account)


def _without(most: Limited, each: str, bound: set[tuple[str, int]]) -> Limited:
    return Limited(*[UNBOUND if (each, number) in bound else value for number, value in enumerate(most)])


def _times(value: int, factor: float) -> int:
    return value if value == UNBOUND else int(value * factor)


class Room:
    """What the limits leave, while the jobs of a poll are counted."""

    def __init__(self, limits: KnownLimits) -> None:
        self._limits = limits
        self._usage: dict[Key, Usage] = {}
        self._nodes: dict[Key, set[str]] = {}  # a node counts once, however many jobs are on it

    def count(self, facts: Facts, counts: Limited, nodes: Iterable[str] = ()) -> None:
        """Count a job, on some nodes if that is known."""
        for key, _ in self._limits.of(facts):
            more = counts
            if nodes:
                there = self._nodes.setdefault(key, set())
                before = len(there)
                there.update(nodes)
                more = counts._replace(nodes=len(there) - before)
            self._usage.setdefault(key, Usage()).count(more, 1)

    # A further job may go to nodes that count already; on which it will be is not known, so it counts as if it had others.
    def take(self, facts: Facts, counts: Limited) -> str:
        """Count a job that waits, where there is room for it; else return Slurm's word for why there is none."""
        for key, limit in self._limits.of(facts):
            lacks = self._usage.setdefault(key, Usage()).lacks(counts, limit.most)
            if lacks is not None:
                return limit.reason(lacks)
        self.count(facts, counts)
        return ""


def counts_of(job: SlurmJob) -> Limited:
    """Return what a job has that Slurm has started."""
    cpus, gpus, nodes = [job.allocated.get(name, 0) for name in TRES]
    return Limited.of_job(cpus, gpus, nodes)


def counts_to_be(job: SlurmJob, spec: JobSpec, threads_per_core: int, node_cores: int) -> Limited:
    """Return what a job will have that is to start, or less; ``node_cores``: of each node that it has alone, else 0."""
    nodes, gpus = -(-spec.processes // spec.ppn_max), dict(job.per_job or ()).get("gpu", 0)
    # As in `laid_out`: Slurm counts all threads of its cores, unless it asks for one of each.
    threads = 1 if job.threads_per_core == 1 else threads_per_core
    cpus = threads * max(nodes * node_cores, spec.processes * spec.threads_per_process)
    if not node_cores and spec.processes == nodes < job.tasks:  # planned as if all nodes had as much as the fullest
        cpus = max(job.cpus, nodes * threads)
    return Limited.of_job(cpus, gpus or nodes * dict(spec.resources).get("gpu", 0), nodes)


def in_words(reason: str) -> str:
    """Return one of Slurm's words, and what it means."""
    return f"{reason}: {LIMIT_REASONS.get(reason, 'a limit is reached')}"
