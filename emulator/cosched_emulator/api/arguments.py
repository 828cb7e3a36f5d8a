"""What `simulate` in Python takes, in any form that the caller may give it: scenario, policy, destination of the decision trace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.files.run_folder import in_run_folder, place_trace
from cosched_emulator.run.coupling import TraceRecord, TraceSink
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.prepare import prepare as prepare_scenario
from cosched_emulator.scenario.reader import read_scenario, scenario_of_table
from cosched_emulator.scenario.schema import Scenario
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import PolicyChoice, choose, choose_class, from_table
from cosched_terminal.whole_file import temporary_folder

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
            raise ConfigurationError(str(key), "nothing: the scenario is prepared already", repr(changes[key]))
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
        return choose(policy, settings)
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
        place = place_trace(name, out, force=force)
        inside = place if out is not None and in_run_folder(name, out) else None
        yield TraceWay(place, inside, Path(name))
    elif isinstance(trace, list) or callable(trace):
        kept = trace if isinstance(trace, list) else None
        sink = trace.append if isinstance(trace, list) else _returning_none(trace)
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
    """Yield the records of a trace in a file, none if the scheduler decided nothing; raises InputError."""
    if Path(file).is_file() and not Path(file).stat().st_size:
        return
    from cosched_emulator.explain.trace_reader import read_trace  # noqa: PLC0415 - few runs have a trace

    for record in read_trace(file):
        yield dict(record)


def _returning_none(function: Callable[[TraceRecord], Any]) -> TraceSink:
    def sink(record: TraceRecord) -> None:
        function(record)

    return sink
