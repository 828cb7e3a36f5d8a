"""Jobs that are the applications of a table of measured co-runs (`cosched_hwmodel.measured`), each equally likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.workload.columns import Jobs, Numbers, Same, intern_values
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.rounding import round_up_all_us
from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.measured.errors import TableError
from cosched_hwmodel.measured.table import CoRunTable, read_table
from cosched_hwmodel.units import SECOND_US


@dataclass(frozen=True, slots=True)
class ApplicationParameters:
    """Which applications are drawn, and how often a job comes."""

    names: tuple[str, ...] = ()  # empty: all
    processes: tuple[int, ...] = ()  # only those with one of these numbers of processes; empty: all
    run_s: float | None = None  # run time, in seconds, of those without one in the table
    gap_s: float = 100.0  # mean gap between arrivals; 0: all jobs come at once
    shuffle_seed: int = 0  # the same jobs in another order; 0: as drawn


class Application(NamedTuple):
    """An application that can be drawn."""

    name: str
    processes: int
    run_s: float  # compact: alone on all cores of its nodes


def co_run_table(file: str, path: str) -> CoRunTable:
    """Read a table of co-runs; InputError. ``path`` is the setting that names the file."""
    if not file:
        raise ConfigurationError(path, "a CSV file", "''")
    try:
        return read_table(file)
    except TableError as error:
        raise InputError(error.file, error.expected, error.got, error.line, error.field) from error


def generate(
    table: CoRunTable,
    jobs: int | None,
    parameters: ApplicationParameters,
    seed: int = 1,
    limits: Literal["none", "estimate"] = "none",
) -> Workload:
    """Draw jobs; a job's name is its application. None: each application once, in the table's order.

    Run times are the compact ones, and estimates are exact. Gaps and applications are drawn by the job's number, each for
    itself: with another mean gap the jobs stay the same. Raises `ConfigurationError`, with the keys of a scenario.
    """
    choices = choices_of(table, parameters)
    if jobs is not None and jobs < 1:
        raise ConfigurationError("workload.jobs", "1 or more", str(jobs))
    number = Numbers(range(1, (len(choices) if jobs is None else jobs) + 1))
    gaps = -np.log1p(-uniforms(seed, "application-gap", number.array)) * parameters.gap_s
    gaps[0] = 0.0  # the first job comes at time 0
    drawn = np.arange(len(choices))
    if jobs is not None:
        drawn = np.floor(uniforms(seed, "application", number.array) * len(choices)).astype(np.int64)
    if parameters.shuffle_seed:
        order = uniforms(parameters.shuffle_seed, "application-shuffle", number.array)
        drawn = drawn[np.argsort(order, kind="stable")]
    chosen = [choices[place] for place in drawn.tolist()]
    run_us = Numbers(round_up_all_us(np.array([each.run_s for each in chosen]) * SECOND_US))
    found = Jobs(
        id=number,
        submit_us=Numbers(round_up_all_us(np.cumsum(gaps) * SECOND_US)),
        processes=Numbers(np.array([each.processes for each in chosen], dtype=np.int64)),
        estimate_us=run_us,
        run_us=run_us,
        source_id=number,
        limit_us=Same(None) if limits == "none" else run_us,
        name=intern_values(each.name for each in chosen),
    )
    origin = f"{len(chosen)} jobs of {len(choices)} applications, mean gap {parameters.gap_s:g} s, seed {seed}"
    return Workload(found, None, origin)


def choices_of(table: CoRunTable, parameters: ApplicationParameters) -> list[Application]:
    """Return the applications that can be drawn, in the table's order. Raises `ConfigurationError`."""
    for index, name in enumerate(parameters.names):
        if name not in table.applications:
            raise ConfigurationError.unknown_name(f"workload.application_names[{index}]", name, table.applications)
    named = [name for name in table.applications if not parameters.names or name in parameters.names]
    sizes = {name: _processes(table, name, parameters.processes) for name in named}
    wanted = [name for name in named if not parameters.processes or sizes[name] in parameters.processes]
    if not wanted:
        known = ", ".join(map(str, sorted(set(sizes.values()))))
        got = str(list(parameters.processes))
        raise ConfigurationError("workload.application_processes", f"numbers of processes among {known}", got)
    return [Application(name, sizes[name], _run_s(table, name, parameters.run_s)) for name in wanted]


def _processes(table: CoRunTable, name: str, given: Sequence[int]) -> int:
    """Return the number of processes of an application; where the table has none, the one that is given."""
    known = table.processes.get(name)
    if known is not None:
        return known
    if len(given) != 1:
        expected = f"one number of processes: the table has none of {name}"
        raise ConfigurationError("workload.application_processes", expected, str(list(given)))
    return given[0]


def _run_s(table: CoRunTable, name: str, given: float | None) -> float:
    run_s = table.compact_s.get(name, given)
    if run_s is None:
        expected = f"a number of seconds: the table has no run time (compact_s) of {name}"
        raise ConfigurationError("workload.application_run_s", expected, "none")
    return run_s
