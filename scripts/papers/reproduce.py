"""Reproduce a paper, or a study of our own; see docs/reproducing.md. Usage: ``-m scripts.papers.reproduce PAPER [OPTION]...``.

Each has a folder with ``experiment.py``, which runs there are, and ``report.py``, what is written of them, with or without
``pictures.py``: `PICTURES` by the ends of their files' names, and `OVER`, which figures they have. It is a study: runs that are done
are not made again, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final, NamedTuple

from scripts.papers.pictures import draw_all
from scripts.papers.study import Paper, reproduce


class Words(NamedTuple):
    """The folder of a reproduction, and what is said of it."""

    folder: str
    title: str  # of a new page
    about: str
    quick: str
    drawn: str = "everything"


# What an experiment sets, unless it is as usual.
SETTINGS: Final = ("JOBS", "QUICK_JOBS", "SEEDS", "QUICK_SEEDS", "WORKERS", "USUAL", "QUICK_LOGS")
# fmt: off
PAPERS: Final[Mapping[str, Words]] = {
    "rua": Words("rua", "Resource-Usage-Aware backfilling",
        "Reproduce the Resource-Usage-Aware backfilling paper (its tables 1 to 7, figures 8 and 9)",
        "1,000 + 1,000 jobs, one seed, no experiments", "the demand"),
    "lomarc": Words("lomarc", "LOMARC on three workloads",
        "Reproduce the LOMARC paper (its figures 6 to 9, table 5 and the percentages of section 6.2)",
        "1,000 jobs, two seeds, no experiments"),
    "g-lomarc-ts": Words("glts", "G-LOMARC-TS on two workloads",
        "Reproduce the G-LOMARC-TS paper (its figures 6 to 9 and the figures of section 5)", "1,500 jobs, two seeds, few experiments"),
    "paired-gang": Words("paired_gang", "Paired gang scheduling",
        "Reproduce the paired gang paper (its figures 3, 7 to 14 and the claims of section 4)",
        "200 jobs, two seeds, static mixes of 32 s, two loads", "jobs, CPU shares and bursts"),
    "coscheduling": Words("coscheduling", "Communication-driven coscheduling",
        "Reproduce the coscheduling paper (its figures 3 to 8, tables 3 and 4, and all claims)",
        "16 jobs, two seeds, short windows, two programs in copies", "jobs, bursts, and the phases of nodes"),
    "hardware": Words("hardware", "Schedulers and models on measured co-runs",
        "Run schedulers on measured co-runs, and compare models of hardware with measurements",
        "60 jobs, two seeds, few experiments"),
    "symbiosis": Words("symbiosis", "Symbiosis against fair baselines",
        "Compare symbiosis, cosched's own policy, with the fair baselines", "500 jobs, two seeds, W2 only"),
    "guests": Words("guests", "Guests beside a site's own scheduler",
        "Measure what guests beside a site's own scheduler gain, for whom, and on what that depends", "500 jobs, two seeds, W2 only"),
    "gpus": Words("gpus", "GPUs that two jobs may share",
        "Measure what sharing GPUs gains, for whom, and what the scheduler must know for it", "200 jobs, two seeds"),
}
# fmt: on


def paper_of(name: str) -> Paper:
    """Return a reproduction, with what its folder declares; KeyError for another name."""
    words = PAPERS[name]
    folder = f"scripts.papers.{words.folder}"
    experiment, report = (import_module(f"{folder}.{part}") for part in ("experiment", "report"))
    drawn = report if hasattr(report, "PICTURES") else import_module(f"{folder}.pictures")
    over = getattr(drawn, "OVER", lambda figures: figures)
    settings = {setting.lower(): getattr(experiment, setting) for setting in SETTINGS if hasattr(experiment, setting)}
    return Paper(
        name=name,
        title=words.title,
        about=f"{words.about}; see docs/reproducing.md.",
        quick=f"{words.quick}: a preview, not a result",
        drawn=words.drawn,
        experiment=experiment.experiment,
        logs=[*dict.fromkeys(log[0] for log in getattr(experiment, "LOGS", {}).values())],
        stages=lambda size: [product.stage for product in experiment.products(size)],
        report=report.report,
        draw=lambda figures, into: draw_all(over(figures), into, name, drawn.PICTURES),
        derive=getattr(report, "derive", None),
        **settings,
    )


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PAPERS:
        raise SystemExit(f"reproduce: which paper? One of: {', '.join(PAPERS)}")
    reproduce(paper_of(sys.argv.pop(1)))
