"""The skeletons by name, and programs made of them that take a given time alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from csv import DictReader
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

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
    scale = Scale(work_us / whole, jitter_ppm)
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
