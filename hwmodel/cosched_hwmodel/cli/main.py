"""The commands of ``cosched-hwmodel``, and the one place where its errors become exit codes."""

from __future__ import annotations

import json
import os
from typing import Final, Literal, NoReturn

import click

from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.measured import METHODS, Method
from cosched_terminal.command_line import run_command_line
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import progress_bar, say
from cosched_terminal.help_text import Group


@click.group(cls=Group)
@click.version_option(package_name="cosched", prog_name="cosched-hwmodel")
def cli() -> None:
    """Measure a node, draw it, and predict which jobs slow each other down on it.

    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130/143 after SIGINT/SIGTERM.
    """


AS_JSON: Final = option("--json", "Machine-readable output.")


@command(cli, prints="text")
def show(node: str = argument(), as_json: bool = AS_JSON) -> None:
    """Draw NODE: its sockets, caches, cores and hardware threads, with their numbers, and its capacities.

    NODE is a TOML file of nodes, a preset (rua-4way), or a layout of sockets x cores x threads (2x16x2).

    \b
    Example:
      cosched-hwmodel show two-socket-2x32
    """
    from cosched_hwmodel.cli.drawing import node_lines, node_values
    from cosched_hwmodel.cli.node_choice import classes_of

    classes = classes_of(node)
    if as_json:
        say(json.dumps([{"count": count, **node_values(shape)} for count, shape in classes], indent=2))
        return
    say("\n\n".join("\n".join(node_lines(shape, count)) for count, shape in classes))


@command(cli, prints="result")
def measure(
    out: str | None = option("--out FILE", "Write the node there as TOML, and the ratios of pairs beside it as CSV."),
    force: bool = option("--force", "Replace files that are there."),
    seconds: float = option(
        "--seconds",
        "Approximate time to spend; more time gives longer and more repeats.",
        click.FloatRange(min=0.2, max=3600),
        60.0,
    ),
    disk: str | None = option(
        "--disk FOLDER", "Folder on the disk to measure; default: that of FILE, or the current one."
    ),
    no_disk: bool = option("--no-disk", "Write nothing to a disk."),
    name: str = option("--name", "Name of the node.", default="measured"),
    use_numpy: bool = option("--numpy", "Run the kernels with numpy, even if there is a C compiler."),
    as_json: bool = AS_JSON,
) -> None:
    """Measure this machine: its parts, small kernels alone and in pairs on CPUs that share a core, a cache, a socket.

    Kernels are C if there is a compiler, else numpy. Notes say what could not be measured, and why.

    \b
    Example:
      cosched-hwmodel measure --out node.toml
      cosched-hwmodel show node.toml
    """
    from cosched_hwmodel.cli.measuring.kernels import COMPILERS
    from cosched_hwmodel.cli.measuring.measure import measure_node
    from cosched_hwmodel.cli.measuring.report import measurement_values, report_lines, write_files
    from cosched_hwmodel.cli.output import check_new

    if disk is not None and no_disk:
        raise click.UsageError("--disk and --no-disk: expected at most one of them")
    if out is not None:
        check_new(out, force)
    folder = None if no_disk else disk or os.path.dirname(out or "") or "."
    with progress_bar(1, "measurements") as bar:
        found = measure_node(seconds, folder, name, () if use_numpy else COMPILERS, bar)
    files = [] if out is None else write_files(found, out)
    if as_json:
        say(json.dumps({**measurement_values(found), "files": files}, indent=2))
        return
    for line in report_lines(found):
        say(line)
    for file in files:
        say(f"written: {file}", err=True)


