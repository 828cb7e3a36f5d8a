"""Reproduce the G-LOMARC-TS paper (its figures 6 to 9 and the figures of section 5); see docs/reproducing.md.

It is a study: runs that are done are not made again, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.glts.experiment import JOBS, QUICK_JOBS, SEEDS, USUAL, experiment, stages
from scripts.papers.glts.pictures import draw
from scripts.papers.glts.report import report
from scripts.papers.study import Paper, reproduce

PAPER = Paper(
    name="g-lomarc-ts",
    title="G-LOMARC-TS on two workloads",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="1,500 jobs, two seeds, few experiments: a look, no result",
    jobs=JOBS,
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
