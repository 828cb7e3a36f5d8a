"""The command ``simulate``."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import replace
from typing import Any

import click

from cosched_emulator import offered
from cosched_emulator.cli.completing import POLICIES, SETTINGS
from cosched_emulator.cli.scenario_options import A_FILE, DB, FAULTS, SCENARIO, overrides
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import progress_bar, warn


# Over 50 lines: one parameter for each option.
@command(prints="result")
def simulate(
    scenario_file: str | None = argument("[SCENARIO.toml]", click.Path()),
    options: dict[str, Any] = SCENARIO,
    policy: str | None = option(
        "--policy",
        "Preset, FILE.toml, installed policy or MODULE:CLASS; replay, replay-guests: a log's own starts."
        "  [default: the scenario's, else easy]",
        shell_complete=POLICIES,
    ),
    assignments: tuple[str, ...] = option(
        "--set KEY=VALUE", "Change one setting of the policy; may be repeated.", shell_complete=SETTINGS
    ),
    link: str = option(
        "--link",
        "Scheduler in this process, the same with encoded messages, or in another process.",
        offered.LINKS,
        offered.LINKS[0],
    ),
    out: str | None = option("--out DIR", "Write the run folder there.", click.Path()),
    force: bool = option("--force", "Replace an older run folder or trace."),
    trace: str | None = option("--trace FILE", "Write a decision trace there, for `explain`: JSON lines.", A_FILE),
    faults: str | None = FAULTS,
    db: str | None = DB,
    as_json: bool = option("--json", "Print the summary as JSON."),
) -> None:
    """Run a workload under a policy in virtual time, and print the results.

    \b
    Examples:
      cosched-emulator simulate --lublin 10000 --nodes 128 --policy easy
      cosched-emulator simulate --swf CTC.swf.gz --first 0 --jobs 20000 --warmup 10000 --processors 338 \\
          --node rua-4way --mix high --policy rua --link zmq --out runs/rua
      cosched-emulator simulate scenario.toml --policy lct --set placement.threshold=1.25 --json
      cosched-emulator simulate scenario.toml --policy lomarc-r --out runs/r --trace runs/r/trace.jsonl
      cosched-emulator simulate scenario.toml --policy rua --link zmq --faults plan.toml
    """
    from cosched_emulator.api.simulate import policy_of
    from cosched_emulator.api.simulate import simulate as simulate_scenario
    from cosched_emulator.cli.reporting import report
    from cosched_emulator.results.files.run_folder import check_run_folder
    from cosched_emulator.run.prepare import prepare
    from cosched_emulator.scenario.reader import read_scenario

    began = time.perf_counter()
    naming: AbstractContextManager[None] = nullcontext()
    with redirect_stdout(sys.stderr):  # a policy, or a module that the scenario names, may print
        scenario = read_scenario(scenario_file, overrides(options))
        if faults is not None:
            from cosched_emulator.batsim.run import errors_name, faults_of  # which load the whole of Batsim's part

            naming = errors_name(faults)
            scenario = replace(scenario, faults=faults_of(faults))
        choice = policy_of(policy, assignments, scenario)
        if out is not None:
            check_run_folder(out, force=force)
        with naming:
            prepared = prepare(scenario)
        with progress_bar(len(prepared.workload.jobs)) as bar:
            made = simulate_scenario(
                prepared,
                choice,
                link=link,
                out=out,
                force=force,
                trace=trace,
                db=db,
                progress=None if bar is None else lambda ended, _jobs: bar(ended),
                warn=warn,
                began=began,
            )
    report(made.finished, made.policy, began, out, as_json=as_json, settings=made.settings)