# Over 50 lines: one parameter for each option.
@command(cli, prints="tables")
def predict(
    words: tuple[str, ...] = argument("NODE JOB..."),
    profiles: str | None = option(
        "--profiles FILE",
        "TOML file with a table of demands for each application; default: the one that measure has written beside NODE.",
    ),
    seat: str | None = option(
        "--seat SEAT", "Place two jobs on threads that share a core, a cache (L3), a socket, the node."
    ),
    assignments: tuple[str, ...] = option("--set KEY=VALUE", "Change a parameter of the composite model."),
    pairs: str | None = option(
        "--pairs TABLE", "Predict from a table of co-runs; there is no NODE, and JOBs are applications of it."
    ),
    method: Method = option(
        "--method", "With --pairs: how pairs that were not measured are predicted.", METHODS, "components"
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Predict which of the JOBs slow each other down on NODE, and through which resource, by the composite model.

    A JOB is NAME[:FIELD=VALUE,...][@THREADS]: an application of the profiles, or its demand, and its hardware threads
    (0-3,8), with one process on each. Without threads it has one process on the lowest free thread.

    \b
    Example:
      cosched-hwmodel predict node.toml stream cache3 --seat L3
      cosched-hwmodel predict rua-4way a:memory_mbs=4000@0,1 b:memory_mbs=2000@2 --set memory_scope=node
      cosched-hwmodel predict --pairs node-pairs-L3.csv stream cache3
    """
    if pairs is not None:
        from cosched_hwmodel.cli.predicting.table_fits import ratios_predicted

        if profiles is not None or seat is not None or assignments:
            raise click.UsageError("--pairs: expected no --profiles, --seat and --set beside it")
        values, lines = ratios_predicted(pairs, words, method)
        say(json.dumps(values, indent=2) if as_json else "\n".join(lines))
        return
    from cosched_hwmodel.cli.node_choice import one_node
    from cosched_hwmodel.cli.predicting.blame import blame_lines, blame_values, parameters_of, profiles_for, tell
    from cosched_hwmodel.cli.predicting.job_words import jobs_of
    from cosched_hwmodel.composite.composite_model import CompositeModel

    name, *jobs = words
    if not jobs:
        raise click.UsageError("Missing argument 'JOB...'.")
    node = one_node(name)
    placed = jobs_of(jobs, profiles_for(name, profiles), node, seat)
    told = tell(CompositeModel.from_parameters(parameters_of(assignments)), node, placed)
    if as_json:
        say(json.dumps({"node": node.name, "jobs": [blame_values(each) for each in told]}, indent=2))
        return
    say("\n".join(blame_lines(node, told)))


@command(cli, prints="tables")
def calibrate(
    table: str = argument(),
    method: Method | Literal["composite"] = option(
        "--method",
        "Two forms of the ratios themselves, or the composite model with fitted demands of the applications.",
        (*METHODS, "composite"),
        "components",
    ),
    node: str | None = option("--node NODE", "With composite: the node on which TABLE was measured."),
    seat: str | None = option(
        "--seat SEAT",
        "With composite: each application has one process on this seat; default: half of the cores of each socket.",
    ),
    out: str | None = option(
        "--out FILE",
        "Write the table there, with predicted ratios where none was measured; with composite, the demands (--profiles).",
    ),
    force: bool = option("--force", "Replace FILE if it is there."),
    every: bool = option("--all", "Print all pairs that were not measured, not only the first ones."),
    as_json: bool = option("--json", "Machine-readable output, with all pairs."),
) -> None:
    """Fit TABLE, measured co-runs in CSV, and predict the pairs that were not measured, with 90 % intervals.

    The error of the fit is that of cross-validation: parts of the pairs are predicted from the others.

    \b
    Example:
      cosched-hwmodel calibrate node-pairs-L3.csv --method bilinear --out complete.csv
      cosched-hwmodel calibrate nas.csv --method composite --node node.toml --out nas-profiles.toml
    """
    from cosched_hwmodel.cli.output import check_new, write_whole
    from cosched_hwmodel.cli.predicting.table_fits import demands_fitted, ratios_fitted

    if out is not None:
        check_new(out, force)
    if method == "composite":
        if node is None:
            raise click.UsageError("--method composite: expected --node NODE beside it")
        values, lines, content = demands_fitted(table, node, seat, every=every)
    elif node is not None or seat is not None:
        raise click.UsageError("--node and --seat: expected --method composite beside them")
    else:
        values, lines, content = ratios_fitted(table, method, every=every)
    if out is not None:
        write_whole(out, content)
    say(json.dumps(values, indent=2) if as_json else "\n".join(lines))
    if out is not None:
        say(f"written: {out}", err=True)


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-hwmodel", lambda error: 2 if isinstance(error, HardwareModelError) else None)
