"""One call that runs a scenario under a policy in virtual time: what it takes, in any form, and what it returns."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.offered import LINKS, POPULATIONS
from cosched_emulator.results.figures.metrics import QUANTITIES, STATISTICS
from cosched_emulator.results.figures.replay_figures import RECORD, replay_figures
from cosched_emulator.results.files import run_folder
from cosched_emulator.results.files.run_files import RunFiles
from cosched_emulator.results.shown import Shown
from cosched_emulator.run.counted import rule_of
from cosched_emulator.run.coupling import (
    IN_PROCESS,
    LinkMaker,
    TraceRecord,
    TraceSink,
    accounts_of,
    coupling,
    recorded_link,
)
from cosched_emulator.run.policy_warnings import warnings_of
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.prepare import prepare as prepare_scenario
from cosched_emulator.run.replay import REPLAY, REPLAYS, schedule_of, unbound
from cosched_emulator.run.run import Finished, run, run_counted, store
from cosched_emulator.scenario.reader import read_scenario, scenario_of_table
from cosched_emulator.scenario.schema import ClockSection, Scenario
from cosched_hwmodel.errors import Unwanted
from cosched_hwmodel.quick_classes import frozen
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import PolicyChoice, choose, choose_class, from_table
from cosched_plugin.protocol.messages import NodeClass
from cosched_terminal.whole_file import temporary_folder

if TYPE_CHECKING:
    import pandas

    from cosched_emulator.api.tables import AllocationTable, JobTable
    from cosched_emulator.results.figures.run_energy import RunEnergy
    from cosched_emulator.results.harm import Harm, LaterRule, LoserClasses, Outcomes
    from cosched_emulator.results.record_columns import QuantaColumns

# The scenario of a run, in any form that the caller may give it.

ScenarioLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Scenario | Prepared


def prepare(scenario: ScenarioLike, *, overrides: Mapping[str, Any] | None = None, seed: int | None = None) -> Prepared:
    """Check a scenario, read or generate its jobs, and return the result, from which any number of runs can start, also in parallel.

    ``scenario``, ``overrides`` and ``seed`` are those of `simulate`. Raises InputError for files, ConfigurationError for settings.
    """
    made, prepared = scenario_of(scenario, overrides, seed)
    return prepare_scenario(made) if prepared is None else prepared


def scenario_of(
    scenario: ScenarioLike, overrides: Mapping[str, Any] | None, seed: int | None
) -> tuple[Scenario, Prepared | None]:
    """Return the caller's scenario with ``overrides`` and ``seed`` applied, and the prepared scenario if the caller gave one.

    Raises InputError for a file that cannot be read, ConfigurationError for a key that does not exist.
    """
    if not isinstance(overrides, Mapping | None):
        raise ConfigurationError("overrides", "a table", type(overrides).__name__)
    changes = {**(overrides or {}), **({} if seed is None else {"seed": seed})}
    if isinstance(scenario, Prepared):
        if changes:
            key = next(iter(changes))
            raise ConfigurationError(str(key), Unwanted("the scenario is prepared already"), repr(changes[key]))
        return scenario.scenario, scenario
    if isinstance(scenario, Scenario):
        return scenario_of_table(asdict(scenario), changes) if changes else scenario, None
    if isinstance(scenario, str | os.PathLike):
        return read_scenario(os.fspath(scenario), changes), None
    if isinstance(scenario, Mapping):
        return scenario_of_table(scenario, changes), None
    raise ConfigurationError("scenario", "a file's name, a table or a Scenario", type(scenario).__name__)


# The policy of a run, in any form that the caller may give it.

PolicyLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Callable[..., object] | PolicyChoice
Settings: TypeAlias = Mapping[str, Any] | Iterable[str]


def policy_of(policy: PolicyLike | None, settings: Settings, scenario: Scenario) -> PolicyChoice:
    """Return the policy that the caller names, with ``settings`` applied; None: the scenario's policy, else EASY.

    Raises UsageError with the key for an unknown policy or setting.
    """
    settings = _checked(settings)
    if policy is None:
        return from_table(scenario.policy, settings) if scenario.policy else choose("easy", settings)
    if isinstance(policy, PolicyChoice):
        if settings:
            raise UsageError("settings: expected none beside a policy that is chosen already; choose it with them")
        return policy
    if isinstance(policy, str):
        return _replay(policy, settings, scenario) if policy in REPLAYS else choose(policy, settings)
    if isinstance(policy, os.PathLike):
        file = os.fspath(policy)
        if not file.endswith(".toml"):
            raise UsageError(f"policy: expected a name, or a file that ends in .toml, got {file}")
        return choose(file, settings)
    if isinstance(policy, Mapping):
        return from_table(policy, settings)
    if callable(policy):
        return choose_class(policy, settings)
    raise UsageError(
        "policy: expected a name, a file, a table, MODULE:CLASS, a class or a function that makes a policy, "
        f"got an object of class {type(policy).__name__}"
    )


def _replay(policy: str, settings: Settings, scenario: Scenario) -> PolicyChoice:
    """Return a policy that starts jobs as the log says; ``replay`` has the shape of the scenario's policy."""
    table = dict(REPLAYS[policy])
    if policy == REPLAY and scenario.policy:
        table["shape"] = run_folder.part_name(from_table(scenario.policy).settings, "shape")
    return from_table(table, settings)._replace(name=policy)


