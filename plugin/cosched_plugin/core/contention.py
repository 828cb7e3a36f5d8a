"""The site's belief about contention, as the manager's welcome states it, made into a model."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_hwmodel.bandwidth import BandwidthModel, Resident, penalised_us
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief, DemandTuple

MODELS = ("none", "bandwidth")


class Contention:
    """What sharing a node should cost."""

    __slots__ = ("_model",)

    def __init__(self, belief: Belief) -> None:
        if belief.contention not in MODELS:
            raise RemoteProtocolError(
                "unsupported", "welcome.belief.contention", f"unknown model {belief.contention!r}"
            )
        self._model = BandwidthModel(belief.resources if belief.contention == "bandwidth" else ())

    def penalised_us(
        self, residents: Sequence[Resident], own: DemandTuple, capacity: DemandTuple, start_us: int, run_us: int
    ) -> float:
        """Return the time that processes with demand ``own`` lose among ``residents`` of one node over [start, start + run)."""
        return penalised_us(self._model, capacity, residents, own, start_us, run_us)
