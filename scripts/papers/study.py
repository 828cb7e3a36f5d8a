"""The command that reproduces a paper as a study: its options, its runs, and the page and pictures of what is stored.

Runs come from three places: the repository (`stored`), the study's folder on this machine, and, if neither has them, they are made.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from scripts.papers.figures import Figures
from scripts.papers.stored import (
    ANY_HARM,
    STORED,
    ReadRow,
    StoredRun,
    complete,
    kept,
    read_stored,
    rounded,
    totals,
    write_stored,
)
from scripts.processes import PROJECT
from scripts.progress import Progress
from scripts.tables import write_tables
from scripts.verdicts import FOLDER, outcome_lines, write_results

from cosched_emulator.errors import EmulatorError
from cosched_emulator.studies.axes import AXES, COLUMNS
from cosched_emulator.studies.cells import Cell, Plan, make_plan, merged
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.runner import Way, run_plan
from cosched_emulator.studies.study_folder import StudyFolder
from cosched_emulator.studies.study_result import StudyResult, series_of
from cosched_emulator.studies.study_result import write_tables as write_study_tables
from cosched_plugin.common.errors import PluginError
from cosched_terminal.console import folded

# Where the logs of the Parallel Workloads Archive and samples of the model lie, if anywhere.
LOGS: Final = Path(os.environ.get("COSCHED_SHARED") or PROJECT.parent / "shared") / "workloads"

ARCHIVE: Final = "the Parallel Workloads Archive (https://www.cs.huji.ac.il/labs/parallel/workload/)"
_TOLD: Final = 5  # failed cells, at most
LACKING: Final = 3  # exit code where files are needed that are no part of the project; `scripts/reproduce all` goes on


class Size(NamedTuple):
    """How much of a paper is run."""

    jobs: int  # of each run
    seeds: int  # at most: from 1
    quick: bool = False  # without the experiments of our own


BASE: Final = "base"  # variant that changes nothing


class Variant(NamedTuple):
    """What a variant changes: sections of a scenario and settings of the policy; and which runs it has. Empty: all."""

    text: str
    scenario: Mapping[str, Mapping[str, Any]] = {}
    settings: Sequence[str] = ()
    workloads: Sequence[str] = ()
    policies: Sequence[str] = ()
    seeds: int = 0  # at most, where the variants of a paper differ in that
    stage: str = ""
    quick: bool = False  # part of a quick reproduction


class Product(NamedTuple):
    """Some of the runs of an experiment; what is empty has all values of its axis."""

    stage: str
    workloads: Sequence[str]
    policies: Sequence[str]
    seeds: Sequence[int] = ()
    variants: Sequence[str] = (BASE,)
    beliefs: Sequence[str] = ()

    @property
    def table(self) -> dict[str, Any]:
        """Return it as a study takes it."""
        return {axis: [*part] for axis, part in self._asdict().items() if part and axis != "stage"}


def tables_of(products: Iterable[Product]) -> list[dict[str, Any]]:
    """Return the runs of an experiment as a study takes them."""
    return [product.table for product in products]


def policies_of(policies: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the axis of policies: by name a preset, its settings, and what else there may be."""
    return [{"name": name, "policy": preset, "set": [*settings]} for name, (preset, settings, *_) in policies.items()]


def variants_of(variants: Mapping[str, Variant]) -> list[dict[str, Any]]:
    """Return the axis of variants."""
    changed = [{"name": name, **each.scenario, "set": each.settings} for name, each in variants.items()]
    return [{"name": BASE}, *changed]


