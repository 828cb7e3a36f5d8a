"""What binds the jobs of a site beside its nodes: partitions, accounts, and limits on what jobs have at a time.

All of it forbids starts or nodes, so the scheduler need not know it: a partition becomes the nodes of a job (``eligible``) and a
part of its priority; a limit keeps a job from the scheduler until it can start within it (`gate`); jobs of applications that are never
together get marks, which are apart on all nodes (`co_runs.with_apart`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.jobs_in_columns import Jobs, columns_of
from cosched_hwmodel.units import MARK, SECOND_US, NodeSet
from cosched_plugin.common.allocation import Machine, room_on
from cosched_plugin.common.limits import Limit, Limited, accounts_above
from cosched_plugin.common.slurm_notation import ranges_of
from cosched_plugin.common.threads import ranges_in
from cosched_plugin.protocol.messages import JobSpec, NodeClass

NodeRanges: TypeAlias = tuple[tuple[int, int], ...]  # (first, count); none: all nodes
# Further apart than any two priorities that a user or a log may give: a tier comes before them, as Slurm's PriorityTier does.
TIER: Final = 1 << 34
GPU: Final = "gpu"  # name of resources; of a type, `gpu:TYPE`
_ANY: Final = JobSpec(0, 0, 1, 1)


class Partition(NamedTuple):
    """A part of the machine with a name; parts may overlap."""

    name: str
    nodes: NodeRanges = ()
    max_nodes: int | None = None  # of a job
    max_time_us: int | None = None  # of a job's limit
    tier: int = 1
    default: bool = False  # for jobs that name none


class Reservation(NamedTuple):
    """Nodes on which no job may run in [begin, end), when they are out of service; one that runs there when it begins goes on."""

    begin_us: int
    end_us: int
    nodes: NodeRanges = ()

    def forbids(self, spec: JobSpec, now_us: int) -> bool:
        """Return whether a job that started now, before it begins, could still run then."""
        return self.begin_us - spec.longest_us < now_us < self.begin_us


class Rules(NamedTuple):
    """The tables of a site; none of them binds a job."""

    partitions: Mapping[str, Partition] = {}
    parents: Mapping[str, str] = {}  # of accounts
    limits: tuple[Limit, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    apart: frozenset[str] = frozenset()  # applications whose jobs are marked: some are never on a node together


NO_RULES: Final = Rules()


def nodes_of(text: str | None, nodes: int, path: str) -> NodeRanges:
    """Return the ranges of a text; None: all nodes. Raises ConfigurationError."""
    try:
        ranges = () if text is None else ranges_of(text)
    except ValueError as error:
        raise ConfigurationError(path, str(error), repr(text)) from None
    if any(first + count > nodes for first, count in ranges):
        raise ConfigurationError(path, f"nodes from 0 to {nodes - 1}", repr(text))
    return ranges


def binds(workload: Workload) -> bool:
    """Return whether any job of a workload waits for anything but the scheduler."""
    jobs = columns_of(workload.jobs)
    return jobs.knows(jobs.cancel_us) or any(jobs.says(name) for name in ("after", "delay_us", "at_once"))


def named_by_others(jobs: Jobs) -> frozenset[int]:
    """Return the jobs that others wait for."""
    return (
        frozenset({job for after in jobs.each(jobs.after) for _, job in after}) if jobs.says("after") else frozenset()
    )


# The group of a job under a limit: its number, and the user or account that is counted separately.
Group: TypeAlias = tuple[int, str]


class Binding:
    """What binds each job of one machine."""

    def __init__(self, rules: Rules, nodes: Sequence[NodeClass]) -> None:
        self.rules = rules
        self._machine = Machine(nodes)
        self._default = next((each.name for each in rules.partitions.values() if each.default), None)
        self._lowest_tier = min([each.tier for each in rules.partitions.values()], default=0)
        self._groups: dict[tuple[str, str, str, str], tuple[Group, ...]] = {}
        self._eligible: dict[tuple[tuple[str, ...], NodeRanges], NodeRanges] = {}
        self._room: dict[tuple[object, ...], tuple[int, int]] = {}

    def placed(self, job: WorkloadJob) -> WorkloadJob | str:
        """Return a job with its mark, and with the nodes and the priority of its partitions, or why none of them takes it."""
        job = self._marked(job)
        if not self.rules.partitions:
            return job
        spec, refusals = job.spec, []
        names = self._names(job)
        taking = []
        for name in names:
            partition = self.rules.partitions.get(name)
            refusal = f"there is no partition {name}" if partition is None else self._refusal(partition, spec)
            if refusal is None and partition is not None:
                taking.append(partition)
            else:
                refusals.append(refusal or "")
        if not taking:
            return "; ".join(refusals) if names else "it names no partition, and none is the default"
        tier = max(partition.tier for partition in taking) - self._lowest_tier
        spec = spec._replace(eligible=self._nodes_of(taking, spec.eligible), priority=spec.priority + tier * TIER)
        return job._replace(spec=spec, terms=job.terms._replace(partitions=tuple([each.name for each in taking])))

    def _marked(self, job: WorkloadJob) -> WorkloadJob:
        mark, spec = MARK + job.spec.name, job.spec
        if spec.name not in self.rules.apart or any(name == mark for name, _ in spec.resources):
            return job
        return job._replace(spec=spec._replace(resources=(*spec.resources, (mark, 1))))

    def _names(self, job: WorkloadJob) -> tuple[str, ...]:
        """Return the partitions that a job names, else that of its log, else the default."""
        if job.terms.partitions:
            return job.terms.partitions
        if str(job.partition) in self.rules.partitions:
            return (str(job.partition),)
        return () if self._default is None else (self._default,)

    def _refusal(self, partition: Partition, spec: JobSpec) -> str | None:
        if partition.max_nodes is not None and self.fewest_nodes(spec) > partition.max_nodes:
            text = f"{self.fewest_nodes(spec)} nodes wanted, a job of partition {partition.name} has"
            return f"{text} at most {partition.max_nodes}"
        time_us = spec.longest_us
        if partition.max_time_us is not None and time_us > partition.max_time_us:
            text = f"{time_us // SECOND_US} s wanted, a job of partition {partition.name} has"
            return f"{text} at most {partition.max_time_us // SECOND_US} s"
        return None

    def _nodes_of(self, partitions: Sequence[Partition], own: NodeRanges) -> NodeRanges:
        """Return the nodes of these partitions, of which a job may have only its ``own`` if it names any."""
        key = (tuple([each.name for each in partitions]), own)
        found = self._eligible.get(key)
        if found is None:
            every = (
                []
                if any(not each.nodes for each in partitions)
                else [span for each in partitions for span in each.nodes]
            )
            wanted, mine = (self._nodes(ranges) for ranges in (tuple(every), own))
            found = self._eligible[key] = _ranges(wanted & mine, self._machine.nodes) if wanted & mine else own
        return found

    def _nodes(self, ranges: NodeRanges) -> NodeSet:
        return self._machine.eligible(_ANY._replace(eligible=ranges))

    def members(self) -> list[tuple[Partition, NodeSet]]:
        """Return the partitions with their nodes."""
        return [(each, self._nodes(each.nodes)) for each in self.rules.partitions.values()]

    def left_of(self, spec: JobSpec, now_us: int) -> JobSpec | None:
        """Return a job with those of its nodes that reservations leave it if it starts now; None: they leave it no place."""
        taken = 0
        for each in self.rules.reservations:
            if each.forbids(spec, now_us):
                taken |= self._nodes(each.nodes)
        if not taken:
            return spec
        left = NodeSet(self._machine.eligible(spec) & ~taken)
        if not left:
            return None
        spec = spec._replace(eligible=_ranges(left, self._machine.nodes))
        return spec if self._machine.most_processes(spec) >= spec.processes else None

    def next_change_us(self, spec: JobSpec, now_us: int) -> int | None:
        """Return when further nodes are reserved for a job that has not started by then; None: never."""
        span_us = spec.longest_us
        later = [each.begin_us - span_us + 1 for each in self.rules.reservations if each.begin_us - span_us >= now_us]
        return min(later, default=None)

    def fewest_nodes(self, spec: JobSpec) -> int:
        """Return on how many nodes a job runs, at least."""
        return -(-spec.processes // self._room_of(spec)[0])

    def _room_of(self, spec: JobSpec) -> tuple[int, int]:
        """Return the most processes of a job on one of its nodes, at least 1, and the most threads that such a node has."""
        key = (spec.processes, spec.ppn_min, spec.ppn_max, spec.threads_per_process, spec.memory_mb, spec.eligible)
        found = self._room.get(key)
        if found is None:
            may, rooms = self._machine.eligible(spec), [(1, 0)]
            for kind in self._machine.classes:
                room = room_on(spec, kind.threads, kind.threads, kind.memory_mb) if may & ((1 << kind.nodes) - 1) else 0
                rooms += [(room, kind.threads)] if room else []
                may = NodeSet(may >> kind.nodes)
            found = self._room[key] = max(rooms)[0], max([threads for _, threads in rooms])
        return found

    def amounts(self, spec: JobSpec) -> Limited:
        """Return what a job has of what is limited; of nodes the fewest that it can have, of whole ones the largest."""
        room, threads = self._room_of(spec)
        nodes = -(-spec.processes // room)
        gpus = dict(spec.resources).get(GPU, 0) * nodes if spec.resources else 0
        cpus = nodes * threads if spec.exclusive else spec.processes * spec.threads_per_process
        return Limited.of_job(cpus, gpus, nodes)

    def groups(self, job: WorkloadJob) -> tuple[Group, ...]:
        """Return the groups in which a job counts."""
        if not self.rules.limits:
            return ()
        terms = job.terms
        partition = next(iter(terms.partitions), "")
        facts = (job.spec.user, terms.account, terms.qos, partition)
        found = self._groups.get(facts)
        if found is None:
            found = self._groups[facts] = tuple(self._groups_of(*facts))
        return found

    def _groups_of(self, user: str, account: str, qos: str, partition: str) -> Iterator[Group]:
        accounts = set(accounts_above(account, self.rules.parents))
        for number, limit in enumerate(self.rules.limits):
            if (
                limit.user in ("", user)
                and limit.qos in ("", qos)
                and limit.partition in ("", partition)
                and (not limit.account or limit.account in accounts)
            ):
                yield number, {"user": user, "account": account}.get(limit.each, "")

    def too_large(self, job: WorkloadJob) -> str | None:
        """Return why a job can never start within its limits; None if it can."""
        for number, _ in self.groups(job):
            limit = self.rules.limits[number]
            for what, wanted, most in zip(Limited._fields, self.amounts(job.spec), limit.most, strict=True):
                if wanted > most:
                    return f"{wanted} {what} wanted, its limit is {most}"
        return None


def _ranges(bits: int, nodes: int) -> NodeRanges:
    """Return the ranges of a set of nodes; of all ``nodes``: none."""
    return () if bits == (1 << nodes) - 1 else ranges_in(bits)
