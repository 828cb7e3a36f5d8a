"""One run of a study, in the process that makes it: its figures as columns, and what became of its jobs as bytes."""

from __future__ import annotations

import importlib
import io
import math
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.api.simulate import Run, simulate
from cosched_emulator.errors import ConfigurationError, EmulatorError
from cosched_emulator.results.figures.metrics import quantity
from cosched_emulator.results.files.run_folder import own_version
from cosched_emulator.results.harm import Outcomes, outcomes
from cosched_emulator.results.record_columns import RecordColumns
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.statistics.saturation import saturation, steady_part
from cosched_emulator.statistics.weighted import ALL, Means, means_by_class
from cosched_emulator.studies.cells import Cell
from cosched_emulator.studies.experiment import HARM, ORIGIN, PLACES
from cosched_hwmodel.errors import HardwareModelError, from_outside
from cosched_hwmodel.models.importing import source_digests
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.errors import PluginError, UsageError
from cosched_plugin.config import choose

# The figures of a run as columns of a study's table: all of its summary, flat, plus figures of whole studies.

LEFT_OUT: Final = ("format", "percentile_rule")


def figures_of(run: Run) -> dict[str, Any]:
    """Return the figures of a run by column: those of completed jobs without a prefix, those of all jobs with ``all_``."""
    found: dict[str, Any] = {}
    for key, value in run.summary.items():
        if key in LEFT_OUT:
            continue
        prefix = "" if key in ("machine", "finished") else f"{key}_"
        if isinstance(value, Mapping):
            found.update(_flat(prefix, value))
        else:
            found[key] = value
    return found


def _flat(prefix: str, table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(_flat(f"{name}_", value))
        else:
            found[name] = value
    return found


# Figures that say what the means of a run are worth: saturation, the steady part, and means by area and class of jobs.

STEADY: Final = ("wait_s", "response_s", "bounded_slowdown_10s")  # quantities of the steady part
OF_ALL: Final = ("weighted_wait_s", "weighted_response_s", "weighted_slowdown")
OF_CLASS: Final = ("jobs", "wait_s", "response_s", "slowdown", "weighted_response_s")


def state_figures(run: Run) -> dict[str, Any]:
    """Return the figures by column; what does not exist is None."""
    jobs = run.finished.jobs
    if not len(jobs):
        return {}
    return {**dict(_queue(run, jobs)), **dict(_steady(jobs)), **dict(_weighted(run, jobs))}


def _queue(run: Run, jobs: RecordColumns) -> Iterator[tuple[str, Any]]:
    """Yield whether the queue grows as long as jobs are submitted; its length is in threads · hours of work."""
    work = jobs.run_us * jobs.threads / (3600 * SECOND_US)
    found = saturation(*_times(jobs), work, run.prepared.workload.day_s)
    yield "saturated", found.saturated.value
    yield "queue_growth_per_hour", _plain_number(found.growth.mean)
    yield "queue_first_half", _plain_number(found.first_half)
    yield "queue_second_half", _plain_number(found.second_half)


def _steady(jobs: RecordColumns) -> Iterator[tuple[str, Any]]:
    """Yield the steady part, and means over its completed jobs."""
    part = steady_part(*_times(jobs))
    rows = part.mask() & jobs.started & jobs.ended & jobs.state.where("COMPLETED")
    yield "steady_warmup", part.warmup if part.found else None
    yield "steady_cooldown", part.cooldown if part.found else None
    yield "steady_jobs", int(np.count_nonzero(rows))
    for name in STEADY:
        values = quantity(jobs, name, rows)
        yield f"steady_{name}_mean", _plain_number(float(values.mean())) if values.size else None


def _weighted(run: Run, jobs: RecordColumns) -> Iterator[tuple[str, Any]]:
    """Yield means weighted by area, and means by length and width of jobs, over the jobs that count."""
    counted = run.prepared.selection.mask(len(jobs))
    cores = sum(item.nodes * item.cores for item in run.machine)
    submit_s, start_s, end_s = (times[counted] for times in _times(jobs))
    run_s, estimate_s = jobs.run_us[counted] / SECOND_US, jobs.estimate_us[counted] / SECOND_US
    classes = means_by_class(submit_s, start_s, end_s, run_s, jobs.threads[counted], estimate_s, cores)
    yield from _some("", OF_ALL, classes.pop(ALL))
    for name, means in classes.items():
        yield from _some(f"{name.replace(' ', '_')}_", OF_CLASS, means)


def _some(prefix: str, names: tuple[str, ...], means: Means) -> Iterator[tuple[str, Any]]:
    for name in names:
        yield f"{prefix}{name}", _plain_number(getattr(means, name))


def _times(jobs: RecordColumns) -> tuple[Any, Any, Any]:
    """Return submission, start and end in seconds, in order of submission as the columns are; NaN where there is none."""
    start_s = np.where(jobs.started, jobs.start_us / SECOND_US, np.nan)
    end_s = np.where(jobs.ended, jobs.end_us / SECOND_US, np.nan)
    return jobs.submit_us / SECOND_US, start_s, end_s


def _plain_number(value: float | int) -> float | int | None:
    """Return a number rounded to six decimals as in the summary; None for what does not exist."""
    if isinstance(value, int):
        return value
    return round(value, 6) if math.isfinite(value) else None


# Measures: functions of somebody else that add figures to those of a run. What they return is checked, and made plain.

Measure = Callable[[Run], Mapping[str, Any]]
_RESERVED: Final = frozenset((*PLACES, *ORIGIN))
_MOST: Final = 500  # SQLite has at most 2,000 columns
_LARGEST: Final = 2**63


def load_measure(name: str) -> Measure:
    """Return the function of a measure, ``module:function``: it gets a `Run`, and returns figures by name.

    A function with a true attribute ``needs_trace`` gets a run with its decision trace. Raises ConfigurationError.
    """
    module, _, attribute = name.partition(":")
    expected = "functions, each as MODULE:FUNCTION"
    with from_outside(lambda told: ConfigurationError("measures", expected, " ".join(f"{name}: {told}".split()))):
        found = getattr(importlib.import_module(module), attribute)
    if not callable(found):
        raise ConfigurationError("measures", expected, name)
    return found  # type: ignore[no-any-return]  # `add_measure` checks what it returns


def add_measure(figures: dict[str, Any], name: str, measure: Measure, run: Run) -> None:
    """Add what a measure returns to the figures of a run; raises UsageError for what the table cannot hold."""
    found: Any = measure(run)
    if not isinstance(found, Mapping) or len(found) > _MOST:
        got = f"{len(found):,}" if isinstance(found, Mapping) else type(found).__name__
        raise UsageError(f"measure {name}: expected a table of at most {_MOST} figures by name, got {got}")
    taken = {key.casefold() for key in figures} | _RESERVED  # SQLite does not tell upper from lower case
    for key, value in found.items():
        if not isinstance(key, str) or not key or not key.isprintable():
            raise UsageError(f"measure {name}: expected a text of one line as the name of a figure, got {key!r}")
        if key.casefold() in taken or key.casefold().startswith(HARM):
            raise UsageError(f"measure {name}: expected a name of its own, got {key!r}, which exists")
        taken.add(key.casefold())
        try:
            figures[key] = _plain(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"measure {name}: {key}: {error}") from error


def _plain(value: Any) -> Any:
    """Return a value of JSON: numbers of numpy are plain ones, and None stands for a number that does not exist."""
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if isinstance(value, str):
        value.encode()  # half a character is no text
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise ValueError("expected a whole number of at most 64 bits")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item) for item in value]
    raise TypeError(f"expected a number, a text, or a list or table of them, got {type(value).__name__}")


