"""Charts with lines: quantities of runs over time, and distributions of quantities of jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.explain.gang_facts import span_text
from cosched_emulator.page.document import Figure
from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.figures.metrics import jobs_in_system
from cosched_emulator.results.figures.occupancy import (
    Steps,
    amount_held,
    jobs_waiting,
    nodes_held,
    span_us,
    threads_held,
    threads_in_use,
    time_average,
)
from cosched_emulator.results.figures.plot import FloatArray, mean_share
from cosched_emulator.results.figures.run_energy import PowerTrace
from cosched_emulator.results.files.run_reader import JobOwners, StoredRun
from cosched_hwmodel.units import SECOND_US

POINTS: Final = 600  # of a line
DIGITS: Final = 5


class Line(NamedTuple):
    """A line of a chart, with its interval at each point where there is one."""

    name: str
    values: FloatArray
    band: tuple[FloatArray, FloatArray] | None = None


def lines_figure(
    title: str,
    x: FloatArray,
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    unit: str = "",
    top: float | None = None,
    time: bool = False,
    logarithmic: bool = False,
    spans: bool = False,
    dots: bool = False,
    note: str = "",
) -> Figure:
    """Return a chart of ``lines`` over ``x``, ascending; NaN is a gap.

    ``unit`` stands behind values, ``top`` is the end of the axis that begins at 0. ``time``: x is in seconds, and a value
    holds until the next one; such charts of a page move together. ``spans``: x is a span in seconds. ``dots``: values are
    marked, as lines have gaps.
    """
    series = []
    for line in lines:
        drawn: dict[str, Any] = {"name": line.name, "values": _plain(line.values)}
        if line.band is not None:
            drawn["low"], drawn["high"] = map(_plain, line.band)
        series.append(drawn)
    data = {
        "x": [float(f"{value:.{DIGITS + 4}g}") for value in x.tolist()],
        "series": series,
        "x_label": x_label,
        "x_name": "time" if time else x_label.partition(";")[0],
        "y_label": y_label,
        "unit": unit,
        "top": top,
        "from_zero": True,
        "time": time,
        "steps": time,
        "logarithmic": logarithmic,
        "spans": spans,
        "dots": dots,
    }
    return Figure("lines", title, note, data)


def _plain(values: FloatArray) -> list[float | None]:
    return [None if math.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.tolist()]


# ---------------------------------------------------------------- over time


def time_figures(names: Sequence[str], runs: Sequence[StoredRun], owners: Sequence[JobOwners]) -> list[Figure]:
    """Return the charts over the time of the longest run, a line per run: use of the machine, sharing and queue."""
    edges = _edges(runs)
    held = [nodes_held(run.stays, run.nodes) for run in runs]
    nodes, threads = [run.nodes for run in runs], [run.threads for run in runs]
    percent = partial(_percent_figure, names, edges)
    figures = [
        percent("Hardware threads held", "threads held [%]", [_threads(run) for run in runs], threads),
        percent("Nodes in use", "nodes in use [%]", [each.used for each in held], nodes),
    ]
    shared = [each.shared for each in held]
    if any(each.values.any() for each in shared):
        figures.append(percent("Nodes with two jobs or more", "nodes shared [%]", shared, nodes))
    for resource in {name: None for run in runs for name in run.counted}:
        taken = [amount_held(run.stays, each.counted(resource)) for run, each in zip(runs, owners, strict=True)]
        wholes = [int(run.counted[resource].sum()) if resource in run.counted else 0 for run in runs]
        figures.append(percent(f"Taken of {resource}", f"{resource} taken [%]", taken, wholes))
    waiting = [time_average(jobs_waiting(run.jobs, run.stays), edges) for run in runs]
    figures.append(_time_figure("Queue", names, edges, waiting, "pending jobs"))
    present = [time_average(jobs_in_system(run.jobs), edges) for run in runs]
    return [*figures, _time_figure("Jobs in the system", names, edges, present, "pending and running jobs")]


def power_figure(names: Sequence[str], runs: Sequence[StoredRun], powers: Sequence[PowerTrace | None]) -> Figure | None:
    """Return the power of the machines over time; None where no run has it."""
    if not any(power is not None and power.start_us.size for power in powers):
        return None
    edges = _edges(runs)
    watts = [_kilowatts(power, edges) for power in powers]
    return _time_figure("Power of the machine", names, edges, watts, "power [kW]", unit=" kW")


def _edges(runs: Sequence[StoredRun]) -> IntArray:
    """Return equal intervals from the first submission to the last end of all runs."""
    spans = [span_us(run.jobs, run.stays) for run in runs]
    begin_us = min(begin for begin, _ in spans)
    end_us = max(*(end for _, end in spans), begin_us + 1)
    return np.unique(np.linspace(begin_us, end_us, POINTS + 1).astype(np.int64))


def _percent_figure(
    names: Sequence[str], edges: IntArray, title: str, label: str, steps: Sequence[Steps], wholes: Sequence[int]
) -> Figure:
    shares = [100 * time_average(each, edges) / (whole or np.nan) for each, whole in zip(steps, wholes, strict=True)]
    return _time_figure(title, names, edges, shares, label, unit=" %", top=100.0)


def _time_figure(
    title: str, names: Sequence[str], edges: IntArray, values: Sequence[FloatArray], label: str, **more: Any
) -> Figure:
    step_us = int(edges[-1] - edges[0]) // (edges.size - 1)
    lines = [Line(name, its) for name, its in zip(names, values, strict=True)]
    note = f"Each value is a mean over {span_text(step_us)}."
    return lines_figure(title, edges[:-1] / SECOND_US, lines, x_label="", y_label=label, time=True, note=note, **more)


def _threads(run: StoredRun) -> Steps:
    if run.jobs.cpu_us is None:
        return threads_held(run.stays)
    return threads_in_use(run.stays, run.nodes, max(item.threads for item in run.machine))


def _kilowatts(power: PowerTrace | None, edges: IntArray) -> FloatArray:
    if power is None or not power.start_us.size:
        return np.full(edges.size - 1, np.nan)
    milliwatts = np.append(np.rint(power.watts * 1000).astype(np.int64), 0)
    return time_average(Steps(np.append(power.start_us, power.end_us[-1]), milliwatts), edges) / 1e6


# ---------------------------------------------------------------- distributions

_GRID: Final = 160  # values at which the share of jobs is told


class Sample(NamedTuple):
    """A quantity of the jobs of a run, or of the runs with each of several seeds."""

    name: str
    runs: Sequence[FloatArray]


def distribution_figure(
    title: str, label: str, samples: Sequence[Sample], floor: float | None, *, spans: bool = False
) -> Figure | None:
    """Return the share of jobs at or below a value, a line per sample; on a logarithmic axis from ``floor`` on.

    ``spans``: the values are seconds. None where no run has such a job.
    """
    kept = [(sample.name, [np.sort(values) for values in sample.runs if values.size]) for sample in samples]
    kept = [(name, ordered) for name, ordered in kept if ordered]
    if not kept:
        return None
    low = min(float(values[0]) for _, ordered in kept for values in ordered)
    high = max(float(values[-1]) for _, ordered in kept for values in ordered)
    if floor is None:
        grid = np.linspace(low, high if high > low else low + 1, _GRID)
    else:
        grid = np.geomspace(floor, max(high, 10 * floor), _GRID)
    lines = []
    for name, ordered in kept:
        mean, band = mean_share(ordered, grid)
        lines.append(Line(name, 100 * mean, None if band is None else (100 * band[0], 100 * band[1])))
    banded = any(line.band is not None for line in lines)
    note = "Bands: 95 % intervals over seeds, at each value." if banded else ""
    return lines_figure(
        title, grid, lines, x_label=label, y_label="jobs at or below [%]", unit=" %", top=100.0,
        logarithmic=floor is not None, spans=spans, note=note,
    )  # fmt: skip
