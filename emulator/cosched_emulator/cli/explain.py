"""The command ``explain``."""

from __future__ import annotations

import json
import os
from functools import partial

import click

from cosched_emulator.cli.scenario_options import A_FILE
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say


@command(prints="text")
def explain(
    job: int = argument(kind=click.IntRange(min=0)),
    trace: str = option("--trace FILE", "The decision trace of the run.", A_FILE),
    quantum: int | None = option("--quantum N", "Explain this quantum of gang scheduling, too.", click.IntRange(min=1)),
    as_json: bool = option("--json", "Print the facts as JSON; times in microseconds."),
) -> None:
    """Explain why JOB, a number in the run, started when and where it did.

    \b
    Example:
      cosched-emulator explain 45 --trace runs/r/trace.jsonl
    after:
      cosched-emulator simulate --lublin 500 --node lomarc-ht --characteristics M1 --contention lomarc \\
          --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
    """
    from cosched_emulator.explain.facts import explain as facts_about
    from cosched_emulator.explain.facts import submission
    from cosched_emulator.explain.sentences import sentences
    from cosched_emulator.explain.trace_reader import read_trace
    from cosched_emulator.results.files.run_reader import read_facts

    # The trace is read twice, so that nothing of other jobs need be kept.
    submit_us = submission(read_trace(trace), job)
    terms = read_facts(os.path.dirname(trace), job)  # of the run folder that the trace lies in
    facts = facts_about(read_trace(trace, partial(say, err=True)), job, trace, quantum, submit_us, terms)
    say(json.dumps(facts, indent=2) if as_json else "\n".join(sentences(facts)))
