"""LU: symmetric Gauss-Seidel in two wavefronts over the planes of a grid; many small messages, no collectives in the loop.

NPB 2.3, LU. Processes are x times y, each with a column of the grid. A time step sweeps over the inner planes from
north-west to south-east and back: for a plane a process waits for the edges of two neighbours, computes, and sends its
own edges (five values a point, 1.6 KB in class C on 16 processes) to the two others. Then come the right-hand sides
with faces (two layers) of the neighbours in x, then in y. By counts of operations the two sweeps have about three
quarters of the work, the right-hand side one. On 16 processes in class C a burst lasts 6 to 7 ms: 320 planes in a step
of 2.4 s.
"""

from __future__ import annotations

from cosched_emulator.nodeos.programs import Operation, Receive, Send
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, allreduce, burst, exchanges

_GRID = {"A": 64, "B": 102, "C": 162}  # points a side
_STEPS = 250
_SWEEPS, _FIRST_RIGHT_HAND = 0.75, 0.08  # the second exchange of faces stands after a third of the right-hand side
_EDGE, _FACE = 5 * 8, 2 * 5 * 8  # bytes a point


def lu(size_class: str, processes: int) -> Skeleton:
    """Return LU of a class on 4, 8 or 16 processes."""
    across = 1 << (processes.bit_length() - 1) // 2
    down = processes // across
    grid = _GRID[size_class]
    planes = grid - 2

    def at(row: int, column: int) -> int | None:
        return row * across + column if 0 <= row < down and 0 <= column < across else None

    def sweep(rank: int, way: int, scale: Scale) -> list[Operation]:
        row, column = divmod(rank, across)
        sources = [other for other in (at(row - way, column), at(row, column - way)) if other is not None]
        targets = [
            (other, _EDGE * grid // parts)
            for other, parts in ((at(row + way, column), across), (at(row, column + way), down))
            if other is not None
        ]
        plane: list[Operation] = [Receive(other) for other in sources]
        plane.append(burst(scale, _SWEEPS / 2 / planes))
        plane += [Send(other, size) for other, size in targets]
        return plane * planes

    def faces(rank: int, *, rows: bool) -> list[Operation]:
        row, column = divmod(rank, across)
        parts = across if rows else down
        places = [at(row + way, column) if rows else at(row, column + way) for way in (-1, 1)]
        return exchanges(rank, {other: _FACE * grid * grid // parts for other in places if other is not None})

    def main(rank: int, scale: Scale) -> list[Operation]:
        return [
            *sweep(rank, 1, scale),
            *sweep(rank, -1, scale),
            *faces(rank, rows=True),
            burst(scale, _FIRST_RIGHT_HAND),
            *faces(rank, rows=False),
            burst(scale, 1 - _SWEEPS - _FIRST_RIGHT_HAND),
        ]

    def end(rank: int) -> list[Operation]:
        return 3 * allreduce(rank, processes, 5 * 8)  # norms, and the surface integral

    return Skeleton(_STEPS, main, end)
