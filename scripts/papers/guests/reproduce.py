"""Say what guests beside a site's own scheduler gain, for whom, and what that hangs on; see docs/reproducing.md.

It is a study, so an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

from scripts.papers.guests.experiment import JOBS, LOGS, QUICK_JOBS, SEEDS, USUAL, experiment
from scripts.papers.guests.report import draw, report
from scripts.papers.study import Paper, reproduce

PAPER = Paper(
    name="guests",
    title="Guests beside a site's own scheduler",
    about=__doc__.splitlines()[0] if __doc__ else "",
    quick="500 jobs, two seeds, W2 alone: a look, no result",
    jobs=JOBS,
    quick_jobs=QUICK_JOBS,
    seeds=SEEDS,
    experiment=experiment,
    usual=USUAL,
    report=report,
    draw=draw,
    logs=[*dict.fromkeys(file for file, _, _ in LOGS.values())],
    quick_logs=False,
)

if __name__ == "__main__":
    reproduce(PAPER)
