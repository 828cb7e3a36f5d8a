"""The composite model as the contention of a node's jobs, given the profile of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.contention import Load
from cosched_hwmodel.topology import NodeShape

_Known: TypeAlias = dict[tuple[Placed, ...], list[float]]
_MOST_KNOWN: Final = 20_000  # situations of a kind of node that are kept


class CompositeContention:
    """`CompositeModel` for jobs whose profiles are known; nodes in the same situation are computed once."""

    __slots__ = ("_known", "_model", "_profiles")

    def __init__(self, model: CompositeModel, profiles: Mapping[int, Profile]) -> None:
        """``profiles`` is by job id and may grow; a job that it lacks neither slows nor is slowed."""
        self._model = model
        self._profiles = profiles
        self._known: dict[int, tuple[NodeShape, _Known]] = {}  # by the identity of the node, which is kept

    @property
    def name(self) -> str:
        """Return ``composite``."""
        return self._model.name

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return the penalty of each load, by all processes on the node, its own ones included.

        Raises IndexError for threads that the node does not have.
        """
        seats = []
        for place, load in enumerate(loads):
            profile = self._profiles.get(load.job_id)
            if profile is not None:
                seats.append((Placed(profile, load.processes, load.thread_mask), place))
        result = [0.0] * len(loads)
        if seats:
            seats.sort()  # one order for equal situations; the model has none
            found = self._of(node, tuple([placed for placed, _ in seats]))
            for (_, place), penalty in zip(seats, found, strict=True):
                result[place] = penalty
        return result

    def _of(self, node: NodeShape, placed: tuple[Placed, ...]) -> list[float]:
        kept = self._known.get(id(node))
        if kept is None:
            kept = self._known[id(node)] = (node, {})
        known = kept[1]
        found = known.get(placed)
        if found is None:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            found = known[placed] = self._model.penalties(node, placed)
        return found
