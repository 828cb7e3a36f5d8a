"""What the reproductions of papers have in common: runs stored one by one, several at a time, and figures over seeds.

A run's figures are one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from scripts.processes import PROJECT

# Where the logs of the Parallel Workloads Archive and samples of the model lie, if anywhere.
LOGS: Final = Path(os.environ.get("COSCHED_SHARED") or PROJECT.parent / "shared") / "workloads"

Result: TypeAlias = dict[str, Any]  # JSON-ready


class Task(Protocol):
    """One simulation of a reproduction, as a named tuple."""

    @property
    def series(self) -> str:
        """Everything but the seed, as a part of a file's name."""
        ...

    @property
    def seed(self) -> int:
        """Of what is drawn."""
        ...


TaskT = TypeVar("TaskT", bound=Task)


# ---------------------------------------------------------------- runs


def run_all(
    tasks: Sequence[TaskT],
    store: Path,
    workers: int,
    simulate: Callable[[TaskT], Result],
    tell: Callable[[TaskT, Result], str],
) -> None:
    """Run what has not been run, several at a time in this order. Ctrl-C ends it at once; what is stored stays."""
    store.mkdir(parents=True, exist_ok=True)
    left = [task for task in tasks if not _file(store, task).exists()]
    print(f"{len(tasks)} runs, {len(tasks) - len(left)} of them done before, {workers} at a time", file=sys.stderr)
    began = time.monotonic()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    pool = ProcessPoolExecutor(workers, initializer=_leave_interrupts)
    try:
        pending = {pool.submit(simulate, task): task for task in left}
        for done, future in enumerate(as_completed(pending), 1):
            task = pending[future]
            try:
                result = future.result()
            except Exception as error:
                error.add_note(f"in run {_file(store, task).stem}")
                raise
            _save(store, task, result)
            minutes = (time.monotonic() - began) / 60
            print(f"[{done}/{len(left)}, {minutes:.0f} min] {tell(task, result)}", file=sys.stderr)
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            process.terminate()
        print(f"interrupted; what is done is in {store}, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        pool.shutdown(cancel_futures=True)
        signal.signal(signal.SIGTERM, before)


def _leave_interrupts() -> None:
    """Let the parent decide what a Ctrl-C means, which a terminal sends to all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _file(store: Path, task: Task) -> Path:
    return store / f"{task.series}-{task.seed}.json"


def _save(store: Path, task: Task, result: Result) -> None:
    file = _file(store, task)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=2), encoding="utf-8")
    partial.rename(file)


def load(store: Path, tasks: Iterable[TaskT]) -> dict[TaskT, Result]:
    """Return the results that are there."""
    return {
        task: json.loads(_file(store, task).read_text(encoding="utf-8"))
        for task in tasks
        if _file(store, task).exists()
    }


def with_changes(scenario: Mapping[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a scenario with some keys of some of its sections changed."""
    return {**scenario, **{section: {**scenario.get(section, {}), **values} for section, values in changes.items()}}


def positive(text: str) -> int:
    """Return the whole number above 0 that a command-line option gives."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


# ---------------------------------------------------------------- figures over seeds


def by_seed(results: Mapping[TaskT, Mapping[str, Any]], key: str, task: TaskT) -> dict[int, float]:
    """Return a figure of ``task`` for all seeds that are there, in their order."""
    found = {other.seed: float(result[key]) for other, result in results.items() if other.series == task.series}
    return dict(sorted(found.items()))


def percent_above(mine: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    """Return by how many percent one figure is above another, for each seed that both have."""
    return {seed: 100 * (value / theirs[seed] - 1) for seed, value in mine.items() if theirs.get(seed)}
