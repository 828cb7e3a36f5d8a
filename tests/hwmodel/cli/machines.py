"""Folders like /sys and /proc of machines that are not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path


def write(folder: Path, files: Mapping[str, object]) -> None:
    """Write small files, each with the folders above it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def cpu_list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def make_machine(
    folder: Path, sockets: int, cores: int, threads: int, caches: Mapping[int, tuple[str, int]] | None = None
) -> tuple[Path, Path]:
    """Write a machine and return its /sys and /proc.

    As most machines, it numbers the first threads of all cores first. ``caches`` is level -> (size, cores that share one).
    """
    total = sockets * cores
    cpus = range(total * threads)
    system = "sys/devices/system"
    write(
        folder,
        {
            f"{system}/cpu/online": f"0-{len(cpus) - 1}",
            "proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB",
        },
    )
    for socket in range(sockets):
        own = [cpu for cpu in cpus if cpu % total // cores == socket]
        write(folder, {f"{system}/node/node{socket}/cpulist": cpu_list(own)})
    for cpu in cpus:
        core = cpu % total
        here = f"{system}/cpu/cpu{cpu}"
        write(folder, {f"{here}/topology/physical_package_id": core // cores, f"{here}/topology/core_id": core % cores})
        write(folder, _cache_files(here, core, cpus, total, caches or {}))
    return folder / "sys", folder / "proc"


def _cache_files(
    here: str, core: int, cpus: Iterable[int], total: int, caches: Mapping[int, tuple[str, int]]
) -> dict[str, object]:
    files: dict[str, object] = {}
    for index, (level, (size, sharing)) in enumerate(caches.items()):
        cache = f"{here}/cache/index{index}"
        shared = cpu_list(cpu for cpu in cpus if cpu % total // sharing == core // sharing)
        files |= {
            f"{cache}/level": level,
            f"{cache}/type": "Unified",
            f"{cache}/size": size,
            f"{cache}/shared_cpu_list": shared,
        }
    return files
