"""Reproduce the G-LOMARC-TS paper (its figures 6 to 9 and the figures of section 5); see docs/reproducing.md.

Every run's figures are kept as one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.command import Paper, reproduce
from scripts.papers.glts.pictures import draw
from scripts.papers.glts.report import report
from scripts.papers.glts.runs import JOBS, QUICK_JOBS, SEEDS, simulate, tasks_of, tell

PAPER = Paper(
    name="g-lomarc-ts",
    title="G-LOMARC-TS on two workloads",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="1,500 jobs, two seeds, few experiments: a look, no result",
    jobs=JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    tasks_of=lambda seeds, quick: tasks_of(seeds, quick=quick),
    simulate=simulate,
    tell=tell,
    report=report,
    draw=draw,
)

if __name__ == "__main__":
    reproduce(PAPER)
