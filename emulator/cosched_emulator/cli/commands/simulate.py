"""The command ``simulate``."""
# Under 60 lines: declares one command; what it does loads on use.

from __future__ import annotations

import click

from cosched_emulator import offered
from cosched_emulator.cli.scenario_options import a_file, scenario_options
from cosched_terminal.lazy import implementation


@click.command()
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
    type=click.Choice(offered.LINKS),
    default=offered.LINKS[0],
    show_default=True,
    help="Scheduler in this process, behind the codec, or in a process of its own.",
)
@click.option("--out", type=click.Path(), metavar="DIR", help="Write the run folder there.")
@click.option("--force", is_flag=True, help="Replace an older run folder or trace.")
@click.option(
    "--trace", callback=a_file, metavar="FILE", help="Write a decision trace there, for `explain`: JSON lines."
)
@click.option(
    "--faults",
    callback=a_file,
    metavar="FILE",
    help="Instead of the scenario's: a fault plan in TOML, or events of Batsim's.",
)
@click.option(
    "--db", callback=a_file, metavar="FILE", help="Keep accounts in FILE; after a crash the run resumes from them."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@implementation("cosched_emulator.cli.simulate")
def simulate() -> None:
    """Run a workload under a policy in virtual time, and print the results.

    \b
    Examples:
      cosched-emulator simulate --lublin 10000 --nodes 128 --policy easy
      cosched-emulator simulate --swf CTC.swf.gz --first 0 --jobs 20000 --warmup 10000 --processors 338 \\
          --node rua-4way --mix high --policy rua --link zmq --out runs/rua
      cosched-emulator simulate scenario.toml --policy lct --set placement.threshold=1.25 --json
      cosched-emulator simulate scenario.toml --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
      cosched-emulator simulate scenario.toml --policy rua --link zmq --faults plan.toml
    """
