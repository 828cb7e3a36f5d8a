"""Who slows whom on a node, and through which resource: the penalty of each job, and what of it goes away without another job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.cli.predicting.jobs import Job
from cosched_hwmodel.composite.model import CompositeModel
from cosched_hwmodel.topology import NodeShape

LEAST: Final = 0.0005  # a smaller penalty is not told


class Blame(NamedTuple):
    """The penalty of a job that is gone without the job ``by``, and its parts by resource, the largest first."""

    by: str
    penalty: float
    parts: tuple[tuple[str, float], ...]


class Told(NamedTuple):
    """How many times as long a job takes as one process alone, through which resources, and because of which jobs.

    The job itself is among ``blames`` where its own processes slow each other down.
    """

    job: Job
    slowdown: float
    parts: tuple[tuple[str, float], ...]
    blames: tuple[Blame, ...]


def tell(model: CompositeModel, node: NodeShape, jobs: Sequence[Job]) -> list[Told]:
    """Return what each job suffers from the others, in their order.

    Parts of several others need not add up to the whole: two that overload a resource together are both to blame for all.
    """
    together = model.explain(node, [job.placed for job in jobs])
    blames: list[list[Blame]] = [[] for _ in jobs]
    for absent, culprit in enumerate(jobs):
        others = [index for index in range(len(jobs)) if index != absent]
        without = model.explain(node, [jobs[index].placed for index in others])
        for index, less in zip(others, without, strict=True):
            whole = together[index]
            parts = _largest((name, part - dict(less.parts)[name]) for name, part in whole.parts)
            if whole.penalty - less.penalty >= LEAST:
                blames[index].append(Blame(culprit.label, whole.penalty - less.penalty, parts))
    for index, job in enumerate(jobs):
        (alone,) = model.explain(node, [job.placed])
        if alone.penalty >= LEAST:
            blames[index].append(Blame(job.label, alone.penalty, _largest(alone.parts)))
    return [
        Told(job, 1.0 + whole.penalty, _largest(whole.parts), tuple(blame))
        for job, whole, blame in zip(jobs, together, blames, strict=True)
    ]


def _largest(parts: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Return the resources with a part that is worth telling, the largest first."""
    return tuple(sorted([part for part in parts if part[1] >= LEAST], key=lambda part: -part[1]))
