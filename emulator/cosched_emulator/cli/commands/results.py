"""The commands that read run folders: ``compare``, ``classes`` and ``plot``."""

from __future__ import annotations

from pathlib import Path

import click

from cosched_emulator import offered
from cosched_terminal.lazy import implementation

RUN_DIRS = click.argument("run_dirs", metavar="RUN_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
POPULATION = click.option(
    "--jobs",
    "population",
    type=click.Choice(offered.POPULATIONS),
    default=offered.POPULATIONS[0],
    show_default=True,
    help="Jobs whose waits and slowdowns count: those that completed, or all that ran.",
)
SECONDS = click.IntRange(0, 10**9)
SHORT_S = click.option(
    "--short-s", type=SECONDS, default=600, show_default=True, metavar="S", help="Largest estimate of a short job."
)
MEDIUM_S = click.option(
    "--medium-s", type=SECONDS, default=10_800, show_default=True, metavar="S", help="Of a medium one."
)
# Quantities of `plot --kind ecdf`: name on the command line -> (key in metrics, label, start of a logarithmic axis).
DISTRIBUTIONS: dict[str, tuple[str, str, float | None]] = {
    "bsld": ("bounded_slowdown_10s", "bounded slowdown (bound 10 s)", 1.0),
    "bsld60": ("bounded_slowdown_60s", "bounded slowdown (bound 60 s)", 1.0),
    "wait": ("wait_s", "wait [s]; less than 1 s drawn as 1 s", 1.0),
    "response": ("response_s", "response time [s]", 1.0),
    "penalised": ("penalised_percent", "penalised run time [%]", None),
}


@click.command()
@RUN_DIRS
@POPULATION
@click.option(
    "--common", is_flag=True, help="Only jobs that completed in all runs; the machine's figures do not change."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON, and the intervals over seeds.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option(
    "--plot", "plot_file", type=click.Path(path_type=Path), metavar="FILE", help="Also draw the main figures."
)
@click.option("--title", default="", help="Title of the picture.")
@implementation("cosched_emulator.cli.results")
def compare() -> None:
    """Compare the figures of several runs, one column per RUN_DIR.

    Utilisation, makespan, throughput and queue cover the whole run; the other figures exclude the warm-up. The best of a
    row is marked where the runs are of the same workload and completed the same jobs.

    Runs that differ in the seed alone form one column: the mean over seeds, with its 95 % interval. Policies with the same
    seeds are compared seed by seed: then the best is marked where the intervals of the differences exclude 0.

    \b
    Examples:
      cosched-emulator compare runs/fcfs runs/easy runs/rua
      cosched-emulator compare runs/* --jobs all --markdown
      cosched-emulator compare runs/easy runs/rua --plot easy-rua.png
      cosched-emulator compare runs/easy-seed* runs/rua-seed*
    """


@click.command()
@RUN_DIRS
@SHORT_S
@MEDIUM_S
@click.option(
    "--bound-s",
    type=click.IntRange(1, 10**9),
    default=60,
    show_default=True,
    metavar="S",
    help="Shorter run times count as this.",
)
@click.option(
    "--high-load",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    metavar="N",
    help="Load is high while N jobs of a class are pending.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON, a list with an object for each run.")
@implementation("cosched_emulator.cli.results")
def classes() -> None:
    """Compare short, medium and long jobs, one column per RUN_DIR.

    The user's estimate decides a job's class. Response times are those of completed jobs. The warm-up counts, too.

    \b
    Examples:
      cosched-emulator classes runs/ssp runs/glts
      cosched-emulator classes runs/glts --short-s 3600 --medium-s 36000 --json
    """


@click.command()
@RUN_DIRS
@click.option(
    "--kind",
    type=click.Choice(offered.PLOT_KINDS),
    required=True,
    help="What to draw; see above.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .png, .svg or .pdf file."
)
@click.option(
    "--quantity",
    type=click.Choice(list(DISTRIBUTIONS)),
    default="bsld",
    show_default=True,
    help="What ecdf shows.",
)
@POPULATION
@click.option(
    "--from-h", type=float, metavar="HOURS", help="Where pictures over time begin.  [default: first submission]"
)
@click.option("--to-h", type=float, metavar="HOURS", help="Where pictures over time end.  [default: last end]")
@click.option("--title", default="", help="Title of the picture.")
@implementation("cosched_emulator.cli.results")
def plot() -> None:
    """Draw a picture of a run.

    \b
    gantt  which job held which hardware threads, and which nodes were shared
    load   nodes in use and shared, threads held, and the queue, over time
    quanta which jobs ran in each quantum, and which shared a CPU; for runs with
           time sharing
    jobs   the number of jobs in the system over time, for one run or several
    power  the watts of the machine over time, for one run or several whose
           nodes have watts (--idle-w, --busy-w)
    ecdf   the distribution of a per-job quantity, for one run or several;
           runs that differ in the seed alone are one line with a band

    \b
    Examples:
      cosched-emulator plot runs/rua --kind gantt --from-h 24 --to-h 36 --out schedule.png
      cosched-emulator plot runs/rua --kind load --out load.svg
      cosched-emulator plot runs/easy runs/rua --kind ecdf --quantity wait --out waits.png
    """


# The command ``losers``.


@click.command()
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run of the same jobs; further ones are the first with slightly shaken run times.",
)
@click.option(
    "--jobs", "most", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="Losers to list."
)
@SHORT_S
@MEDIUM_S
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a row for each job there."
)
@click.option("--force", is_flag=True, help="Replace an older FILE.")
@implementation("cosched_emulator.cli.results")
def losers() -> None:
    """List the jobs that respond later than in a baseline, by how much, and why.

    H1 is the share of jobs with a response above 1.05 x that in the first baseline + 60 s. Any change reshuffles a
    schedule, so a large H1 may be chance. With several baselines, Hshk is the share that is later than in every one of
    them, and the floor is what chance alone gives: a baseline compared with the others.

    \b
    Examples:
      cosched-emulator losers runs/lomarc-r --baseline runs/pss
      cosched-emulator losers runs/rua --baseline runs/easy --baseline runs/easy-2 --baseline runs/easy-3 --csv rua.csv
    """
