"""The contract of a model of pairs: the slowdowns of two jobs that share nodes.

A scheduler gets such a model as its site's belief. `PairContention` makes one the truth of a node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from cosched_hwmodel.composite.job_profile import ProfileTuple
from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.errors import ContentionError
from cosched_hwmodel.statistical import SelfSlowdown, spread
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask
from cosched_hwmodel.usage import UsageTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cosched_hwmodel.lomarc.lomarc_matrix import UsageColumns

    Bools: TypeAlias = NDArray[np.bool_]
    Floats: TypeAlias = NDArray[np.float64]

LEAST_SLOWDOWN: Final = 1.0  # of a job by another one
MOST_SLOWDOWN: Final = 1000.0
LEAST_OWN: Final = 0.01  # of a job by itself: it may gain when its processes are together


class JobFacts(Protocol):
    """A job as a model may know it: the user's statements for a scheduler; the truth for the hardware."""

    @property
    def id(self) -> int:
        """Return the job's number, above 0."""

    @property
    def user(self) -> str:
        """Return the user of the job; empty if unknown."""

    @property
    def name(self) -> str:
        """Return the job's name; empty if it has none. Jobs of an SWF log are called by the number of their executable."""

    @property
    def processes(self) -> int:
        """Return the number of processes."""

    @property
    def usage(self) -> UsageTuple | None:
        """Return how the job uses its nodes (a `Usage`); None if that is not known."""

    @property
    def self_slowdown(self) -> SelfSlowdown | None:
        """Return how much the job slows itself down, in millionths; None if that is not known."""

    @property
    def demand(self) -> tuple[int, int, int] | None:
        """Return what a process asks of its node, in MB/s: memory bandwidth, network, disk; None if that is not known."""

    @property
    def profile(self) -> ProfileTuple | None:
        """Return what a process asks of all of its node (a `composite.profile.Profile`); None if that is not known."""


class JobColumns(Protocol):
    """Many jobs: as objects, made on request, or as columns."""

    @property
    def jobs(self) -> Sequence[JobFacts]:
        """Return the jobs."""

    @property
    def usage(self) -> UsageColumns:
        """Return the ids of the jobs and how they use their nodes, `UNKNOWN_USAGE` where that is not known."""


class Beside(NamedTuple):
    """A model's answers about one job and many others, in their order.

    Entries of jobs that the model does not know, and of the job itself, have no meaning.
    """

    slowdowns: Floats  # one number for the two, as `PairModel.both`
    compete: Bools  # whether they compete, as `PairModel.compete`


