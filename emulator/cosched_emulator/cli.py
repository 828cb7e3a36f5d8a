"""The command ``cosched-emulator``, and the one place where its errors become exit codes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from cosched_emulator.errors import ConfigurationError, EmulatorError
from cosched_emulator.results.commands import classes, compare, plot
from cosched_emulator.workload.commands import workload
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.errors import PluginError
from cosched_plugin.protocol.messages import REJECTED
from cosched_plugin.terminal import run_command_line

if TYPE_CHECKING:
    from cosched_emulator.running import Finished, Prepared

Command = TypeVar("Command", bound=Callable[..., object])

# Option -> where its value goes in a scenario.
PLACES: Mapping[str, tuple[str, str]] = {
    "swf": ("workload", "swf"),
    "lublin": ("workload", "lublin"),
    "first": ("workload", "first"),
    "jobs": ("workload", "jobs"),
    "aarr": ("workload", "aarr"),
    "limits": ("workload", "limits"),
    "estimates": ("workload", "estimates"),
    "estimate_factor": ("workload", "estimate_factor"),
    "mix": ("workload", "mix"),
    "characteristics": ("workload", "characteristics"),
    "resume_s": ("preemption", "resume_s"),
    "annotations": ("workload", "annotations"),
    "self_slowdowns": ("workload", "self_slowdowns"),
    "grow": ("workload", "grow"),
    "exclusive": ("workload", "exclusive"),
    "skip_bad_rows": ("workload", "skip_bad_rows"),
    "nodes": ("cluster", "nodes"),
    "processors": ("cluster", "processors"),
    "cores": ("cluster", "cores"),
    "node": ("cluster", "preset"),
    "contention": ("truth", "contention"),
    "composition": ("truth", "composition"),
    "belief_demand": ("belief", "demand"),
    "belief_usage": ("belief", "usage"),
    "belief_pairs": ("belief", "pairs"),
    "belief_self": ("belief", "self_slowdowns"),
    "usage_noise": ("belief", "usage_noise"),
    "warmup": ("results", "warmup"),
    "deadline": ("clock", "deadline_s"),
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cosched", prog_name="cosched-emulator")
def cli() -> None:
    """Emulate a resource manager and its nodes, and see what a scheduling policy does to a workload.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 the scheduler was lost, 4 an invariant broke or
    a policy decided what is impossible.
    """


def a_file(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a file's name as it is; an empty one, from a variable that is not set, is refused."""
    if value == "":
        raise click.BadParameter("expected the name of a file, got ''")
    return value


