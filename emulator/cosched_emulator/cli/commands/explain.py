"""The command ``explain``."""
# Under 60 lines: declares one command; what it does loads on use.

from __future__ import annotations

import click

from cosched_emulator.cli.scenario_options import a_file
from cosched_terminal.lazy import implementation


@click.command()
@click.argument("job", type=click.IntRange(min=0))
@click.option("--trace", required=True, callback=a_file, metavar="FILE", help="The decision trace of the run.")
@click.option(
    "--quantum", type=click.IntRange(min=1), metavar="N", help="Explain this quantum of gang scheduling, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON; times in microseconds.")
@implementation("cosched_emulator.cli.explain")
def explain() -> None:
    """Explain why JOB, a number in the run, started when and where it did.

    \b
    Example:
      cosched-emulator explain 45 --trace runs/r/trace.jsonl
    after:
      cosched-emulator simulate --lublin 500 --node lomarc-ht --characteristics M1 --contention lomarc \\
          --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
    """
