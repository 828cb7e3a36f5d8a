"""The part of the largest cache that is really there."""

from __future__ import annotations

import pytest

from cosched_hwmodel.cli.measuring.cache_sizes import find_sizes
from cosched_hwmodel.cli.measuring.kernels import Kernel, Toolchain
from cosched_hwmodel.cli.measuring.measuring_session import MeasuringSession
from cosched_hwmodel.topology import Cache

CACHES = (Cache(2, 1024, 1), Cache(3, 32768, 4))
KERNELS = [
    Kernel("cache2", "chase", "768", "loads", 768),
    Kernel("cache3", "chase", "24576", "loads", 24576),
    Kernel("memory", "chase", "131072", "loads", 131072),
]


class Machine(MeasuringSession):
    """A machine on which loads from more than ``fast_kb`` are as slow as from memory; no kernel runs."""

    def __init__(self, fast_kb: int) -> None:
        super().__init__(Toolchain((), "a test"), 1.0, 1, [], None)
        self.fast_kb = fast_kb

    def best_rate(self, kernel: Kernel, cpu: int) -> float | None:
        return 100.0 if kernel.working_set_kb <= self.fast_kb else 20.0


@pytest.mark.parametrize(
    ("fast_kb", "kernel_kb", "cache_kb"),
    [(40000, 24576, 32768), (24576, 24576, 32768), (13000, 12288, 16384), (6144, 6144, 8192), (3072, 3072, 4096)],
)
def test_the_largest_size_with_fast_loads_counts(fast_kb: int, kernel_kb: int, cache_kb: int) -> None:
    notes: list[str] = []
    kernels, caches = find_sizes(KERNELS, CACHES, Machine(fast_kb), 0, notes)
    assert [kernel.name for kernel in kernels] == ["cache2", "cache3", "memory"]
    assert (kernels[1].working_set_kb, kernels[1].argument) == (kernel_kb, str(kernel_kb))
    assert caches == (CACHES[0], Cache(3, cache_kb, 4))
    assert len(notes) == (cache_kb < 32768)
    assert all(f"of 32768 KiB about {cache_kb} KiB were found" in note for note in notes)


def test_a_cache_without_effect_has_no_kernel() -> None:
    notes: list[str] = []
    kernels, caches = find_sizes(KERNELS, CACHES, Machine(1000), 0, notes)
    assert [kernel.name for kernel in kernels] == ["cache2", "memory"]
    assert caches == CACHES
    assert notes == ["L3: loads are as slow as from memory, whatever the size; its kernel was not run"]


def test_without_caches_nothing_is_tried() -> None:
    assert find_sizes(KERNELS, (), Machine(0), 0, []) == (KERNELS, ())
