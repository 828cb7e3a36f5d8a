"""Options that several commands of cosched-plugin have."""
# Under 60 lines: what `commands` and `slurm` share.

from __future__ import annotations

import click

POLICY = click.option(
    "--policy",
    default="easy",
    show_default=True,
    help="A preset, a FILE.toml with a [policy] table, an installed policy, or MODULE:CLASS.",
)
SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one setting of the policy, such as placement.threshold=1.25; may be repeated.",
)
TRACE = click.option(
    "--trace", "trace_file", metavar="FILE", help="Write a decision trace there: a new file of JSON lines."
)
LOG_JSON = click.option("--log-json", is_flag=True, help="Log as JSON lines on standard error.")
QUIET = click.option("--quiet", is_flag=True, help="Log only warnings and errors.")
CONTENTION = click.option(
    "--contention",
    "models",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A contention model that the manager, or the site file, may name; may be repeated.",
)
