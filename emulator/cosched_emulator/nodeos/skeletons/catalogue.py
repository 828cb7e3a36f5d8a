"""The skeletons by name, and programs made of them that take a given time alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from csv import DictReader
from functools import cache
from pathlib import Path
from typing import Final

from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.skeletons.cg import cg
from cosched_emulator.nodeos.skeletons.ep import ep
from cosched_emulator.nodeos.skeletons.integer_sort import integer_sort
from cosched_emulator.nodeos.skeletons.lu import lu
from cosched_emulator.nodeos.skeletons.mg import mg
from cosched_emulator.nodeos.skeletons.multipartition import bt, sp
from cosched_emulator.nodeos.skeletons.others import blocksolve, sppm
from cosched_emulator.nodeos.skeletons.pieces import Scale, Skeleton
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

JITTER_PPM: Final = 170_000  # of each burst: a standard deviation of 10 %; the paper gives none
SKELETONS: Final[Mapping[str, Callable[[str, int], Skeleton]]] = {
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
) -> Program:
    """Return a program of the skeletons that takes ``seconds`` alone, with all of its iterations; of ``iterations`` if given.

    The length of its bursts is that of `compute_share`, which was measured with `JITTER_PPM`.
    """
    work_us = seconds * SECOND_US * compute_share(name, size_class, processes)
    return program_of_work(name, size_class, processes, work_us, iterations, jitter_ppm)


def program_of_work(
    name: str, size_class: str, processes: int, work_us: float, iterations: int | None, jitter_ppm: int = JITTER_PPM
) -> Program:
    """Return a program in which each process computes for ``work_us`` in all of its iterations, less in fewer of them."""
    skeleton = SKELETONS[name](size_class, processes)
    scale = Scale(work_us / skeleton.iterations, jitter_ppm)
    return Program(skeleton.loops(processes, iterations or skeleton.iterations, scale))


def iterations_of(name: str, size_class: str, processes: int) -> int:
    """Return how many iterations the program has."""
    return SKELETONS[name](size_class, processes).iterations


def compute_share(name: str, size_class: str, processes: int) -> float:
    """Return the share of its run time alone for which a process computes, as `scripts/papers/coscheduling/calibrate.py` found."""
    return _shares()[name, size_class, processes] / WHOLE_PPM


@cache
def _shares() -> Mapping[tuple[str, str, int], int]:
    with _SHARES.open(encoding="utf-8", newline="") as stream:
        return {
            (row["program"], row["class"], int(row["processes"])): int(row["computing_ppm"])
            for row in DictReader(stream)
        }
