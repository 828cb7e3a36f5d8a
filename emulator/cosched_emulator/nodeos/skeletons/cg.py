"""CG: conjugate gradients on a random sparse matrix; many exchanges of vectors, none of them an MPI collective.

NPB 2.3, cg.f. Processes are rows x columns, with columns = rows or twice as many. An outer iteration has 25 of the
method's steps and the residual, a 26th product. A step is the product of matrix and vector (sums over the processes of
a row, in log2(columns) exchanges of a row's part of the vector; then an exchange with the transposed process) and two
dot products, each log2(columns) exchanges of 8 bytes. Of the work the product has 85 %: 11 to 15 non-zeros a row are
squared by the generator to about 130 to 240, against some ten operations of vectors. The dot product behind it has 5 %,
the updates of vectors 10 %. On 16 processes in class C a burst lasts 25 ms in the mean: three in a step of 96 ms.
"""

from __future__ import annotations

from cosched_emulator.nodeos.programs import Operation
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, burst, no_end, swap

_ROWS = {"A": 14_000, "B": 75_000, "C": 150_000}  # of the matrix
_OUTER = {"A": 15, "B": 75, "C": 75}
_STEPS = 25
_PRODUCT, _DOT, _UPDATE = 0.85, 0.05, 0.10
_NUMBER = 8  # bytes


def cg(size_class: str, processes: int) -> Skeleton:
    """Return CG of a class on 4, 8 or 16 processes."""
    power = processes.bit_length() - 1
    rows = 1 << power // 2
    columns = processes // rows
    part = _ROWS[size_class] // rows * _NUMBER
    unit = 1 / (_STEPS + _PRODUCT + _DOT)  # of one step

    def row_partners(rank: int) -> list[int]:
        row, column = divmod(rank, columns)
        return [row * columns + (column ^ (columns >> stage)) for stage in range(1, columns.bit_length())]

    def transposed(rank: int) -> int:
        if columns == rows:
            return rank % rows * rows + rank // rows
        return 2 * (rank // 2 % rows * rows + rank // 2 // rows) + rank % 2

    def dot(rank: int, scale: Scale, share: float) -> list[Operation]:
        operations: list[Operation] = [burst(scale, share * unit)]
        for partner in row_partners(rank):
            operations += swap(rank, partner, _NUMBER)
        return operations

    def product(rank: int, scale: Scale) -> list[Operation]:
        operations: list[Operation] = [burst(scale, _PRODUCT * unit)]
        for partner in row_partners(rank):
            operations += swap(rank, partner, part)
        return operations + swap(rank, transposed(rank), part * rows // columns)

    def main(rank: int, scale: Scale) -> list[Operation]:
        step = product(rank, scale) + dot(rank, scale, _DOT) + dot(rank, scale, _UPDATE)
        return step * _STEPS + product(rank, scale) + dot(rank, scale, _DOT) + dot(rank, Scale(0, 0), 0)

    return Skeleton(_OUTER[size_class], main, no_end)
