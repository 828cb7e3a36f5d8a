"""Options that several commands of cosched-plugin have."""
# Under 60 lines: what `commands` and `slurm` share.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

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
SET_ASIDE = click.option(
    "--set-aside",
    is_flag=True,
    help="Where the policy fails on a job, name the job and go on without it, instead of ending.",
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


def seconds(
    flag: str, name: str, default: float, text: str, least: float = 0, most: float | None = None
) -> Callable[[_Command], _Command]:
    """Return an option that is a number of seconds."""
    within = click.FloatRange(min=least, max=most)
    return click.option(flag, name, default=default, show_default=True, type=within, help=text)
