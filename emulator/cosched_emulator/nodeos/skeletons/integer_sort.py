"""IS: sorting of whole numbers by buckets; every communication is an MPI collective.

NPB 2.3, is.c. An iteration counts keys by bucket, adds up 1024 + 5 counts of all processes (allreduce of 4 KB), tells
each how many keys it gets (alltoall of 4 bytes a pair), sends them (alltoallv of keys x 4 / n^2 bytes a pair) and ranks
what has come. There is no work between the three. Counting reads all keys twice and writes them once, ranking reads and
adds: we take 60 and 40 %. On 16 processes in class C a burst lasts .2 to .3 s: two in an iteration of 1.1 s, of which
the keys take .4 s on a link of 80 MB/s.
"""

from __future__ import annotations

from cosched_emulator.nodeos.programs import Operation
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, allreduce, alltoall, burst, no_end

_KEYS = {"A": 1 << 23, "B": 1 << 25, "C": 1 << 27}
_ITERATIONS = 10
_COUNTING = 0.6
_NUMBER = 4  # bytes
_COUNTS = 1024 + 5


def integer_sort(size_class: str, processes: int) -> Skeleton:
    """Return IS of a class on 4, 8 or 16 processes."""
    pair = _KEYS[size_class] * _NUMBER // processes**2

    def main(rank: int, scale: Scale) -> list[Operation]:
        return [
            burst(scale, _COUNTING),
            *allreduce(rank, processes, _COUNTS * _NUMBER),
            *alltoall(rank, processes, _NUMBER),
            *alltoall(rank, processes, pair),
            burst(scale, 1 - _COUNTING),
        ]

    return Skeleton(_ITERATIONS, main, no_end)
