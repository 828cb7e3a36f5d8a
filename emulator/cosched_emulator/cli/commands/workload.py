"""The command group ``workload``: look at workloads, generate and import them."""

from __future__ import annotations

import click

from cosched_emulator import offered
from cosched_emulator.cli.scenario_options import AS_SUBMITTED, Command, a_file, sets
from cosched_terminal.lazy import implementation

_DESCRIBE_EXAMPLES = """Examples:

\b
  cosched-emulator workload describe CTC-SP2-1996-3.1-cln.swf.gz
  cosched-emulator workload describe trace.swf --first 10000 --jobs 10000 --json
  cosched-emulator workload describe --lublin 8000 --aarr 8.83 --characteristics M1
  cosched-emulator workload describe --lublin 10000 --aarr 10.33 --self-slowdowns table4 --grow
"""
_LUBLIN_EXAMPLES = """Examples:

\b
  cosched-emulator workload lublin --jobs 8000 --aarr 9.83 --seed 3 --out w2.swf.gz
  cosched-emulator workload lublin --jobs 1000 --processors 16 --gap-factor 0.025 --run-factor 0.025 --out small.swf
  cosched-emulator workload lublin --jobs 8000 --characteristics M1 --usage-out w1-usage.csv --out w1.swf.gz
  cosched-emulator workload lublin --jobs 8000 --self-slowdowns table4 --grow --usage-out w1-self.csv --out w1.swf.gz
  cosched-emulator workload lublin --jobs 8000 --nodes 64 --node 2x16x2 --out large.swf
  cosched-emulator workload lublin --jobs 20 --out -
"""
_CONVERT_EXAMPLES = """Examples:

\b
  cosched-emulator workload convert log.swf --out w.json
  cosched-emulator workload convert log.swf --cores 4 --annotations usage.csv --out w.json
  cosched-emulator workload convert w.json --usage-out usage.csv --out log.swf
"""
_IMPORT_EXAMPLES = """Examples:

\b
  cosched-emulator workload import
  cosched-emulator workload import --sacct jobs.txt --out site --time-zone Europe/Athens
  cosched-emulator simulate site/scenario.toml --policy easy
"""
_POSITIVE = click.IntRange(min=1)
_JOBS = click.IntRange(1, offered.MOST_JOBS)  # of the model
_SELF_SLOWDOWNS = click.option(
    "--self-slowdowns", type=click.Choice(offered.SELF_SLOWDOWNS), help="Draw the self slowdowns of jobs."
)
_GROW = click.option(
    "--grow", is_flag=True, help="Let sizes grow: --processors are nodes of two CPUs with two cores each."
)


def _machine_options(command: Command) -> Command:
    """Add the options that describe a machine, as an alternative to ``--processors``."""
    for option in (
        click.option("--machine", callback=a_file, metavar="FILE", help="Machine: a TOML file of [[nodes]]."),
        click.option("--node", metavar="SHAPE", help="Machine: its nodes, of `presets` or SOCKETSxCORESxTHREADS."),
        click.option(
            "--nodes", type=_POSITIVE, metavar="N", help=f"Machine: how many nodes.  [default: {offered.NODES}]"
        ),
    ):
        command = option(command)
    return command


@click.group()
def workload() -> None:
    """Look at workloads, generate and import them."""


