"""Reproduce the Resource-Usage-Aware backfilling paper (its tables 1 to 7, figures 8 and 9); see docs/reproducing.md.

It is a study, so an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

import os

from scripts.papers.rua.experiment import JOBS, LOGS, QUICK_JOBS, SEEDS, USUAL, experiment, stages
from scripts.papers.rua.pictures import draw
from scripts.papers.rua.report import report
from scripts.papers.study import Paper, reproduce

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
    logs=[file for file, _ in LOGS.values()],
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
    stages=stages,
)

if __name__ == "__main__":
    reproduce(PAPER)
