"""Makes a model from the site's belief about contention, which the manager's welcome states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched_hwmodel.bandwidth.matrix import NodeTable
from cosched_hwmodel.bandwidth.model import BandwidthModel
from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_hwmodel.pairs import PairModel
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief, NodeClass


def believed_model(belief: Belief) -> BandwidthModel:
    """Return the bandwidths in ``belief``; none, unless bandwidth is its model."""
    return BandwidthModel(belief.resources if belief.contention == "bandwidth" else ())


def believed_pairs(
    belief: Belief, models: Mapping[str, PairFactory] = BUILT_IN, nodes: Sequence[NodeClass] = ()
) -> PairModel | None:
    """Return the site's believed model of pairs of jobs on these nodes; None if its model does not cover pairs.

    ``models`` are all models of this scheduler. Raises RemoteProtocolError for another one, for invalid
    parameters, and for nodes that cannot be.
    """
    name = belief.contention
    if name not in models:
        expected = f"expected one of {', '.join(models)}, or one that the scheduler's --contention names"
        raise RemoteProtocolError("unsupported", "welcome.belief.contention", f"{expected}, got {name!r}")
    path = "welcome.belief.contention"
    try:
        make = models[name]
        path = "welcome.belief.parameters"
        if make is None:
            return None
        pairs = make(belief.parameters)
        path = "welcome.nodes"
        return pairs.on_nodes([shape_of(item) for item in nodes])
    except HardwareModelError as error:
        raise RemoteProtocolError("unsupported", path, str(error)) from error


def empty_table(model: BandwidthModel, machine: Machine) -> NodeTable:
    """Return the nodes of ``machine`` without jobs."""
    return NodeTable(model, machine.capacity_of, machine.depth)
