"""The site's belief about contention, as the manager's welcome states it, made into a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from cosched_hwmodel.bandwidth.matrix import NodeTable
from cosched_hwmodel.bandwidth.model import BandwidthModel
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.lomarc.model import LomarcModel
from cosched_hwmodel.statistical.model import StatisticalModel
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief

ModelT = TypeVar("ModelT")
MODELS = ("none", "bandwidth", "lomarc", "statistical")


def believed_model(belief: Belief) -> BandwidthModel:
    """Return the model that ``belief`` names; RemoteProtocolError for one that this scheduler does not have."""
    if belief.contention not in MODELS:
        raise RemoteProtocolError(
            "unsupported",
            "welcome.belief.contention",
            f"expected one of {', '.join(MODELS)}, got {belief.contention!r}",
        )
    return BandwidthModel(belief.resources if belief.contention == "bandwidth" else ())


def believed_pairs(belief: Belief) -> LomarcModel | None:
    """Return what the site believes of pairs of jobs, or None; RemoteProtocolError for parameters that make no sense."""
    return _build(belief, LomarcModel.from_parameters) if belief.contention == "lomarc" else None


def believed_statistical(belief: Belief) -> StatisticalModel | None:
    """Return what the site believes of pairs that were drawn from measured slowdowns, or None; RemoteProtocolError as above."""
    return _build(belief, StatisticalModel.from_parameters) if belief.contention == "statistical" else None


def _build(belief: Belief, make: Callable[[Iterable[tuple[str, object]]], ModelT]) -> ModelT:
    try:
        return make(belief.parameters)
    except HardwareModelError as error:
        raise RemoteProtocolError("unsupported", "welcome.belief.parameters", str(error)) from error


def empty_table(model: BandwidthModel, machine: Machine) -> NodeTable:
    """Return the nodes of ``machine`` with nobody on them."""
    return NodeTable(model, machine.capacity_of, machine.depth)
