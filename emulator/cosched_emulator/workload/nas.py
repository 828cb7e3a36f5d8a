"""NAS jobs (Choi et al. 2004): the paper's tables of programs, and random workloads of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from cosched_emulator import offered
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Jobs, Numbers, Same, intern_values, round_up_all_us
from cosched_hwmodel.draws import uniform, uniforms
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.units import SECOND_US

# The programs of the paper on communication-driven coscheduling (Choi et al. 2004): run times, sizes and memory.
#
# Run times are Table 1's, memory of class C is Table 2's; what the paper does not print is our decision, as said below.

REFERENCE: Final = 16  # processors, for which Table 1 holds
PREFIX: Final = offered.NAS_PREFIX
_CUBES, _SQUARES = (4, 8, 16), (4, 9, 16)


class Facts(NamedTuple):
    """One program. Keys are classes; a program without classes has the one class ``""``."""

    seconds: Mapping[str, float]  # alone on 16 processors, Table 1
    sizes: tuple[int, ...]  # numbers of processes
    memory_mb: Mapping[str, float]  # of a process of 16
    shrinks: bool = True  # memory of a process is inverse to their number


class NasKind(NamedTuple):
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
NODE_MB: Final = 900  # of a node, for programs
# MB of a process. BT.C.4 and MG.C.4 are not there: they would need more than those of a node.
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


def kinds() -> list[NasKind]:
    """Return all kinds of jobs."""
    return [
        NasKind(name, size_class, processes)
        for name, facts in PROGRAMS.items()
        for size_class in facts.seconds
        for processes in facts.sizes
    ]


def kind_of(text: str, processes: int, path: str) -> NasKind:
    """Return the kind of a job with this program and class (``CG.C``). Raises `ConfigurationError`, with ``path``."""
    if text not in LABELS:
        raise ConfigurationError.unknown_name(path, text, LABELS)
    program, _, size_class = text.partition(".")
    sizes = PROGRAMS[program].sizes
    if processes not in sizes:
        expected = f"jobs of {', '.join(map(str, sizes[:-1]))} or {sizes[-1]} processes for {text}"
        raise ConfigurationError(path, expected, f"{processes} processes")
    return NasKind(program, size_class, processes)


# Random workloads of the paper's programs: exponential gaps, and programs, classes and sizes that are equally likely.


@frozen
class NasParameters:
    """Which jobs there are, and how often one comes.

    ``programs`` are programs, programs with a class, or these with a number of processes: ``CG``, ``CG.C``, ``CG.C.16``,
    ``sPPM.8``. What is left out of a name is drawn: the class first, then the number of processes. ``classes`` and
    ``sizes`` limit both. A process needs at most ``memory_mb``; larger ones are left out.
    """

    programs: tuple[str, ...] = NAS
    classes: tuple[str, ...] = CLASSES
    sizes: tuple[int, ...] = SIZES
    gap_s: float = offered.GAP_S  # mean; 0: all jobs come at once
    memory_mb: int = NODE_MB


_DEFAULTS = NasParameters()


class NasArrivals(NamedTuple):
    """How often jobs come, and which draws their gaps are."""

    gap_s: float  # mean; 0: all jobs come at once
    seed: int
    purpose: str


def generate(
    jobs: int, parameters: NasParameters = _DEFAULTS, seed: int = 1, limits: str = "none", *, told_memory: bool = True
) -> Workload:
    """Generate a workload; a job's name is its kind, such as ``CG.C.16``.

    Estimates are exact: the run time alone. Gaps, programs, classes and sizes are drawn by the job's number, each for itself:
    with another mean gap the jobs stay the same. ``told_memory``: the scheduler knows what a process needs. Raises
    `ConfigurationError`, with the keys of a scenario.
    """
    choices = choices_of(parameters)
    drawn = [_draw(choices, seed, job) for job in range(1, jobs + 1)]
    arrivals = NasArrivals(parameters.gap_s, seed, "nas-gap")
    found = jobs_of([(kind.name, kind.processes, kind.seconds) for kind in drawn], arrivals, limits)
    if told_memory:
        found = found.having(memory_mb=intern_values(kind.memory_mb for kind in drawn))
    return Workload(found, None, f"NAS programs, {jobs} jobs, mean gap {parameters.gap_s:g} s, seed {seed}")


def jobs_of(drawn: Sequence[tuple[str, int, float]], arrivals: NasArrivals, limits: str = "none") -> Jobs:
    """Return jobs of (name, processes, seconds alone), in order of submission; their estimates are exact."""
    names, processes, seconds = zip(*drawn, strict=True)
    number = Numbers(range(1, len(drawn) + 1))
    run_us = Numbers(round_up_all_us(np.array(seconds) * SECOND_US))
    return Jobs(
        id=number,
        submit_us=_submissions_us(number, arrivals),
        processes=Numbers(np.array(processes, dtype=np.int64)),
        estimate_us=run_us,
        run_us=run_us,
        source_id=number,
        limit_us=Same(None) if limits == "none" else run_us,
        name=intern_values(names),
    )


def _submissions_us(number: Numbers, arrivals: NasArrivals) -> Numbers:
    """Return when jobs come: gaps are exponential, drawn by the jobs' numbers, and the first job comes at time 0."""
    gaps = -np.log1p(-uniforms(arrivals.seed, arrivals.purpose, number.array)) * arrivals.gap_s
    gaps[0] = 0.0
    return Numbers(round_up_all_us(np.cumsum(gaps) * SECOND_US))


