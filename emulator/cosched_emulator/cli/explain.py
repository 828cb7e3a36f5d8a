"""The command ``explain``."""
# Under 60 lines: an entry point, loaded when the command runs.

from __future__ import annotations

import json
from functools import partial

import click

from cosched_emulator.explain.facts import explain as facts_about
from cosched_emulator.explain.sentences import sentences
from cosched_emulator.explain.trace_reader import read_trace


def explain(job: int, trace: str, quantum: int | None, as_json: bool) -> None:
    """Explain why a job started when and where it did."""
    facts = facts_about(read_trace(trace, partial(click.echo, err=True)), job, trace, quantum)
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(sentences(facts)))
