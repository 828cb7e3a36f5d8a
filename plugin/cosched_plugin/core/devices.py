"""Models of pairs on devices, such as GPUs: their contention is by type, and jobs share all of the devices that they have, or none."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import cast

import numpy as np

from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.pairs import Beside, JobColumns, JobFacts, OnGiven, PairModel
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.messages import JobSpec


def on_machine(pairs: PairModel | None, machine: Machine) -> PairModel | None:
    """Return a model as it is on each job's nodes, where it is not the same on all."""
    if pairs is None or len(machine.classes) < 2:
        return pairs
    models = [pairs.on(shape_of(item)) for item in machine.classes]
    return pairs if len(set(map(id, models))) == 1 else ByNodes(pairs, models, machine)


class ByNodes(OnGiven):
    """A model that depends on nodes: two jobs slow each other down as on the nodes that both may have, of several kinds as on any."""

    __slots__ = ("_known", "_machine", "_models", "_pairs")

    def __init__(self, pairs: PairModel, models: Sequence[PairModel], machine: Machine) -> None:
        """``models``: by class of the machine's nodes."""
        super().__init__(pairs)
        self._pairs, self._models, self._machine = pairs, models, machine
        # By the nodes that two jobs may have: the model there; None: they have none in common.
        self._known: dict[tuple[object, object], PairModel | None] = {}

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._pairs.name

    def knows(self, job: JobFacts) -> bool:
        """Tell whether the model knows the job."""
        return self._pairs.knows(job)

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the slowdown on the nodes that both may have; inf where there are none."""
        model = self._here(job, other)
        return inf if model is None else model.slowdown(job, other)

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return the larger slowdowns beside many."""
        models = [self._here(job, other) for other in others.jobs]
        slowdowns = np.full(len(models), inf)
        compete = np.zeros(len(models), dtype=np.bool_)
        for model in {id(model): model for model in models if model is not None}.values():
            told = model.beside(job, others)
            here = np.array([each is model for each in models], dtype=np.bool_)
            slowdowns[here], compete[here] = told.slowdowns[here], told.compete[here]
        return Beside(slowdowns, compete)

    def spread(self, job: JobFacts) -> float | None:
        """Return the job's ratio alone on a half of each node."""
        return (self._here(job, job) or self._pairs).spread(job)

    def _here(self, job: JobFacts, other: JobFacts) -> PairModel | None:
        asks = cast(JobSpec, job).eligible, cast(JobSpec, other).eligible
        if asks not in self._known:
            nodes = self._machine.eligible(cast(JobSpec, job)) & self._machine.eligible(cast(JobSpec, other))
            first, found = 0, list[PairModel]()
            for item, model in zip(self._machine.classes, self._models, strict=True):
                if nodes >> first & ((1 << item.nodes) - 1) and model not in found:
                    found.append(model)
                first += item.nodes
            self._known[asks] = found[0] if len(found) == 1 else self._pairs if found else None
        return self._known[asks]


def with_same_nodes(pairs: PairModel | None, machine: Machine) -> PairModel | None:
    """Return a model that pairs no two jobs of unlike sizes where they would share all of their nodes or none."""
    return SameNodes(pairs, machine) if pairs is not None and machine.same_nodes else pairs


class SameNodes(OnGiven):
    """A model of the pairs that may be together: each has a process a node there, so two jobs on the same nodes are as large."""

    __slots__ = ("_machine", "_pairs")

    def __init__(self, pairs: PairModel, machine: Machine) -> None:
        super().__init__(pairs)
        self._pairs, self._machine = pairs, machine

    @property
    def name(self) -> str:
        """Return the name of what is believed."""
        return self._pairs.name

    @property
    def mutual(self) -> bool:
        """Tell whether two jobs slow each other down alike."""
        return self._pairs.mutual

    def knows(self, job: JobFacts) -> bool:
        """Tell whether the model knows the job."""
        return self._pairs.knows(job)

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the slowdown; inf where the two may not be together."""
        return inf if self._unlike(job, other) else self._pairs.slowdown(job, other)

    def both(self, job: JobFacts, other: JobFacts) -> float:
        """Return the larger slowdown, or inf."""
        return inf if self._unlike(job, other) else self._pairs.both(job, other)

    def slowdown_on(
        self,
        job: JobFacts,
        mask: ThreadMask,
        other: JobFacts,
        other_mask: ThreadMask,
        *,
        kind: int = 0,
        threads: tuple[int, int] = (1, 1),
    ) -> float:
        """Return the slowdown on these threads, or inf."""
        if self._unlike(job, other):
            return inf
        return self._pairs.slowdown_on(job, mask, other, other_mask, kind=kind, threads=threads)

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return the larger slowdowns beside many, inf for those that may not be together."""
        slowdowns, compete = self._pairs.beside(job, others)
        unlike = np.array([self._unlike(job, other) for other in others.jobs], dtype=np.bool_)
        return Beside(np.where(unlike, inf, slowdowns), compete)

    def _unlike(self, job: JobFacts, other: JobFacts) -> bool:
        if job.processes == other.processes:
            return False
        return all(self._machine.shares_sets(cast(JobSpec, each)) for each in (job, other))