def beliefs_of(beliefs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the axis of beliefs: by name a text and what the scheduler knows."""
    return [{"name": name, "belief": values} for name, (_, values) in beliefs.items()]


class Paper(NamedTuple):
    """What one paper's reproduction consists of: its experiment, and what is written of its results."""

    name: str  # of its files and of the command
    title: str  # of a new page
    about: str  # what the command says of itself
    quick: str  # what it says of ``--quick``
    jobs: int
    quick_jobs: int
    seeds: int
    experiment: Callable[[Size, Path], Mapping[str, Any]]  # by size and the folder of logs: a table as `study` takes it
    usual: Mapping[str, str]  # column of an axis -> the value that a figure has where a report names none
    report: Callable[[Figures, Size], list[str]]
    draw: Callable[[Figures, Path], list[Path]]
    quick_seeds: int = 2
    workers: int = 2
    drawn: str = "everything"  # by a seed
    logs: Sequence[str] = ()  # files that the runs read
    quick_logs: bool = True  # whether those of ``--quick`` do
    # Adds figures to rows, of what is not stored: long lists, files.
    derive: Callable[[Figures, Size], None] | None = None
    stages: Callable[[Size], Sequence[str]] = lambda _: ()  # name of each product of the experiment, in order


def reproduce(paper: Paper) -> None:
    """Do what the command line says; SystemExit where that cannot be."""
    options = _options(paper)
    name = paper.name + ("-quick" if options.quick else "") + (f"-{options.jobs}" if options.jobs else "")
    store = options.store or PROJECT / "out" / "reproduce" / name
    size = Size(
        options.jobs or (paper.quick_jobs if options.quick else paper.jobs),
        options.seeds or (paper.quick_seeds if options.quick else paper.seeds),
        options.quick,
    )
    whole = size.jobs == paper.jobs  # else its runs are a preview
    known = read_stored(paper.name, PROJECT / STORED) if whole else {}
    if options.report_only and not store.is_dir():
        if not known:
            raise SystemExit(f"reproduce: no runs in {store}")
        found = _Found([ReadRow(run.row) for run in known.values()], len(known))
    else:
        if paper.quick_logs or not size.quick:
            _require_logs(paper.logs, options.traces)
        stages = _stages(paper, size, options.stage)
        try:
            plan = make_plan(read_experiment(paper.experiment(size, options.traces)))
            only = {cell.key for cell in plan.cells if stages and stages[cell.stage] in options.stage}
            done = _stored if options.report_only else partial(_run, workers=options.workers, only=only)
            found = _found(plan, done(plan, store, known), known, store)
        except (EmulatorError, PluginError) as error:
            raise SystemExit(f"reproduce: {error}") from error
    if not found.rows:
        raise SystemExit(f"reproduce: no runs in {store}")
    folder = PROJECT / "docs" / "results" if whole else store
    _write(paper, size, found, folder)
    if whole and found.runs:
        _store(paper.name, found, {} if options.seeds is None else known)
    if whole:
        write_tables(PROJECT / "docs" / "reproducing.md", "all", "Reproducing the papers", totals(PROJECT / STORED))
    if found.failed:
        first, more = ", ".join(found.failed[:_TOLD]), len(found.failed) - _TOLD
        raise SystemExit(f"reproduce: failed cells of {store}: {first}{f' and {more} more' * (more > 0)}")


class _Found(NamedTuple):
    """What has run, wherever it is stored."""

    rows: list[ReadRow]
    cells: int  # of the plan
    # Key, version and wall time of each row, if a plan says which rows there are.
    runs: Sequence[tuple[str, str, float]] = ()
    compared: frozenset[str] = frozenset()  # keys of the runs that have a baseline
    failed: Sequence[str] = ()


def _write(paper: Paper, size: Size, found: _Found, folder: Path) -> None:
    """Write page and pictures; the rows then know which of their columns are read."""
    series = series_of(found.rows)
    figures = Figures(series, paper.usual)
    if paper.derive is not None:
        paper.derive(figures, size)
    for each in series:
        _ = each.repeats  # compares all columns
    for row in found.rows:
        row.columns.clear()
    page = folder / f"{paper.name}.md"
    body = paper.report(figures, size)
    preview = _preview(paper, size) if size.jobs != paper.jobs else ""
    write_results(page, paper.name, paper.title, body, preview)
    pictures = paper.draw(figures, folder)
    for line in filter(None, (preview, *outcome_lines(body))):
        print(folded(line, 80))
    beside = f"picture in {pictures[0]}" if len(pictures) == 1 else f"{len(pictures)} pictures beside it"
    print(f"{len(found.rows)} of {found.cells} runs; verdicts in {page}, rows in {FOLDER}/, {beside}")


def _preview(paper: Paper, size: Size) -> str:
    """Return what a page says first that is none of results."""
    return (
        f"A preview, not a result: {size.jobs:,} of {paper.jobs:,} jobs a run, {size.seeds} of {paper.seeds} seeds"
        f"{', few or no experiments' * size.quick}. `./scripts/reproduce {paper.name}` makes all runs."
    )


def _store(paper: str, found: _Found, others: Mapping[str, StoredRun]) -> None:
    """Write the runs into the repository, beside ``others`` that have not been asked for: of more seeds."""
    columns = {name for row in found.rows for name in row.columns}
    runs = {
        key: StoredRun(key, version, wall_s, {**_places(row), **kept(row, columns)})
        for row, (key, version, wall_s) in zip(found.rows, found.runs, strict=True)
    }
    runs = {key: run for key, run in runs.items() if complete(run, key in found.compared)}
    names = {tuple(_places(run.row).values()) for run in runs.values()}
    rest = {key: run for key, run in others.items() if tuple(_places(run.row).values()) not in names}
    file = write_stored(paper, [*runs.values(), *rest.values()], PROJECT / STORED)
    print(f"{len(runs) + len(rest)} runs stored in {file} ({file.stat().st_size:,} bytes)", file=sys.stderr)


def _places(row: Mapping[str, Any]) -> dict[str, str]:
    return {column: str(row.get(column) or "") for column in COLUMNS.values()}


def _found(plan: Plan, result: StudyResult | None, known: Mapping[str, StoredRun], store: Path) -> _Found:
    """Return the rows of all cells that have run, from this machine or from the repository, in order of declaration."""
    mine = {} if result is None else {row["key"]: row for row in result.rows}
    folder, rows, runs = StudyFolder(store), [], []
    for cell in plan.cells:
        row, stored = mine.get(cell.key), known.get(cell.key)
        if row is not None and (cell.key not in plan.baselines or row.get(ANY_HARM) is not None or stored is None):
            rows.append(ReadRow({**(stored.row if stored else {}), **rounded(row)}))  # what was derived before stays
            runs.append((cell.key, str(row["version"]), float((folder.load(cell.key) or {}).get("wall_s", 0.0))))
        elif stored is not None:
            rows.append(ReadRow({"cell": cell.number, **stored.row, **_named(cell)}))
            runs.append((cell.key, stored.version, stored.wall_s))
    failed = [f"{cell.number} ({failure.text})" for cell, failure in result.failures] if result is not None else []
    return _Found(rows, len(plan.cells), runs, frozenset(plan.baselines), failed)


def _named(cell: Cell) -> dict[str, str]:
    return {COLUMNS[axis]: name for axis, name in cell.names.items()}


def positive(text: str) -> int:
    """Return the whole number above 0 that a command-line option gives."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def scenario_of(experiment: Mapping[str, Any], **chosen: str) -> dict[str, Any]:
    """Return the scenario of a cell, by axis and the name of its value: ``workloads="CTC MED", policies="RUA"``.

    Axes that are not named change nothing. Files need not exist.
    """
    read = read_experiment(experiment)
    return reduce(merged, (read.value(axis, chosen[axis]).changes for axis in AXES if axis in chosen), dict(read.base))


def _options(paper: Paper) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"reproduce {paper.name}", description=paper.about)
    parser.add_argument("--quick", action="store_true", help=paper.quick)
    parser.add_argument(
        "--seeds",
        type=positive,
        help=f"seeds; each draws {paper.drawn} (default {paper.seeds}, quick {paper.quick_seeds})",
    )
    parser.add_argument("--workers", type=positive, default=paper.workers, help="runs at a time (default %(default)s)")
    stage = "make only the runs of this stage; may be repeated"
    parser.add_argument("--stage", action="append", metavar="NAME", help=stage)
    parser.add_argument("--store", type=Path, help=f"folder of the study (default out/reproduce/{paper.name}[-quick])")
    # For tests: as few as one likes; writes no page of the docs.
    parser.add_argument("--jobs", type=positive, help=argparse.SUPPRESS)
    parser.add_argument("--report-only", action="store_true", help="make no run; write the page from the stored runs")
    logs = "where the logs are (default %(default)s)" if paper.logs else argparse.SUPPRESS
    parser.add_argument("--traces", type=Path, metavar="DIR", default=LOGS, help=logs)
    return parser.parse_args()


def _stages(paper: Paper, size: Size, wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the stage of each product of the experiment, if some stages are wanted; SystemExit for one that does not exist."""
    if not wanted:
        return ()
    stages = paper.stages(size)
    for name in wanted:
        if name not in stages:
            raise SystemExit(f"reproduce: no stage {name!r}; there are {', '.join(dict.fromkeys(stages))}")
    return stages


def _run(
    plan: Plan, store: Path, known: Mapping[str, StoredRun], workers: int, only: Collection[str]
) -> StudyResult | None:
    """Make the runs that are not stored, with their baselines; what is stored stays if it is interrupted. None: nothing is here.

    ``only``: keys of the cells that are wanted, without their baselines; empty: all.
    """
    folder = StudyFolder(store)
    left = _left(plan, known, only)
    wanted = [cell for cell in plan.runs if not only or cell.key in only]
    done = len(wanted) - sum(not folder.has(cell.key) for cell in left.runs)
    print(f"{len(wanted)} runs, {done} of them done before, {workers} at a time", file=sys.stderr)
    progress = Progress()
    try:
        if left.cells:
            run_plan(left, folder, Way(jobs=workers), partial(progress.bar, text=str(store)))
    except KeyboardInterrupt:
        print(f"interrupted: finished runs are in {store}, and the same command continues", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        progress.clear()
    return _tables(plan, folder) if store.is_dir() else None


def _left(plan: Plan, known: Mapping[str, StoredRun], only: Collection[str]) -> Plan:
    """Return the part of a plan that the repository does not have: its cells, and the runs that they are compared with."""
    left = {
        cell.key
        for cell in plan.cells
        if (not only or cell.key in only) and not complete(known.get(cell.key), cell.key in plan.baselines)
    }
    baselines = {} if only else {key: keys for key, keys in plan.baselines.items() if key in left}
    left |= {key for keys in baselines.values() for key in keys}
    cells, extra = (tuple(cell for cell in part if cell.key in left) for part in (plan.cells, plan.extra))
    return replace(plan, cells=cells, extra=extra, baselines=baselines)


def _stored(plan: Plan, store: Path, known: Mapping[str, StoredRun]) -> StudyResult:
    """Return what is stored of a study on this machine; nothing is run."""
    folder = StudyFolder(store)
    if not any(cell.key in known or folder.has(cell.key) for cell in plan.cells):
        raise SystemExit(f"reproduce: {store} has no runs of this size: give the --quick and --jobs that its runs had")
    return _tables(plan, folder)


def _tables(plan: Plan, folder: StudyFolder) -> StudyResult:
    """Write the tables of the whole plan into the study's folder, and return what it has."""
    with folder.locked():
        folder.write_plan(plan)
        return write_study_tables(folder)


def _require_logs(files: Sequence[str], folder: Path) -> None:
    """End the program where a log is missing."""
    missing = [file for file in files if not (folder / file).exists()]
    if missing:
        lacking(f"{folder} has no {', '.join(missing)}", ARCHIVE)


def lacking(what: str, source: str) -> NoReturn:
    """End the program, as files are missing: say which, where they are had, and how to name their folder."""
    print(f"reproduce: {what}: get it from {source}, and give its folder as --traces DIR", file=sys.stderr)
    raise SystemExit(LACKING)
