"""Reproduce the Resource-Usage-Aware backfilling paper (its tables 1 to 7, figures 8 and 9); see docs/reproducing.md.

Each run's figures are one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

import os

from scripts.papers.command import Paper, reproduce
from scripts.papers.rua.pictures import draw
from scripts.papers.rua.report import report
from scripts.papers.rua.runs import JOBS, QUICK_JOBS, SEEDS, TRACES, simulate, tasks_of, tell

PAPER = Paper(
    name="rua",
    title="Resource-Usage-Aware backfilling",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="1,000 + 1,000 jobs, one seed, no experiments: a look, no result",
    drawn="the demand",
    jobs=JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    quick_seeds=1,
    workers=os.cpu_count() or 1,
    logs=[file for file, _ in TRACES.values()],
    tasks_of=lambda seeds, quick: tasks_of(seeds, variants=not quick),
    simulate=simulate,
    tell=tell,
    report=report,
    draw=draw,
)

if __name__ == "__main__":
    reproduce(PAPER)