def choices_of(parameters: NasParameters) -> list[list[list[NasKind]]]:
    """Return what can be drawn: for each name in ``programs`` its classes, and for each of them its kinds.

    Raises `ConfigurationError`.
    """
    for key in ("programs", "classes", "sizes"):
        if not getattr(parameters, key):
            raise ConfigurationError(f"workload.nas_{key}", "at least one", "none")
    _check_known("workload.nas_classes", parameters.classes, CLASSES)
    _check_known("workload.nas_sizes", parameters.sizes, SIZES)
    fitting = [
        kind
        for kind in kinds()
        if kind.memory_mb <= parameters.memory_mb
        and kind.processes in parameters.sizes
        and (not kind.size_class or kind.size_class in parameters.classes)
    ]
    given = _given(parameters)
    return [
        _of_entry(entry, f"workload.nas_programs[{index}]", fitting, given)
        for index, entry in enumerate(parameters.programs)
    ]


def _given(parameters: NasParameters) -> tuple[str, str] | None:
    """Return the setting that leaves programs out, and its value, where the programs themselves are the usual ones."""
    plain = NasParameters()
    if parameters.programs != plain.programs:
        return None
    keys = ("memory_mb", "sizes", "classes")
    key = next((key for key in keys if getattr(parameters, key) != getattr(plain, key)), None)
    return None if key is None else (f"workload.nas_{key}", str(getattr(parameters, key)))


def _check_known(path: str, values: Sequence[object], known: Sequence[object]) -> None:
    for index, value in enumerate(values):
        if value not in known:
            raise ConfigurationError(f"{path}[{index}]", f"one of {', '.join(map(str, known))}", repr(value))


def _of_entry(entry: str, path: str, fitting: Sequence[NasKind], given: tuple[str, str] | None) -> list[list[NasKind]]:
    """Return the kinds that a name stands for, by class; where there are none, ``given`` is the setting to blame."""
    program = entry.split(".", maxsplit=1)[0]
    if program not in PROGRAMS:
        raise ConfigurationError.unknown_name(path, program, PROGRAMS)

    def named(kind: NasKind) -> bool:
        return kind.name == entry or kind.name.startswith(f"{entry}.")

    if not any(map(named, kinds())):
        known = [kind.name for kind in kinds() if kind.program == program]
        raise ConfigurationError.unknown_name(path, entry, known)
    wanted = [kind for kind in fitting if named(kind)]
    if not wanted and given is not None:
        raise ConfigurationError(
            given[0], f"room for a kind of each program, or other nas_programs than {entry}", given[1]
        )
    if not wanted:
        expected = (
            "a program with a class and a size among nas_classes and nas_sizes, and with the memory of nas_memory_mb"
        )
        raise ConfigurationError(path, expected, repr(entry))
    return [list(group) for _, group in groupby(wanted, key=lambda kind: kind.size_class)]


def _draw(choices: Sequence[Sequence[Sequence[NasKind]]], seed: int, job: int) -> NasKind:
    of_program = choices[math.floor(uniform(seed, "nas-program", job) * len(choices))]
    of_class = of_program[math.floor(uniform(seed, "nas-class", job) * len(of_program))]
    return of_class[math.floor(uniform(seed, "nas-size", job) * len(of_class))]
