"""The models of the LOMARC and the G-LOMARC-TS paper as models of pairs of jobs: of one pair, or of many in arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from cosched_hwmodel.lomarc.lomarc_matrix import c_ppm, slowdowns
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.pairs import Beside, JobColumns, JobFacts, PairModel
from cosched_hwmodel.statistical import StatisticalModel, self_factor
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS, UNKNOWN_USAGE

# The LOMARC model as a model of pairs of jobs: of one pair, or of many in arrays.


class LomarcPairs(PairModel):
    """`LomarcModel` for jobs whose usage is known (LOMARC paper, section 4.1)."""

    __slots__ = ("model",)
    name: Final = "lomarc"
    by_usage: Final = True
    mutual: Final = True

    def __init__(self, model: LomarcModel) -> None:
        self.model = model

    @classmethod
    def from_parameters(cls, parameters: Iterable[tuple[str, object]]) -> LomarcPairs:
        """Return the model of these parameters; raises the errors of `LomarcModel.from_parameters`."""
        return cls(LomarcModel.from_parameters(parameters))

    def knows(self, job: JobFacts) -> bool:
        """Tell whether the job's usage is known."""
        return job.usage is not None

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the slowdown of both; inf where the usage of one is unknown."""
        one, its = job.usage, other.usage
        return math.inf if one is None or its is None else self.model.slowdown(job.id, one, other.id, its)

    def both(self, job: JobFacts, other: JobFacts) -> float:
        """Return the slowdown of both: it is one number."""
        return self.slowdown(job, other)

    def compete(self, job: JobFacts, other: JobFacts) -> bool:
        """Tell whether c of the two is that of a pair that competes (section 6.1); False where the usage of one is unknown."""
        one, its = job.usage, other.usage
        if one is None or its is None:
            return False
        return self.model.c_ppm(job.id, one[0], other.id, its[0]) >= self.model.bad_c_ppm

    def parts(self, job: JobFacts, other: JobFacts) -> Sequence[tuple[str, float]]:
        """Return what the time that both want of each resource adds to the slowdown, and what paging adds beyond that."""
        one, its = job.usage, other.usage
        if one is None or its is None:
            return ()
        cpu, network, disk = [min(a, b) for a, b in zip(one[1:4], its[1:4], strict=True)]
        more_ppm = self.model.c_ppm(job.id, one[0], other.id, its[0]) - WHOLE_PPM
        added = more_ppm * cpu / WHOLE_PPM**2, network / WHOLE_PPM, disk / WHOLE_PPM
        paging = self.slowdown(job, other) - 1.0 - sum(added) if one[4] + its[4] > WHOLE_PPM else 0.0
        return tuple(zip(("cpu", "network", "disk", "paging"), (*added, max(0.0, paging)), strict=True))

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return `both` and `compete` of the job and each of the others, with bit-identical numbers."""
        model, usage, columns = self.model, job.usage or UNKNOWN_USAGE, others.usage
        c = c_ppm(model, job.id, BOUNDS.index(usage[0]), columns)
        return Beside(slowdowns(model, job.id, usage, columns, c), c >= model.bad_c_ppm)


# The statistical model as a model of pairs of jobs: of one pair, or of many in arrays.


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
