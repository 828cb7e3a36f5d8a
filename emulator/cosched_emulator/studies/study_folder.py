"""The folder of a study: its plan, and what each run has given, complete or not at all.

=====================  ========================================================================
``study.json``         the plan: all runs with their resolved scenarios and policies
``cells/KEY.json``     the figures of a run; ``KEY.npz``: what became of its jobs, for comparisons job by job
``failures.json``      the runs that failed, and why
``runs/KEY``           run folders, only with ``--keep``
``results.csv``        the table of the study, and ``results.sqlite``; see `table`
``report.html``        the report, with tables and pictures; the command ``study`` writes it
``timings.csv``        what may differ between two studies of the same experiment
``lock``               held by the process that runs the study
=====================  ========================================================================

A run is done once its ``KEY.json`` is there. Each file is written beside its place and moved there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from reprlib import repr as short_repr
from typing import Any, Final, NamedTuple

from cosched_emulator.errors import InputError
from cosched_emulator.results.files.run_folder import own_version
from cosched_emulator.results.harm import Outcomes
from cosched_emulator.studies.axes import COLUMNS, NUMBERS
from cosched_emulator.studies.cell_run import Failure, Result, unpack_outcomes
from cosched_emulator.studies.cells import Cell, Plan
from cosched_emulator.studies.experiment import Names
from cosched_hwmodel.text_formats import json_of
from cosched_terminal.own_file import open_own

FORMAT: Final = 1
PLAN, CELLS, FAILURES, RUNS, LOCK = "study.json", "cells", "failures.json", "runs", "lock"
REPORT: Final = "report.html"
_PARTIAL: Final = ".partial"
_KEY: Final = re.compile(r"[0-9a-f]{1,64}")
_DAMAGED: Final = "remove this file, and the run is made again"


class StoredCell(NamedTuple):
    """A cell as the plan in the folder has it."""

    number: int  # 0: a run that only serves as a baseline
    names: Names
    key: str
    settings: Mapping[str, Any]  # of the policy, with its name or class
    scenario: Mapping[str, Any]

    @property
    def places(self) -> dict[str, Any]:
        """Return the first columns of its rows in the tables: its number, and a name by axis."""
        return {"cell": self.number, **{COLUMNS[axis]: name for axis, name in self.names.items()}}


class StoredPlan(NamedTuple):
    """The plan in the folder."""

    title: str
    version: str
    baseline: Mapping[str, Any] | None
    cells: tuple[StoredCell, ...]
    extra: tuple[StoredCell, ...]
    baselines: Mapping[str, tuple[str, ...]]  # key of a cell -> keys of its baselines, the plain one first


class StudyFolder:
    """A folder of a study; reading needs no lock."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    # ---------------------------------------------------------------- lock

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Make the folder if needed, hold its lock, and remove what a killed runner has left; yield the lock's descriptor.

        Raises InputError for a folder that another process runs, that is no study's, or that cannot be written.
        """
        with self._writing():
            names = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
            if PLAN not in names and names - {CELLS, LOCK, f".{PLAN}{_PARTIAL}"}:
                raise InputError(str(self.path), "a new folder, or a study's", "another one, which is not empty")
            (self.path / CELLS).mkdir(parents=True, exist_ok=True)
            descriptor = open_own(self.path / LOCK, os.O_RDWR | os.O_CREAT, mode=0o666, alone=True, shared=True)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                runner = self.runner()
                got = "one that is running" + (f", process {runner}" if runner else "")
                raise InputError(str(self.path), "a study that no other process runs", got) from error
            with self._writing():
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                for file in (*self.path.glob(f"*{_PARTIAL}"), *(self.path / CELLS).glob(f"*{_PARTIAL}")):
                    file.unlink()
            yield descriptor
        finally:
            os.close(descriptor)

    def runner(self) -> int | None:
        """Return the number of the process that runs the study now."""
        try:
            with open(self.path / LOCK, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(file.read() or 0) or None
        except (OSError, ValueError):
            pass
        return None

    # ---------------------------------------------------------------- plan

    def write_plan(self, plan: Plan) -> None:
        """Write the plan; raises InputError."""
        experiment = plan.experiment
        baseline = experiment.baseline
        content = {
            "format": FORMAT,
            "title": experiment.title,
            "version": own_version(),
            "baseline": baseline and {name: getattr(baseline, name) for name in ("policy", "shakes", "shake")},
            "cells": [_cell_table(cell) for cell in plan.cells],
            "extra": [_cell_table(cell) for cell in plan.extra],
            "baselines": plan.baselines,
        }
        self.write(PLAN, json.dumps(content, indent=1, ensure_ascii=False).encode())

    def read_plan(self) -> StoredPlan:
        """Return the plan; raises InputError for a folder that is no study's."""
        if not (self.path / PLAN).is_file():
            got = "nothing of that name" if not self.path.exists() else f"one without {PLAN}"
            raise InputError(str(self.path), "the folder of a study", got)
        content = self._read(PLAN)
        try:
            cells, extra = ([StoredCell(**item) for item in content[name]] for name in ("cells", "extra"))
            baselines = {key: tuple(keys) for key, keys in content["baselines"].items()}
            plan = StoredPlan(
                content["title"], content["version"], content["baseline"], tuple(cells), tuple(extra), baselines
            )
            _check(plan)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(str(self.path / PLAN), "the plan of a study", str(error)) from error
        return plan

    # ---------------------------------------------------------------- runs

    def has(self, key: str) -> bool:
        """Tell whether a run is done."""
        return self._cell(key, "json").exists() and self._cell(key, "npz").exists()

    def save(self, result: Result) -> None:
        """Store what a run has given; raises InputError where it cannot be written, and then the run is not done."""
        content = {"format": FORMAT, "version": own_version(), **result._asdict()}
        self.write(f"{CELLS}/{result.key}.npz", content.pop("jobs"))
        self.write(f"{CELLS}/{result.key}.json", json.dumps(content, indent=1, ensure_ascii=False).encode())

    def load(self, key: str) -> dict[str, Any] | None:
        """Return what a run has given: figures, notes, version, wall_s and total_s; None: it is not done. Raises InputError."""
        if not self.has(key):
            return None
        name = f"{CELLS}/{key}.json"
        content = self._read(name, _DAMAGED)
        kinds = {field: type(content.get(field)) for field in ("figures", "notes", "version", "wall_s", "total_s")}
        if [*kinds.values()] != [dict, list, str, float, float] or {*map(type, content["notes"])} - {str}:
            raise InputError(str(self.path / name), "what a run has given", "something else", hint=_DAMAGED)
        return content

    def jobs(self, key: str) -> Outcomes | None:
        """Return what became of a run's jobs; None: it is not done. Raises InputError for a file that is damaged."""
        if not self.has(key):
            return None
        file = self._cell(key, "npz")
        try:
            return unpack_outcomes(file.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(str(file), "what became of jobs", str(error), hint=_DAMAGED) from error

    def write_failures(self, failures: Sequence[Failure]) -> None:
        """Write why runs have failed; without any there is no file."""
        if failures:
            content = {"format": FORMAT, "failures": [failure._asdict() for failure in failures]}
            self.write(FAILURES, json.dumps(content, indent=1, ensure_ascii=False).encode())
        else:
            (self.path / FAILURES).unlink(missing_ok=True)

    def failures(self) -> dict[str, Failure]:
        """Return the runs that failed, by key; those that are done by now are left out."""
        if not (self.path / FAILURES).exists():
            return {}
        try:
            failures = [Failure(**item) for item in self._read(FAILURES)["failures"]]
            return {failure.key: failure for failure in failures if not self.has(failure.key)}
        except (KeyError, TypeError) as error:
            raise InputError(str(self.path / FAILURES), "the failures of a study", str(error)) from error

    # ---------------------------------------------------------------- files

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole, or leave what was there; raises InputError."""
        target = self.path / name
        partial = target.with_name(f".{target.name}{_PARTIAL}")
        with self._writing():
            try:
                partial.unlink(missing_ok=True)  # of a runner that was killed; a link is not written through
                with open(partial, "xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(partial, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
                raise

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or str(self.path)
            raise InputError(str(place), "a place that can be written", error.strerror or str(error)) from error

    def _read(self, name: str, hint: str = "") -> dict[str, Any]:
        file = self.path / name
        try:
            content: Any = json_of(file.read_bytes())
        except OSError as error:
            raise InputError(str(file), "a file that can be read", error.strerror or str(error)) from error
        except ValueError as error:
            raise InputError(str(file), "JSON", str(error), hint=hint) from error
        found = content.get("format") if isinstance(content, dict) else None
        if found != FORMAT:
            raise InputError(str(file), str(FORMAT), repr(found), field="format", hint=hint)
        return dict(content)

    def _cell(self, key: str, ending: str) -> Path:
        return self.path / CELLS / f"{key}.{ending}"


def _check(plan: StoredPlan) -> None:
    """Raise TypeError or ValueError where a plan has values that none has that was written here."""
    texts = [plan.title, plan.version, *([] if plan.baseline is None else [plan.baseline["policy"]])]
    keys = [*plan.baselines, *chain(*plan.baselines.values())]
    for number, cell in enumerate((*plan.cells, *plan.extra)):
        fine = type(cell.number) is int and isinstance(cell.settings, dict) and isinstance(cell.scenario, dict)
        if not fine or {*cell.names} - {*COLUMNS}:
            raise TypeError(f"cell {number} is none")
        texts += cell.names.values()
        keys.append(cell.key)
        for axis, name in cell.names.items():
            NUMBERS.get(COLUMNS[axis], str)(name or 0)
    for text in (*texts, *keys):
        if not isinstance(text, str):
            raise TypeError(f"{short_repr(text)} in place of a text")
    for key in keys:
        if not _KEY.fullmatch(key):
            raise TypeError(f"{short_repr(key)} in place of a key")


def _cell_table(cell: Cell) -> dict[str, Any]:
    settings = {"policy": cell.argument, **cell.settings}
    return StoredCell(cell.number, cell.names, cell.key, settings, cell.scenario.as_dict())._asdict()
