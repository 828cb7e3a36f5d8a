"""The statistical model as a model of pairs of jobs: of one pair, or of many in arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from cosched_hwmodel.pairs import Beside, JobColumns, JobFacts, PairModel
from cosched_hwmodel.statistical.model import StatisticalModel
from cosched_hwmodel.statistical.self_slowdown import self_factor


class StatisticalPairs(PairModel):
    """`StatisticalModel` for any two jobs (G-LOMARC-TS paper, section 4.9)."""

    __slots__ = ("model",)
    name: Final = "statistical"

    def __init__(self, model: StatisticalModel) -> None:
        self.model = model

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> StatisticalPairs:
        """Return the model of these parameters; raises the errors of `StatisticalModel.from_parameters`."""
        return cls(StatisticalModel.from_parameters(parameters))

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the slowdown of ``job`` beside ``other`` (SL_cos)."""
        return self.model.coscheduling(job.id, other.id)

    def own(self, job: JobFacts, cpus: int, cores: int) -> float | None:
        """Return the job's own slowdown (SL_sno and SL_scr); 1 where that is not known."""
        return self_factor(job.self_slowdown, cpus, cores)

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return the larger slowdown of the job and each of the others, with bit-identical numbers; no two jobs compete."""
        ids = others.usage.id
        own = np.full(len(ids), job.id, dtype=np.int64)
        larger = np.maximum(self.model.coscheduling_each(own, ids), self.model.coscheduling_each(ids, own))
        return Beside(larger, np.zeros(len(ids), dtype=np.bool_))
