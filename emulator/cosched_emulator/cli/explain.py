"""The command ``explain``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from cosched_emulator.cli.completing import RUNS
from cosched_emulator.cli.scenario_options import A_FILE
from cosched_emulator.errors import InputError
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say


@command(prints="text")
def explain(
    job: int = argument(kind=click.IntRange(min=0)),
    run_dir: Path | None = argument("[RUN_DIR]", required=False, shell_complete=RUNS),
    trace: str | None = option("--trace FILE", "The decision trace of the run.  [default: that in RUN_DIR]", A_FILE),
    quantum: int | None = option("--quantum N", "Explain this quantum of gang scheduling, too.", click.IntRange(min=1)),
    as_json: bool = option("--json", "Print the facts as JSON; times in microseconds."),
) -> None:
    """Explain why JOB of a run started when and where it did.

    \b
    Example:
      cosched-emulator explain 45 runs/r
    after:
      cosched-emulator simulate --lublin 500 --node lomarc-ht --characteristics M1 --contention lomarc \\
          --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
    """
    from cosched_emulator.explain.facts import explain as facts_about
    from cosched_emulator.explain.facts import submission
    from cosched_emulator.explain.gang_facts import instant_text
    from cosched_emulator.explain.sentences import sentences
    from cosched_emulator.explain.trace_reader import read_trace
    from cosched_emulator.results.files.run_files import JOBS
    from cosched_emulator.results.files.run_folder import RUN, TRACE, read_json
    from cosched_emulator.results.files.run_reader import read_facts

    if trace is None:
        if run_dir is None:
            raise click.UsageError("expected a run folder, RUN_DIR, or the trace of a run, --trace FILE")
        read_json(run_dir, RUN, ())  # says so where it is no run folder
        trace = str(run_dir / TRACE)
        if not Path(trace).exists():
            raise InputError(str(run_dir), f"a run with its decisions (simulate --trace {trace})", f"none with {TRACE}")
    # The trace is read twice, so that nothing of other jobs need be kept.
    submit_us = submission(read_trace(trace), job)
    terms, start_us = read_facts(run_dir or Path(trace).parent, job)
    if submit_us is None and start_us is not None:
        started = f"the start of job {job}, which {JOBS} has at {instant_text(start_us)}"
        raise InputError(trace, started, "a trace without it: of a part of the run, or of another run")
    facts = facts_about(read_trace(trace, partial(say, err=True)), job, trace, quantum, submit_us, terms)
    say(json.dumps(facts, indent=2) if as_json else "\n".join(sentences(facts)))
