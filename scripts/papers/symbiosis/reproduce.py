"""Hold symbiosis, cosched's own policy, against the fair baselines; see docs/reproducing.md.

It is a study, so an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.study import Paper, reproduce
from scripts.papers.symbiosis.experiment import JOBS, LOGS, QUICK_JOBS, SEEDS, USUAL, experiment
from scripts.papers.symbiosis.report import draw, report

PAPER = Paper(
    name="symbiosis",
    title="Symbiosis against fair baselines",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="500 jobs, two seeds, W2 alone: a look, no result",
    jobs=JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
    logs=[file for file, _, _ in LOGS.values()],
    quick_logs=False,
)

if __name__ == "__main__":
    reproduce(PAPER)
