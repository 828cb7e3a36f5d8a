"""Hold schedulers against measured co-runs, and models of hardware against measurements; see docs/reproducing.md.

It is a study, so an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.hardware.experiment import JOBS, QUICK_JOBS, SEEDS, USUAL, experiment
from scripts.papers.hardware.pictures import draw
from scripts.papers.hardware.report import report
from scripts.papers.study import Paper, reproduce

PAPER = Paper(
    name="hardware",
    title="Schedulers and models on measured co-runs",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="60 jobs, two seeds, few experiments: a look, no result",
    jobs=JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
)

if __name__ == "__main__":
    reproduce(PAPER)
