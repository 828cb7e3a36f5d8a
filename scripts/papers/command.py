"""The command that reproduces a paper: its options, its runs, and the page and pictures of what is stored."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scripts.papers.frame import LOGS, Result, load, positive, run_all
from scripts.processes import PROJECT
from scripts.tables import write_tables


class Paper(NamedTuple):
    """What one paper's reproduction consists of; tasks are its own, see `scripts.papers.frame.Task`."""

    name: str  # of its files and of the command
    title: str  # of a new page
    about: str  # what the command says of itself
    quick: str  # what it says of ``--quick``
    jobs: int
    quick_jobs: int
    seeds: int
    tasks_of: Callable[[int, bool], Sequence[Any]]  # by number of seeds, and whether it is to be quick
    simulate: Callable[..., Result]  # by task, ``jobs`` and, if there are ``logs``, the ``folder`` that has them
    tell: Callable[[Any, Result], str]
    report: Callable[[Mapping[Any, Result], int], list[str]]
    draw: Callable[[Mapping[Any, Result], Path], list[Path]]
    quick_seeds: int = 2
    workers: int = 2
    drawn: str = "everything"  # by a seed
    logs: Sequence[str] = ()  # files that the runs read


def reproduce(paper: Paper) -> None:
    """Do what the command line says; SystemExit where that cannot be."""
    parser = argparse.ArgumentParser(prog=f"reproduce {paper.name}", description=paper.about)
    parser.add_argument("--quick", action="store_true", help=paper.quick)
    parser.add_argument(
        "--seeds", type=positive, help=f"draws of {paper.drawn} (default {paper.seeds}, quick {paper.quick_seeds})"
    )
    parser.add_argument("--workers", type=positive, default=paper.workers, help="runs at a time (default %(default)s)")
    parser.add_argument(
        "--store", type=Path, help=f"where each run's figures are kept (default out/reproduce/{paper.name}[-quick])"
    )
    parser.add_argument(
        "--jobs", type=positive, help=argparse.SUPPRESS
    )  # for tests: as few as one likes; writes no page of the docs
    parser.add_argument("--report-only", action="store_true", help="run nothing; write the page from what is stored")
    if paper.logs:
        parser.add_argument(
            "--traces", type=Path, metavar="DIR", default=LOGS, help="where the logs are (default %(default)s)"
        )
    options = parser.parse_args()
    seeds = options.seeds or (paper.quick_seeds if options.quick else paper.seeds)
    jobs = options.jobs or (paper.quick_jobs if options.quick else paper.jobs)
    name = paper.name + ("-quick" if options.quick else "") + (f"-{jobs}" if options.jobs else "")
    store = options.store or PROJECT / "out" / "reproduce" / name
    tasks = paper.tasks_of(seeds, options.quick)
    if not options.report_only:
        simulate = partial(paper.simulate, jobs=jobs)
        if paper.logs:
            _require_logs(paper.logs, options.traces)
            simulate = partial(simulate, folder=options.traces)
        run_all(tasks, store, options.workers, simulate, paper.tell)
    results = load(store, tasks)
    if not results:
        raise SystemExit(f"reproduce: no runs in {store}")
    # Runs of RUA that were stored before it was noted do not say how many jobs they have.
    if others := {result.get("jobs", jobs) for result in results.values()} - {jobs}:
        raise SystemExit(f"reproduce: {store} has runs of {min(others):,} jobs, not of {jobs:,}; give another --store")
    folder = PROJECT / "docs" / "results" if jobs == paper.jobs else store
    page = folder / f"{paper.name}.md"
    write_tables(page, paper.name, paper.title, paper.report(results, jobs))
    pictures = paper.draw(results, folder)
    beside = f"picture in {pictures[0]}" if len(pictures) == 1 else f"{len(pictures)} pictures beside it"
    print(f"{len(results)} runs; tables in {page}, {beside}")


def _require_logs(files: Sequence[str], folder: Path) -> None:
    """Raise SystemExit where a log is missing."""
    for file in files:
        if not (folder / file).exists():
            raise SystemExit(
                f"reproduce: {folder} has no {file}; it is in the Parallel Workloads Archive; give --traces DIR"
            )
