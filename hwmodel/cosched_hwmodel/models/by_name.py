"""Contention models by name: all names, the models that cover pairs of jobs, and the models that a scheduler may make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from cosched_hwmodel.models.composite_pairs import CompositePairs
from cosched_hwmodel.models.custom import installed_models, load_model
from cosched_hwmodel.models.measured_pairs import MeasuredPairs
from cosched_hwmodel.models.paper_pairs import LomarcPairs, StatisticalPairs
from cosched_hwmodel.pairs import PairModel

# Makes a model of pairs of its parameters; raises HardwareModelError. None: the model does not cover pairs.
PairFactory: TypeAlias = Callable[[Iterable[tuple[str, object]]], PairModel] | None

BUILT_IN: Final[Mapping[str, PairFactory]] = MappingProxyType(
    {
        "none": None,
        "bandwidth": None,
        "lomarc": LomarcPairs.from_parameters,
        "statistical": StatisticalPairs.from_parameters,
        "pairs": MeasuredPairs.from_parameters,
        "composite": CompositePairs.from_parameters,
    }
)
OF_PAIRS: Final = tuple(name for name, factory in BUILT_IN.items() if factory is not None)


class AllowedModels(Mapping[str, PairFactory]):
    """The models that a scheduler may be told to believe in: built-in, named and installed ones.

    A manager chooses one by name. Nothing else is ever imported; a package's model is imported on request.
    """

    __slots__ = ("_known",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        """``names`` are those that the scheduler's own user gave: ``module:Class``, or the name of any other model.

        They are imported now. Raises UnknownNameError and ContentionError.
        """
        self._known = dict(BUILT_IN)
        for name in names:
            if name not in self._known:
                self._known[name] = load_model(name, BUILT_IN).pair_factory

    def __getitem__(self, name: str) -> PairFactory:
        """Return the maker of the model; KeyError for one that is not allowed, ContentionError if it has no model of pairs."""
        if name not in self._known:
            if name not in installed_models():
                raise KeyError(name)
            self._known[name] = load_model(name).pair_factory
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in installed_models()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._known, *installed_models()]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def make_pairs(name: str, parameters: Iterable[tuple[str, object]]) -> PairModel | None:
    """Return the model of pairs of that name, built in or of others; None if it does not cover pairs.

    Raises HardwareModelError for an unknown name, and for invalid parameters.
    """
    factory = AllowedModels([name])[name]
    return None if factory is None else factory(parameters)
