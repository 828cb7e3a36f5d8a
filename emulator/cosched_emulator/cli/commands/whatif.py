"""The command ``whatif``."""
# Under 60 lines: declares one command; what it does loads on use.

from __future__ import annotations

from pathlib import Path

import click

from cosched_emulator.cli.scenario_options import AS_SUBMITTED, a_file, some_scenario_options
from cosched_terminal.lazy import implementation


@click.command()
@click.argument("site", metavar="[SITE.toml]", required=False, type=click.Path())
@some_scenario_options(
    "swf", "skip_bad_rows", "nodes", "node", "machine", "bandwidth_gbs", "idle_w", "busy_w",
    "annotations", "characteristics", "pairs", "seed"
)  # fmt: skip
@click.option("--sacct", callback=a_file, metavar="FILE", help="Instead of a log: a dump of Slurm's accounting.")
@AS_SUBMITTED
@click.option("--policy", help="The present policy.  [default: the site's, else easy on nodes that each job has alone]")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting of it; may be repeated.")
@click.option("--window-count", type=click.IntRange(min=1), metavar="N", help="Windows of the log.  [default: 10]")
@click.option("--window-jobs", type=click.IntRange(min=10), metavar="N", help="Jobs of each, at most.  [default: 3000]")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one for each core]")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder of the study, new or resumed."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@implementation("cosched_emulator.cli.whatif")
def whatif() -> None:
    """Say what other policies, and sharing nodes, would do to a log: for whom, how sure, and what that hangs on.

    \b
    Examples:
      cosched-emulator whatif --swf log.swf.gz --out whatif/log
      cosched-emulator whatif --swf log.swf.gz --machine machine.toml --pairs pairs.csv --out whatif/log
      cosched-emulator whatif site/scenario.toml --policy conservative --out whatif/site --json
    """
