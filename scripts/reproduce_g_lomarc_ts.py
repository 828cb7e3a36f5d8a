"""Reproduce the G-LOMARC-TS paper (its figures 6 to 9 and the figures of section 5); see docs/reproducing.md.

Every run's figures are kept as one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from scripts.glts_pictures import draw
from scripts.glts_report import report
from scripts.glts_runs import JOBS, QUICK_JOBS, SEEDS, simulate, tasks_of, tell
from scripts.reproduction import ROOT, load, positive, run_all, write_tables

PAPER = "g-lomarc-ts"
TITLE = "G-LOMARC-TS on two workloads"


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"reproduce {PAPER}", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--quick", action="store_true", help="1,500 jobs, two seeds, few experiments: a look, no result"
    )
    parser.add_argument("--seeds", type=positive, help=f"draws of everything (default {SEEDS}, quick 2)")
    parser.add_argument("--workers", type=positive, default=2, help="runs at a time (default 2)")
    parser.add_argument(
        "--store", type=Path, help=f"where each run's figures are kept (default out/reproduce/{PAPER}[-quick])"
    )
    parser.add_argument(
        "--jobs", type=positive, help=argparse.SUPPRESS
    )  # for tests: as few as one likes; writes no page of the docs
    parser.add_argument("--report-only", action="store_true", help="run nothing; write the page from what is stored")
    options = parser.parse_args()
    seeds = options.seeds or (2 if options.quick else SEEDS)
    jobs = options.jobs or (QUICK_JOBS if options.quick else JOBS)
    name = PAPER + ("-quick" if options.quick else "") + (f"-{jobs}" if options.jobs else "")
    store = options.store or ROOT / "out" / "reproduce" / name
    tasks = tasks_of(seeds, quick=options.quick)
    if not options.report_only:
        run_all(tasks, store, options.workers, partial(simulate, jobs=jobs), tell)
    results = load(store, tasks)
    if not results:
        raise SystemExit(f"reproduce: no runs in {store}")
    if others := {result["jobs"] for result in results.values()} - {jobs}:
        raise SystemExit(f"reproduce: {store} has runs of {min(others):,} jobs, not of {jobs:,}; give another --store")
    folder = ROOT / "docs" / "results" if jobs == JOBS else store
    page = folder / f"{PAPER}.md"
    write_tables(page, PAPER, TITLE, report(results, jobs))
    pictures = draw(results, folder)
    print(f"{len(results)} runs; tables in {page}, {len(pictures)} pictures beside it")


if __name__ == "__main__":
    main()
