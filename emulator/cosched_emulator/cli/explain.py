"""The command ``explain``."""
# Under 60 lines: an entry point, loaded when the command runs.

from __future__ import annotations

import json
from functools import partial

from cosched_emulator.explain.facts import explain as facts_about
from cosched_emulator.explain.facts import submission
from cosched_emulator.explain.sentences import sentences
from cosched_emulator.explain.trace_reader import read_trace
from cosched_terminal.console import say


def explain(job: int, trace: str, quantum: int | None, as_json: bool) -> None:
    """Explain why a job started when and where it did."""
    submit_us = submission(
        read_trace(trace), job
    )  # the trace is read twice, so that nothing of other jobs need be kept
    facts = facts_about(read_trace(trace, partial(say, err=True)), job, trace, quantum, submit_us)
    say(json.dumps(facts, indent=2) if as_json else "\n".join(sentences(facts)))
