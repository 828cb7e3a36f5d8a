"""Reproduce the paired gang paper (its figures 3, 7 to 14 and the claims of section 4); see docs/reproducing.md.

It is a study: runs that are done are not made again, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.paired_gang.experiment import JOBS, QUICK_JOBS, SEEDS, USUAL, experiment
from scripts.papers.paired_gang.pictures import draw
from scripts.papers.paired_gang.report import report
from scripts.papers.paired_gang.tables import derive
from scripts.papers.study import Paper, reproduce

PAPER = Paper(
    name="paired-gang",
    title="Paired gang scheduling",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="200 jobs, two seeds, static mixes of 32 s, two loads: a look, no result",
    drawn="jobs, CPU shares and bursts",
    jobs=JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
    derive=derive,
)

if __name__ == "__main__":
    reproduce(PAPER)