# What became of a run's jobs as bytes: numpy's npz, compressed at the fastest level (8 ms for 10,000 jobs).

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same jobs give the same bytes


def pack_outcomes(outcomes: Outcomes) -> bytes:
    """Return the columns as the content of an npz file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for item in fields(Outcomes):
            column = io.BytesIO()
            np.lib.format.write_array(column, np.asarray(getattr(outcomes, item.name)), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{item.name}.npy", _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, column.getvalue(), compresslevel=1)
    return stream.getvalue()


def unpack_outcomes(content: bytes) -> Outcomes:
    """Return the columns of an npz file; raises ValueError for anything else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            columns = {name: stored[name] for name in stored.files}
        return Outcomes(**{**columns, "class_names": tuple(columns["class_names"].tolist())})
    except Exception as error:  # what zipfile, zlib and numpy raise for damaged files is not documented
        raise ValueError(str(error) or type(error).__name__) from error


# The run itself. A worker keeps the last scenario that it prepared, for the next run of the same scenario.

KNOWN: Final = (EmulatorError, PluginError, HardwareModelError)  # raised deliberately; all others are defects


@dataclass(frozen=True, slots=True)
class CellOrder:
    """What a worker needs to know of a run. It can be pickled."""

    cell: Cell  # its files are found from any folder
    group: str  # equal for orders of the same scenario that follow each other
    version: str  # of cosched, where the study was planned
    keep: str | None = None  # a new run folder

    @property
    def key(self) -> str:
        """Return the key of the run."""
        return self.cell.key


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
    other = [name for name, digest in source_digests(order.cell.sources).items() if digest != order.cell.sources[name]]
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
    measures = [load_measure(name) for name in order.cell.measures]
    choice = choose(order.cell.argument, order.cell.settings)
    notes: list[str] = []
    trace: list[dict[str, Any]] | None = [] if any(getattr(item, "needs_trace", False) for item in measures) else None
    run = simulate(prepared(order), choice, out=order.keep, force=True, warn=notes.append, trace=trace)
    figures = {
        **figures_of(run),
        **state_figures(run),
        "unfinished": len(run.unfinished),
        "refused_actions": run.refused,
    }
    for name, measure in zip(order.cell.measures, measures, strict=True):
        add_measure(figures, name, measure, run)
    jobs = pack_outcomes(outcomes(run.finished.jobs, run.machine, run.prepared.selection))
    return Result(order.key, figures, tuple(notes), run.wall_s, time.perf_counter() - began, jobs)


def prepared(order: CellOrder) -> Prepared:
    """Return the prepared scenario, the last one if it is the same; raises what `prepare` raises."""
    if _WARM.group != order.group or _WARM.prepared is None:
        _WARM.prepared = None  # its memory can be used for the next one
        _WARM.prepared = prepare(order.cell.scenario)
        _WARM.group = order.group
    return _WARM.prepared


def forget_prepared() -> None:
    """Let go of the last prepared scenario."""
    _WARM.prepared = _WARM.group = None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
