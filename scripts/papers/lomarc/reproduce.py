"""Reproduce the LOMARC paper (its figures 6 to 9, table 5 and the percentages of section 6.2); see docs/reproducing.md.

It is a study, so an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.lomarc.experiment import JOBS, SEEDS, USUAL, experiment
from scripts.papers.lomarc.pictures import draw
from scripts.papers.lomarc.report import report
from scripts.papers.study import Paper, reproduce

PAPER = Paper(
    name="lomarc",
    title="LOMARC on three workloads",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="1,000 jobs, two seeds, no experiments: a look, no result",
    jobs=JOBS,
    quick_jobs=1_000,
    seeds=SEEDS,
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
)

if __name__ == "__main__":
    reproduce(PAPER)
