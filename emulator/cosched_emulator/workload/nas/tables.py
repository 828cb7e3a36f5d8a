"""The programs of the paper on communication-driven coscheduling (Choi et al. 2004): run times, sizes and memory.

Run times are Table 1's, memory of class C is Table 2's; what the paper does not print is our decision, as said below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from cosched_emulator.errors import ConfigurationError

REFERENCE: Final = 16  # processors, for which Table 1 holds
PREFIX: Final = "nas:"  # of a job's program, such as nas:CG.C
_CUBES, _SQUARES = (4, 8, 16), (4, 9, 16)


class Facts(NamedTuple):
    """One program. Keys are classes; a program without classes has the one class ``""``."""

    seconds: Mapping[str, float]  # alone on 16 processors, Table 1
    sizes: tuple[int, ...]  # numbers of processes
    memory_mb: Mapping[str, float]  # of a process of 16
    shrinks: bool = True  # memory of a process is inverse to their number


class Kind(NamedTuple):
    """A program, its class and its number of processes."""

    program: str
    size_class: str
    processes: int

    @property
    def name(self) -> str:
        """Return the name of such a job, as ``CG.C.16`` or ``sPPM.16``."""
        return f"{label(self.program, self.size_class)}.{self.processes}"

    @property
    def seconds(self) -> float:
        """Return the run time alone: that on 16 processors x 16 / processes."""
        return PROGRAMS[self.program].seconds[self.size_class] * REFERENCE / self.processes

    @property
    def memory_mb(self) -> int:
        """Return the memory of a process in MB: as printed in Table 2, else scaled from 16 processes."""
        printed = TABLE_2.get(self.name)
        if printed is not None:
            return printed
        facts = PROGRAMS[self.program]
        mb = facts.memory_mb[self.size_class]
        return math.ceil(mb * REFERENCE / self.processes if facts.shrinks else mb)


def _scaled(mb: float, a: float, b: float) -> dict[str, float]:
    return {"A": mb * a, "B": mb * b, "C": mb}


def _times(a: float, b: float, c: float) -> dict[str, float]:
    return {"A": a, "B": b, "C": c}


# Memory of classes A and B is that of C by the ratio of the problems: grids of 64, 102 and 162 points a side (SP, BT, LU), of
# 256, 256 and 512 (MG), 2^23, 2^25 and 2^27 keys (IS), non-zeros of the matrix (CG). CG and LU of class C, sPPM and
# BlockSolve95 are guesses. A process of EP keeps one batch of numbers, whatever its class and the number of processes.
PROGRAMS: Final[Mapping[str, Facts]] = {
    "CG": Facts(_times(1.3, 49.2, 186.0), _CUBES, _scaled(60, 0.05, 0.38)),
    "IS": Facts(_times(1.0, 2.4, 10.9), _CUBES, _scaled(107, 1 / 16, 1 / 4)),
    "SP": Facts(_times(34.5, 152.5, 607.1), _SQUARES, _scaled(111, 0.062, 0.25)),
    "MG": Facts(_times(2.4, 61.5, 191.0), _CUBES, _scaled(228, 0.125, 0.125)),
    "BT": Facts(_times(53.1, 435.3, 995.4), _SQUARES, _scaled(272, 0.062, 0.25)),
    "LU": Facts(_times(32.2, 148.7, 604.9), _CUBES, _scaled(60, 0.062, 0.25)),
    "EP": Facts(_times(7.9, 31.3, 126.2), _CUBES, _scaled(8, 1, 1), shrinks=False),
    "sPPM": Facts({"": 2726.0}, _CUBES, {"": 60}),
    "BlockSolve95": Facts({"": 941.0}, _CUBES, {"": 60}),
}
NAS: Final = tuple(name for name, facts in PROGRAMS.items() if "" not in facts.seconds)
CLASSES: Final = ("A", "B", "C")
SIZES: Final = tuple(sorted({size for facts in PROGRAMS.values() for size in facts.sizes}))
# MB of a process. BT.C.4 and MG.C.4 are not there: they would need more than the 900 MB of a node.
TABLE_2: Final[Mapping[str, int]] = {
    "SP.C.4": 354, "SP.C.9": 176, "SP.C.16": 111, "BT.C.9": 473, "BT.C.16": 272,
    "MG.C.8": 456, "MG.C.16": 228, "IS.C.4": 428, "IS.C.8": 214, "IS.C.16": 107,
}  # fmt: skip
LABELS: Final = tuple(
    f"{name}.{size_class}".rstrip(".") for name, facts in PROGRAMS.items() for size_class in facts.seconds
)


def label(program: str, size_class: str) -> str:
    """Return a program and its class, as ``CG.C`` or ``sPPM``."""
    return f"{program}.{size_class}" if size_class else program


def kinds() -> list[Kind]:
    """Return all kinds of jobs."""
    return [
        Kind(name, size_class, processes)
        for name, facts in PROGRAMS.items()
        for size_class in facts.seconds
        for processes in facts.sizes
    ]


def kind_of(text: str, processes: int, path: str) -> Kind:
    """Return the kind of a job with this program and class (``CG.C``). Raises `ConfigurationError`, with ``path``."""
    if text not in LABELS:
        raise ConfigurationError.unknown_name(path, text, LABELS)
    program, _, size_class = text.partition(".")
    sizes = PROGRAMS[program].sizes
    if processes not in sizes:
        expected = f"jobs of {', '.join(map(str, sizes[:-1]))} or {sizes[-1]} processes for {text}"
        raise ConfigurationError(path, expected, f"{processes} processes")
    return Kind(program, size_class, processes)
