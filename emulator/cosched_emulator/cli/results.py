"""``compare``, ``classes`` and ``plot``: commands that look at run folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cosched_emulator.errors import ConfigurationError

# numpy and what needs it are imported inside the commands: `--help` of the whole program must not pay for them.
if TYPE_CHECKING:
    from cosched_emulator.results.files.reader import StoredRun

RUN_DIRS = click.argument("run_dirs", metavar="RUN_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
POPULATION = click.option(
    "--jobs",
    "population",
    type=click.Choice(["finished", "all"]),
    default="finished",
    show_default=True,
    help="Whose waits and slowdowns count: jobs that completed, or all that ran.",
)
SECONDS = click.IntRange(0, 10**9)
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
@click.option("--json", "as_json", is_flag=True, help="Print the summaries as JSON.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option(
    "--plot", "plot_file", type=click.Path(path_type=Path), metavar="FILE", help="Also draw the main figures."
)
@click.option("--title", default="", help="Title of the picture.")
def compare(
    run_dirs: tuple[Path, ...], population: str, as_json: bool, markdown: bool, plot_file: Path | None, title: str
) -> None:
    """Compare the figures of several runs, a column for each RUN_DIR.

    Utilisation, makespan, throughput and queue are those of the whole run; the other figures leave out the warm-up.

    \b
    Examples:
      cosched-emulator compare runs/fcfs runs/easy runs/rua
      cosched-emulator compare runs/* --jobs all --markdown
      cosched-emulator compare runs/easy runs/rua --plot easy-rua.png
    """
    from cosched_emulator.results.figures import table  # noqa: PLC0415
    from cosched_emulator.results.files.folder import read_summary  # noqa: PLC0415

    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    names = run_names(run_dirs)
    summaries = [read_summary(folder) for folder in run_dirs]
    if plot_file is not None:
        from cosched_emulator.results.figures.plot import plot_comparison  # noqa: PLC0415

        plot_comparison(plot_file, names, summaries, population, title)
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "summary": summary}
            for name, folder, summary in zip(names, run_dirs, summaries, strict=True)
        ]
        click.echo(json.dumps({"runs": runs}, indent=2, ensure_ascii=False))
        return
    show = table.markdown_table if markdown else table.text_table
    click.echo(show(names, table.compare(summaries, population)), nl=False)


@click.command()
@RUN_DIRS
@click.option(
    "--short-s", type=SECONDS, default=600, show_default=True, metavar="S", help="Estimate of a short job, at most."
)
@click.option("--medium-s", type=SECONDS, default=10_800, show_default=True, metavar="S", help="Of a medium one.")
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
    help="Load is high while N jobs of a class wait.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON, a list with an object for each run.")
def classes(
    run_dirs: tuple[Path, ...], short_s: int, medium_s: int, bound_s: int, high_load: int, as_json: bool
) -> None:
    """Compare short, medium and long jobs, a column for each RUN_DIR.

    A job's class goes by its user's estimate. Response times are those of completed jobs. The warm-up counts, too.

    \b
    Examples:
      cosched-emulator classes runs/ssp runs/glts
      cosched-emulator classes runs/glts --short-s 3600 --medium-s 36000 --json
    """
    from cosched_emulator.results.figures import table  # noqa: PLC0415
    from cosched_emulator.results.figures.classes import ClassRules, class_figures_of_run, class_tables  # noqa: PLC0415

    if short_s > medium_s:
        raise ConfigurationError("--short-s", f"at most --medium-s, {medium_s}", str(short_s))
    names = run_names(run_dirs)
    rules = ClassRules(short_s, medium_s, bound_s, high_load)
    figures = [class_figures_of_run(folder, rules).as_dict() for folder in run_dirs]
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "rules": rules._asdict(), "figures": found}
            for name, folder, found in zip(names, run_dirs, figures, strict=True)
        ]
        click.echo(json.dumps(runs, indent=2, ensure_ascii=False))
        return
    tables = [
        f"{heading}\n{table.text_table(names, table.compare(figures, figures=rows))}"
        for heading, rows in class_tables(rules).items()
    ]
    click.echo("\n".join(tables), nl=False)


@click.command()
@RUN_DIRS
@click.option("--kind", type=click.Choice(["gantt", "load", "ecdf"]), required=True, help="What to draw; see above.")
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
@click.option("--from-h", type=float, metavar="HOURS", help="Where gantt and load begin.  [default: first submission]")
@click.option("--to-h", type=float, metavar="HOURS", help="Where gantt and load end.  [default: last end]")
@click.option("--title", default="", help="Title of the picture.")
def plot(
    run_dirs: tuple[Path, ...],
    kind: str,
    out: Path,
    quantity: str,
    population: str,
    from_h: float | None,
    to_h: float | None,
    title: str,
) -> None:
    """Draw a picture of a run.

    \b
    gantt  which job held which hardware threads, and which nodes were shared
    load   nodes in use and shared, threads held, and the queue, over time
    ecdf   the distribution of a per-job quantity, for one run or several

    \b
    Examples:
      cosched-emulator plot runs/rua --kind gantt --from-h 24 --to-h 36 --out schedule.png
      cosched-emulator plot runs/rua --kind load --out load.svg
      cosched-emulator plot runs/easy runs/rua --kind ecdf --quantity wait --out waits.png
    """
    from cosched_emulator.results.figures import plot as pictures  # noqa: PLC0415
    from cosched_emulator.results.files.reader import read_run  # noqa: PLC0415

    if kind == "ecdf":
        if from_h is not None or to_h is not None:
            raise click.UsageError("--from-h and --to-h belong to gantt and load")
        names = run_names(run_dirs)
        runs = [read_run(folder) for folder in run_dirs]
        key, label, floor = DISTRIBUTIONS[quantity]
        pictures.plot_distribution(out, _series(names, runs, key, population), label, title, floor)
        return
    if len(run_dirs) > 1:
        raise click.UsageError(f"{kind} shows one run, not {len(run_dirs)}")
    run = read_run(run_dirs[0])
    window_s = (None if from_h is None else from_h * 3600, None if to_h is None else to_h * 3600)
    draw = pictures.plot_gantt if kind == "gantt" else pictures.plot_load
    draw(out, run.machine, run.jobs, run.stays, window_s, title)


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the shortest ends of the paths that tell the folders apart; raise `ConfigurationError` for one named twice."""
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        twice = next(str(folder) for folder, path in zip(folders, paths, strict=True) if paths.count(path) > 1)
        raise ConfigurationError("RUN_DIR", "every run once", f"{twice} twice")
    depth = 1
    while True:
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
        depth += 1


def _series(names: Sequence[str], runs: Sequence[StoredRun], key: str, population: str) -> list[Any]:
    from cosched_emulator.results.figures import metrics  # noqa: PLC0415
    from cosched_emulator.results.figures.plot import Series  # noqa: PLC0415

    return [
        Series(name, metrics.quantity(run.jobs, key, metrics.population(run.jobs, population, run.selection)))
        for name, run in zip(names, runs, strict=True)
    ]
