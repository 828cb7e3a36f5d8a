"""Contention models by name: all names, the models that cover pairs of jobs, and the models that a scheduler may make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from cosched_hwmodel.pairs import PairModel

# Makes a model of pairs of its parameters; raises HardwareModelError. None: the model does not cover pairs.
PairFactory: TypeAlias = "Callable[[Iterable[tuple[str, object]]], PairModel] | None"

_PLACES: Final = {  # module and class of each model that ships; "": it does not cover pairs
    "none": "",
    "bandwidth": "",
    "lomarc": "paper_pairs:LomarcPairs",
    "statistical": "paper_pairs:StatisticalPairs",
    "pairs": "measured_pairs:MeasuredPairs",
    "composite": "composite_pairs:CompositePairs",
}
OF_PAIRS: Final = tuple(name for name, place in _PLACES.items() if place)


class _BuiltIn(Mapping[str, PairFactory]):
    """The models that ship, each imported when it is asked for: few runs name one of pairs."""

    __slots__ = ()

    def __getitem__(self, name: str) -> PairFactory:
        """Return the maker of the model."""
        module, _, kind = _PLACES[name].partition(":")
        if not module:
            return None
        factory: PairFactory = getattr(import_module(f"{__package__}.{module}"), kind).from_parameters
        return factory

    def __contains__(self, name: object) -> bool:
        return name in _PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


BUILT_IN: Final[Mapping[str, PairFactory]] = _BuiltIn()


class AllowedModels(Mapping[str, PairFactory]):
    """The models that a scheduler may be told to believe in: built-in, named and installed ones.

    A manager chooses one by name. Nothing else is ever imported; a package's model is imported on request.
    """

    __slots__ = ("_named",)

    def __init__(self, names: Iterable[str] = ()) -> None:
        """``names`` are those that the scheduler's own user gave: ``module:Class``, or the name of any other model.

        They are imported now. Raises UnknownNameError and ContentionError.
        """
        self._named = {name: _of_others(name) for name in names if name not in BUILT_IN}

    def __getitem__(self, name: str) -> PairFactory:
        """Return the maker of the model; KeyError for one that is not allowed, ContentionError if it has no model of pairs."""
        if name in BUILT_IN:
            return BUILT_IN[name]
        if name not in self._named:
            if name not in _installed():
                raise KeyError(name)
            self._named[name] = _of_others(name)
        return self._named[name]

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._named or name in _installed()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*BUILT_IN, *self._named, *_installed()]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _of_others(name: str) -> PairFactory:
    """Return the maker of a model of others; raises UnknownNameError and ContentionError."""
    from cosched_hwmodel.models.custom import load_model  # noqa: PLC0415 - few runs have one

    return load_model(name, BUILT_IN).pair_factory


def _installed() -> Mapping[str, str]:
    from cosched_hwmodel.models.custom import installed_models  # noqa: PLC0415 - likewise

    return installed_models()


def make_pairs(name: str, parameters: Iterable[tuple[str, object]]) -> PairModel | None:
    """Return the model of pairs of that name, built in or of others; None if it does not cover pairs.

    Raises HardwareModelError for an unknown name, and for invalid parameters.
    """
    factory = AllowedModels([name])[name]
    return None if factory is None else factory(parameters)