def _checked(settings: object) -> Settings:
    """Return a table of settings unchanged, and texts as a list; raises UsageError for anything else."""
    if isinstance(settings, Mapping):
        return settings
    if isinstance(settings, Iterable) and not isinstance(settings, str):
        texts = list(settings)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise UsageError(f"settings: expected a table, or a list of texts KEY=VALUE, got {settings!r}")


def check_plain(name: str, settings: Mapping[str, Any], *, allow_nan: bool = False) -> None:
    """Raise UsageError for settings that JSON cannot represent."""
    for key, value in settings.items():
        try:
            json.dumps(value, allow_nan=allow_nan)
        except (TypeError, ValueError) as error:
            raise UsageError(f"policy {name}: {key}: expected a value that JSON has a word for: {error}") from error


def check_remote(policy: object, choice: PolicyChoice) -> None:
    """Raise UsageError if another process cannot make the policy: its class cannot be imported by its name."""
    if isinstance(policy, str | os.PathLike | Mapping | PolicyChoice | None):
        return
    module, _, name = choice.argument.partition(":")
    if module == "__main__" or getattr(import_module(module), name, None) is not policy:
        raise UsageError(
            f"policy {choice.name}: expected a class or a function at the top of a module with link zmq, "
            "whose scheduler is another process"
        )
    check_plain(choice.name, choice.settings, allow_nan=True)


# Files, functions and other arguments.


def file_of(key: str, value: object) -> str | None:
    """Return the name of a file or a folder, None if there is none; raises ConfigurationError for what cannot be a name."""
    if value is None:
        return None
    try:
        name = os.fspath(value)  # type: ignore[call-overload]  # that is what is examined
        if isinstance(name, str) and name and b"\0" not in os.fsencode(name):
            return name
    except (TypeError, UnicodeEncodeError):
        pass
    raise ConfigurationError(key, "the name of a file or a folder", f"{value!r:.80}")


def check_functions(**given: object) -> None:
    """Raise ConfigurationError for an argument that is neither None nor can be called."""
    for key, value in given.items():
        if value is not None and not callable(value):
            raise ConfigurationError(key, "a function", f"{value!r:.80}")


# The destination of the decision trace of a run: a file, a list or a function, through any coupling.

TraceTarget: TypeAlias = str | os.PathLike[str] | list[TraceRecord] | Callable[[TraceRecord], object]


class TraceWay(NamedTuple):
    """The path of the trace records."""

    to: str | TraceSink | None  # the file, or the function, in the scheduler's process; None: there is no trace
    inside: str | None = None  # that file, if it is to be moved into the run folder
    kept: list[TraceRecord] | Path | None = None  # where the records are after the run


@contextmanager
def trace_way(trace: TraceTarget | None, out: str | None, *, remote: bool, force: bool) -> Iterator[TraceWay]:
    """Yield the path of the records; a ``remote`` scheduler's records reach a list or a function when the block ends.

    Raises InputError or UsageError if no trace can be written to a file.
    """
    if trace is None:
        yield TraceWay(None)
    elif isinstance(trace, str | os.PathLike):
        name = file_of("trace", trace) or ""
        with run_folder.trace_place(name, out, force=force) as place:
            inside = place if out is not None and run_folder.in_run_folder(name, out) else None
            yield TraceWay(place, inside, Path(name))
    elif isinstance(trace, list) or callable(trace):
        kept = trace if isinstance(trace, list) else None
        sink = trace.append if isinstance(trace, list) else trace
        if not remote:
            yield TraceWay(sink, None, kept)
            return
        with temporary_folder("cosched-") as folder:
            file = str(Path(folder) / "trace.jsonl")
            yield TraceWay(file, None, kept)
            for record in read_records(file):
                sink(record)
    else:
        raise ConfigurationError("trace", "a file's name, a list or a function", type(trace).__name__)


