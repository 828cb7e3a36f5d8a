"""The command ``simulate``."""
# Under 60 lines: an entry point, loaded when the command runs.

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

from cosched_emulator.api.arguments import policy_of
from cosched_emulator.api.simulate import simulate as simulate_scenario
from cosched_emulator.batsim.conversions import errors_name, faults_of
from cosched_emulator.cli.reporting import report, warn
from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.results.files.run_folder import check_run_folder
from cosched_emulator.run.prepare import prepare
from cosched_emulator.scenario.reader import read_scenario
from cosched_terminal.console import progress_bar


def simulate(
    scenario_file: str | None,
    policy: str | None,
    assignments: tuple[str, ...],
    link: str,
    out: str | None,
    force: bool,
    trace: str | None,
    faults: str | None,
    db: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a workload under a policy in virtual time, and print the results."""
    began = time.perf_counter()
    with redirect_stdout(sys.stderr):  # a policy, or a module that the scenario names, may print
        scenario = read_scenario(scenario_file, overrides(options))
        if faults is not None:
            scenario = replace(scenario, faults=faults_of(faults))
        choice = policy_of(policy, assignments, scenario)
        if out is not None:
            check_run_folder(out, force=force)
        with errors_name(faults):
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
