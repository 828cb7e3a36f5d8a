"""One run of a study, in the process that makes it: its figures, and what became of its jobs.

A worker keeps the last scenario that it prepared, for the next run of the same scenario.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cosched_emulator.api.simulate import simulate
from cosched_emulator.errors import EmulatorError
from cosched_emulator.results.files.run_folder import own_version
from cosched_emulator.results.harm import outcomes
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.studies.cells import source_digests
from cosched_emulator.studies.run_figures import add_measure, figures_of, load_measure, pack_outcomes, state_figures
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.errors import PluginError
from cosched_plugin.config import choose

KNOWN: Final = (EmulatorError, PluginError, HardwareModelError)  # raised deliberately; all others are defects


@dataclass(frozen=True, slots=True)
class CellOrder:
    """What a worker needs to know of a run. It can be pickled."""

    key: str
    version: str  # of cosched, where the study was planned
    group: str  # equal for orders of the same scenario that follow each other
    scenario: Scenario
    argument: str
    settings: Mapping[str, Any]
    measures: tuple[str, ...] = ()
    keep: str | None = None  # a new run folder
    sources: Mapping[str, str] = field(default_factory=dict)  # module that is named -> digest of its source


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


def carry_out(order: CellOrder) -> Result | Failure:
    """Run one cell; whatever goes wrong is returned."""
    if order.version != own_version():
        return Failure(order.key, f"this worker has cosched {own_version()}, the study is of {order.version}")
    other = [name for name, digest in source_digests(order.sources).items() if digest != order.sources[name]]
    if other:  # a worker of a cluster lives long, and may be on another machine
        return Failure(order.key, f"this worker has another version of {', '.join(other)}: start the workers again")
    try:
        return _run(order)
    except KNOWN as error:
        cause = error.__cause__  # the error of somebody's policy
        return Failure(order.key, _one_line(error), "" if cause is None else "".join(traceback.format_exception(cause)))
    except MemoryError:
        return Failure(order.key, "out of memory")
    except BaseException as error:
        return Failure(order.key, f"{type(error).__name__}: {_one_line(error)}", traceback.format_exc())


def _run(order: CellOrder) -> Result:
    began = time.perf_counter()
    measures = [load_measure(name) for name in order.measures]
    choice = choose(order.argument, order.settings)
    notes: list[str] = []
    trace: list[dict[str, Any]] | None = [] if any(getattr(item, "needs_trace", False) for item in measures) else None
    run = simulate(prepared(order), choice, out=order.keep, force=True, warn=notes.append, trace=trace)
    figures = {
        **figures_of(run),
        **state_figures(run),
        "unfinished": len(run.unfinished),
        "refused_actions": run.refused,
    }
    for name, measure in zip(order.measures, measures, strict=True):
        add_measure(figures, name, measure, run)
    jobs = pack_outcomes(outcomes(run.finished.jobs, run.machine, run.prepared.selection))
    return Result(order.key, figures, tuple(notes), run.wall_s, time.perf_counter() - began, jobs)


def prepared(order: CellOrder) -> Prepared:
    """Return the prepared scenario, the last one if it is the same; raises what `prepare` raises."""
    if _WARM.group != order.group or _WARM.prepared is None:
        _WARM.prepared = None  # its memory can be used for the next one
        _WARM.prepared = prepare(order.scenario)
        _WARM.group = order.group
    return _WARM.prepared


def forget_prepared() -> None:
    """Let go of the last prepared scenario."""
    _WARM.prepared = _WARM.group = None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
