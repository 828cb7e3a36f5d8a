"""What beliefs have in common: they stand before what the site says, and those that remember follow from a note."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import inf
from typing import Generic, Protocol, Self, TypeVar

from cosched_plugin import api


class OnGiven(api.PairModel):
    """A model that replaces what the site says of slowdowns; all else is as the site's model says, if there is one."""

    __slots__ = ("_given",)

    def __init__(self, given: api.PairModel | None) -> None:
        self._given = given

    @property
    def by_usage(self) -> bool:
        """Tell whether the constraints on bounds and memory apply."""
        return self._given is not None and self._given.by_usage

    @property
    def by_seat(self) -> bool:
        """Tell whether hardware threads count."""
        return self._given is not None and self._given.by_seat

    def parts(self, job: api.JobFacts, other: api.JobFacts) -> Sequence[tuple[str, float]]:
        """Return what each resource adds."""
        return () if self._given is None else self._given.parts(job, other)

    def own(self, job: api.JobFacts, cpus: int, cores: int) -> float | None:
        """Return the job's slowdown by itself."""
        return None if self._given is None else self._given.own(job, cpus, cores)

    def spread(self, job: api.JobFacts) -> float | None:
        """Return the job's ratio alone on a half of each node."""
        return None if self._given is None else self._given.spread(job)

    def compete(self, job: api.JobFacts, other: api.JobFacts) -> bool:
        """Tell whether the two compete for parts of a CPU."""
        return self._given is not None and self._given.compete(job, other)


def known_slowdown(model: api.PairModel | None, job: api.JobFacts, other: api.JobFacts) -> float:
    """Return what a model says of a job beside another one; inf where it says nothing."""
    if model is None or not (model.knows(job) and model.knows(other)):
        return inf
    return model.slowdown(job, other)


class Comparable(api.PairModel, Protocol):
    """A model that tells whether another one says the same."""

    @abstractmethod
    def same_as(self, other: Self) -> bool:
        """Tell whether both say the same."""


_Model = TypeVar("_Model", bound=Comparable)


class FromNote(api.Believer, Generic[_Model]):
    """A belief that follows from its note and from what the site says."""

    _read: api.NoteValue = False  # a cache: a note, and the model in it
    _model: _Model | None = None

    @abstractmethod
    def model_in(self, note: api.NoteValue, given: api.PairModel | None) -> _Model:
        """Return the model that follows from a note."""

    def pairs(self, view: api.View) -> api.PairModel | None:
        """Return the model that follows from the note."""
        note = view.note(None, self.note)
        if self._model is None or note is not self._read:
            model = self.model_in(note, view.given_pairs)
            self._read = note
            if self._model is None or not model.same_as(self._model):
                self._model = model
        return self._model