class PairModel(Protocol):
    """A model of two jobs that share nodes: pure functions of the jobs.

    Your own model needs only `slowdown`. It need not inherit from this class; it may define any other method.
    """

    @property
    def name(self) -> str:
        """Return the model's name, as scenario files and the protocol's belief give it."""

    @property
    def by_usage(self) -> bool:
        """Tell whether the model depends on the jobs' usage of their nodes.

        If so, LOMARC's constraints on a pair's bounds and memory apply (LOMARC paper, section 5.1).
        """
        return False

    @property
    def mutual(self) -> bool:
        """Tell whether two jobs slow each other down alike: then `slowdown` of either by the other is `both`."""
        return False

    def on_nodes(self, nodes: Sequence[NodeShape]) -> PairModel:  # noqa: ARG002 - for models that depend on nodes
        """Return the model for a machine with nodes of these shapes; only models that ship with the package are asked."""
        return self

    def on(self, node: NodeShape) -> PairModel:  # noqa: ARG002 - for models that depend on nodes
        """Return the model on nodes of one shape; only models that ship with the package are asked."""
        return self

    def knows(self, job: JobFacts) -> bool:  # noqa: ARG002 - for models that know some jobs only
        """Tell whether the model knows this job; an unknown job shares no nodes."""
        return True

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return how many times as long ``job`` takes while ``other`` is on its nodes: 1 to 1000, or inf where unknown.

        The job's own slowdown is not counted.
        """

    def told(self, job: JobFacts, other: JobFacts) -> float | None:
        """Return what the site says of ``job`` beside ``other``, where `slowdown` corrects that; None where it says nothing."""
        slowdown = self.slowdown(job, other)
        return slowdown if slowdown < math.inf else None

    @property
    def by_seat(self) -> bool:
        """Tell whether the slowdown depends on the hardware threads that the two hold on a node: then `slowdown_on` counts."""
        return False

    def slowdown_on(
        self,
        job: JobFacts,
        mask: ThreadMask,  # noqa: ARG002 - for models that tell seats apart
        other: JobFacts,
        other_mask: ThreadMask,  # noqa: ARG002 - for models that tell seats apart
        *,
        kind: int = 0,  # noqa: ARG002 - for models that tell seats apart
        threads: tuple[int, int] = (1, 1),  # noqa: ARG002 - for models that tell seats apart
    ) -> float:
        """Return `slowdown` where ``job`` holds the hardware threads ``mask`` of a node, and ``other`` holds ``other_mask``.

        ``kind`` is the place of the node's shape among the different shapes of the machine, ``threads`` those of each process of the
        two jobs.
        """
        return self.slowdown(job, other)

    def parts(self, job: JobFacts, other: JobFacts) -> Sequence[tuple[str, float]]:  # noqa: ARG002 - for models with resources
        """Return what each resource adds to the slowdown of ``job`` beside ``other``: (name, penalty); empty if that is not known."""
        return ()

    def both(self, job: JobFacts, other: JobFacts) -> float:
        """Return one number for the two, as LOMARC needs it: the larger of the two slowdowns."""
        return max(self.slowdown(job, other), self.slowdown(other, job))

    def own(self, job: JobFacts, cpus: int, cores: int) -> float | None:  # noqa: ARG002 - for models that know it
        """Return how many times as long ``job`` takes than with one process a node; None if the model has no answer.

        Its processes on a node lie on ``cpus`` CPUs, at most ``cores`` of them on one.
        """
        return None

    def spread(self, job: JobFacts) -> float | None:  # noqa: ARG002 - for models that know it
        """Return how many times as long ``job`` takes alone on half of each of twice the nodes, than on all of its nodes.

        None: where it sits has no effect. Usually below 1, as a spread job has more bandwidth and cache.
        """
        return None

    def among(self, jobs: Mapping[int, JobFacts], unknown: float | None = None) -> ContentionModel:
        """Return the contention of any number of ``jobs`` on a node: by default, a `PairContention` with these arguments."""
        return PairContention(self, jobs, unknown)

    def compete(self, job: JobFacts, other: JobFacts) -> bool:  # noqa: ARG002 - for models that know it
        """Tell whether the two compete for the same parts of a CPU; False if the model does not cover it."""
        return False

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return `both` and `compete` of ``job`` and each of the others; the job itself, if it is among them, is skipped."""
        import numpy as np  # noqa: PLC0415  (a command's start-up must not pay for it)

        jobs = others.jobs
        own = job.id
        slowdowns = [math.inf if other.id == own else self.both(job, other) for other in jobs]
        compete = [other.id != own and self.compete(job, other) for other in jobs]
        return Beside(np.array(slowdowns, dtype=np.float64), np.array(compete, dtype=np.bool_))


