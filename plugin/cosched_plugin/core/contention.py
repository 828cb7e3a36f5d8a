"""Makes models from the site's belief about contention, which the manager's welcome states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from cosched_hwmodel.bandwidth.matrix import NodeTable
from cosched_hwmodel.bandwidth.model import BandwidthModel
from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.topology import NodeShape
from cosched_plugin.common.allocation import Machine
from cosched_plugin.core.queue import Queue
from cosched_plugin.core.running import Running
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass

# What a job is believed to be slowed by another one where the model knows both, but not the pair: time-sharing.
UNKNOWN_PAIR: Final = 2.0


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


class KnownJobs(Mapping[int, JobSpec]):
    """The jobs that a policy may ask about, by id: running and pending ones."""

    __slots__ = ("_queue", "_running")

    def __init__(self, queue: Queue, running: Mapping[int, Running]) -> None:
        self._queue = queue
        self._running = running

    def __getitem__(self, job_id: int) -> JobSpec:
        running = self._running.get(job_id)
        return self._queue[job_id] if running is None else running.job

    def __iter__(self) -> Iterator[int]:
        return chain(self._queue, self._running)

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)


def believed_contention(pairs: PairModel | None, jobs: Mapping[int, JobSpec]) -> ContentionModel | None:
    """Return the believed contention of any number of ``jobs`` on a node; None where penalties follow from demand alone, if at all."""
    return None if pairs is None else pairs.among(jobs, UNKNOWN_PAIR)


def shapes_of(machine: Machine) -> list[NodeShape]:
    """Return the shape of each node, as contention models get it."""
    return [shape for item in machine.classes for shape in [shape_of(item)] * item.nodes]


def empty_table(model: BandwidthModel, machine: Machine) -> NodeTable:
    """Return the nodes of ``machine`` without jobs."""
    return NodeTable(model, machine.capacity_of, machine.depth)
