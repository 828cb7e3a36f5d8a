"""Reproduce the LOMARC paper (its figures 6 to 9, table 5 and the percentages of section 6.2); see docs/reproducing.md.

Every run's figures are kept as one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.lomarc_pictures import draw
from scripts.lomarc_report import report
from scripts.lomarc_runs import JOBS, SEEDS, simulate, tasks_of, tell
from scripts.paper import Paper, reproduce

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
