"""Processes on a torus of three dimensions, each with a block of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

DIMENSIONS: Final = {4: (2, 2, 1), 8: (2, 2, 2), 16: (4, 2, 2)}


def neighbours(rank: int, processes: int, sizes: Sequence[int]) -> list[dict[int, int]]:
    """Return for each axis how many bytes go to which process, with a size for each axis.

    Where a direction has two processes, both neighbours are the same one, and it gets both messages as one. Where it has one,
    that is the process itself.
    """
    found: list[dict[int, int]] = []
    stride = 1
    for parts, size in zip(DIMENSIONS[processes], sizes, strict=True):
        place = rank // stride % parts
        of_axis: dict[int, int] = {}
        for way in (-1, 1):
            other = rank + ((place + way) % parts - place) * stride
            of_axis[other] = of_axis.get(other, 0) + size
        found.append(of_axis)
        stride *= parts
    return found


def faces(processes: int, points: int) -> list[int]:
    """Return how many points a process's face has across each axis, for a grid with this many points a side."""
    x, y, z = (max(1, points // parts) for parts in DIMENSIONS[processes])
    return [y * z, x * z, x * y]
