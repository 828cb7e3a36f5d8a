"""MG: multigrid; long work on fine grids, and dozens of exchanges with hardly any work between them on coarse ones.

NPB 2.3, mg.f. An iteration is the residual on the finest grid and a V cycle: restriction down to the coarsest grid of
2^3, one smoothing, then up to the finest grid interpolation, residual and smoothing. Work falls by 8 from grid to grid;
residual, smoothing, interpolation and restriction have 35, 30, 20 and 15 % of a grid's work, about as their operations
a point. All but the interpolation end with an exchange of faces along the three directions. Two neighbours along a
direction with two processes are one, and get one message with both faces. Bursts below 20 us are added to the next. On
16 processes in class C an iteration has 26 bursts of .33 s in the mean, 3 s at most, and 20 of them 20 us or more.
"""

from __future__ import annotations

from cosched_emulator.nodeos.programs import Operation
from cosched_emulator.nodeos.skeletons.grid import faces, neighbours
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, allreduce, burst, exchanges

_LEVELS = {"A": 8, "B": 8, "C": 9}  # log2 of the finest grid's points a side
_ITERATIONS = {"A": 4, "B": 20, "C": 20}
_RESIDUAL, _SMOOTHING, _INTERPOLATION, _RESTRICTION = 0.35, 0.30, 0.20, 0.15
_NUMBER = 8  # bytes


def mg(size_class: str, processes: int) -> Skeleton:
    """Return MG of a class on 4, 8 or 16 processes."""
    finest = _LEVELS[size_class]

    def exchange(rank: int, level: int) -> list[Operation]:
        sizes = [_NUMBER * points for points in faces(processes, 1 << level)]
        return [operation for axis in neighbours(rank, processes, sizes) for operation in exchanges(rank, axis)]

    total = _RESIDUAL + sum(8.0 ** (level - finest) for level in range(1, finest + 1))

    def main(rank: int, scale: Scale) -> list[Operation]:
        def work(level: int, share: float) -> Operation:
            return burst(scale, share * 8.0 ** (level - finest) / total)

        operations = [work(finest, _RESIDUAL), *exchange(rank, finest)]
        for level in range(finest, 1, -1):
            operations += [work(level, _RESTRICTION), *exchange(rank, level - 1)]
        operations += [work(1, 1.0), *exchange(rank, 1)]
        for level in range(2, finest + 1):
            operations += [work(level, _INTERPOLATION + _RESIDUAL), *exchange(rank, level)]
            operations += [work(level, _SMOOTHING), *exchange(rank, level)]
        return operations

    def end(rank: int) -> list[Operation]:
        return 2 * allreduce(rank, processes, _NUMBER)  # norm of the residual

    return Skeleton(_ITERATIONS[size_class], main, end)
