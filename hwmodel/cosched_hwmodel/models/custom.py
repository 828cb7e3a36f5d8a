"""Contention models of others: a class given as ``module:Class``, or by an entry point of an installed package.

A class with a method ``slowdown`` is a model of pairs (`PairModel`); one with ``penalties`` is a `ContentionModel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Final, NamedTuple, cast

from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.errors import RAISED_OUTSIDE, ContentionError, UnknownNameError, from_outside, raised_by_a_signal
from cosched_hwmodel.models.importing import NamedImportError, import_named, installed
from cosched_hwmodel.pairs import (
    LEAST_OWN,
    LEAST_SLOWDOWN,
    MOST_SLOWDOWN,
    Beside,
    JobColumns,
    JobFacts,
    PairContention,
    PairModel,
)
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask

ENTRY_POINTS: Final = "cosched.contention"
_RANGE: Final = f"a number from {LEAST_SLOWDOWN:g} to {MOST_SLOWDOWN:g}"


def installed_models() -> dict[str, str]:
    """Return the contention models that packages have installed: name -> ``module:Class``."""
    return {name: path for path, name in installed(ENTRY_POINTS).items()}


class CustomModel(NamedTuple):
    """A class that makes contention models."""

    name: str  # as requested
    make: Callable[..., object]

    @property
    def is_truth_only(self) -> bool:
        """Tell whether its models are of nodes (``penalties``), not of pairs of jobs."""
        return callable(getattr(self.make, "penalties", None))

    @property
    def pair_factory(self) -> Callable[[Iterable[tuple[str, object]]], PairModel]:
        """Return the maker of models of pairs; of a class that makes models of nodes, of models that know no pair of jobs."""
        return self._make_pairless if self.is_truth_only else self.make_pairs

    def _make_pairless(self, parameters: Iterable[tuple[str, object]]) -> PairModel:
        given = tuple(parameters)
        self._make_nodes(given, {})  # an error in the parameters is found now
        return _Pairless(self.name, lambda jobs: self._make_nodes(given, jobs))

    def make_pairs(self, parameters: Iterable[tuple[str, object]]) -> PairModel:
        """Return a model of pairs with these parameters, whose answers are checked; raises ContentionError."""
        made = self._call(dict(parameters))
        if not callable(getattr(made, "slowdown", None)):
            raise ContentionError(self.name, "it has no method slowdown(job, other)")
        return CustomPairs(self.name, made)

    def make_truth(self, parameters: Iterable[tuple[str, object]], jobs: Mapping[int, JobFacts]) -> ContentionModel:
        """Return the contention of nodes with ``jobs`` by id, which may grow; raises ContentionError."""
        if self.is_truth_only:
            return self._make_nodes(parameters, jobs)
        return PairContention(self.make_pairs(parameters), jobs)

    def _make_nodes(self, parameters: Iterable[tuple[str, object]], jobs: Mapping[int, JobFacts]) -> ContentionModel:
        """Return a model of nodes with these parameters, and ``jobs`` by id, whose answers are checked; raises ContentionError."""
        given = dict(parameters)
        if "jobs" in given:
            raise ContentionError(self.name, "jobs is no parameter: it stands for the jobs by id")
        return _CustomContention(self.name, cast("ContentionModel", self._call({**given, "jobs": jobs})))

    def _call(self, arguments: Mapping[str, object]) -> object:
        with from_outside(partial(ContentionError, self.name)):
            return self.make(**arguments)


def load_model(name: str, known: Iterable[str] = ()) -> CustomModel:
    """Return the class of a model of others: ``module:Class``, or the name of an entry point.

    ``known`` are further names, for the error. Raises UnknownNameError for an unknown name, ContentionError for
    a module that cannot be imported, or has no such class.
    """
    try:
        if ":" in name:
            loaded = import_named(name)
        else:
            models = installed_models()
            if name not in models:
                raise UnknownNameError("contention model", name, [*known, *models])
            loaded = import_named(models[name])
    except NamedImportError as error:
        raise ContentionError(name, str(error)) from error
    if not callable(loaded):
        raise ContentionError(name, f"expected a class, got {loaded!r}")
    return CustomModel(name, loaded)


class CustomPairs(PairModel):
    """A model of pairs of others: missing methods are completed, its answers are checked."""

    __slots__ = (
        "_beside",
        "_both",
        "_compete",
        "_knows",
        "_own",
        "_parts",
        "_slowdown",
        "_slowdown_on",
        "_spread",
        "by_seat",
        "by_usage",
        "name",
    )
    name: str
    by_usage: bool
    by_seat: bool

    def __init__(self, name: str, model: object) -> None:
        """``model`` has at least a method ``slowdown(job, other)``."""
        given: Any = model
        self.name = name
        self.by_usage = bool(getattr(model, "by_usage", False))
        self.by_seat = bool(getattr(model, "by_seat", False))
        self._slowdown: Callable[..., object] = given.slowdown
        self._slowdown_on: Callable[..., object] = getattr(model, "slowdown_on", super().slowdown_on)
        self._knows = getattr(model, "knows", super().knows)
        self._both = getattr(model, "both", None)
        self._own = getattr(model, "own", super().own)
        self._spread = getattr(model, "spread", super().spread)
        self._parts = getattr(model, "parts", super().parts)
        self._compete = getattr(model, "compete", super().compete)
        self._beside = getattr(model, "beside", None)

    def knows(self, job: JobFacts) -> bool:
        """Tell whether anything is known of this job."""
        return bool(self._ask("knows", self._knows, job))

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        """Return the slowdown of ``job`` beside ``other``; ContentionError for an invalid one."""
        return self._number("slowdown", self._slowdown, job, other)

    def slowdown_on(
        self,
        job: JobFacts,
        mask: ThreadMask,
        other: JobFacts,
        other_mask: ThreadMask,
        *,
        kind: int = 0,  # noqa: ARG002 - third-party models are not told of it
        threads: tuple[int, int] = (1, 1),  # noqa: ARG002 - nor of these
    ) -> float:
        """Return the slowdown on these hardware threads; ContentionError for an invalid one."""

        def on_threads(job: JobFacts, other: JobFacts) -> object:
            return self._slowdown_on(job, mask, other, other_mask)

        return self._number("slowdown_on", on_threads, job, other)

    def both(self, job: JobFacts, other: JobFacts) -> float:
        """Return one number for the two; ContentionError for an invalid one."""
        return super().both(job, other) if self._both is None else self._number("both", self._both, job, other)

    def own(self, job: JobFacts, cpus: int, cores: int) -> float | None:
        """Return the job's own slowdown, None if the model has none; ContentionError for an invalid one."""
        return self._factor("own slowdown", job, self._ask("own", self._own, job, cpus, cores))

    def spread(self, job: JobFacts) -> float | None:
        """Return the factor of a job that sits spread, None if the model has none; ContentionError for an invalid one."""
        return self._factor("spread", job, self._ask("spread", self._spread, job))

    def parts(self, job: JobFacts, other: JobFacts) -> Sequence[tuple[str, float]]:
        """Return what each resource adds to the slowdown; ContentionError for something else."""
        answer = self._ask("parts", self._parts, job, other)
        try:
            parts = [(name, float(penalty)) for name, penalty in answer]
        except (TypeError, ValueError) as error:
            raise ContentionError(self.name, f"parts: expected (name, penalty) pairs, got {answer!r}") from error
        if any(type(name) is not str or not math.isfinite(penalty) for name, penalty in parts):
            raise ContentionError(self.name, f"parts: expected (name, penalty) pairs, got {answer!r}")
        return parts

    def compete(self, job: JobFacts, other: JobFacts) -> bool:
        """Tell whether the two compete for the same parts of a CPU."""
        return bool(self._ask("compete", self._compete, job, other))

    def beside(self, job: JobFacts, others: JobColumns) -> Beside:
        """Return `both` and `compete` of ``job`` and each of the others; ContentionError for an invalid one."""
        if self._beside is None:
            return super().beside(job, others)
        import numpy as np  # noqa: PLC0415  (a command's start-up must not pay for it)

        jobs = others.jobs
        answer = self._ask("beside", self._beside, job, others)
        try:
            slowdowns, compete = np.asarray(answer[0], dtype=np.float64), np.asarray(answer[1], dtype=np.bool_)
        except (TypeError, ValueError, LookupError) as error:
            raise ContentionError(self.name, f"beside: expected two arrays, got {answer!r}") from error
        if not slowdowns.shape == compete.shape == (len(jobs),):
            raise ContentionError(self.name, f"beside: expected two arrays of {len(jobs)}, got {answer!r}")
        known = np.array([other.id != job.id and self.knows(other) for other in jobs], dtype=np.bool_)
        fine = ((slowdowns >= LEAST_SLOWDOWN) & (slowdowns <= MOST_SLOWDOWN)) | np.isposinf(slowdowns) | ~known
        if not fine.all():
            place = int(fine.argmin())
            raise self._no_slowdown("beside", job, jobs[place], float(slowdowns[place]))
        return Beside(slowdowns, compete)

    def _factor(self, what: str, job: JobFacts, value: Any) -> float | None:
        if value is None or (_is_number(value) and LEAST_OWN <= value <= MOST_SLOWDOWN):
            return None if value is None else float(value)
        text = f"{what} of job {job.id}: expected a number from {LEAST_OWN:g} to {MOST_SLOWDOWN:g}, got {value!r}"
        raise ContentionError(self.name, text)

    def _number(self, what: str, method: Callable[..., object], job: JobFacts, other: JobFacts) -> float:
        value = self._ask(what, method, job, other)
        if _is_number(value) and (LEAST_SLOWDOWN <= value <= MOST_SLOWDOWN or value == math.inf):
            return float(value)
        raise self._no_slowdown(what, job, other, value)

    def _no_slowdown(self, what: str, job: JobFacts, other: JobFacts, value: object) -> ContentionError:
        text = f"{what} of job {job.id} and job {other.id}: expected {_RANGE}, or inf where unknown, got {value!r}"
        return ContentionError(self.name, text)

    def _ask(self, what: str, method: Callable[..., object], job: JobFacts, *further: object) -> Any:
        """Return the answer of the model's method; ContentionError if that fails."""
        try:
            return method(job, *further)
        except RAISED_OUTSIDE as error:  # as `from_outside`, which would cost as much as the answer
            if raised_by_a_signal(error):
                raise
            raise ContentionError(self.name, f"{what} of job {job.id}: {type(error).__name__}: {error}") from error


