"""SP and BT: implicit solvers on a grid whose cells are spread so that all processes work in each sweep; no collectives.

NPB 2.3, SP and BT. q^2 processes have q cells each, on a diagonal of q^3. A time step exchanges faces with six
neighbours (two layers of five values), computes the right-hand side, and solves along x, y and z: q stages of
elimination, each followed by a message to the next process, and q of substitution backwards. SP's scalar systems send
22 and 10 numbers a point, BT's blocks 30 and 5. The right-hand side is 30 % of SP and 15 % of BT; elimination is 3/4 of
a sweep of SP, 6/7 of BT, whose blocks of 5 x 5 are factored there: by counts of operations, rounded. On 16 processes in
class C a step has 25 stages of 55 ms (SP) or 185 ms (BT) in the mean; some have no message between them, so 19 bursts
remain.
"""

from __future__ import annotations

from typing import NamedTuple

from cosched_emulator.nodeos.programs import Operation, Receive, Send
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, allreduce, burst, exchanges

_GRID = {"A": 64, "B": 102, "C": 162}  # points a side
_NUMBER = 8  # bytes
_FACE = 2 * 5  # numbers a point
_DIRECTIONS = 3


class _Solver(NamedTuple):
    steps: int
    forward: int  # numbers a point
    backward: int
    right_hand: float  # share of the work
    elimination: float  # share of a sweep


_SP = _Solver(400, 22, 10, 0.30, 3 / 4)
_BT = _Solver(200, 30, 5, 0.15, 6 / 7)


def sp(size_class: str, processes: int) -> Skeleton:
    """Return SP of a class on 4, 9 or 16 processes."""
    return _skeleton(_SP, size_class, processes)


def bt(size_class: str, processes: int) -> Skeleton:
    """Return BT of a class on 4, 9 or 16 processes."""
    return _skeleton(_BT, size_class, processes)


def _skeleton(solver: _Solver, size_class: str, processes: int) -> Skeleton:
    side = round(processes**0.5)
    points = (_GRID[size_class] / side) ** 2  # of a cell's face
    stage = (1 - solver.right_hand) / _DIRECTIONS / side

    def neighbours(rank: int) -> list[tuple[int, int]]:
        """Return the next and the previous process along x, y and z."""
        i, j = divmod(rank, side)
        steps = ((1, 0), (0, 1), (-1, -1))
        return [((i + a) % side * side + (j + b) % side, (i - a) % side * side + (j - b) % side) for a, b in steps]

    def faces(rank: int) -> list[Operation]:
        size = round(points * (side - 1) * _FACE * _NUMBER)
        sizes: dict[int, int] = {}
        for pair in neighbours(rank):
            for other in pair:  # on four processes the next is the previous: one message has both faces
                sizes[other] = sizes.get(other, 0) + size
        return exchanges(rank, sizes)

    def sweep(after: int, before: int, scale: Scale) -> list[Operation]:
        operations: list[Operation] = []
        for work, numbers, to, source in (
            (solver.elimination, solver.forward, after, before),
            (1 - solver.elimination, solver.backward, before, after),
        ):
            for place in range(side):
                if place:
                    operations.append(Receive(source))
                operations.append(burst(scale, stage * work))
                if place < side - 1:
                    operations.append(Send(to, round(points * numbers * _NUMBER)))
        return operations

    def main(rank: int, scale: Scale) -> list[Operation]:
        operations = [*faces(rank), burst(scale, solver.right_hand)]
        for after, before in neighbours(rank):
            operations += sweep(after, before, scale)
        return operations

    def end(rank: int) -> list[Operation]:
        return 2 * allreduce(rank, processes, 5 * _NUMBER)  # norms of residual and error

    return Skeleton(solver.steps, main, end)
