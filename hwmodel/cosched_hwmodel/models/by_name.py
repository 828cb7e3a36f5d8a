"""Contention models by name: which ones there are, and which of them speak of pairs of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from cosched_hwmodel.models.custom import load_model
from cosched_hwmodel.models.lomarc_pairs import LomarcPairs
from cosched_hwmodel.models.statistical_pairs import StatisticalPairs
from cosched_hwmodel.pairs import PairModel

# Makes a model of pairs of its parameters; raises HardwareModelError. None: the model does not speak of pairs.
PairFactory: TypeAlias = Callable[[Iterable[tuple[str, object]]], PairModel] | None

BUILT_IN: Final[Mapping[str, PairFactory]] = MappingProxyType(
    {
        "none": None,
        "bandwidth": None,
        "lomarc": LomarcPairs.from_parameters,
        "statistical": StatisticalPairs.from_parameters,
    }
)
OF_PAIRS: Final = tuple(name for name, factory in BUILT_IN.items() if factory is not None)


def make_pairs(name: str, parameters: Iterable[tuple[str, object]]) -> PairModel | None:
    """Return the model of pairs of that name, built in or of others; None if it does not speak of pairs.

    Raises HardwareModelError for a name that nothing has, and for parameters that cannot be.
    """
    factory = BUILT_IN[name] if name in BUILT_IN else load_model(name, BUILT_IN).pairs
    return None if factory is None else factory(parameters)