class _Pairless(PairModel):
    """A belief about any number of jobs on a node that does not speak of pairs: a job is placed by it, and never matched."""

    __slots__ = ("_make", "name")
    name: str

    def __init__(self, name: str, make: Callable[[Mapping[int, JobFacts]], ContentionModel]) -> None:
        """``make`` returns the contention of the given jobs."""
        self.name = name
        self._make = make

    def knows(self, job: JobFacts) -> bool:  # noqa: ARG002 - `PairModel`
        """Return False: no job shares its nodes by a match."""
        return False

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:  # noqa: ARG002 - `PairModel`
        """Return inf: it is not known."""
        return math.inf

    def among(self, jobs: Mapping[int, JobFacts], unknown: float | None = None) -> ContentionModel:  # noqa: ARG002 - `PairModel`
        """Return the model of nodes."""
        return self._make(jobs)


class _CustomContention:
    """A model of nodes of others; its answers are checked."""

    __slots__ = ("_model", "name")

    def __init__(self, name: str, model: ContentionModel) -> None:
        self.name = name
        self._model = model

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return the penalty of each load; ContentionError for an invalid one."""
        with from_outside(lambda told: ContentionError(self.name, f"penalties: {told}")):
            penalties = list(self._model.penalties(node, loads))
        if len(penalties) != len(loads):
            raise ContentionError(self.name, f"penalties: expected {len(loads)}, one for each load, got {penalties!r}")
        for load, penalty in zip(loads, penalties, strict=True):
            if not _is_number(penalty) or not LEAST_OWN - 1.0 <= penalty <= MOST_SLOWDOWN:
                text = f"penalty of job {load.job_id}: expected a number from {LEAST_OWN - 1.0:g} to {MOST_SLOWDOWN:g}"
                raise ContentionError(self.name, f"{text}, got {penalty!r}")
        return [float(penalty) for penalty in penalties]


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
