"""The watts of a machine, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_hwmodel.energy import NodePower
from cosched_plugin.protocol.messages import NodeClass

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MachinePower:
    """The watts of each node."""

    idle_w: FloatArray  # of the node, all its cores idle
    busy_w: FloatArray  # more for each busy core
    spin_w: FloatArray  # more for each core whose process only polls

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return self.idle_w.size

    @property
    def total_idle_w(self) -> float:
        """Return the watts of the whole machine, all its cores idle."""
        return float(self.idle_w.sum())


def machine_power(machine: Sequence[NodeClass], power: Sequence[NodePower]) -> MachinePower:
    """Return the watts of each node of a machine, from those of its classes."""
    counts = [item.nodes for item in machine]
    columns = [np.repeat(np.array(column, dtype=np.float64), counts) for column in zip(*power, strict=True)]
    return MachinePower(*columns)