@workload.command(epilog=_DESCRIBE_EXAMPLES)
@click.argument("file", required=False, type=click.Path())
@click.option("--lublin", "lublin_jobs", type=_JOBS, metavar="N", help="Describe N jobs of the Lublin model.")
@click.option(
    "--processors",
    type=_POSITIVE,
    help=f"Size of the machine.  [default: the file's MaxProcs; {offered.NODES} with --lublin]",
)
@click.option("--aarr", type=float, help=f"Lublin: parameter of the arrival rate.  [default: {offered.AARR:g}]")
@click.option("--seed", type=int, help=f"Seed of all draws.  [default: {offered.SEED}]")
@click.option("--characteristics", metavar="MIX", help="Draw what bounds jobs: M1, M2, M3, or shares such as 40:30:30.")
@click.option(
    "--annotations", type=click.Path(), metavar="FILE", help="Read what bounds jobs from a side file, CSV or TOML."
)
@_machine_options
@_SELF_SLOWDOWNS
@_GROW
@click.option("--first", type=click.IntRange(min=0), metavar="N", help="File: skip N usable jobs.  [default: 0]")
@click.option("--jobs", type=_POSITIVE, metavar="N", help="File: read at most N jobs.  [default: all]")
@click.option("--skip-bad-rows", is_flag=True, help="File: leave malformed rows out instead of stopping.")
@click.option(
    "--as-logged", is_flag=True, help="File: keep run times above the estimate, and short estimates, as they are."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@implementation("cosched_emulator.cli.workload")
def describe() -> None:
    """Print statistics of a workload, its load, rhythm and users: an SWF file (plain or gzip), or the Lublin model."""


@workload.command(epilog=_LUBLIN_EXAMPLES)
@click.option("--jobs", type=_JOBS, required=True, help="Number of jobs.")
@click.option("--processors", type=_POSITIVE, help=f"Size of the machine.  [default: {offered.NODES}]")
@_machine_options
@click.option(
    "--aarr", type=float, help=f"Parameter of the arrival rate; smaller is busier.  [default: {offered.AARR:g}]"
)
@click.option("--seed", type=int, default=offered.SEED, show_default=True, help="Seed of all draws.")
@click.option("--gap-factor", type=float, default=1.0, show_default=True, help="Multiply the gaps between arrivals.")
@click.option("--run-factor", type=float, default=1.0, show_default=True, help="Multiply the run times.")
@click.option(
    "--characteristics", metavar="MIX", help="Draw what bounds jobs, too: M1, M2, M3, or shares such as 40:30:30."
)
@_SELF_SLOWDOWNS
@_GROW
@click.option(
    "--usage-out", type=click.Path(), metavar="FILE", help="Write the drawn values to FILE, as annotations in CSV."
)
@click.option("--out", required=True, type=click.Path(), help="File to write (.gz compresses); - for standard output.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@implementation("cosched_emulator.cli.workload")
def lublin() -> None:
    """Generate a workload with the Lublin-Feitelson model and write it as SWF."""


@workload.command("import", epilog=_IMPORT_EXAMPLES)
@click.option("--sacct", type=click.Path(), metavar="FILE", help="What sacct -P or sacct --json printed.")
@click.option("--out", type=click.Path(), metavar="DIR", help="Folder to write: trace.swf, jobs.csv, scenario.toml.")
@click.option(
    "--partition", "partitions", multiple=True, metavar="NAME", help="Only jobs of this partition; may be repeated."
)
@click.option("--time-zone", metavar="ZONE", help="Of times that name none, such as Europe/Athens.  [default: UTC]")
@click.option(
    "--threads-per-core", type=_POSITIVE, default=1, show_default=True, metavar="N", help="CPUs of Slurm on a core."
)
@click.option(
    "--default-estimate",
    type=click.FloatRange(min=1),
    default=86_400,
    show_default=True,
    metavar="S",
    help="Estimate of jobs without a limit, in seconds.",
)
@AS_SUBMITTED
@click.option("--skip-bad-rows", is_flag=True, help="Leave malformed rows out instead of stopping.")
@click.option("--anonymise", is_flag=True, help="Leave out names, numbers of jobs and the day.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@implementation("cosched_emulator.cli.workload")
def import_log() -> None:
    """Make a log of Slurm's accounting; without options, print the command that dumps it."""


@workload.command(epilog=_CONVERT_EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--cores", type=_POSITIVE, default=1, show_default=True, metavar="C", help="Processes that fill a host.")
@sets(
    "workload.annotations", "--annotations", callback=a_file, metavar="FILE", help="Log: what bounds jobs, CSV or TOML."
)
@sets("workload.profiles", "--profiles", callback=a_file, metavar="FILE", help="Log: what processes ask of nodes, CSV.")
@sets("workload.characteristics", "--characteristics", metavar="MIX", help="Log: draw what bounds jobs.")
@sets("workload.mix", "--mix", help="Log: draw bandwidth demands.")
@sets("workload.self_slowdowns", "--self-slowdowns", type=click.Choice(offered.SELF_SLOWDOWNS), help="Log: draw these.")
@sets("workload.limits", "--limits", type=click.Choice(offered.LIMITS), help="Log: none leaves walltimes out.")
@sets("seed", "--seed", type=int, help=f"Log: seed of all draws.  [default: {offered.SEED}]")
@click.option("-p", "--platform", callback=a_file, metavar="FILE.xml", help="JSON: the speed of hosts; else 1 Gflop/s.")
@click.option(
    "-m", "--master-host", default="master_host", metavar="NAME", help="JSON: the platform's host without jobs."
)
@click.option(
    "--usage-out", callback=a_file, metavar="FILE", help="JSON: write what bounds jobs there, annotations in CSV."
)
@click.option(
    "--profiles-out", callback=a_file, metavar="FILE", help="JSON: write what processes ask of nodes there, CSV."
)
@click.option(
    "--out", required=True, type=click.Path(), help="File to write: .json of Batsim's, or SWF (.gz compresses)."
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@implementation("cosched_emulator.cli.workload")
def convert() -> None:
    """Convert a log in SWF to a workload of Batsim's, or workloads of Batsim's (FILE.json) to a log."""
