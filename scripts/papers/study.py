"""The command that reproduces a paper as a study: its options, its runs, and the page and pictures of what is stored."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.figures import Figures
from scripts.processes import PROJECT
from scripts.progress import Progress
from scripts.verdicts import FOLDER, write_results

from cosched_emulator.errors import EmulatorError
from cosched_emulator.studies.axes import AXES
from cosched_emulator.studies.cells import Plan, make_plan, merged
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.runner import Way, run_plan
from cosched_emulator.studies.study_folder import StudyFolder
from cosched_emulator.studies.study_result import StudyResult
from cosched_emulator.studies.study_result import write_tables as write_study_tables
from cosched_plugin.common.errors import PluginError

# Where the logs of the Parallel Workloads Archive and samples of the model lie, if anywhere.
LOGS: Final = Path(os.environ.get("COSCHED_SHARED") or PROJECT.parent / "shared") / "workloads"


class Size(NamedTuple):
    """How much of a paper is run."""

    jobs: int  # of each run
    seeds: int  # at most: from 1
    quick: bool = False  # without the experiments of our own


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
    stages: Callable[[Size], Sequence[str]] | None = None  # name of each product of the experiment, in order


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
    _require_logs(paper.logs, options.traces)
    if options.report_only and not store.is_dir():
        raise SystemExit(f"reproduce: no runs in {store}")
    stages = _stages(paper, size, options.stage)
    try:
        plan = make_plan(read_experiment(paper.experiment(size, options.traces)))
        only = tuple(cell.number for cell in plan.cells if stages and stages[cell.stage] in options.stage)
        way = Way(jobs=options.workers, only=only)
        result = _stored(plan, store) if options.report_only else _run(plan, store, way)
    except (EmulatorError, PluginError) as error:
        raise SystemExit(f"reproduce: {error}") from error
    if not result.rows:
        raise SystemExit(f"reproduce: no runs in {store}")
    folder = PROJECT / "docs" / "results" if size.jobs == paper.jobs else store
    figures = Figures(result.series, paper.usual)
    page = folder / f"{paper.name}.md"
    write_results(page, paper.name, paper.title, paper.report(figures, size))
    pictures = paper.draw(figures, folder)
    beside = f"picture in {pictures[0]}" if len(pictures) == 1 else f"{len(pictures)} pictures beside it"
    print(f"{len(result.rows)} of {len(plan.cells)} runs; verdicts in {page}, rows in {FOLDER}/, {beside}")
    if result.failures:
        failed = [f"{cell.number} ({failure.text})" for cell, failure in result.failures]
        raise SystemExit(f"reproduce: failed cells of {store}: {', '.join(failed)}")


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
        "--seeds", type=positive, help=f"draws of {paper.drawn} (default {paper.seeds}, quick {paper.quick_seeds})"
    )
    parser.add_argument("--workers", type=positive, default=paper.workers, help="runs at a time (default %(default)s)")
    if paper.stages is None:
        parser.set_defaults(stage=None)
    else:
        stage = "only the runs of these stages; again for more than one"
        parser.add_argument("--stage", action="append", metavar="NAME", help=stage)
    parser.add_argument("--store", type=Path, help=f"folder of the study (default out/reproduce/{paper.name}[-quick])")
    parser.add_argument(
        "--jobs", type=positive, help=argparse.SUPPRESS
    )  # for tests: as few as one likes; writes no page of the docs
    parser.add_argument("--report-only", action="store_true", help="run nothing; write the page from what is stored")
    logs = "where the logs are (default %(default)s)" if paper.logs else argparse.SUPPRESS
    parser.add_argument("--traces", type=Path, metavar="DIR", default=LOGS, help=logs)
    return parser.parse_args()


def _stages(paper: Paper, size: Size, wanted: Sequence[str] | None) -> Sequence[str]:
    """Return the stage of each product of the experiment, if some stages are wanted; SystemExit for one that does not exist."""
    if not wanted or paper.stages is None:
        return ()
    stages = paper.stages(size)
    for name in wanted:
        if name not in stages:
            raise SystemExit(f"reproduce: no stage {name!r}; there are {', '.join(dict.fromkeys(stages))}")
    return stages


def _run(plan: Plan, store: Path, way: Way) -> StudyResult:
    """Make the runs that are not stored; what is stored stays if it is interrupted."""
    folder = StudyFolder(store)
    chosen = [cell for cell in plan.runs if not way.only or cell.number in way.only]
    done = sum(folder.has(cell.key) for cell in chosen)
    print(f"{len(chosen)} runs, {done} of them done before, {way.jobs} at a time", file=sys.stderr)
    progress = Progress()
    try:
        return run_plan(plan, folder, way, partial(progress.bar, text=str(store))).result
    except KeyboardInterrupt:
        print(f"interrupted; what is done is in {store}, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        progress.clear()


def _stored(plan: Plan, store: Path) -> StudyResult:
    """Return what is stored of a study; nothing is run."""
    folder = StudyFolder(store)
    if not any(folder.has(cell.key) for cell in plan.cells):
        raise SystemExit(f"reproduce: no runs of this size in {store}: --quick and --jobs must be those of its runs")
    with folder.locked():
        folder.write_plan(plan)
        return write_study_tables(folder)


def _require_logs(files: Sequence[str], folder: Path) -> None:
    """Raise SystemExit where a log is missing."""
    for file in files:
        if not (folder / file).exists():
            raise SystemExit(
                f"reproduce: {folder} has no {file}; it is in the Parallel Workloads Archive; give --traces DIR"
            )