def read_records(file: str) -> Iterator[TraceRecord]:
    """Yield the records of a trace in a file; raises InputError."""
    from cosched_emulator.explain.trace_reader import read_trace  # noqa: PLC0415 - few runs have a trace

    for record in read_trace(file):
        yield dict(record)


# The result of a run.

# What `Run.against` does: it compares a run with baselines that are runs or run folders.

RunLike: TypeAlias = Finished | str | os.PathLike[str]


def compare_runs(
    run: Finished, baselines: Sequence[RunLike], rule: LaterRule | None, classes: LoserClasses | None
) -> Harm:
    """Return which jobs of ``run`` respond later than in the baselines; see `Run.against`."""
    from cosched_emulator.results.harm import DEFAULT_RULE, measure_harm  # noqa: PLC0415 - few runs are compared

    found = [_outcomes(each, classes) for each in baselines]
    return measure_harm(_outcomes(run, classes), found, DEFAULT_RULE if rule is None else rule)


def _outcomes(run: RunLike, classes: LoserClasses | None) -> Outcomes:
    """Return what became of the jobs of a run, or of the one in a folder."""
    from cosched_emulator.results.harm import outcomes  # noqa: PLC0415 - few runs are compared

    if isinstance(run, Finished):
        return outcomes(run.jobs, run.prepared.nodes, run.prepared.selection, classes)
    from cosched_emulator.results.files.run_reader import read_run  # noqa: PLC0415 - likewise

    stored = read_run(run)
    return outcomes(stored.jobs, stored.machine, stored.selection, classes)


