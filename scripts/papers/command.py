"""The command that reproduces a paper: its options, its runs, and the page and pictures of what is stored."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from scripts.papers.frame import ROOT, Result, load, positive, run_all, write_tables

QUICK_SEEDS = 2


class Simulate(Protocol):
    """A function that runs a task in this process, with so many jobs, and returns its figures."""

    def __call__(self, task: Any, jobs: int) -> Result: ...


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
    simulate: Simulate
    tell: Callable[[Any, Result], str]
    report: Callable[[Mapping[Any, Result], int], list[str]]
    draw: Callable[[Mapping[Any, Result], Path], list[Path]]


def reproduce(paper: Paper) -> None:
    """Do what the command line says; SystemExit where that cannot be."""
    parser = argparse.ArgumentParser(prog=f"reproduce {paper.name}", description=paper.about)
    parser.add_argument("--quick", action="store_true", help=paper.quick)
    parser.add_argument(
        "--seeds", type=positive, help=f"draws of everything (default {paper.seeds}, quick {QUICK_SEEDS})"
    )
    parser.add_argument("--workers", type=positive, default=2, help="runs at a time (default 2)")
    parser.add_argument(
        "--store", type=Path, help=f"where each run's figures are kept (default out/reproduce/{paper.name}[-quick])"
    )
    parser.add_argument(
        "--jobs", type=positive, help=argparse.SUPPRESS
    )  # for tests: as few as one likes; writes no page of the docs
    parser.add_argument("--report-only", action="store_true", help="run nothing; write the page from what is stored")
    options = parser.parse_args()
    seeds = options.seeds or (QUICK_SEEDS if options.quick else paper.seeds)
    jobs = options.jobs or (paper.quick_jobs if options.quick else paper.jobs)
    name = paper.name + ("-quick" if options.quick else "") + (f"-{jobs}" if options.jobs else "")
    store = options.store or ROOT / "out" / "reproduce" / name
    tasks = paper.tasks_of(seeds, options.quick)
    if not options.report_only:
        run_all(tasks, store, options.workers, partial(paper.simulate, jobs=jobs), paper.tell)
    results = load(store, tasks)
    if not results:
        raise SystemExit(f"reproduce: no runs in {store}")
    if others := {result["jobs"] for result in results.values()} - {jobs}:
        raise SystemExit(f"reproduce: {store} has runs of {min(others):,} jobs, not of {jobs:,}; give another --store")
    folder = ROOT / "docs" / "results" if jobs == paper.jobs else store
    page = folder / f"{paper.name}.md"
    write_tables(page, paper.name, paper.title, paper.report(results, jobs))
    pictures = paper.draw(results, folder)
    print(f"{len(results)} runs; tables in {page}, {len(pictures)} pictures beside it")
