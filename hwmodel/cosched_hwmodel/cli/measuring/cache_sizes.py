"""The part of the largest cache that this machine really has: neighbours on the same processor, unseen, may have the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.cli.measuring.kernels import CACHE_SHARE, Kernel
from cosched_hwmodel.cli.measuring.measuring_session import MeasuringSession
from cosched_hwmodel.topology import Cache

FASTER: Final = 1.5  # times as many loads as from memory: the data are in the cache
HALVINGS: Final = 3


class FoundCaches(NamedTuple):
    """The kernels and the caches of the node, with the sizes that were found."""

    kernels: list[Kernel]
    caches: tuple[Cache, ...]


def find_sizes(
    kernels: Sequence[Kernel], caches: Sequence[Cache], session: MeasuringSession, cpu: int, notes: list[str]
) -> FoundCaches:
    """Shrink the working set of the largest cache's kernel until its loads are faster than those from memory.

    The node gets a cache for which the kernel's working set is the same part as before. Where no size is faster, the kernel
    is left out and the cache keeps its size. Each change is a note.
    """
    unchanged = FoundCaches(list(kernels), tuple(caches))
    by_name = {kernel.name: kernel for kernel in kernels}
    if not caches:
        return unchanged
    last = caches[-1]
    kernel = by_name.get(f"cache{last.level}")
    from_memory = session.best_rate(by_name["memory"], cpu)
    if kernel is None or from_memory is None:
        return unchanged
    nearer_kb = caches[-2].size_kb if len(caches) > 1 else 0
    sizes = [kernel.working_set_kb >> halvings for halvings in range(HALVINGS + 1)]
    for size_kb in [size_kb for size_kb in sizes if size_kb > nearer_kb]:
        tried = kernel._replace(argument=str(size_kb), working_set_kb=size_kb)
        rate = session.best_rate(tried, cpu)
        if rate is None:
            return unchanged
        if rate >= FASTER * from_memory:
            break
    else:
        notes.append(f"L{last.level}: loads are as slow as from memory, whatever the size; its kernel was not run")
        return unchanged._replace(kernels=[each for each in kernels if each is not kernel])
    if tried.working_set_kb == kernel.working_set_kb:
        return unchanged
    size_kb = tried.working_set_kb * CACHE_SHARE[1] // CACHE_SHARE[0]
    notes.append(
        f"L{last.level}: of {last.size_kb} KiB about {size_kb} KiB were found, as loads from more are as slow as from memory; "
        "the node has that size"
    )
    return FoundCaches(
        [tried if each is kernel else each for each in kernels], (*caches[:-1], last._replace(size_kb=size_kb))
    )
