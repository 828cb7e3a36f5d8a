"""One call that runs a scenario under a policy in virtual time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from cosched_emulator.api.arguments import (
    PolicyLike,
    ScenarioLike,
    Settings,
    TraceTarget,
    TraceWay,
    check_functions,
    check_plain,
    check_remote,
    file_of,
    policy_of,
    scenario_of,
    trace_way,
)
from cosched_emulator.api.finished_run import Run
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import LINKS
from cosched_emulator.results.files.run_files import RunFiles
from cosched_emulator.results.files.run_folder import check_run_folder
from cosched_emulator.run.coupling import IN_PROCESS, LinkMaker, coupling, record_answers
from cosched_emulator.run.policy_warnings import warnings_of
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.run.run import Finished, run, store
from cosched_emulator.scenario.schema import ClockSection
from cosched_plugin.config import PolicyChoice

Progress = Callable[[int, int], object]


# Over 50 lines: most describe its parameters
def simulate(
    scenario: ScenarioLike,
    policy: PolicyLike | None = None,
    *,
    settings: Settings = (),
    overrides: Mapping[str, Any] | None = None,
    seed: int | None = None,
    link: str | LinkMaker = "direct",
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    trace: TraceTarget | None = None,
    db: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Callable[[str], object] | None = None,
    began: float | None = None,
) -> Run:
    """Run a scenario under a policy in virtual time, as ``cosched-emulator simulate`` does, and return the result.

    scenario    a TOML file's name; a table of the same form; a `Scenario`; or the result of `prepare`, for several runs of it
    policy      a preset's name, FILE.toml, MODULE:CLASS, a table as in ``[policy]``, a class, or a function that makes a policy;
                None: the scenario's, else ``easy``
    settings    changes to the policy: a table (``{"placement": {"threshold": 1.25}}``, ``{"placement.threshold": 1.25}``), or texts
                ``KEY=VALUE`` as after ``--set``; of a class its keyword arguments
    overrides   a table that replaces the scenario's keys; ``seed`` replaces its seed
    link        ``direct``, ``loopback``; ``zmq``: a plugin in a process of its own; or a function that takes a scheduler factory
                and returns a `Link`. A policy has ``clock.deadline_s`` seconds for each answer; with the first two in the main
                thread alone, and where the caller has no handler and no timer of SIGALRM
    out         a new run folder; with ``force`` an older one is replaced, and an older trace
    trace       a file, a list or a function for the records of the decision trace; with ``zmq`` the last two get them after the run
    db          a file for accounts in SQLite; if it exists, the run resumes from it
    progress    called after each batch with the number of jobs that have ended, and the number of all jobs
    warn        called before the run with each warning: the policy has little effect on this scenario, or a part of its workload
                is lost or has no effect; and during the run, where it waits because ``db`` cannot be written to
    began       when the reading of the scenario began, a time of `time.perf_counter`, for the total time; None: now

    Raises an EmulatorError: InputError for files, ConfigurationError for settings of the scenario, with the key; LinkError when the
    scheduler does not answer or is lost. Or a PluginError: UsageError for the choice of the policy, PolicyError for an
    impossible decision. Jobs that never end are not an error: see `Run.unfinished`.
    """
    if not isinstance(began, float | int | None):
        raise ConfigurationError("began", "a time of time.perf_counter", repr(began))
    if not isinstance(link, str) and not callable(link):
        raise ConfigurationError.unknown_name("link", f"{link!s:.80}", LINKS)
    if not isinstance(force, bool):
        raise ConfigurationError("force", "true or false", f"{force!r:.80}")
    check_functions(progress=progress, warn=warn)
    began = time.perf_counter() if began is None else began
    kind = link if isinstance(link, str) else "custom"
    made, prepared = scenario_of(scenario, overrides, seed)
    choice = policy_of(policy, settings, made)
    if kind == "zmq":
        check_remote(policy, choice)
    folder, accounts = file_of("out", out), file_of("db", db)
    if folder is not None:
        check_plain(choice.name, choice.settings)
        check_run_folder(folder, force=force)
    if prepared is None:
        prepared = prepare(made)
    with trace_way(trace, folder, remote=kind == "zmq", force=force) as way:
        if warn is not None:
            for text in (*warnings_of(choice, prepared), *_idle_clock(prepared, kind)):
                warn(text)
        finished = _run(prepared, choice, link, way, folder, accounts, progress, warn, began, force=force)
    place = None if folder is None else Path(folder)
    return Run(choice.name, choice.settings, kind, place, finished, time.perf_counter() - began, way.kept)


def _run(
    prepared: Prepared,
    choice: PolicyChoice,
    link: str | LinkMaker,
    way: TraceWay,
    out: str | None,
    db: str | None,
    progress: Progress | None,
    warn: Callable[[str], object] | None,
    began: float,
    *,
    force: bool,
) -> Finished:
    """Run the scenario, and write the run folder if requested; reading began at ``began``."""
    jobs = len(prepared.workload.jobs)
    ended = None if progress is None else partial(_tell, progress, jobs)
    with nullcontext() if out is None else RunFiles(out, prepared.nodes) as files:
        with (
            coupling(link, choice, prepared, way.to) as coupled,
            record_answers(coupled, db, prepared, lambda: choice.name, warn) as (recorded, accounting),
        ):
            finished = run(prepared, recorded, ended, accounting, files)
        if out is not None:
            kind = link if isinstance(link, str) else "custom"
            settings = {"name": choice.name, **choice.settings}
            store(finished, out, policy=settings, link=kind, force=force, trace=way.inside, files=files, began=began)
    return finished


def _idle_clock(prepared: Prepared, kind: str) -> list[str]:
    """Return a warning for each setting of the clock that a simulation with these means does not keep."""
    clock, plain = prepared.scenario.clock, ClockSection()
    mode = ["clock.mode has no effect: a simulation is in virtual time (serve keeps it)"] * (clock.mode != plain.mode)
    waits = kind in IN_PROCESS and clock.wait_s != plain.wait_s
    text = f"clock.wait_s has no effect: the link {kind} calls the policy in this process (--link zmq keeps it)"
    return mode + [text] * waits


def _tell(progress: Progress, jobs: int, ended: int) -> None:
    progress(ended, jobs)
