"""The composite model: the slowdown of co-located processes by every resource of their node.

What is taken from where:

- issue slots of a core: A. Snavely and D. Tullsen, *Symbiotic Jobscheduling for a Simultaneous Multithreading Processor*,
  ASPLOS 2000: two threads slow each other down by what they ask for together beyond the slots of a kind;
- space in a cache: the frequency-of-access model (`shares`);
- memory bandwidth of a socket: the roofline (`crowding`), and below it a queue that grows with the others' use;
- network and disk: turns by requests (`crowding`); paging: LOMARC paper, section 4.2.

Demand does not shrink when a process is slowed down; only shares of caches are iterated, once for each group at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Final, NamedTuple

from cosched_hwmodel.composite.on_node import OVERLAPS, OnNode, Placed, sites_of
from cosched_hwmodel.contention import ParameterError, Parametric
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM

SCOPES: Final = ("socket", "node")
_MOST_PPM: Final = 1000 * WHOLE_PPM


class CompositeParameterError(ParameterError):
    """A parameter of the composite model with an invalid value."""


class Breakdown(NamedTuple):
    """The penalty of the processes of one group, by resource; the penalty is the sum of the parts, from left to right."""

    penalty: float
    parts: tuple[tuple[str, float], ...]  # name of the resource and penalty, in the order of the resources

    @property
    def worst(self) -> str:
        """Return the resource with the largest part, the first of several; empty if there is no penalty."""
        name, part = max(self.parts, key=lambda item: item[1])
        return name if part > 0 else ""


@dataclass(frozen=True, slots=True)
class CompositeModel(Parametric):
    """Penalties of groups of processes by what they ask for and where they are; ``_ppm`` are millionths.

    Raises CompositeParameterError and UnknownNameError, both HardwareModelError.
    """

    name: ClassVar = "composite"

    overlap: str = "independent"  # of the times in which processes use a resource: `OVERLAPS`
    # Whose bandwidth processes share: that of their socket, or (node) of all sockets together
    memory_scope: str = "socket"
    queueing_ppm: int = 0  # penalty by waiting for memory when others use all of its bandwidth, and in proportion below
    paging_ppm: int = 1_175_000  # penalty as soon as the memory is short
    paging_slope_ppm: int = 578_000  # and more when the whole memory is missing, in proportion below

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if type(value) is not type(item.default):  # a bool is no int here
                raise CompositeParameterError(item.name, type(item.default).__name__, value)
        for name, known in (("overlap", OVERLAPS), ("memory_scope", SCOPES)):
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
        for name in ("queueing_ppm", "paging_ppm", "paging_slope_ppm"):
            if not 0 <= getattr(self, name) <= _MOST_PPM:
                raise CompositeParameterError(name, f"0 to {_MOST_PPM}", getattr(self, name))

    def penalties(self, node: NodeShape, placed: Sequence[Placed]) -> list[float]:
        """Return the penalty of each group: that of its slowest process, 0 at full speed.

        A group of several processes may slow itself down; one process alone has penalty 0. The order of the groups
        matters for the order of the answer only. Raises IndexError for threads that the node does not have.
        """
        return [breakdown.penalty for breakdown in self.explain(node, placed)]

    def explain(self, node: NodeShape, placed: Sequence[Placed]) -> list[Breakdown]:
        """Return the penalty of each group by resource, at the place of its slowest process."""
        there = OnNode(self, node, placed)
        names = resources_of(node)
        found = []
        for group, sites in enumerate(sites_of(node, placed)):
            worst = max([there.parts(group, site) for site in sites], default=(0.0,) * (len(names) + 1))
            found.append(Breakdown(worst[0], tuple(zip(names, worst[1:], strict=True))))
        return found


def resources_of(node: NodeShape) -> tuple[str, ...]:
    """Return the resources of a node in the order in which their penalties are added."""
    caches = [f"cache {cache.level}" for cache in node.caches]
    return ("integer slots", "floating slots", *caches, "memory bandwidth", "network", "disk", "paging")
