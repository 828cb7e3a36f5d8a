"""sPPM and BlockSolve95, of which the paper prints a run time and how much they communicate; their structure is our
choice.

sPPM (low): a step sweeps along x, y and z. Before each sweep a process exchanges large faces with its two neighbours
along that axis (20 numbers a point of a face of 96 x 96 or 48 x 96 points: 1.5 and .7 MB); after the three, a minimum
over all processes gives the next step. Bursts are about .4 s. BlockSolve95 (medium): steps of conjugate gradients on a
grid in blocks; a product after an exchange of 20 KB with each neighbour in three directions, and two dot products by
allreduce. Bursts are 10 to 20 ms.
"""

from __future__ import annotations

from cosched_emulator.nodeos.programs import Operation
from cosched_emulator.nodeos.skeletons.grid import faces, neighbours
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, allreduce, burst, exchanges, no_end

_NUMBER = 8  # bytes
_SPPM_STEPS, _BLOCK_STEPS = 2_000, 24_000
_SPPM_GRID, _SPPM_NUMBERS = 192, 20  # points a side, numbers a point
_BLOCK_FACE = 20_000  # bytes
_BLOCK_PRODUCT = 0.6


def sppm(_size_class: str, processes: int) -> Skeleton:
    """Return sPPM on 4, 8 or 16 processes."""
    sizes = [_SPPM_NUMBERS * _NUMBER * points for points in faces(processes, _SPPM_GRID)]

    def main(rank: int, scale: Scale) -> list[Operation]:
        operations: list[Operation] = []
        for axis in neighbours(rank, processes, sizes):
            operations += [*exchanges(rank, axis), burst(scale, 1 / 3)]
        return operations + allreduce(rank, processes, _NUMBER)

    return Skeleton(_SPPM_STEPS, main, no_end)


def blocksolve(_size_class: str, processes: int) -> Skeleton:
    """Return BlockSolve95 on 4, 8 or 16 processes."""

    def main(rank: int, scale: Scale) -> list[Operation]:
        operations: list[Operation] = []
        for axis in neighbours(rank, processes, [_BLOCK_FACE] * 3):
            operations += exchanges(rank, axis)
        dot = allreduce(rank, processes, _NUMBER)
        return [*operations, burst(scale, _BLOCK_PRODUCT), *dot, burst(scale, 1 - _BLOCK_PRODUCT), *dot]

    return Skeleton(_BLOCK_STEPS, main, no_end)
