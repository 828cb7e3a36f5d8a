"""Skeletons of the NAS programs: what each computes, sends and waits for; and programs made of them that take a given time alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from csv import DictReader
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from cosched_emulator.nodeos.programs import Compute, Operation, Program, Receive, Send
from cosched_emulator.nodeos.skeletons import pieces
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

# Processes on a torus of three dimensions, each with a block of a grid.

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


# CG: conjugate gradients on a random sparse matrix; many exchanges of vectors, none of them an MPI collective.
#
# NPB 2.3, cg.f. Processes are rows x columns, with columns = rows or twice as many. An outer iteration has 25 of the
# method's steps and the residual, a 26th product. A step is the product of matrix and vector (sums over the processes of
# a row, in log2(columns) exchanges of a row's part of the vector; then an exchange with the transposed process) and two
# dot products, each log2(columns) exchanges of 8 bytes. Of the work the product has 85 %: 11 to 15 non-zeros a row are
# squared by the generator to about 130 to 240, against some ten operations of vectors. The dot product behind it has 5 %,
# the updates of vectors 10 %. On 16 processes in class C a burst lasts 25 ms in the mean: three in a step of 96 ms.

_ROWS = {"A": 14_000, "B": 75_000, "C": 150_000}  # of the matrix
_OUTER = {"A": 15, "B": 75, "C": 75}
_CG_STEPS = 25
_PRODUCT, _DOT, _UPDATE = 0.85, 0.05, 0.10
_CG_NUMBER = 8  # bytes


def cg(size_class: str, processes: int) -> pieces.Skeleton:
    """Return CG of a class on 4, 8 or 16 processes."""
    power = processes.bit_length() - 1
    rows = 1 << power // 2
    columns = processes // rows
    part = _ROWS[size_class] // rows * _CG_NUMBER
    unit = 1 / (_CG_STEPS + _PRODUCT + _DOT)  # of one step

    def row_partners(rank: int) -> list[int]:
        row, column = divmod(rank, columns)
        return [row * columns + (column ^ (columns >> stage)) for stage in range(1, columns.bit_length())]

    def transposed(rank: int) -> int:
        if columns == rows:
            return rank % rows * rows + rank // rows
        return 2 * (rank // 2 % rows * rows + rank // 2 // rows) + rank % 2

    def dot(rank: int, scale: pieces.Scale, share: float) -> list[Operation]:
        operations: list[Operation] = [pieces.burst(scale, share * unit)]
        for partner in row_partners(rank):
            operations += pieces.swap(rank, partner, _CG_NUMBER)
        return operations

    def product(rank: int, scale: pieces.Scale) -> list[Operation]:
        operations: list[Operation] = [pieces.burst(scale, _PRODUCT * unit)]
        for partner in row_partners(rank):
            operations += pieces.swap(rank, partner, part)
        return operations + pieces.swap(rank, transposed(rank), part * rows // columns)

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        step = product(rank, scale) + dot(rank, scale, _DOT) + dot(rank, scale, _UPDATE)
        return step * _CG_STEPS + product(rank, scale) + dot(rank, scale, _DOT) + dot(rank, pieces.Scale(0, 0), 0)

    return pieces.Skeleton(_OUTER[size_class], main, pieces.no_end)


# EP: pairs of random numbers without communication; three sums over all processes at the very end.
#
# NPB 2.3, ep.f: 2^28, 2^30 and 2^32 pairs in batches of 2^16, shared among the processes. A batch takes some 30 ms here.
# 32 batches without anything between them are one burst of about 1 s, whose jitter is that of a sum of 32.

_BATCHES = {"A": 1 << 12, "B": 1 << 14, "C": 1 << 16}
_AT_ONCE = 32
_EP_NUMBER = 8  # bytes


def ep(size_class: str, processes: int) -> pieces.Skeleton:
    """Return EP of a class on 4, 8 or 16 processes."""

    def main(_rank: int, scale: pieces.Scale) -> list[Operation]:
        return [Compute(round(scale.work_us), round(scale.jitter_ppm / _AT_ONCE**0.5))]

    def end(rank: int) -> list[Operation]:
        sums, counts = pieces.allreduce(rank, processes, _EP_NUMBER), pieces.allreduce(rank, processes, 10 * _EP_NUMBER)
        return [*sums, *sums, *counts]

    return pieces.Skeleton(_BATCHES[size_class] // processes // _AT_ONCE, main, end)


# IS: sorting of whole numbers by buckets; every communication is an MPI collective.
#
# NPB 2.3, is.c. An iteration counts keys by bucket, adds up 1024 + 5 counts of all processes (allreduce of 4 KB), tells
# each how many keys it gets (alltoall of 4 bytes a pair), sends them (alltoallv of keys x 4 / n^2 bytes a pair) and ranks
# what has come. There is no work between the three. Counting reads all keys twice and writes them once, ranking reads and
# adds: we take 60 and 40 %. On 16 processes in class C a burst lasts .2 to .3 s: two in an iteration of 1.1 s, of which
# the keys take .4 s on a link of 80 MB/s.

_KEYS = {"A": 1 << 23, "B": 1 << 25, "C": 1 << 27}
_IS_ITERATIONS = 10
_COUNTING = 0.6
_IS_NUMBER = 4  # bytes
_COUNTS = 1024 + 5


def integer_sort(size_class: str, processes: int) -> pieces.Skeleton:
    """Return IS of a class on 4, 8 or 16 processes."""
    pair = _KEYS[size_class] * _IS_NUMBER // processes**2

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        return [
            pieces.burst(scale, _COUNTING),
            *pieces.allreduce(rank, processes, _COUNTS * _IS_NUMBER),
            *pieces.alltoall(rank, processes, _IS_NUMBER),
            *pieces.alltoall(rank, processes, pair),
            pieces.burst(scale, 1 - _COUNTING),
        ]

    return pieces.Skeleton(_IS_ITERATIONS, main, pieces.no_end)


# LU: symmetric Gauss-Seidel in two wavefronts over the planes of a grid; many small messages, no collectives in the loop.
#
# NPB 2.3, LU. Processes are x times y, each with a column of the grid. A time step sweeps over the inner planes from
# north-west to south-east and back: for a plane a process waits for the edges of two neighbours, computes, and sends its
# own edges (five values a point, 1.6 KB in class C on 16 processes) to the two others. Then come the right-hand sides
# with faces (two layers) of the neighbours in x, then in y. By counts of operations the two sweeps have about three
# quarters of the work, the right-hand side one. On 16 processes in class C a burst lasts 6 to 7 ms: 320 planes in a step
# of 2.4 s.

_LU_GRID = {"A": 64, "B": 102, "C": 162}  # points a side
_LU_STEPS = 250
_SWEEPS, _FIRST_RIGHT_HAND = 0.75, 0.08  # the second exchange of faces stands after a third of the right-hand side
_EDGE, _LU_FACE = 5 * 8, 2 * 5 * 8  # bytes a point


def lu(size_class: str, processes: int) -> pieces.Skeleton:
    """Return LU of a class on 4, 8 or 16 processes."""
    across = 1 << (processes.bit_length() - 1) // 2
    down = processes // across
    grid = _LU_GRID[size_class]
    planes = grid - 2

    def at(row: int, column: int) -> int | None:
        return row * across + column if 0 <= row < down and 0 <= column < across else None

    def sweep(rank: int, way: int, scale: pieces.Scale) -> list[Operation]:
        row, column = divmod(rank, across)
        sources = [other for other in (at(row - way, column), at(row, column - way)) if other is not None]
        targets = [
            (other, _EDGE * grid // parts)
            for other, parts in ((at(row + way, column), across), (at(row, column + way), down))
            if other is not None
        ]
        plane: list[Operation] = [Receive(other) for other in sources]
        plane.append(pieces.burst(scale, _SWEEPS / 2 / planes))
        plane += [Send(other, size) for other, size in targets]
        return plane * planes

    def faces(rank: int, *, rows: bool) -> list[Operation]:
        row, column = divmod(rank, across)
        parts = across if rows else down
        places = [at(row + way, column) if rows else at(row, column + way) for way in (-1, 1)]
        return pieces.exchanges(rank, {other: _LU_FACE * grid * grid // parts for other in places if other is not None})

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        return [
            *sweep(rank, 1, scale),
            *sweep(rank, -1, scale),
            *faces(rank, rows=True),
            pieces.burst(scale, _FIRST_RIGHT_HAND),
            *faces(rank, rows=False),
            pieces.burst(scale, 1 - _SWEEPS - _FIRST_RIGHT_HAND),
        ]

    def end(rank: int) -> list[Operation]:
        return 3 * pieces.allreduce(rank, processes, 5 * 8)  # norms, and the surface integral

    return pieces.Skeleton(_LU_STEPS, main, end)


# MG: multigrid; long work on fine grids, and dozens of exchanges with hardly any work between them on coarse ones.
#
# NPB 2.3, mg.f. An iteration is the residual on the finest grid and a V cycle: restriction down to the coarsest grid of
# 2^3, one smoothing, then up to the finest grid interpolation, residual and smoothing. Work falls by 8 from grid to grid;
# residual, smoothing, interpolation and restriction have 35, 30, 20 and 15 % of a grid's work, about as their operations
# a point. All but the interpolation end with an exchange of faces along the three directions. Two neighbours along a
# direction with two processes are one, and get one message with both faces. Bursts below 20 us are added to the next. On
# 16 processes in class C an iteration has 26 bursts of .33 s in the mean, 3 s at most, and 20 of them 20 us or more.

_LEVELS = {"A": 8, "B": 8, "C": 9}  # log2 of the finest grid's points a side
_MG_ITERATIONS = {"A": 4, "B": 20, "C": 20}
_RESIDUAL, _SMOOTHING, _INTERPOLATION, _RESTRICTION = 0.35, 0.30, 0.20, 0.15
_MG_NUMBER = 8  # bytes


def mg(size_class: str, processes: int) -> pieces.Skeleton:
    """Return MG of a class on 4, 8 or 16 processes."""
    finest = _LEVELS[size_class]

    def exchange(rank: int, level: int) -> list[Operation]:
        sizes = [_MG_NUMBER * points for points in faces(processes, 1 << level)]
        return [operation for axis in neighbours(rank, processes, sizes) for operation in pieces.exchanges(rank, axis)]

    total = _RESIDUAL + sum(8.0 ** (level - finest) for level in range(1, finest + 1))

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        def work(level: int, share: float) -> Operation:
            return pieces.burst(scale, share * 8.0 ** (level - finest) / total)

        operations = [work(finest, _RESIDUAL), *exchange(rank, finest)]
        for level in range(finest, 1, -1):
            operations += [work(level, _RESTRICTION), *exchange(rank, level - 1)]
        operations += [work(1, 1.0), *exchange(rank, 1)]
        for level in range(2, finest + 1):
            operations += [work(level, _INTERPOLATION + _RESIDUAL), *exchange(rank, level)]
            operations += [work(level, _SMOOTHING), *exchange(rank, level)]
        return operations

    def end(rank: int) -> list[Operation]:
        return 2 * pieces.allreduce(rank, processes, _MG_NUMBER)  # norm of the residual

    return pieces.Skeleton(_MG_ITERATIONS[size_class], main, end)


# SP and BT: implicit solvers on a grid whose cells are spread so that all processes work in each sweep; no collectives.
#
# NPB 2.3, SP and BT. q^2 processes have q cells each, on a diagonal of q^3. A time step exchanges faces with six
# neighbours (two layers of five values), computes the right-hand side, and solves along x, y and z: q stages of
# elimination, each followed by a message to the next process, and q of substitution backwards. SP's scalar systems send
# 22 and 10 numbers a point, BT's blocks 30 and 5. The right-hand side is 30 % of SP and 15 % of BT; elimination is 3/4 of
# a sweep of SP, 6/7 of BT, whose blocks of 5 x 5 are factored there: by counts of operations, rounded. On 16 processes in
# class C a step has 25 stages of 55 ms (SP) or 185 ms (BT) in the mean; some have no message between them, so 19 bursts
# remain.

_MULTIPARTITION_GRID = {"A": 64, "B": 102, "C": 162}  # points a side
_MULTIPARTITION_NUMBER = 8  # bytes
_MULTIPARTITION_FACE = 2 * 5  # numbers a point
_DIRECTIONS = 3


class _Solver(NamedTuple):
    steps: int
    forward: int  # numbers a point
    backward: int
    right_hand: float  # share of the work
    elimination: float  # share of a sweep


_SP = _Solver(400, 22, 10, 0.30, 3 / 4)
_BT = _Solver(200, 30, 5, 0.15, 6 / 7)


def sp(size_class: str, processes: int) -> pieces.Skeleton:
    """Return SP of a class on 4, 9 or 16 processes."""
    return _skeleton(_SP, size_class, processes)


def bt(size_class: str, processes: int) -> pieces.Skeleton:
    """Return BT of a class on 4, 9 or 16 processes."""
    return _skeleton(_BT, size_class, processes)


def _skeleton(solver: _Solver, size_class: str, processes: int) -> pieces.Skeleton:
    side = round(processes**0.5)
    points = (_MULTIPARTITION_GRID[size_class] / side) ** 2  # of a cell's face
    stage = (1 - solver.right_hand) / _DIRECTIONS / side

    def neighbours(rank: int) -> list[tuple[int, int]]:
        """Return the next and the previous process along x, y and z."""
        i, j = divmod(rank, side)
        steps = ((1, 0), (0, 1), (-1, -1))
        return [((i + a) % side * side + (j + b) % side, (i - a) % side * side + (j - b) % side) for a, b in steps]

    def faces(rank: int) -> list[Operation]:
        size = round(points * (side - 1) * _MULTIPARTITION_FACE * _MULTIPARTITION_NUMBER)
        sizes: dict[int, int] = {}
        for pair in neighbours(rank):
            for other in pair:  # on four processes the next is the previous: one message has both faces
                sizes[other] = sizes.get(other, 0) + size
        return pieces.exchanges(rank, sizes)

    def sweep(after: int, before: int, scale: pieces.Scale) -> list[Operation]:
        operations: list[Operation] = []
        for work, numbers, to, source in (
            (solver.elimination, solver.forward, after, before),
            (1 - solver.elimination, solver.backward, before, after),
        ):
            for place in range(side):
                if place:
                    operations.append(Receive(source))
                operations.append(pieces.burst(scale, stage * work))
                if place < side - 1:
                    operations.append(Send(to, round(points * numbers * _MULTIPARTITION_NUMBER)))
        return operations

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        operations = [*faces(rank), pieces.burst(scale, solver.right_hand)]
        for after, before in neighbours(rank):
            operations += sweep(after, before, scale)
        return operations

    def end(rank: int) -> list[Operation]:
        return 2 * pieces.allreduce(rank, processes, 5 * _MULTIPARTITION_NUMBER)  # norms of residual and error

    return pieces.Skeleton(solver.steps, main, end)


# sPPM and BlockSolve95, of which the paper prints a run time and how much they communicate; their structure is our
# choice.
#
# sPPM (low): a step sweeps along x, y and z. Before each sweep a process exchanges large faces with its two neighbours
# along that axis (20 numbers a point of a face of 96 x 96 or 48 x 96 points: 1.5 and .7 MB); after the three, a minimum
# over all processes gives the next step. Bursts are about .4 s. BlockSolve95 (medium): steps of conjugate gradients on a
# grid in blocks; a product after an exchange of 20 KB with each neighbour in three directions, and two dot products by
# allreduce. Bursts are 10 to 20 ms.

_NUMBER = 8  # bytes
_SPPM_STEPS, _BLOCK_STEPS = 2_000, 24_000
_SPPM_GRID, _SPPM_NUMBERS = 192, 20  # points a side, numbers a point
_BLOCK_FACE = 20_000  # bytes
_BLOCK_PRODUCT = 0.6


def sppm(_size_class: str, processes: int) -> pieces.Skeleton:
    """Return sPPM on 4, 8 or 16 processes."""
    sizes = [_SPPM_NUMBERS * _NUMBER * points for points in faces(processes, _SPPM_GRID)]

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        operations: list[Operation] = []
        for axis in neighbours(rank, processes, sizes):
            operations += [*pieces.exchanges(rank, axis), pieces.burst(scale, 1 / 3)]
        return operations + pieces.allreduce(rank, processes, _NUMBER)

    return pieces.Skeleton(_SPPM_STEPS, main, pieces.no_end)


def blocksolve(_size_class: str, processes: int) -> pieces.Skeleton:
    """Return BlockSolve95 on 4, 8 or 16 processes."""

    def main(rank: int, scale: pieces.Scale) -> list[Operation]:
        operations: list[Operation] = []
        for axis in neighbours(rank, processes, [_BLOCK_FACE] * 3):
            operations += pieces.exchanges(rank, axis)
        dot = pieces.allreduce(rank, processes, _NUMBER)
        return [*operations, pieces.burst(scale, _BLOCK_PRODUCT), *dot, pieces.burst(scale, 1 - _BLOCK_PRODUCT), *dot]

    return pieces.Skeleton(_BLOCK_STEPS, main, pieces.no_end)


# The skeletons by name, and programs made of them that take a given time alone.

JITTER_PPM: Final = 170_000  # of each burst: a standard deviation of 10 %; the paper gives none
SKELETONS: Final[Mapping[str, Callable[[str, int], pieces.Skeleton]]] = {
    "CG": cg,
    "IS": integer_sort,
    "SP": sp,
    "MG": mg,
    "BT": bt,
    "LU": lu,
    "EP": ep,
    "sPPM": sppm,
    "BlockSolve95": blocksolve,
}
_SHARES: Final = Path(__file__).with_name("compute_shares.csv")


@cache  # jobs of the same kind have the same program: it is large, and clusters compare programs
def skeleton_program(
    name: str,
    size_class: str,
    processes: int,
    seconds: float,
    iterations: int | None = None,
    jitter_ppm: int = JITTER_PPM,
    grain: float = 1.0,
) -> Program:
    """Return a program of the skeletons that takes ``seconds`` alone, with all of its iterations; of ``iterations`` if given.

    The length of its bursts is that of `compute_share`, which was measured with `JITTER_PPM`. With a ``grain`` other than 1,
    bursts and messages are so many times as large, and there are fewer iterations accordingly.
    """
    work_us = seconds * SECOND_US * compute_share(name, size_class, processes, grain)
    return program_of_work(name, size_class, processes, work_us, iterations, jitter_ppm, grain)


def program_of_work(
    name: str,
    size_class: str,
    processes: int,
    work_us: float,
    iterations: int | None,
    jitter_ppm: int = JITTER_PPM,
    grain: float = 1.0,
) -> Program:
    """Return a program in which each process computes for ``work_us`` in all of its iterations, less in fewer of them."""
    skeleton = SKELETONS[name](size_class, processes)
    whole = iterations_of(name, size_class, processes, grain)
    scale = pieces.Scale(work_us / whole, jitter_ppm)
    return Program(skeleton.loops(processes, iterations or whole, scale, skeleton.iterations / whole))


def iterations_of(name: str, size_class: str, processes: int, grain: float = 1.0) -> int:
    """Return how many iterations the program has."""
    return max(1, round(SKELETONS[name](size_class, processes).iterations / grain))


def compute_share(name: str, size_class: str, processes: int, grain: float = 1.0) -> float:
    """Return the share of its run time alone for which a process computes, as `scripts/papers/coscheduling/calibrate.py` found.

    With more and smaller messages it is smaller, as each takes some time whatever its size.
    """
    computing_ppm, messages_ppm = _shares()[name, size_class, processes]
    usual = iterations_of(name, size_class, processes)
    more = iterations_of(name, size_class, processes, grain) / usual - 1
    return (computing_ppm - messages_ppm * more) / WHOLE_PPM


class _Shares(NamedTuple):
    """What was measured of one kind of job alone."""

    computing_ppm: int  # of the time, for which a process computes
    messages_ppm: int  # of the time, that messages take whatever their size


@cache
def _shares() -> Mapping[tuple[str, str, int], _Shares]:
    with _SHARES.open(encoding="utf-8", newline="") as stream:
        return {
            (row["program"], row["class"], int(row["processes"])): _Shares(
                int(row["computing_ppm"]), int(row["messages_ppm"])
            )
            for row in DictReader(stream)
        }
