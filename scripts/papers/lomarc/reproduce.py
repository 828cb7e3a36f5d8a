"""Reproduce the LOMARC paper (its figures 6 to 9, table 5 and the percentages of section 6.2); see docs/reproducing.md.

Every run's figures are kept as one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.command import Paper, reproduce
from scripts.papers.lomarc.pictures import draw
from scripts.papers.lomarc.report import report
from scripts.papers.lomarc.runs import JOBS, SEEDS, simulate, tasks_of, tell

PAPER = Paper(
    name="lomarc",
    title="LOMARC on three workloads",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="1,000 jobs, two seeds, no experiments: a look, no result",
    jobs=JOBS,
    quick_jobs=1_000,
    seeds=SEEDS,
    tasks_of=lambda seeds, quick: tasks_of(seeds, variants=not quick),
    simulate=simulate,
    tell=tell,
    report=report,
    draw=draw,
)

if __name__ == "__main__":
    reproduce(PAPER)
