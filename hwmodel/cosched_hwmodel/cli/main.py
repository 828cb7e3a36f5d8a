"""The command ``cosched-hwmodel``, and the one place where its errors become exit codes.

Each command imports its modules when it runs: ``--help`` must load no more than click.
"""

from __future__ import annotations

import json
import os
from typing import Literal, NoReturn

import click

from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.measured import METHODS, Method
from cosched_terminal.command_line import run_command_line
from cosched_terminal.console import say


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cosched", prog_name="cosched-hwmodel")
def cli() -> None:
    """Measure a node, draw it, and predict which jobs slow each other down on it.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130/143 after SIGINT/SIGTERM.
    """


@cli.command()
@click.argument("node")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def show(node: str, as_json: bool) -> None:
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


@cli.command()
@click.option("--out", metavar="FILE", help="Write the node there as TOML, and the ratios of pairs beside it as CSV.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0.2, max=3600),
    help="Time to spend, about; more gives longer and more repeats.",
)
@click.option(
    "--disk", metavar="FOLDER", help="Folder on the disk to measure; default: that of FILE, or the current one."
)
@click.option("--no-disk", is_flag=True, help="Write nothing to a disk.")
@click.option("--name", default="measured", show_default=True, help="Name of the node.")
@click.option("--numpy", "use_numpy", is_flag=True, help="Run the kernels with numpy, even if there is a C compiler.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def measure(
    out: str | None,
    force: bool,
    seconds: float,
    disk: str | None,
    no_disk: bool,
    name: str,
    use_numpy: bool,
    as_json: bool,
) -> None:
    """Measure this machine: its parts, small kernels alone and in pairs on CPUs that share a core, a cache, a socket.

    Kernels are C where there is a compiler, else numpy. Says what could not be measured, and why.

    \b
    Example:
      cosched-hwmodel measure --out node.toml
      cosched-hwmodel show node.toml
    """
    from cosched_hwmodel.cli.measuring.measure_command import run_measure

    if disk is not None and no_disk:
        raise click.UsageError("--disk and --no-disk: expected at most one of them")
    run_measure(
        out=out,
        force=force,
        seconds=seconds,
        disk=None if no_disk else disk or os.path.dirname(out or "") or ".",
        name=name,
        use_numpy=use_numpy,
        as_json=as_json,
    )


@cli.command()
@click.argument("words", nargs=-1, required=True, metavar="NODE JOB...")
@click.option(
    "--profiles",
    metavar="FILE",
    help="TOML file with a table of demands for each application; default: the one that measure has written beside NODE.",
)
@click.option(
    "--seat", metavar="SEAT", help="Place two jobs on threads that share a core, a cache (L3), a socket, the node."
)
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a parameter of the composite model."
)
@click.option(
    "--pairs",
    metavar="TABLE",
    help="Predict from a table of co-runs; there is no NODE, and JOBs are applications of it.",
)
@click.option(
    "--method",
    default="components",
    show_default=True,
    type=click.Choice(METHODS),
    help="With --pairs: how pairs that were not measured are predicted.",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def predict(
    words: tuple[str, ...],
    profiles: str | None,
    seat: str | None,
    assignments: tuple[str, ...],
    pairs: str | None,
    method: Method,
    as_json: bool,
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
        from cosched_hwmodel.cli.predicting.table_commands import predict_from_table

        if profiles is not None or seat is not None or assignments:
            raise click.UsageError("--pairs: expected no --profiles, --seat and --set beside it")
        predict_from_table(pairs, words, method=method, as_json=as_json)
        return
    from cosched_hwmodel.cli.predicting.predict_command import predict_on_node

    node, *jobs = words
    if not jobs:
        raise click.UsageError("Missing argument 'JOB...'.")
    predict_on_node(node, jobs, profiles=profiles, seat=seat, assignments=assignments, as_json=as_json)


@cli.command()
@click.argument("table")
@click.option(
    "--method",
    default="components",
    show_default=True,
    type=click.Choice([*METHODS, "composite"]),
    help="Two forms of the ratios themselves, or the composite model with fitted demands of the applications.",
)
@click.option("--node", metavar="NODE", help="With composite: the node on which TABLE was measured.")
@click.option(
    "--seat",
    metavar="SEAT",
    help="With composite: a process each on this seat; default: half of the cores of each socket.",
)
@click.option(
    "--out",
    metavar="FILE",
    help="Write the table there, with predicted ratios where none was measured; with composite, the demands (--profiles).",
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--all", "every", is_flag=True, help="Print all pairs that were not measured, not the first ones.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output, with all pairs.")
def calibrate(
    table: str,
    method: Method | Literal["composite"],
    node: str | None,
    seat: str | None,
    out: str | None,
    force: bool,
    every: bool,
    as_json: bool,
) -> None:
    """Fit TABLE, measured co-runs in CSV, and predict the pairs that were not measured, with 90 % intervals.

    The error of the fit is that of cross-validation: parts of the pairs are predicted from the others.

    \b
    Example:
      cosched-hwmodel calibrate node-pairs-L3.csv --method bilinear --out complete.csv
      cosched-hwmodel calibrate nas.csv --method composite --node node.toml --out nas-profiles.toml
    """
    from cosched_hwmodel.cli.output import check_new
    from cosched_hwmodel.cli.predicting.table_commands import run_calibrate, run_composite

    if out is not None:
        check_new(out, force)
    if method == "composite":
        if node is None:
            raise click.UsageError("--method composite: expected --node NODE beside it")
        run_composite(table, node, seat, out=out, every=every, as_json=as_json)
        return
    if node is not None or seat is not None:
        raise click.UsageError("--node and --seat: expected --method composite beside them")
    run_calibrate(table, method, out=out, every=every, as_json=as_json)


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-hwmodel", lambda error: 2 if isinstance(error, HardwareModelError) else None)
