"""Jobs that are the applications of a table of measured co-runs (`cosched_hwmodel.measured`), each equally likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import Interned, columns_of
from cosched_emulator.workload.nas import NasArrivals, jobs_of
from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.measured.co_run_table import CoRunTable

_DRAWN: Final = "application"  # purpose of the draws


@dataclass(frozen=True, slots=True)
class ApplicationParameters:
    """Which applications are drawn, and how often a job comes."""

    names: tuple[str, ...] = ()  # empty: all
    processes: tuple[int, ...] = ()  # only those with one of these numbers of processes; empty: all
    gap_s: float = 100.0  # mean gap between arrivals; 0: all jobs come at once
    shuffle_seed: int = 0  # the same jobs in another order; 0: as drawn


class Application(NamedTuple):
    """An application that can be drawn."""

    name: str
    processes: int
    run_s: float  # compact: alone on all cores of its nodes


def generate(
    table: CoRunTable, jobs: int | None, parameters: ApplicationParameters, seed: int = 1, limits: str = "none"
) -> Workload:
    """Draw jobs; a job's name is its application. None: each application once, in the table's order.

    Run times are the compact ones, and estimates are exact. Gaps and applications are drawn by the job's number, each for
    itself: with another mean gap the jobs stay the same. Raises `ConfigurationError`, with the keys of a scenario.
    """
    choices = choices_of(table, parameters)
    number = np.arange(1, (len(choices) if jobs is None else jobs) + 1)
    drawn = np.arange(len(choices))
    if jobs is not None:
        drawn = np.floor(uniforms(seed, _DRAWN, number) * len(choices)).astype(np.int64)
    if parameters.shuffle_seed:
        order = uniforms(parameters.shuffle_seed, "application-shuffle", number)
        drawn = drawn[np.argsort(order, kind="stable")]
    chosen = [choices[place] for place in drawn.tolist()]
    found = jobs_of(chosen, NasArrivals(parameters.gap_s, seed, "application-gap"), limits)
    origin = f"{len(chosen)} jobs of {len(choices)} applications, mean gap {parameters.gap_s:g} s, seed {seed}"
    return Workload(found, None, origin)


def with_applications(workload: Workload, table: CoRunTable, names: Sequence[str] = (), seed: int = 1) -> Workload:
    """Return the workload with an application of the table as each job's name, drawn by its `source_id`; of ``names``, if any.

    Whatever else a job is, such as its size, stays. Raises `ConfigurationError`, with the keys of a scenario.
    """
    jobs, choices = columns_of(workload.jobs), _named(table, names)
    drawn = np.floor(uniforms(seed, _DRAWN, jobs.source_id.array) * len(choices)).astype(np.int64)
    note = f"names: {len(choices)} applications, seed {seed}"
    return workload._replace(jobs=jobs.having(name=Interned(drawn, choices)), notes=(*workload.notes, note))


def _named(table: CoRunTable, names: Sequence[str]) -> list[str]:
    for index, name in enumerate(names):
        if name not in table.applications:
            raise ConfigurationError.unknown_name(f"workload.application_names[{index}]", name, table.applications)
    return [name for name in table.applications if not names or name in names]


def choices_of(table: CoRunTable, parameters: ApplicationParameters) -> list[Application]:
    """Return the applications that can be drawn, in the table's order. Raises `ConfigurationError`."""
    named = _named(table, parameters.names)
    sizes = {name: _processes(table, name, parameters.processes) for name in named}
    wanted = [name for name in named if not parameters.processes or sizes[name] in parameters.processes]
    if not wanted:
        known = ", ".join(map(str, sorted(set(sizes.values()))))
        got = str(list(parameters.processes))
        raise ConfigurationError("workload.application_processes", f"numbers of processes among {known}", got)
    without = next((name for name in wanted if name not in table.compact_s), None)
    if without is not None:
        raise _timeless(without)
    return [Application(name, sizes[name], table.compact_s[name]) for name in wanted]


def _processes(table: CoRunTable, name: str, given: Sequence[int]) -> int:
    """Return the number of processes of an application; where the table has none, the one that is given."""
    known = table.processes.get(name)
    if known is not None:
        return known
    if len(given) != 1:
        if name not in table.compact_s:
            raise _timeless(name)
        expected = f"one number of processes: the table has none of {name}"
        raise ConfigurationError("workload.application_processes", expected, str(list(given)))
    return given[0]


def _timeless(name: str) -> ConfigurationError:
    expected = f"a table with the run time (compact_s) of {name}, or jobs of a log or a model, whose names it gives"
    return ConfigurationError("workload.applications", expected, "none")