class OnGiven(PairModel):
    """A model that replaces what the site says of slowdowns; all else is as the site's model says, if there is one."""

    __slots__ = ("_given",)

    def __init__(self, given: PairModel | None) -> None:
        self._given = given

    @property
    def by_usage(self) -> bool:
        """Tell whether the constraints on bounds and memory apply."""
        return self._given is not None and self._given.by_usage

    @property
    def by_seat(self) -> bool:
        """Tell whether hardware threads count."""
        return self._given is not None and self._given.by_seat

    def parts(self, job: JobFacts, other: JobFacts) -> Sequence[tuple[str, float]]:
        """Return what each resource adds."""
        return () if self._given is None else self._given.parts(job, other)

    def own(self, job: JobFacts, cpus: int, cores: int) -> float | None:
        """Return the job's slowdown by itself."""
        return None if self._given is None else self._given.own(job, cpus, cores)

    def spread(self, job: JobFacts) -> float | None:
        """Return the job's ratio alone on a half of each node."""
        return None if self._given is None else self._given.spread(job)

    def compete(self, job: JobFacts, other: JobFacts) -> bool:
        """Tell whether the two compete for parts of a CPU."""
        return self._given is not None and self._given.compete(job, other)


def known_slowdown(model: PairModel | None, job: JobFacts, other: JobFacts) -> float:
    """Return what a model says of a job beside another one; inf where it says nothing."""
    if model is None or not (model.knows(job) and model.knows(other)):
        return math.inf
    return model.slowdown(job, other)


class PairContention:
    """A model of pairs as the contention of a node's jobs: the penalties by each of the others are summed."""

    __slots__ = ("_by_seat", "_jobs", "_model", "_unknown")

    def __init__(self, model: PairModel, jobs: Mapping[int, JobFacts], unknown: float | None = None) -> None:
        """``jobs`` is by job id and may grow; a job that it lacks neither slows nor is slowed.

        ``unknown``: the slowdown of two known jobs for which the model has no finite one; None: there must be one.
        """
        self._model = model
        self._by_seat = model.by_seat
        self._jobs = jobs
        self._unknown = unknown

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model.name

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return for each load the sum of slowdown - 1 over the others, times its own slowdown where the model gives one.

        Where the model gives the job's spread, a job on at most half of the node's hardware threads has it as a further
        factor, and another job counts by its threads: in full from half of the node's on.

        A job that the model does not know neither slows nor is slowed. Raises ContentionError for two known jobs
        without a finite slowdown, and IndexError for threads that the node does not have.
        """
        model = self._model.on(node)
        jobs = [self._jobs.get(load.job_id) for load in loads]
        known = [job if job is not None and model.knows(job) else None for job in jobs]
        result = []
        for load, job, subject in zip(loads, jobs, known, strict=True):
            own = None if job is None else model.own(job, *spread(node, load.thread_mask))
            spread_factor = None if subject is None else model.spread(subject)
            # The exact sum, rounded once: no order of the loads can change it.
            cost = math.fsum(
                [
                    self._cost(model, subject, load, other, beside)
                    * (1.0 if spread_factor is None else half_share(node, beside.thread_mask))
                    for beside, other in zip(loads, known, strict=True)
                    if subject is not None and other is not None and other is not subject
                ]
            )
            if spread_factor is not None and 2 * load.thread_mask.bit_count() <= node.threads:
                own = spread_factor * (1.0 if own is None else own)
            result.append(cost if own is None else own * (1.0 + cost) - 1.0)
        return result

    def _cost(self, model: PairModel, job: JobFacts, load: Load, other: JobFacts, its: Load) -> float:
        """Return the penalty of ``job`` by ``other``: slowdown - 1."""
        on_seats = self._by_seat
        masks = load.thread_mask, its.thread_mask
        slowdown = model.slowdown_on(job, masks[0], other, masks[1]) if on_seats else model.slowdown(job, other)
        return slowdown - 1.0 if slowdown < math.inf else self._unknown_cost(job, other)

    def _unknown_cost(self, job: JobFacts, other: JobFacts) -> float:
        if self._unknown is None:
            text = f"slowdown of job {job.id} beside job {other.id}: expected a finite number, as the hardware has one, got inf"
            raise ContentionError(self.name, text)
        return self._unknown - 1.0


def half_share(node: NodeShape, thread_mask: ThreadMask) -> float:
    """Return these hardware threads as a share of half of the node's, at most 1."""
    return min(1.0, 2 * thread_mask.bit_count() / node.threads)
