"""The measurement of this machine: kernels alone and in pairs on each seat, and what all CPUs do together."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cosched_hwmodel.cli.measuring.cache_sizes import find_sizes
from cosched_hwmodel.cli.measuring.host import Host, HostSeat, Layout, layout_of, read_host, seats_of
from cosched_hwmodel.cli.measuring.kernels import FILLED_KB_S, Kernel, kernels_of, toolchain
from cosched_hwmodel.cli.measuring.measurement import MeasuredFigure, NodeMeasurement
from cosched_hwmodel.cli.measuring.measuring_session import MeasuringSession
from cosched_hwmodel.cli.measuring.profiles import with_costs
from cosched_hwmodel.cli.node_choice import CORE, NODE
from cosched_hwmodel.topology import NodeShape

MOST_TOGETHER: Final = 256  # processes that measure a capacity
MOST_WRITERS: Final = 4  # processes that write to the disk at once
LEAST_ARRAY_KB: Final = 8 * 1024  # of one of them
LOADED: Final = 0.25  # load average for each CPU above which other programs count as a disturbance
STOLEN: Final = 0.02  # part of the CPU time that a hypervisor may keep without a note
ABSENT: Final = {
    CORE: "pairs on one core: the machine shows one hardware thread for each core",
    NODE: "pairs on different sockets: the machine has one socket",
}


def measure_node(
    seconds: float,
    disk: str | None,
    name: str,
    compilers: tuple[str, ...],
    told: Callable[[int, int], None] | None = None,
) -> NodeMeasurement:
    """Measure this machine; ``told`` gets the number of windows done, and of all windows.

    ``seconds`` is the budget, about; ``disk`` a folder on the disk to measure, None for no disk.
    What cannot be measured is a note. Nothing waits without a deadline; no process or file is left, also after an exception.
    """
    began = time.monotonic()
    host = read_host()
    layout = layout_of(host)
    notes = [*host.notes, *layout.notes, *_surroundings(host)]
    kernels = kernels_of(host, disk, notes, seconds)
    seats = _seats(host, notes)
    before = _cpu_times()
    with toolchain(notes, compilers) as tools:
        left_s = seconds - (time.monotonic() - began)
        left_s = max(seconds / 2, left_s)  # the compiler may have needed all of it
        session = MeasuringSession(tools, left_s, max(1, len(seats)), notes, told)
        kernels, caches = find_sizes(kernels, layout.caches, session, min(host.allowed), notes)
        layout = layout._replace(caches=caches)
        for seat in seats or [HostSeat("alone", min(host.allowed), min(host.allowed))]:
            session.measure_seat(seat, kernels)
        capacities = _capacities(host, kernels, session, seconds)
    stolen = _stolen(before, _cpu_times())
    if stolen > STOLEN:
        notes.append(f"time: the hypervisor kept {stolen:.0%} of the CPU time; rates are too low by about as much")
    node, sources = _node(name, host, layout, capacities)
    if len(host.allowed) < len(host.cpus):
        notes.append(
            f"memory bandwidth: with {host.usable} of {len(host.cpus)} hardware threads, which may not be able to use all of it"
        )
    found = NodeMeasurement(
        node=node,
        layout=layout,
        made_by=tools.made_by,
        kernels=tuple(kernels),
        alone=session.alone(),
        pairs=session.pairs(),
        capacities=capacities,
        sources=sources,
        seconds=time.monotonic() - began,
        notes=tuple(notes),
    )
    return found._replace(node=with_costs(found))


def _seats(host: Host, notes: list[str]) -> list[HostSeat]:
    """Return the seats that can be measured; ``notes`` gets those that cannot."""
    if host.cpu_limit is not None and host.cpu_limit < 2:
        notes.append(
            f"pairs: the control group of this process allows {host.cpu_limit:g} CPUs' worth of time, a pair needs 2"
        )
        return []
    if len(host.allowed) < 2:
        notes.append("pairs: this process may use one CPU only, a pair needs 2")
        return []
    seats = seats_of(host, host.allowed)
    usable = {seat.name for seat in seats}
    there = {seat.name for seat in seats_of(host, frozenset(cpu.number for cpu in host.cpus))}
    notes += [text for name, text in ABSENT.items() if name not in there]
    notes += [f"pairs on seat {name}: this process may not use two such CPUs" for name in sorted(there - usable)]
    return seats


def _capacities(
    host: Host, kernels: list[Kernel], session: MeasuringSession, seconds: float
) -> dict[str, MeasuredFigure]:
    """Return the MB/s of memory and loopback that all cores reach together, and of the disk that a few of them reach."""
    cores = {cpu.core: cpu.number for cpu in reversed(host.cpus) if cpu.number in host.allowed}
    cpus = sorted(cores.values())[: min(host.usable, MOST_TOGETHER)]
    found = {}
    for kernel in kernels:
        if kernel.name == "stream":
            largest = max((cache.level for cache in host.caches), default=0)
            caches_kb = sum(cache.size_kb for cache in host.caches if cache.level == largest)
            array_kb = min(4 * caches_kb // len(cpus), round(seconds * FILLED_KB_S))
            array_kb = min(max(LEAST_ARRAY_KB, array_kb), host.available_mb * 1024 // 2 // len(cpus))
            figure = session.measure_capacity(kernel._replace(argument=str(array_kb)), cpus)
        elif kernel.name in ("network", "disk"):
            figure = session.measure_capacity(kernel, cpus[: MOST_WRITERS if kernel.name == "disk" else None])
        else:
            continue
        if figure is not None:
            found[kernel.name] = figure
    return found


def _node(
    name: str, host: Host, layout: Layout, capacities: dict[str, MeasuredFigure]
) -> tuple[NodeShape, dict[str, str]]:
    """Return the node, and where each of its rates comes from."""
    rates: dict[str, Any] = {}
    sources = {}
    if "stream" in capacities:
        rates["memory_bandwidth_mbs"] = max(1, round(capacities["stream"].value))
        sources["memory_bandwidth_mbs"] = "stream on all cores that could be used"
    if host.network_mbs:
        rates["network_mbs"] = host.network_mbs
        sources["network_mbs"] = "link of the fastest network card, as Linux names it; not measured"
    elif "network" in capacities:
        rates["network_mbs"] = max(1, round(capacities["network"].value))
        sources["network_mbs"] = "loopback on all cores that could be used: no network card names its rate"
    if "disk" in capacities:
        rates["disk_mbs"] = max(1, round(capacities["disk"].value))
        sources["disk_mbs"] = f"blocks of 1 MiB written past the page cache, by up to {MOST_WRITERS} processes at once"
    node = NodeShape(
        name=name,
        sockets=layout.sockets,
        cores_per_socket=layout.cores_per_socket,
        threads_per_core=layout.threads_per_core,
        memory_mb=host.memory_mb,
        caches=layout.caches,
        **rates,
    )
    return node, sources


# ---------------------------------------------------------------- surroundings


def _surroundings(host: Host) -> list[str]:
    """Return notes on what makes measurements here less certain: a hypervisor, other programs, a limit of time."""
    notes = []
    try:
        if " hypervisor" in Path("/proc/cpuinfo").read_text(errors="replace"):
            notes.append("topology: a virtual machine; cores and caches are those that the hypervisor shows")
        load = float(Path("/proc/loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        load = 0.0
    if load > LOADED * len(host.cpus):
        notes.append(f"time: other programs run (load average {load:.1f}); rates and ratios suffer from them")
    if host.cpu_limit is not None and host.cpu_limit < len(host.allowed):
        notes.append(f"time: the control group of this process allows {host.cpu_limit:g} CPUs' worth of it")
    return notes


def _cpu_times() -> list[int]:
    """Return the ticks of all CPUs together by kind (proc(5)); empty where they are unknown."""
    try:
        return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return []


def _stolen(before: list[int], after: list[int]) -> float:
    """Return the part of the CPU time between two readings that a hypervisor gave to others."""
    spent = [late - early for early, late in zip(before, after, strict=False)]
    return spent[7] / sum(spent) if len(spent) == 8 and sum(spent) > 0 else 0.0
