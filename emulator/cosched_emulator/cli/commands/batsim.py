"""The command ``batsim``."""

from __future__ import annotations

import click

from cosched_emulator import offered
from cosched_emulator.cli.scenario_options import a_file, scenario_options
from cosched_terminal.lazy import implementation


@click.command()
@click.argument("scenario_file", metavar="[SCENARIO.toml]", required=False, type=click.Path())
@click.option(
    "--connect",
    "endpoint",
    default="tcp://127.0.0.1:28000",
    show_default=True,
    metavar="ENDPOINT",
    help="Where the scheduler listens: tcp:// on this machine, or ipc://.",
)
@click.option(
    "-w",
    "--workload",
    "workloads",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Jobs: JSON of Batsim's; may be repeated.",
)
@click.option(
    "-p",
    "--platform",
    callback=a_file,
    metavar="FILE.xml",
    help="Hosts: of a SimGrid platform, with their speeds and watts.",
)
@click.option(
    "-m",
    "--master-host",
    default="master_host",
    show_default=True,
    metavar="NAME",
    help="Platform: the simulator's host, without jobs.",
)
@click.option("--mmax", type=click.IntRange(min=1), metavar="N", help="Platform: use the first N hosts.")
@scenario_options
@click.option(
    "--enable-compute-sharing",
    "sharing",
    is_flag=True,
    help="Let jobs share hosts, as far as these have hardware threads.",
)
@click.option("--enable-dynamic-jobs", "dynamic", is_flag=True, help="Let the scheduler register jobs.")
@click.option("--acknowledge-dynamic-jobs", "acknowledged", is_flag=True, help="Tell it of these as of others.")
@click.option(
    "--forward-profiles-on-submission",
    "forward_profiles",
    is_flag=True,
    help="Send profiles with jobs, not at the beginning.",
)
@click.option(
    "--tell-run-times",
    is_flag=True,
    help="Send profiles with all that is in them; else a scheduler does not see run times.",
)
@click.option("--events", callback=a_file, metavar="FILE", help="External events: a JSON object a line.")
@click.option("--forward-unknown-events", "forward_unknown", is_flag=True, help="Pass on events of other types.")
@click.option("-E", "--energy", is_flag=True, help="States of hosts, and their energy.")
@click.option("--sched-cfg", "config", default="", metavar="TEXT", help="Text for the scheduler.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=offered.WAIT_S,
    show_default=True,
    metavar="S",
    help="Seconds to wait for a scheduler.",
)
@click.option(
    "-e",
    "--export",
    "prefix",
    callback=a_file,
    metavar="PREFIX",
    help="Write PREFIX_jobs.csv and Batsim's other files.",
)
@click.option("--force", is_flag=True, help="Replace older files.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@implementation("cosched_emulator.cli.batsim")
def batsim() -> None:
    """Take Batsim's place for a scheduler that was written for Batsim 4 (JSON), in virtual time.

    \b
    Examples, in two terminals:
      cosched-emulator batsim --swf log.swf --nodes 128 --cores 1 --export out
      pybatsim -t 0 -s tcp://127.0.0.1:28000 easyBackfill
    and with Batsim's own files:
      cosched-emulator batsim -p platform.xml -m master -w workload.json --export out
    """