@frozen
class Run(Shown):
    """The result of `simulate`: figures, jobs and allocations of a finished run.

    It can be pickled. ``trace_at`` is the place of the decision trace.
    """

    policy: str  # its name
    settings: Mapping[str, Any] = field(repr=False)  # of the policy, complete, as in ``run.json``
    link: str  # the coupling
    folder: Path | None  # the run folder, if one was requested
    finished: Finished = field(repr=False)
    total_s: float = field(repr=False)  # how long all took, with reading the workload and writing files, in seconds
    trace_at: list[TraceRecord] | Path | None = field(default=None, repr=False)

    __eq__, __hash__ = object.__eq__, object.__hash__  # each is itself alone

    @property
    def summary(self) -> dict[str, Any]:
        """Return all figures, as in ``summary.json``: plain values for JSON."""
        return self.finished.summary

    @property
    def prepared(self) -> Prepared:
        """Return the scenario, checked and built; `simulate` accepts it for another run."""
        return self.finished.prepared

    @property
    def machine(self) -> tuple[NodeClass, ...]:
        """Return the classes of nodes."""
        return self.finished.prepared.nodes

    @property
    def records(self) -> list[JobRecord]:
        """Return the exact record of each job, times in whole microseconds, in order of id; empty if ``out`` was given.

        A run with ``out`` writes its records to files as the jobs end, to bound its use of memory.
        """
        return self.finished.records

    @property
    def unfinished(self) -> list[int]:
        """Return the ids of jobs that never ended, because no further event concerned them."""
        return self.finished.unfinished

    @property
    def refused(self) -> int:
        """Return the number of actions of the scheduler that could not be carried out."""
        return self.finished.refused

    @property
    def batches(self) -> int:
        """Return the number of batches of events that the scheduler answered."""
        return self.finished.batches

    @property
    def wall_s(self) -> float:
        """Return the wall time of the simulation in seconds, without the writing of files."""
        return self.finished.wall_s

    @cached_property
    def jobs(self) -> JobTable:
        """Return the jobs as numpy columns, in order of submission."""
        from cosched_emulator.api.tables import job_table  # noqa: PLC0415 - the command does not need the tables

        return job_table(self.finished.jobs, self.finished.prepared.workload)

    @cached_property
    def quanta(self) -> QuantaColumns | None:
        """Return the quanta of a run whose jobs take turns, with a row per quantum and job; None if there are none."""
        from cosched_emulator.results.files.run_reader import read_quanta  # noqa: PLC0415 - few runs share time
        from cosched_emulator.results.record_columns import quanta_columns  # noqa: PLC0415 - likewise

        if self.finished.quanta:
            return quanta_columns(self.finished.quanta)
        return None if self.folder is None else read_quanta(self.folder)

    @cached_property
    def allocations(self) -> AllocationTable:
        """Return the allocations as numpy columns."""
        from cosched_emulator.api.tables import allocation_table  # noqa: PLC0415 - likewise

        return allocation_table(self.finished.jobs, self.finished.stays)

    @property
    def energy(self) -> RunEnergy | None:
        """Return the energy of the run, of each job and over time; None if the watts of the nodes are not known."""
        return self.finished.energy

    @property
    def trace(self) -> list[TraceRecord] | None:
        """Return the records of the decision trace; None if none was requested, or it went to a function.

        If the trace is in a file, each call reads it; raises InputError if the file is gone.
        """
        return list(read_records(str(self.trace_at))) if isinstance(self.trace_at, Path) else self.trace_at

    def metrics(self, population: str = "finished", statistic: str = "mean") -> dict[str, float | None]:
        """Return the figures most asked for in one flat table: a statistic of each quantity of jobs, and the machine's figures.

        ``population`` is ``finished`` (completed jobs) or ``all`` (all that ran and ended); ``statistic`` one of
        `STATISTICS`. The names contain the units; a figure that does not exist is None. Raises ConfigurationError.
        """
        if population not in POPULATIONS:
            raise ConfigurationError.unknown_name("population", population, POPULATIONS)
        if statistic not in STATISTICS:
            raise ConfigurationError.unknown_name("statistic", statistic, STATISTICS)
        of_jobs = {key: self.summary[population][key][statistic] for key in QUANTITIES}
        return {**of_jobs, **self.summary["machine"]}

    def against(
        self,
        baseline: Run | str | os.PathLike[str],
        *more: Run | str | os.PathLike[str],
        rule: LaterRule | None = None,
        classes: LoserClasses | None = None,
    ) -> Harm:
        """Compare each job with the same job in a baseline: how many respond later, by how much, and why.

        A baseline is a run or a run folder; those after the first are the first one with slightly shaken run times. ``rule`` says
        when a job counts as later (None: above 1.05 times the baseline's response + 60 s), ``classes`` what short, medium and
        wide jobs are. Raises InputError for a folder that is no
        run, ConfigurationError for a baseline of other jobs.
        """

        baselines = [each.finished if isinstance(each, Run) else each for each in (baseline, *more)]
        return compare_runs(self.finished, baselines, rule, classes)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the jobs as a pandas DataFrame; ImportError where pandas is not installed."""
        return self.jobs.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the jobs as an Arrow stream: what ``polars.DataFrame(run)`` and others read."""
        return self.jobs.__arrow_c_stream__()

    def write(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the run folder, as ``cosched-emulator simulate --out`` does, and return its path.

        With ``force`` an older run folder is replaced. A run with ``out`` is copied from there. Raises InputError if the folder
        exists or cannot be written, UsageError for settings of the policy that JSON cannot represent.
        """
        check_plain(self.policy, self.settings)
        if self.folder is not None:
            _copy(self.folder, folder, force=force)
        else:
            settings = {"name": self.policy, **self.settings}
            run_folder.check_run_folder(folder, force=force)
            began = time.perf_counter() - self.total_s  # as if written at once
            store(self.finished, str(folder), policy=settings, link=self.link, force=force, began=began)
        return Path(folder)


def _copy(source: Path, target: str | Path, *, force: bool) -> None:
    """Copy a run folder, including its timing."""
    run_folder.read_summary(source)
    with run_folder.new_run_folder(target, force=force) as folder:
        for file in source.iterdir():
            shutil.copyfile(file, folder / file.name)


# The run itself.

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
    db          a file for accounts in SQLite; if it exists, the run resumes from it, with the same scenario and policy
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
    if folder is not None or accounts is not None:
        check_plain(choice.name, choice.settings)
    if folder is not None:
        run_folder.check_run_folder(folder, force=force)
    if prepared is None:
        prepared = prepare_scenario(made)
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
    schedule = schedule_of(prepared) if choice.replays else None
    if schedule is not None:
        if link == "zmq":
            raise UsageError(
                f"policy {choice.name}: expected the link {' or '.join(IN_PROCESS)}: no other process has the record"
            )
        choice, prepared = choice.with_record(schedule), unbound(prepared)
    jobs = len(prepared.workload.jobs)
    ended = None if progress is None else partial(_tell, progress, jobs)
    with nullcontext() if out is None else RunFiles(out, prepared.nodes) as files:
        counted = rule_of(choice, prepared) if link == "direct" and way.to is None and db is None else None
        if counted is not None:
            finished = run_counted(prepared, counted, ended, files)
        else:
            with coupling(link, choice, prepared, way.to) as coupled, accounts_of(db, prepared, choice) as accounting:
                traced = way.to is not None
                recorded = recorded_link(coupled, accounting, prepared, lambda: choice.name, warn, ask_again=traced)
                finished = run(prepared, recorded, ended, accounting, files)
        if schedule is not None:
            finished.summary[RECORD] = replay_figures(schedule, finished.jobs, finished.stays)
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