def scenario_options(command: Command) -> Command:
    """Add the options that stand for keys of a scenario."""
    options = [
        click.option("--swf", type=click.Path(), help="Jobs: a log in Standard Workload Format (.gz or plain)."),
        click.option("--lublin", type=click.IntRange(min=1), metavar="N", help="Jobs: N of the Lublin model."),
        click.option("--first", type=click.IntRange(min=0), metavar="I", help="Log: begin with usable job I, counted from 0."),
        click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Log: take N jobs."),
        click.option("--warmup", type=click.IntRange(min=0), metavar="N", help="Leave the first N jobs out of the figures."),
        click.option("--aarr", type=float, help="Lublin: arrival parameter, smaller is busier.  [default: 10.2303]"),
        click.option("--limits", type=click.Choice(["estimate", "none"]), help="When to kill.  [default: logs estimate, Lublin none]"),
        click.option("--estimates", type=click.Choice(["exact", "f-model"]), help="Replace the estimates."),
        click.option("--estimate-factor", type=float, help="f-model: estimate = run x (1 + U x FACTOR)."),
        click.option("--mix", help="Memory bandwidth demand: high, med, low, or shares such as 50:10:40.  [default: none]"),
        click.option("--characteristics", metavar="MIX", help="What bounds jobs: M1, M2, M3, or shares such as 40:30:30."),
        click.option("--annotations", callback=a_file, metavar="FILE", help="What bounds jobs: a side file, CSV or TOML."),
        click.option("--self-slowdowns", type=click.Choice(["table4"]), help="Draw by how much jobs slow themselves down."),
        click.option("--grow", is_flag=True, default=None, help="Sizes are for one process a node, and grow to fill cores."),
        click.option("--resume-s", type=float, metavar="S", help="Seconds that a job preempted to disk needs to come back."),
        click.option("--exclusive", is_flag=True, default=None, help="Every job takes whole nodes."),
        click.option("--skip-bad-rows", is_flag=True, default=None, help="Log: leave malformed rows out."),
        click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes.  [default: the log's machine, or 128]"),
        click.option("--processors", type=click.IntRange(min=1), metavar="N", help="Instead of --nodes: cores in all."),
        click.option("--cores", type=click.IntRange(min=1), metavar="C", help="Cores of a node, instead of the shape's."),
        click.option("--node", metavar="SHAPE", help="Shape of a node (see `presets`).  [default: single]"),
        click.option("--contention", type=click.Choice(["bandwidth", "lomarc", "statistical", "none"]), help="How jobs slow down."),
        click.option("--composition", type=click.Choice(["bulk-synchronous", "paper"]), help="How the slowest node slows a job."),
        click.option("--belief-demand", type=click.Choice(["exact", "unknown"]), help="What the scheduler knows of demand."),
        click.option("--belief-usage", type=click.Choice(["exact", "unknown"]), help="What the scheduler knows of what bounds jobs."),
        click.option("--usage-noise", type=click.FloatRange(0, 1, max_open=True), metavar="X", help="Relative error in that, at most."),
        click.option("--belief-pairs", type=click.Choice(["exact", "unknown"]), help="What the scheduler knows of pairs of jobs."),
        click.option("--belief-self", type=click.Choice(["exact", "unknown"]), help="What it knows of how jobs slow themselves."),
        click.option("--deadline", type=click.FloatRange(min=0.1), metavar="S", help="Seconds a plugin has to answer.  [default: 300]"),
        click.option("--seed", type=int, help="Seed of all random draws.  [default: 1]"),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def overrides(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given as a scenario table."""
    table: dict[str, Any] = {}
    for option, (section, key) in PLACES.items():
        if values.get(option) is not None:
            table.setdefault(section, {})[key] = values[option]
    if values.get("seed") is not None:
        table["seed"] = values["seed"]
    return table


@cli.command()
@click.argument("scenario_file", metavar="[SCENARIO.toml]", required=False, type=click.Path())
@scenario_options
@click.option(
    "--policy", help="Preset, FILE.toml, installed policy or MODULE:CLASS.  [default: the scenario's, else easy]"
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one setting of the policy; may be repeated.",
)
@click.option(
    "--link",
    type=click.Choice(["direct", "loopback", "zmq"]),
    default="direct",
    show_default=True,
    help="Scheduler in this process, behind the codec, or in a process of its own.",
)
@click.option("--out", type=click.Path(), metavar="DIR", help="Write the run folder there.")
@click.option("--force", is_flag=True, help="Replace an older run folder or trace.")
@click.option(
    "--trace", callback=a_file, metavar="FILE", help="Write a decision trace there, for `explain`: JSON lines."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def simulate(
    scenario_file: str | None,
    policy: str | None,
    assignments: tuple[str, ...],
    link: str,
    out: str | None,
    force: bool,
    trace: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a workload under a policy in virtual time, and print what came of it.

    \b
    Examples:
      cosched-emulator simulate --lublin 10000 --nodes 128 --policy easy
      cosched-emulator simulate --swf CTC.swf.gz --first 0 --jobs 20000 --warmup 10000 --processors 338 \\
          --node rua-4way --mix high --policy rua --link zmq --out runs/rua
      cosched-emulator simulate scenario.toml --policy lct --set placement.threshold=1.25 --json
      cosched-emulator simulate scenario.toml --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
    """
    from cosched_emulator.results.folder import check_run_folder  # noqa: PLC0415
    from cosched_emulator.running import (  # noqa: PLC0415
        coupling,
        idle_matching,
        idle_slices,
        in_run_folder,
        place_trace,
        prepare,
        run,
        store,
    )
    from cosched_emulator.scenario import read_scenario  # noqa: PLC0415
    from cosched_plugin.config import choose, from_table  # noqa: PLC0415 - --help must not pay for these

    scenario = read_scenario(scenario_file, overrides(options))
    choice = (
        choose("easy" if policy is None else policy, assignments)
        if policy is not None or not scenario.policy
        else from_table(scenario.policy, assignments)
    )
    if out is not None:
        check_run_folder(out, force=force)
    prepared = prepare(scenario)
    stored = False  # whether the trace becomes part of the run folder
    if trace is not None:
        stored = out is not None and in_run_folder(trace, out)
        trace = place_trace(trace, out, force=force)
    for warning in (idle_matching(choice, prepared), idle_slices(choice, prepared)):
        if warning is not None:
            click.echo(f"warning: {warning}", err=True)
    with progress_bar(prepared) as progress, coupling(link, choice, scenario, trace) as coupled:
        finished = run(prepared, coupled, progress)
    if out is not None:
        settings = {"name": choice.name, **choice.settings}
        store(finished, out, policy=settings, link=link, force=force, trace=trace if stored else None)
    report(finished, choice.name, as_json=as_json)


@cli.command()
@click.argument("scenario_file", metavar="[SCENARIO.toml]", required=False, type=click.Path())
@click.option(
    "--bind",
    "endpoint",
    required=True,
    metavar="ENDPOINT",
    help="Where to listen for the scheduler (ipc:// or loopback tcp://).",
)
@scenario_options
@click.option(
    "--wait", type=click.FloatRange(min=0), metavar="S", help="Seconds to wait for a scheduler.  [default: 60]"
)
@click.option("--out", type=click.Path(), metavar="DIR", help="Write the run folder there.")
@click.option("--force", is_flag=True, help="Replace an older run folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def serve(
    scenario_file: str | None,
    endpoint: str,
    wait: float | None,
    out: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Be the manager for a scheduler in another terminal: wait for it, run the scenario, say goodbye.

    \b
    Example, in two terminals:
      cosched-emulator serve scenario.toml --bind ipc:///tmp/cosched.sock --out runs/rua
      cosched-plugin serve --connect ipc:///tmp/cosched.sock --policy rua
    """
    from cosched_emulator.results.folder import check_run_folder  # noqa: PLC0415
    from cosched_emulator.running import prepare, run, store  # noqa: PLC0415 - --help must not pay for these
    from cosched_emulator.scenario import read_scenario  # noqa: PLC0415
    from cosched_emulator.zmq_link import ZmqLink  # noqa: PLC0415

    table = overrides(options)
    if wait is not None:
        table.setdefault("clock", {})["wait_s"] = wait
    scenario = read_scenario(scenario_file, table)
    if scenario.policy:
        raise ConfigurationError(
            "policy", "no policy: the scheduler that connects brings its own", "one", file=scenario_file or ""
        )
    if out is not None:
        check_run_folder(out, force=force)
    prepared = prepare(scenario)
    link = ZmqLink(endpoint, deadline_s=scenario.clock.deadline_s, wait_s=scenario.clock.wait_s)
    try:
        with progress_bar(prepared) as progress:
            finished = run(prepared, link, progress)
        policy = link.policy
    finally:
        link.close()
    if out is not None:
        store(finished, out, policy={"name": policy}, link="zmq", force=force)
    report(finished, policy, as_json=as_json)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def presets(as_json: bool) -> None:
    """List the shapes of nodes that ship with cosched.

    \b
    Example:
      cosched-emulator presets --json
    """
    from cosched_hwmodel.topology import load_preset, preset_names  # noqa: PLC0415

    shapes = [load_preset(name) for name in preset_names()]
    if as_json:
        click.echo(json.dumps([{**asdict(shape), "threads": shape.threads} for shape in shapes], indent=2))
        return
    for shape in shapes:
        rates = f"{shape.memory_bandwidth_mbs} MB/s memory" if shape.memory_bandwidth_mbs else "bandwidth unlimited"
        layout = f"{shape.sockets} x {shape.cores_per_socket} cores x {shape.threads_per_core} threads"
        click.echo(f"{shape.name:<16}{layout:<28}{shape.memory_mb:>9} MB   {rates}")


@cli.command()
@click.argument("job", type=click.IntRange(min=0))
@click.option("--trace", required=True, callback=a_file, metavar="FILE", help="The decision trace of the run.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON; times in microseconds.")
def explain(job: int, trace: str, as_json: bool) -> None:
    """Tell why JOB, a number in the run, started when and where it did.

    \b
    Example:
      cosched-emulator explain 45 --trace runs/r/trace.jsonl
    after:
      cosched-emulator simulate --lublin 500 --node lomarc-ht --characteristics M1 --contention lomarc \\
          --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
    """
    from cosched_emulator.explain import explain as facts_about  # noqa: PLC0415 - --help must not pay for these
    from cosched_emulator.explain_text import sentences  # noqa: PLC0415
    from cosched_emulator.trace_reader import read_trace  # noqa: PLC0415

    facts = facts_about(read_trace(trace, partial(click.echo, err=True)), job, trace)
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(sentences(facts)))


@contextmanager
def progress_bar(prepared: Prepared) -> Iterator[Callable[[int], None] | None]:
    """Yield what to call with the number of ended jobs; a bar appears on a terminal if the run takes more than two seconds."""
    if sys.stderr is None or not sys.stderr.isatty():  # cron jobs may have none
        yield None
        return
    total = len(prepared.workload.jobs)
    began = time.monotonic()
    shown = began + 2.0

    def update(ended: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now < shown:
            return
        shown = now + 0.25
        share = ended / total
        left_s = (now - began) * (1 - share) / share
        bar = "#" * round(30 * share)
        sys.stderr.write(f"\r[{bar:<30}] {ended}/{total} jobs, about {left_s:.0f} s left ")
        sys.stderr.flush()

    try:
        yield update
    finally:
        if shown > began + 2.0:
            sys.stderr.write("\r" + " " * 79 + "\r")


def report(finished: Finished, policy: str, *, as_json: bool) -> None:
    """Print the summary; exit with 1 if jobs are left that nothing will ever happen to."""
    from cosched_emulator.workload.annotations import WARNING  # noqa: PLC0415 - --help must not pay for it

    unfinished = finished.unfinished
    notes = finished.prepared.workload.notes
    if as_json:
        for note in notes:
            if note.startswith(WARNING):
                click.echo(note, err=True)
        click.echo(json.dumps({"policy": policy, **finished.summary, "refused_actions": finished.refused}, indent=2))
    else:
        from cosched_emulator.results.table import compare as rows_of  # noqa: PLC0415 - --help must not pay for it
        from cosched_emulator.results.table import text_table  # noqa: PLC0415

        for note in notes:
            click.echo(note, err=True)
        click.echo(text_table([policy], rows_of([finished.summary])), nl=False)
        speed = len(finished.records) / finished.wall_s if finished.wall_s else 0.0
        click.echo(f"{len(finished.records)} jobs in {finished.wall_s:.2f} s ({speed:,.0f} jobs/s)", err=True)
    too_large = finished.summary["states"][REJECTED]
    if too_large:
        click.echo(
            f"warning: {too_large} of the jobs that count were rejected: larger than the machine, for example",
            err=True,
        )
    if finished.refused:
        click.echo(f"warning: {finished.refused} actions of the scheduler were refused", err=True)
    if unfinished:
        shown = ", ".join(map(str, unfinished[:5])) + (", ..." if len(unfinished) > 5 else "")
        raise EmulatorError(f"{len(unfinished)} jobs never ended, and nothing was left to happen: {shown}")


cli.add_command(workload)
cli.add_command(compare)
cli.add_command(classes)
cli.add_command(plot)


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-emulator", _exit_code)


def _exit_code(error: Exception) -> int | None:
    if isinstance(error, EmulatorError | PluginError):
        return error.exit_code
    return 2 if isinstance(error, HardwareModelError) else None
