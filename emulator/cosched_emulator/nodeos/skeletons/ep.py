"""EP: pairs of random numbers without communication; three sums over all processes at the very end.

NPB 2.3, ep.f: 2^28, 2^30 and 2^32 pairs in batches of 2^16, shared among the processes. A batch takes some 30 ms here.
32 batches without anything between them are one burst of about 1 s, whose jitter is that of a sum of 32.
"""

from __future__ import annotations

from cosched_emulator.nodeos.programs import Compute, Operation
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton, allreduce

_BATCHES = {"A": 1 << 12, "B": 1 << 14, "C": 1 << 16}
_AT_ONCE = 32
_NUMBER = 8  # bytes


def ep(size_class: str, processes: int) -> Skeleton:
    """Return EP of a class on 4, 8 or 16 processes."""

    def main(_rank: int, scale: Scale) -> list[Operation]:
        return [Compute(round(scale.work_us), round(scale.jitter_ppm / _AT_ONCE**0.5))]

    def end(rank: int) -> list[Operation]:
        sums, counts = allreduce(rank, processes, _NUMBER), allreduce(rank, processes, 10 * _NUMBER)
        return [*sums, *sums, *counts]

    return Skeleton(_BATCHES[size_class] // processes // _AT_ONCE, main, end)
