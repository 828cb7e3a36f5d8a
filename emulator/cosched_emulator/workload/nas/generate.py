"""Random workloads of the paper's programs: exponential gaps, and programs, classes and sizes that are equally likely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.columns import Jobs, Numbers, Same, intern_values
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.nas.tables import CLASSES, NAS, PROGRAMS, SIZES, Kind, kinds
from cosched_emulator.workload.rounding import round_up_all_us
from cosched_hwmodel.draws import uniform, uniforms
from cosched_hwmodel.units import SECOND_US

LONGEST_GAP_S = 1e9


@dataclass(frozen=True, slots=True)
class NasParameters:
    """Which jobs there are, and how often one comes.

    ``programs`` are programs, programs with a class, or these with a number of processes: ``CG``, ``CG.C``, ``CG.C.16``,
    ``sPPM.8``. What is left out of a name is drawn: the class first, then the number of processes. ``classes`` and
    ``sizes`` limit both. A process needs at most ``memory_mb``; larger ones are left out.
    """

    programs: tuple[str, ...] = NAS
    classes: tuple[str, ...] = CLASSES
    sizes: tuple[int, ...] = SIZES
    gap_s: float = 100.0  # mean; 0: all jobs come at once
    memory_mb: int = 900


_DEFAULTS = NasParameters()


class Arrivals(NamedTuple):
    """How often jobs come, and which draws their gaps are."""

    gap_s: float  # mean; 0: all jobs come at once
    seed: int
    purpose: str


def generate(
    jobs: int,
    parameters: NasParameters = _DEFAULTS,
    seed: int = 1,
    limits: Literal["none", "estimate"] = "none",
    *,
    told_memory: bool = True,
) -> Workload:
    """Generate a workload; a job's name is its kind, such as ``CG.C.16``.

    Estimates are exact: the run time alone. Gaps, programs, classes and sizes are drawn by the job's number, each for itself:
    with another mean gap the jobs stay the same. ``told_memory``: the scheduler knows what a process needs. Raises
    `ConfigurationError`, with the keys of a scenario.
    """
    choices = choices_of(parameters)
    if jobs < 1:
        raise ConfigurationError("workload.nas", "1 or more", str(jobs))
    if not 0 <= parameters.gap_s <= LONGEST_GAP_S:
        raise ConfigurationError("workload.gap_s", "a number of seconds from 0 to 1e9", f"{parameters.gap_s:g}")
    drawn = [_draw(choices, seed, job) for job in range(1, jobs + 1)]
    arrivals = Arrivals(parameters.gap_s, seed, "nas-gap")
    found = jobs_of([(kind.name, kind.processes, kind.seconds) for kind in drawn], arrivals, limits)
    if told_memory:
        found = replace(found, memory_mb=intern_values(kind.memory_mb for kind in drawn))
    return Workload(found, None, f"NAS programs, {jobs} jobs, mean gap {parameters.gap_s:g} s, seed {seed}")


def jobs_of(
    drawn: Sequence[tuple[str, int, float]], arrivals: Arrivals, limits: Literal["none", "estimate"] = "none"
) -> Jobs:
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


def _submissions_us(number: Numbers, arrivals: Arrivals) -> Numbers:
    """Return when jobs come: gaps are exponential, drawn by the jobs' numbers, and the first job comes at time 0."""
    gaps = -np.log1p(-uniforms(arrivals.seed, arrivals.purpose, number.array)) * arrivals.gap_s
    gaps[0] = 0.0
    return Numbers(round_up_all_us(np.cumsum(gaps) * SECOND_US))


def choices_of(parameters: NasParameters) -> list[list[list[Kind]]]:
    """Return what can be drawn: for each name in ``programs`` its classes, and for each of them its kinds.

    Raises `ConfigurationError`.
    """
    for key, values in (
        ("programs", parameters.programs),
        ("classes", parameters.classes),
        ("sizes", parameters.sizes),
    ):
        if not values:
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
    return [
        _of_entry(entry, f"workload.nas_programs[{index}]", fitting) for index, entry in enumerate(parameters.programs)
    ]


def _check_known(path: str, values: Sequence[object], known: Sequence[object]) -> None:
    for index, value in enumerate(values):
        if value not in known:
            raise ConfigurationError(f"{path}[{index}]", f"one of {', '.join(map(str, known))}", repr(value))


def _of_entry(entry: str, path: str, fitting: Sequence[Kind]) -> list[list[Kind]]:
    """Return the kinds that a name stands for, by class."""
    program = entry.split(".", maxsplit=1)[0]
    if program not in PROGRAMS:
        raise ConfigurationError.unknown_name(path, program, PROGRAMS)

    def named(kind: Kind) -> bool:
        return kind.name == entry or kind.name.startswith(f"{entry}.")

    if not any(map(named, kinds())):
        known = [kind.name for kind in kinds() if kind.program == program]
        raise ConfigurationError.unknown_name(path, entry, known)
    wanted = [kind for kind in fitting if named(kind)]
    if not wanted:
        expected = (
            "a program with a class and a size among nas_classes and nas_sizes, and with the memory of nas_memory_mb"
        )
        raise ConfigurationError(path, expected, repr(entry))
    return [list(group) for _, group in groupby(wanted, key=lambda kind: kind.size_class)]


def _draw(choices: Sequence[Sequence[Sequence[Kind]]], seed: int, job: int) -> Kind:
    of_program = choices[math.floor(uniform(seed, "nas-program", job) * len(choices))]
    of_class = of_program[math.floor(uniform(seed, "nas-class", job) * len(of_program))]
    return of_class[math.floor(uniform(seed, "nas-size", job) * len(of_class))]
