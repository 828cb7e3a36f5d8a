"""Predicted beside measured: the ratios of pairs of kernels by the composite model, for a node measured by this program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from cosched_hwmodel.cli.measuring.measurement import NodeMeasurement
from cosched_hwmodel.cli.measuring.profiles import profiles_of
from cosched_hwmodel.cli.node_choice import seats_of_node, threads_of_seat
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.topology import NodeShape


class ComparedPair(NamedTuple):
    """A pair on a seat: the measured and the predicted run time of ``row`` beside ``column``, over that alone.

    ``resource`` is the one that the prediction blames most; empty where it predicts no slowdown.
    """

    seat: str
    row: str
    column: str
    measured: float
    predicted: float
    resource: str

    @property
    def error(self) -> float:
        """Return predicted - measured."""
        return self.predicted - self.measured


class Summary(NamedTuple):
    """The errors of a comparison: predicted - measured, the same without signs, and the largest of these."""

    pairs: int
    mean: float
    mean_absolute: float
    largest: float


def compare(
    node: NodeShape,
    profiles: Mapping[str, Profile],
    ratios: Mapping[tuple[str, str], float],
    seat: str,
    model: CompositeModel | None = None,
) -> list[ComparedPair]:
    """Return the measured ratios (of a pair, as in a `CoRunTable`) beside predicted ones, in their order.

    Each kernel is one process of ``profiles`` on a hardware thread of the seat; pairs without profiles are left out.
    Raises CommandError for a seat that the node does not have.
    """
    model = CompositeModel() if model is None else model
    first, second = threads_of_seat(node, seat)
    found = []
    for (row, column), measured in ratios.items():
        if row in profiles and column in profiles:
            placed = [Placed(profiles[row], 1, 1 << first), Placed(profiles[column], 1, 1 << second)]
            told = model.explain(node, placed)[0]
            found.append(ComparedPair(seat, row, column, measured, 1.0 + told.penalty, told.worst))
    return found


def compare_measured(found: NodeMeasurement) -> list[ComparedPair]:
    """Return the pairs of a measurement beside their predictions, seat by seat; `NodeMeasurement.node` has the costs already.

    Seats that the node does not have, as it is simpler than the machine, are left out.
    """
    profiles = profiles_of(found)
    known = seats_of_node(found.node)
    seats: dict[str, dict[tuple[str, str], float]] = {}
    for pair in found.pairs:
        if pair.seat in known:
            seats.setdefault(pair.seat, {})[pair.row, pair.column] = pair.ratio.value
    return [each for seat, ratios in seats.items() for each in compare(found.node, profiles, ratios, seat)]


def summary(compared: Sequence[ComparedPair]) -> Summary:
    """Return the errors of a comparison of at least one pair."""
    errors = [each.error for each in compared]
    return Summary(len(errors), fmean(errors), fmean(map(abs, errors)), max(map(abs, errors)))
