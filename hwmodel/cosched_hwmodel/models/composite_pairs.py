"""The composite model as a model of pairs of jobs, on nodes of known shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from cosched_hwmodel.composite.composite_contention import CompositeContention
from cosched_hwmodel.composite.composite_model import Breakdown, CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.pairs import LEAST_SLOWDOWN, MOST_SLOWDOWN, JobFacts, PairModel
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask

_CPU: Final = ("integer slots", "floating slots")
_MOST_KNOWN: Final = 100_000
# Profile and number of processes of the job that is placed first, and of the other one.
_Couple: TypeAlias = tuple[Profile, int, Profile, int]
# Slowdown of the first and of the second, and whether they compete for slots
_Costs: TypeAlias = tuple[float, float, bool]


class CompositePairs(PairModel):
    """`CompositeModel` for jobs whose profiles are known, on the nodes of a machine.

    Where no threads are given, the jobs sit as two jobs do that share whole nodes: the one with the lower number has a
    process on the first thread of each core, the other one on the lowest threads that are left; where cores have one
    thread, each job has half of them. On nodes of several shapes the largest slowdown counts.
    """

    __slots__ = ("_known", "model", "nodes")
    name: Final = "composite"
    by_seat: Final = True

    def __init__(self, model: CompositeModel, nodes: Sequence[NodeShape] = ()) -> None:
        """``nodes`` are the shapes of the machine's nodes; without any, no job is known."""
        self.model = model
        self.nodes = tuple(nodes)
        self._known: dict[_Couple, _Costs] = {}

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> CompositePairs:
        """Return the model of these parameters, without nodes; raises the errors of `CompositeModel.from_parameters`."""
        return cls(CompositeModel.from_parameters(parameters))

    def on_nodes(self, nodes: Sequence[NodeShape]) -> CompositePairs:
        """Return the model on nodes of these shapes."""
        return CompositePairs(self.model, tuple(dict.fromkeys(nodes)))

    def knows(self, job: JobFacts) -> bool:
        """Tell whether the job's profile is known, and the nodes are."""
        return job.profile is not None and bool(self.nodes)

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return how many times as long ``job`` takes beside ``other``; inf where a profile is unknown."""
        costs = self._costs(job, other)
        return math.inf if costs is None else costs[0] if job.id <= other.id else costs[1]

    def both(self, job: JobFacts, other: JobFacts) -> float:
        """Return the larger of the two slowdowns; inf where a profile is unknown."""
        costs = self._costs(job, other)
        return math.inf if costs is None else max(costs[0], costs[1])

    def compete(self, job: JobFacts, other: JobFacts) -> bool:
        """Tell whether the two slow each other down by issue slots; False where a profile is unknown."""
        costs = self._costs(job, other)
        return costs is not None and costs[2]

    def own(self, job: JobFacts, cpus: int, cores: int) -> float | None:
        """Return how the job's processes slow each other down, with one on each of ``cores`` cores of ``cpus`` sockets.

        None where the profile is unknown, or a node has fewer.
        """
        profile = job.profile
        if profile is None or not self.nodes:
            return None
        slowest = 0.0
        for node in self.nodes:
            if cpus > node.sockets or cores > node.cores_per_socket:
                return None
            mask = sum(((1 << cores) - 1) << (socket * node.cores_per_socket) for socket in range(cpus))
            (penalty,) = self.model.penalties(node, [Placed(Profile(*profile), cpus * cores, mask)])
            slowest = max(slowest, penalty)
        return 1.0 + slowest

    def slowdown_on(
        self,
        job: JobFacts,
        mask: ThreadMask | int,
        other: JobFacts,
        other_mask: ThreadMask | int,
        *,
        kind: int = 0,
        threads: tuple[int, int] = (1, 1),
    ) -> float:
        """Return the slowdown of ``job`` on these hardware threads of a node while ``other`` is on others of them.

        ``kind`` is the place of the node's shape in `nodes`, ``threads`` those of each process of the two jobs. Inf where a
        profile is unknown. Raises IndexError for threads that the node does not have.
        """
        one, its = job.profile, other.profile
        if one is None or its is None or not self.nodes:
            return math.inf
        mine = Placed(Profile(*one), int(mask).bit_count() // threads[0], mask)
        theirs = Placed(Profile(*its), int(other_mask).bit_count() // threads[1], other_mask)
        return _beside(self.model, self.nodes[kind], mine, theirs)[0]

    def explain(self, job: JobFacts, other: JobFacts, kind: int = 0) -> tuple[Breakdown, Breakdown] | None:
        """Return the penalty of each of two jobs by resource, on a node of this kind; None where a profile is unknown."""
        couple = self._couple(job, other)
        if couple is None:
            return None
        one, its = self.model.explain(self.nodes[kind], seats(self.nodes[kind], couple))
        return (one, its) if job.id <= other.id else (its, one)

    def parts(self, job: JobFacts, other: JobFacts) -> Sequence[tuple[str, float]]:
        """Return what each resource adds to the penalty of ``job`` when ``other`` comes; empty where a profile is unknown."""
        couple = self._couple(job, other)
        if couple is None:
            return ()
        worst: Sequence[tuple[str, float]] = ()
        for node in self.nodes:
            placed = seats(node, couple)
            own = placed[0 if job.id <= other.id else 1]
            (alone,) = self.model.explain(node, (own,))
            together = self.model.explain(node, placed)[0 if job.id <= other.id else 1]
            added = [(name, more - less) for (name, more), (_, less) in zip(together.parts, alone.parts, strict=True)]
            worst = max(worst, added, key=lambda parts: sum([penalty for _, penalty in parts]))
        return worst

    def among(self, jobs: Mapping[int, JobFacts], unknown: float | None = None) -> ContentionModel:  # noqa: ARG002 - no pair is unknown
        """Return the model itself for any number of jobs; one without a profile neither slows nor is slowed."""
        return CompositeContention(self.model, _Profiles(jobs))

    def _couple(self, job: JobFacts, other: JobFacts) -> _Couple | None:
        """Return the two jobs in the order in which they are placed; None where a profile is unknown."""
        if job.profile is None or other.profile is None or not self.nodes:
            return None
        first, second = (job, other) if job.id <= other.id else (other, job)
        assert first.profile is not None
        assert second.profile is not None
        return (Profile(*first.profile), first.processes, Profile(*second.profile), second.processes)

    def _costs(self, job: JobFacts, other: JobFacts) -> _Costs | None:
        couple = self._couple(job, other)
        if couple is None:
            return None
        costs = self._known.get(couple)
        if costs is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = [_beside(self.model, node, *seats(node, couple)) for node in self.nodes]
            costs = (max(each[0] for each in found), max(each[1] for each in found), any(each[2] for each in found))
            self._known[couple] = costs
        return costs


@lru_cache(maxsize=4096)  # each scheduler has a model of its own, which knows nothing yet
def _beside(model: CompositeModel, node: NodeShape, mine: Placed, theirs: Placed) -> _Costs:
    """Return the slowdowns by each other, and whether issue slots are a part of them."""
    together = model.explain(node, (mine, theirs))
    alone = [model.explain(node, (group,))[0] for group in (mine, theirs)]
    ratios = [(1.0 + pair.penalty) / (1.0 + own.penalty) for pair, own in zip(together, alone, strict=True)]
    one, its = [min(max(ratio, LEAST_SLOWDOWN), MOST_SLOWDOWN) for ratio in ratios]
    return one, its, any(_slots(pair) > _slots(own) for pair, own in zip(together, alone, strict=True))


class _Profiles(Mapping[int, Profile]):
    """The profiles of jobs by id, of those that have one."""

    __slots__ = ("_jobs",)

    def __init__(self, jobs: Mapping[int, JobFacts]) -> None:
        self._jobs = jobs

    def __getitem__(self, job_id: int) -> Profile:
        profile = self._jobs[job_id].profile
        if profile is None:
            raise KeyError(job_id)
        return Profile(*profile)

    def __iter__(self) -> Iterator[int]:
        return (job_id for job_id, job in self._jobs.items() if job.profile is not None)

    def __len__(self) -> int:
        return len(list(iter(self)))


def seats(node: NodeShape, couple: _Couple) -> tuple[Placed, Placed]:
    """Return two jobs on the threads of a node that they share: profile and number of processes of each.

    The first one has a process on the first thread of each core, the second on the lowest threads that are left; where cores
    have one thread, each has at most half of them.
    """
    profile, processes, its_profile, its_processes = couple
    most = node.cores if node.threads_per_core > 1 else max(1, node.cores // 2)
    count, its_count = min(processes, most), min(its_processes, most, node.threads - min(processes, most))
    return (Placed(profile, count, (1 << count) - 1), Placed(its_profile, its_count, ((1 << its_count) - 1) << count))


def _slots(breakdown: Breakdown) -> float:
    return sum(part for name, part in breakdown.parts if name in _CPU)
