"""The contract of a contention model: the penalty of each job on one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask


class Load(NamedTuple):
    """One job's processes, threads and demand on one node at one instant."""

    job_id: int
    processes: int  # on this node
    thread_mask: ThreadMask  # hardware threads of the node that they hold
    demand: tuple[int, int, int]  # MB/s, summed over these processes


@runtime_checkable
class ContentionModel(Protocol):
    """A contention model: a pure function from the loads on a node to the penalty of each.

    A model gets further data of jobs beyond `Load` (fractions, drawn slowdowns, a row of a measured table) when it is built,
    and finds them by ``job_id``.
    """

    @property
    def name(self) -> str:
        """Return the model's name, as scenario files and the protocol's belief give it."""
        ...

    def penalties(self, node: NodeShape, loads: Sequence[Load]) -> list[float]:
        """Return the penalty of each load, in their order: 0 at full speed, p when work takes (1 + p) times as long.

        Depends only on the arguments, and on the order of ``loads`` only for the order of the answer. A
        penalty may differ between sharers, be above 0 for a job that is alone (its processes compete with each
        other), and below 0 where spreading a job out gains more than sharing costs, but is always above -1.
        """
        ...
