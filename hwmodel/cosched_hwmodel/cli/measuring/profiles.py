"""Measured kernels as demand in the composite model, and what they tell of the node: slots of a core, costs of cache misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Final

from cosched_hwmodel.cli.measuring.kernels import NUMPY, Kernel
from cosched_hwmodel.cli.measuring.measurement import MB, NodeMeasurement
from cosched_hwmodel.cli.node_choice import CORE
from cosched_hwmodel.composite.job_profile import MOST, Profile, checked
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM

CHAINS: Final = 4  # loads that the kernel for caches waits for at a time, in C
LINE_BYTES: Final = 64
BLOCK_BYTES: Final = 1 << 20  # of one request on the disk
MESSAGE_BYTES: Final = 64 * 1024


def with_costs(found: NodeMeasurement) -> NodeShape:
    """Return the node with what the kernels tell of it.

    - A core has the issue slots of one reference core of each kind, where two threads of one were measured; else they
      stay without limit.
    - A miss costs the difference between a load from the next cache, or from memory, and one from here.
    """
    rates = _rates(found)
    together = _ratios_on_core(found)
    slots = {kernel: WHOLE_PPM if kernel in together else 0 for kernel in ("integer", "float")}
    caches = []
    for index, cache in enumerate(found.node.caches):
        further = found.node.caches[index + 1 :]
        beyond = f"cache{further[0].level}" if further else "memory"
        here = f"cache{cache.level}"
        cost = _load_ns(found, rates[beyond]) - _load_ns(found, rates[here]) if {here, beyond} <= rates.keys() else 0.0
        caches.append(cache._replace(miss_ns=max(0, round(cost))))
    return replace(
        found.node, caches=tuple(caches), integer_slots_ppm=slots["integer"], floating_slots_ppm=slots["float"]
    )


def profiles_of(found: NodeMeasurement) -> dict[str, Profile]:
    """Return the demand of a process of each kernel that was measured alone."""
    rates = _rates(found)
    together = _ratios_on_core(found)
    return {
        kernel.name: checked(_profile(found, kernel, rates[kernel.name], together.get(kernel.name)))
        for kernel in found.kernels
        if kernel.name in rates
    }


def _profile(found: NodeMeasurement, kernel: Kernel, rate: float, with_itself: float | None) -> Profile:
    """Return the demand of a kernel; ``with_itself`` is its ratio beside itself on one core, None where it is unknown."""
    slots = 0 if with_itself is None else round(WHOLE_PPM * max(0.5, min(1.0, with_itself / 2)))
    memory_mb = -(-kernel.working_set_kb // 1024)
    match kernel.kind:
        case "integer":
            return Profile(integer_ppm=slots)
        case "float":
            return Profile(floating_ppm=slots)
        case "chase":
            traffic = rate * LINE_BYTES / MB if kernel.name == "memory" else 0
            return Profile(
                working_set_kb=kernel.working_set_kb,
                accesses_ms=min(MOST["accesses_ms"], round(rate / 1000)),
                exposed_ppm=WHOLE_PPM // _waiting(found),
                memory_mbs=round(traffic),
                memory_mb=memory_mb,
            )
        case "stream":  # without data that it uses again: no cache can keep them
            return Profile(memory_mbs=round(rate / MB), memory_mb=memory_mb)
        case "disk":
            return Profile(
                cpu_ppm=0, disk_ppm=WHOLE_PPM, disk_mbs=max(1, round(rate / MB)), request_ns=_time_ns(BLOCK_BYTES, rate)
            )
        case _:
            return Profile(
                network_ppm=WHOLE_PPM, network_mbs=max(1, round(rate / MB)), message_ns=_time_ns(MESSAGE_BYTES, rate)
            )


def _rates(found: NodeMeasurement) -> Mapping[str, float]:
    """Return the rate of each kernel alone, units a second: the median over the seats."""
    return {
        kernel.name: median(rates)
        for kernel in found.kernels
        if (rates := [each.rate.value for each in found.alone if each.kernel == kernel.name])
    }


def _ratios_on_core(found: NodeMeasurement) -> Mapping[str, float]:
    return {pair.row: pair.ratio.value for pair in found.pairs if pair.seat == CORE and pair.row == pair.column}


def _waiting(found: NodeMeasurement) -> int:
    """Return how many loads the kernel for caches waits for at a time; numpy's do not wait for each other, and count as one."""
    return 1 if found.made_by == NUMPY else CHAINS


def _load_ns(found: NodeMeasurement, rate: float) -> float:
    return _waiting(found) * 1e9 / rate


def _time_ns(size_bytes: int, rate: float) -> int:
    return min(MOST["request_ns"], round(size_bytes * 1e9 / rate))
