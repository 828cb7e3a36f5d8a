"""What the command ``simulate`` does."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import click

from cosched_emulator.cli.commands.scenario_options import overrides
from cosched_emulator.cli.reporting import progress_bar, report
from cosched_emulator.results.files.folder import check_run_folder
from cosched_emulator.results.files.run_files import RunFiles
from cosched_emulator.results.files.trace_place import in_run_folder, place_trace
from cosched_emulator.run.coupling import coupling, record_answers
from cosched_emulator.run.policy_warnings import idle_matching, idle_slices, sums_of_pairs
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.run.run import run
from cosched_emulator.run.store import store
from cosched_emulator.scenario.reader import read_faults, read_scenario
from cosched_emulator.scenario.schema import Scenario
from cosched_plugin.config import PolicyChoice, choose, from_table


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
    """Run a workload under a policy in virtual time, and print what came of it."""
    began = time.perf_counter()
    scenario = read_scenario(scenario_file, overrides(options))
    if faults is not None:
        scenario = replace(scenario, faults=read_faults(faults))
    choice = _policy_choice(policy, assignments, scenario)
    if out is not None:
        check_run_folder(out, force=force)
    prepared = prepare(scenario)
    stored = trace is not None and out is not None and in_run_folder(trace, out)
    if trace is not None:
        trace = place_trace(trace, out, force=force)
    _warn(choice, prepared)
    with nullcontext() if out is None else RunFiles(out, prepared.nodes) as files:
        with (
            progress_bar(len(prepared.workload.jobs)) as progress,
            coupling(link, choice, prepared, trace) as coupled,
            record_answers(coupled, db, prepared, lambda: choice.name) as (recorded, accounting),
        ):
            finished = run(prepared, recorded, progress, accounting, files)
        if out is not None:
            settings = {"name": choice.name, **choice.settings}
            trace_inside = trace if stored else None
            store(finished, out, policy=settings, link=link, force=force, trace=trace_inside, files=files, began=began)
    report(finished, choice.name, began, as_json=as_json)


def _policy_choice(policy: str | None, assignments: tuple[str, ...], scenario: Scenario) -> PolicyChoice:
    """Return the policy of the command line, else the scenario's, else EASY."""
    if policy is None and scenario.policy:
        return from_table(scenario.policy, assignments)
    return choose("easy" if policy is None else policy, assignments)


def _warn(choice: PolicyChoice, prepared: Prepared) -> None:
    """Tell of parts of the policy that can do little here, and of a truth that says little of what the policy does."""
    for warning in (idle_matching(choice, prepared), idle_slices(choice, prepared), sums_of_pairs(choice, prepared)):
        if warning is not None:
            click.echo(f"warning: {warning}", err=True)
