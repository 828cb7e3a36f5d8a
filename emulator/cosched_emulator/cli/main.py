"""The command ``cosched-emulator``, and the one place where its errors become exit codes."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cosched_emulator.cli.keys import keys
from cosched_emulator.cli.reporting import progress_bar, report
from cosched_emulator.cli.results import classes, compare, plot
from cosched_emulator.cli.scenario_options import a_file, overrides, scenario_options
from cosched_emulator.cli.serve import serve
from cosched_emulator.cli.users.commands import COMMANDS
from cosched_emulator.cli.workload import workload
from cosched_emulator.errors import EmulatorError
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.terminal import run_command_line
from cosched_plugin.errors import PluginError

if TYPE_CHECKING:
    from cosched_emulator.results.files.run_files import RunFiles
    from cosched_emulator.run.prepare import Prepared


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cosched", prog_name="cosched-emulator")
def cli() -> None:
    """Emulate a resource manager and its nodes, and see what a scheduling policy does to a workload.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 the scheduler was lost, 4 an invariant broke or
    a policy decided what is impossible.
    """


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
@click.option("--faults", callback=a_file, metavar="FILE.toml", help="A fault plan, instead of the scenario's.")
@click.option("--db", callback=a_file, metavar="FILE", help="Keep accounts there, and go on from there after a crash.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def simulate(
    scenario_file: str | None,
    policy: str | None,
    assignments: tuple[str, ...],
    link: str,
    out: str | None,
    force: bool,
    trace: str | None,
    faults: str | None,
    db: str | None,
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
      cosched-emulator simulate scenario.toml --policy rua --link zmq --faults plan.toml
    """
    from cosched_emulator.results.files.trace_place import in_run_folder, place_trace  # noqa: PLC0415
    from cosched_emulator.run.coupling import coupling, record_answers  # noqa: PLC0415
    from cosched_emulator.run.policy_warnings import idle_matching, idle_slices  # noqa: PLC0415
    from cosched_emulator.run.prepare import prepare  # noqa: PLC0415
    from cosched_emulator.run.run import run  # noqa: PLC0415
    from cosched_emulator.run.store import store  # noqa: PLC0415
    from cosched_emulator.scenario.reader import read_faults, read_scenario  # noqa: PLC0415
    from cosched_plugin.config import choose, from_table  # noqa: PLC0415 - --help must not pay for these

    scenario = read_scenario(scenario_file, overrides(options))
    if faults is not None:
        scenario = replace(scenario, faults=read_faults(faults))
    choice = (
        choose("easy" if policy is None else policy, assignments)
        if policy is not None or not scenario.policy
        else from_table(scenario.policy, assignments)
    )
    if out is not None:
        from cosched_emulator.results.files.folder import check_run_folder  # noqa: PLC0415 - numpy

        check_run_folder(out, force=force)
    prepared = prepare(scenario)
    stored = False  # whether the trace becomes part of the run folder
    if trace is not None:
        stored = out is not None and in_run_folder(trace, out)
        trace = place_trace(trace, out, force=force)
    for warning in (idle_matching(choice, prepared), idle_slices(choice, prepared)):
        if warning is not None:
            click.echo(f"warning: {warning}", err=True)
    with _files(out, prepared) as files:
        with (
            progress_bar(len(prepared.workload.jobs)) as progress,
            coupling(link, choice, prepared, trace) as coupled,
            record_answers(coupled, db, prepared, lambda: choice.name) as (recorded, accounting),
        ):
            finished = run(prepared, recorded, progress, accounting, files)
        if out is not None:
            settings = {"name": choice.name, **choice.settings}
            trace_inside = trace if stored else None
            store(finished, out, policy=settings, link=link, force=force, trace=trace_inside, files=files)
    report(finished, choice.name, as_json=as_json)


def _files(out: str | None, prepared: Prepared) -> AbstractContextManager[RunFiles | None]:
    """Return the files of a run folder that grow while the run goes on; None where none is wanted."""
    if out is None:
        return nullcontext()
    from cosched_emulator.results.files.run_files import RunFiles  # noqa: PLC0415 - numpy

    return RunFiles(out, prepared.nodes)


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
    from cosched_emulator.explain.facts import explain as facts_about  # noqa: PLC0415 - --help must not pay for these
    from cosched_emulator.explain.sentences import sentences  # noqa: PLC0415
    from cosched_emulator.explain.trace_reader import read_trace  # noqa: PLC0415

    facts = facts_about(read_trace(trace, partial(click.echo, err=True)), job, trace)
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(sentences(facts)))


cli.add_command(serve)
cli.add_command(workload)
cli.add_command(compare)
cli.add_command(classes)
cli.add_command(plot)
cli.add_command(keys)
for command in COMMANDS:
    cli.add_command(command)


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-emulator", _exit_code)


def _exit_code(error: Exception) -> int | None:
    if isinstance(error, EmulatorError | PluginError):
        return error.exit_code
    return 2 if isinstance(error, HardwareModelError) else None
