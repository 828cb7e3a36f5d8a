"""One run of a study, in the process that makes it: its figures, and what became of its jobs.

A worker keeps the last scenario that it prepared, for the next run of the same scenario.
"""

from __future__ import annotations

import importlib
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cosched_emulator.api.run import Run
from cosched_emulator.api.simulate import simulate
from cosched_emulator.errors import ConfigurationError, EmulatorError
from cosched_emulator.results.harm.outcomes import outcomes
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.studies.plan.identity import version
from cosched_emulator.studies.runs.figures import figures_of
from cosched_emulator.studies.runs.packing import pack_outcomes
from cosched_emulator.studies.runs.state_figures import state_figures
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.errors import PluginError, UsageError
from cosched_plugin.config import choose

Measure = Callable[[Run], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker needs to know of a run. It can be pickled."""

    key: str
    version: str  # of cosched, where the study was planned
    group: str  # equal for orders of the same scenario that follow each other
    scenario: Scenario
    argument: str
    settings: Mapping[str, Any]
    measures: tuple[str, ...] = ()
    keep: str | None = None  # a new run folder


class Result(NamedTuple):
    """What a run has given."""

    key: str
    figures: Mapping[str, Any]  # column -> value, plain for JSON
    notes: tuple[str, ...]
    wall_s: float  # of the simulation
    total_s: float  # with the reading of the workload
    jobs: bytes  # what became of them, see `packing`


class Failure(NamedTuple):
    """Why a run gave nothing."""

    key: str
    text: str  # one line
    details: str = ""  # a traceback, for what is a defect


class _Warm:
    """What a worker keeps between runs."""

    group: str | None = None
    prepared: Prepared | None = None


_WARM: Final = _Warm()


def carry_out(order: Order) -> Result | Failure:
    """Run one cell; whatever goes wrong is returned."""
    if order.version != version():
        return Failure(order.key, f"this worker has cosched {version()}, the study is of {order.version}")
    try:
        return _run(order)
    except (EmulatorError, PluginError, HardwareModelError) as error:
        cause = error.__cause__  # the error of somebody's policy
        return Failure(order.key, _one_line(error), "" if cause is None else "".join(traceback.format_exception(cause)))
    except MemoryError:
        return Failure(order.key, "out of memory")
    except Exception as error:  # a policy or a measure of somebody else can raise anything
        return Failure(order.key, f"{type(error).__name__}: {_one_line(error)}", traceback.format_exc())


def _run(order: Order) -> Result:
    began = time.perf_counter()
    measures = [load_measure(name) for name in order.measures]
    choice = choose(order.argument, order.settings)
    notes: list[str] = []
    trace: list[dict[str, Any]] | None = [] if any(getattr(item, "needs_trace", False) for item in measures) else None
    run = simulate(_prepared(order), choice, out=order.keep, force=True, warn=notes.append, trace=trace)
    figures = {
        **figures_of(run),
        **state_figures(run),
        "unfinished": len(run.unfinished),
        "refused_actions": run.refused,
    }
    for name, measure in zip(order.measures, measures, strict=True):
        for key, value in measure(run).items():
            if key in figures:
                raise UsageError(f"measure {name}: expected a name of its own, got {key!r}, which exists")
            figures[key] = value
    jobs = pack_outcomes(outcomes(run.finished.jobs, run.machine, run.prepared.selection))
    return Result(order.key, figures, tuple(notes), run.wall_s, time.perf_counter() - began, jobs)


def _prepared(order: Order) -> Prepared:
    """Return the prepared scenario, the last one if it is the same."""
    if _WARM.group != order.group or _WARM.prepared is None:
        _WARM.prepared = None  # its memory can be used for the next one
        _WARM.prepared = prepare(order.scenario)
        _WARM.group = order.group
    return _WARM.prepared


def load_measure(name: str) -> Measure:
    """Return the function of a measure, ``module:function``: it gets a `Run`, and returns names and plain values.

    A function with a true attribute ``needs_trace`` gets a run with its decision trace. Raises ConfigurationError.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # an imported module can raise anything
        raise ConfigurationError(
            "measures", "functions, each as MODULE:FUNCTION", f"{name}: {_one_line(error)}"
        ) from error
    if not callable(found):
        raise ConfigurationError("measures", "functions, each as MODULE:FUNCTION", name)
    return found  # type: ignore[no-any-return]  # what it returns is checked where it is used


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
