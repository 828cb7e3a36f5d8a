"""The commands that read run folders: ``compare``, ``classes``, ``plot`` and ``losers``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator import offered
from cosched_emulator.cli.completing import RUNS
from cosched_emulator.errors import ConfigurationError
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say

if TYPE_CHECKING:
    from cosched_emulator.results.compared_runs import SeedColumn
    from cosched_emulator.results.figures import plot as pictures
    from cosched_emulator.results.files.run_reader import StoredRun
    from cosched_emulator.results.harm import LoserClasses, Outcomes

RUN_DIRS: Final = argument("RUN_DIR...", shell_complete=RUNS)
POPULATION: Final = option(
    "--jobs",
    "Jobs whose waits and slowdowns count: those that completed, or all that ran.",
    offered.POPULATIONS,
    offered.POPULATIONS[0],
)
SECONDS: Final = click.IntRange(0, 10**9)
SHORT_S: Final = option("--short-s S", "Largest estimate of a short job.", SECONDS, 600)
MEDIUM_S: Final = option("--medium-s S", "Largest estimate of a medium job.", SECONDS, 10_800)
TITLE: Final = option("--title", "Title of the picture.", default="")
# Quantities of `plot --kind ecdf`: name on the command line -> (key in metrics, label, start of a logarithmic axis).
DISTRIBUTIONS: dict[str, tuple[str, str, float | None]] = {
    "bsld": ("bounded_slowdown_10s", "bounded slowdown (bound 10 s)", 1.0),
    "bsld60": ("bounded_slowdown_60s", "bounded slowdown (bound 60 s)", 1.0),
    "wait": ("wait_s", "wait [s]; less than 1 s drawn as 1 s", 1.0),
    "response": ("response_s", "response time [s]", 1.0),
    "penalised": ("penalised_percent", "penalised run time [%]", None),
}


@command(prints="tables")
def compare(
    run_dirs: tuple[Path, ...] = RUN_DIRS,
    population: str = POPULATION,
    common: bool = option("--common", "Only jobs that completed in all runs; the machine's figures do not change."),
    as_json: bool = option("--json", "Print the summaries as JSON, and the intervals over seeds."),
    plot_file: Path | None = option("--plot FILE", "Also draw the main figures."),
    title: str = TITLE,
) -> None:
    """Compare the figures of several runs, one column per RUN_DIR.

    Utilisation, makespan, throughput and queue cover the whole run; the other figures exclude the warm-up. The best of a
    row is marked where the runs are of the same workload and completed the same jobs.

    Runs that differ in the seed alone form one column: the mean over seeds, with its 95 % interval. Policies with the same
    seeds are compared seed by seed: then the best is marked where the intervals of the differences exclude 0.

    \b
    Examples:
      cosched-emulator compare runs/fcfs runs/easy runs/rua
      cosched-emulator compare runs/easy runs/rua --plot easy-rua.png
      cosched-emulator compare runs/easy-seed* runs/rua-seed*
    """
    from cosched_emulator.results.compared_runs import compare_folders, run_names
    from cosched_emulator.results.figures.comparison import text_table

    if common and population == "all":
        raise click.UsageError("--common and --jobs all exclude each other: a killed job has no response to compare")
    names = run_names(run_dirs)
    compared = compare_folders(run_dirs, names, population, common=common)
    if plot_file is not None:
        compared.plot(plot_file, title)
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "summary": summary}
            for name, folder, summary in zip(names, run_dirs, compared.summaries, strict=True)
        ]
        say(json.dumps({"runs": runs, **compared.intervals}, indent=2, ensure_ascii=False))
        return
    for note in compared.notes:
        say(note, err=True)
    say(text_table(compared.headings, compared.rows), nl=False)


# Over 50 lines: one parameter for each option.
@command(prints="tables")
def classes(
    run_dirs: tuple[Path, ...] = RUN_DIRS,
    short_s: int = SHORT_S,
    medium_s: int = MEDIUM_S,
    bound_s: int = option("--bound-s S", "Shorter run times count as this.", click.IntRange(1, 10**9), 60),
    high_load: int = option(
        "--high-load N", "Load is high while N jobs of a class are pending.", click.IntRange(min=1), 12
    ),
    by: str | None = option(
        "--by", "Make a class of each value of this fact instead.", ("partition", "qos", "account", "user")
    ),
    as_json: bool = option("--json", "Print the figures as JSON, a list with an object for each run."),
) -> None:
    """Compare short, medium and long jobs, one column per RUN_DIR.

    A job's class follows from its estimate, or with --by from a fact. Response times are those of completed jobs.
    The warm-up counts, too.

    \b
    Examples:
      cosched-emulator classes runs/ssp runs/glts
      cosched-emulator classes runs/glts --short-s 3600 --medium-s 36000 --json
      cosched-emulator classes runs/bound --by partition
    """
    from cosched_emulator.results.compared_classes import classes_of
    from cosched_emulator.results.compared_runs import run_names
    from cosched_emulator.results.figures.classes import ClassRules

    if short_s > medium_s:
        raise ConfigurationError("--short-s", f"at most --medium-s, {medium_s}", str(short_s))
    rules = ClassRules(short_s, medium_s, bound_s, high_load)
    found = classes_of(run_dirs, run_names(run_dirs), by, rules)
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "rules": rules._asdict(), "figures": figures}
            for name, folder, figures in zip(found.names, run_dirs, found.figures, strict=True)
        ]
        say(json.dumps(runs, indent=2, ensure_ascii=False))
        return
    if found.note:
        say(found.note, err=True)
    say(str(found), nl=False)


# Over 50 lines: one parameter for each option.
@command()
def plot(
    run_dirs: tuple[Path, ...] = RUN_DIRS,
    kind: str = option("--kind", "What to draw; see above.", ("ecdf", "quanta")),
    out: Path = option("--out FILE", "A .png, .svg or .pdf file."),
    quantity: str = option("--quantity", "What ecdf shows.", list(DISTRIBUTIONS), "bsld"),
    population: str = POPULATION,
    from_h: float | None = option("--from-h HOURS", "quanta: first hour to draw.  [default: first submission]"),
    to_h: float | None = option("--to-h HOURS", "quanta: last hour to draw.  [default: last end]"),
    title: str = TITLE,
) -> None:
    """Draw a picture of runs. The page of the command report shows what a run did over time.

    \b
    ecdf   the distribution of a per-job quantity, for one run or several;
           runs that differ in the seed alone are one line with a band
    quanta which jobs ran in each quantum, and which shared a CPU; for a run with
           time sharing

    \b
    Examples:
      cosched-emulator plot runs/easy runs/rua --kind ecdf --quantity wait --out waits.png
      cosched-emulator plot runs/paired --kind quanta --from-h 1 --to-h 1.1 --out turns.svg
    """
    if kind == "ecdf":
        if from_h is not None or to_h is not None:
            raise click.UsageError("--from-h and --to-h are for --kind quanta only")
        _plot_distribution(run_dirs, out, quantity, population, title)
    else:
        window_s = (None if from_h is None else from_h * 3600, None if to_h is None else to_h * 3600)
        _plot_quanta(run_dirs, out, window_s, title)
    say(f"picture: {out}")


def _plot_distribution(run_dirs: Sequence[Path], out: Path, quantity: str, population: str, title: str) -> None:
    from cosched_emulator.results.compared_runs import repeat_note, run_names, seed_columns
    from cosched_emulator.results.figures.plot import plot_distribution
    from cosched_emulator.results.files.run_reader import read_run
    from cosched_emulator.statistics.intervals import all_equal

    names = run_names(run_dirs)
    runs = [read_run(folder) for folder in run_dirs]
    columns = seed_columns(run_dirs, names)
    repeating = [column for column in columns if all_equal([runs[run].summary for run in column.runs])]
    for note in repeat_note([column.name for column in repeating]):
        say(note, err=True)
    key, label, floor = DISTRIBUTIONS[quantity]
    plot_distribution(out, _series(columns, runs, key, population), label, title, floor)


def _plot_quanta(run_dirs: Sequence[Path], out: Path, window_s: tuple[float | None, float | None], title: str) -> None:
    from cosched_emulator.results.figures.plot_turns import plot_turns
    from cosched_emulator.results.files.run_reader import read_quanta, read_run

    if len(run_dirs) > 1:
        raise click.UsageError(f"quanta shows one run, not {len(run_dirs)}")
    run, quanta = read_run(run_dirs[0]), read_quanta(run_dirs[0])
    if quanta is None:
        raise click.UsageError(f"{run_dirs[0]} has no quanta: its jobs do not take turns")
    plot_turns(out, run.machine, run.jobs, run.stays, quanta, window_s, title)


def _series(
    columns: Sequence[SeedColumn], runs: Sequence[StoredRun], key: str, population: str
) -> list[pictures.Series | pictures.SeedSeries]:
    """Return a sample for each column of one run, and the samples of all seeds for the others."""
    from cosched_emulator.results.figures import metrics
    from cosched_emulator.results.figures import plot as pictures

    samples = [metrics.quantity(run.jobs, key, metrics.population(run.jobs, population, run.selection)) for run in runs]
    return [
        pictures.SeedSeries(column.heading, tuple([samples[run] for run in column.runs]))
        if len(column.runs) > 1
        else pictures.Series(column.name, samples[column.runs[0]])
        for column in columns
    ]


@command(prints="tables")
def losers(
    run_dir: Path = argument("RUN_DIR", shell_complete=RUNS),
    baselines: tuple[Path, ...] = option(
        "--baseline DIR",
        "Run of the same jobs; further ones repeat the first with shaken run times.",
        shell_complete=RUNS,
        required=True,
    ),
    most: int = option("--jobs N", "Losers to list.", click.IntRange(min=0), 10),
    short_s: int = SHORT_S,
    medium_s: int = MEDIUM_S,
    as_json: bool = option("--json", "Print the figures as JSON."),
    csv_file: Path | None = option("--csv FILE", "Write a row for each job there."),
    force: bool = option("--force", "Replace an older FILE."),
) -> None:
    """List the jobs that respond later than in a baseline, by how much, and why.

    H1 is the share of jobs with a response above 1.05 x that in the first baseline + 60 s. Any change of a schedule makes
    some jobs later, so a large H1 may be chance. With several baselines, Hshk is the share that is later than in every one
    of them, and the floor is what chance alone gives: a baseline compared with the others.

    \b
    Examples:
      cosched-emulator losers runs/lomarc-r --baseline runs/pss
      cosched-emulator losers runs/rua --baseline runs/easy --baseline runs/easy-2 --baseline runs/easy-3 --csv rua.csv
    """
    from cosched_emulator.results.compared_runs import run_names
    from cosched_emulator.results.harm import LoserClasses, measure_harm
    from cosched_emulator.results.harm_tables import harm_text, write_csv
    from cosched_emulator.workload.atomic_file import new_text_file

    if short_s > medium_s:
        raise ConfigurationError("--short-s", f"at most --medium-s, {medium_s}", str(short_s))
    names = run_names([run_dir, *baselines])
    classes = LoserClasses(short_s, medium_s)
    harm = measure_harm(_outcomes(run_dir, classes), [_outcomes(folder, classes) for folder in baselines])
    if csv_file is not None:
        with new_text_file(csv_file, force=force) as stream:
            write_csv(stream, harm)
    if as_json:
        described = {"run": str(run_dir), "baselines": [str(folder) for folder in baselines]}
        say(json.dumps({**harm.as_dict(most), **described}, indent=2))
        return
    say(harm_text(harm, names[1], most), nl=False)


def _outcomes(folder: Path, classes: LoserClasses) -> Outcomes:
    from cosched_emulator.results.files.run_reader import read_run
    from cosched_emulator.results.harm import outcomes

    run = read_run(folder)
    return outcomes(run.jobs, run.machine, run.selection, classes)
