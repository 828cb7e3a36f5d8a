"""Reproduce the coscheduling paper (its figures 3 to 8, tables 3 and 4, and all claims); see docs/reproducing.md.

It is a study: runs that are done are not made again, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.coscheduling.experiment import ALL_JOBS, QUICK_JOBS, SEEDS, USUAL, experiment, stages
from scripts.papers.coscheduling.pictures import draw
from scripts.papers.coscheduling.report import report
from scripts.papers.study import Paper, reproduce

PAPER = Paper(
    name="coscheduling",
    title="Communication-driven coscheduling",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="16 jobs, two seeds, short windows, two programs in copies: a look, no result",
    drawn="jobs, bursts, and the phases of nodes",
    jobs=ALL_JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
    stages=stages,
)

if __name__ == "__main__":
    reproduce(PAPER)
