"""Every key of a scenario, by its declaration: another value changes the run, or it is refused, or a warning names it."""

from __future__ import annotations

import hashlib
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import simulate
from cosched_emulator.errors import EmulatorError
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.scenario.schema import Scenario
from cosched_plugin.common.errors import PluginError

Key = tuple[str, ...]
Outcome = tuple[str, frozenset[str]]  # what came out, and what was said
REFUSED = "refused"
# Keys that may change nothing in a run of a few jobs, though they are in effect, and why.
IDLE = {
    "cluster.memory_mb": "a limit that no job reaches",
    "workload.memory_mb": "likewise",
    "workload.jobs": "more than there are",
    "workload.cap_runs": "no job runs beyond its estimate",
    "workload.minimum_estimate_s": "no estimate is below",
    "workload.skip_bad_rows": "no row is bad",
    "workload.log_memory": "the memory that is asked for is there",
    "time_sharing.barrier_us": "a program is as long as its job's run time, whatever a barrier takes",
    "manager.ended_s": "nobody waits for these nodes",
    "manager.elsewhere": "other nodes, the same times",
    "manager.refused": "started again at the same instant",
    "manager.lost": "results have what really happened",
}
LOG = "{} {} -1 {} {} -1 2000 {} {} {} 1 {} 1 -1 {} {} -1 -1\n"


def keys(kind: type, path: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Yield all keys of a table and of those in it, with their types."""
    for name, declared in typing.get_type_hints(kind).items():
        hint = declared
        if typing.get_origin(declared) in (types.UnionType, typing.Union):
            hint = next(option for option in typing.get_args(declared) if option is not types.NoneType)
        if is_dataclass(hint) and isinstance(hint, type):
            yield from keys(hint, (*path, name))
        else:
            yield (*path, name), hint


KEYS = [(path, hint) for path, hint in keys(Scenario) if path[0] not in ("policy", "seed")]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("log") / "log.swf"
    rows = [
        LOG.format(n, n * 40, 100 + n * 37 % 900, 1 + n * 7 % 8, 1 + n * 7 % 8, 1500 + n % 3 * 500, 3000 + n, 1 + n % 4, n % 2, n % 3)
        for n in range(1, 31)
    ]  # fmt: skip
    file.write_text("; MaxProcs: 16\n" + "".join(rows))
    return str(file)


def outcome(table: dict[str, Any]) -> Outcome:
    told: list[str] = []
    try:
        run = simulate(table, "easy", seed=3, warn=told.append)
    except (EmulatorError, PluginError) as error:
        return REFUSED, frozenset({str(error)})
    content = hashlib.sha256(json.dumps(run.metrics(), sort_keys=True, default=str).encode())
    for name in ("submit_s", "start_s", "end_s", "processes", "run_s", "estimate_s"):
        content.update(getattr(run.jobs, name).tobytes())
    return content.hexdigest(), frozenset(told)


def with_value(table: dict[str, Any], path: Key, value: object) -> dict[str, Any]:
    inner = made = json.loads(json.dumps(table))
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    return dict(made)


def others(hint: Any, present: Any) -> list[Any]:
    """Return other values of a key."""
    if hint is bool:
        return [not present]
    if hint is int:
        return [(present or 0) + 3, 1000]
    if hint is float:
        return [(present or 0) * 2 + 0.5, 0.01 if present != 0.01 else 0.02]
    return ["1", "x"] if hint is str else []


def test_the_walk_finds_the_keys() -> None:
    found = {".".join(path) for path, _ in KEYS}
    assert {"requeue", "cluster.nodes", "faults.nodes.mean_up_s", "time_sharing.slice_ms", "manager.lost"} <= found
    assert found >= IDLE.keys()
    assert len(found) > 150


@pytest.mark.parametrize("source", ["model", "log"])
def test_another_value_changes_the_run_or_is_refused_or_named(
    source: str, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # rates of fluid nodes are kept in files
    table: dict[str, Any] = (
        {"workload": {"swf": log}} if source == "log" else {"cluster": {"nodes": 16}, "workload": {"lublin": 20}}
    )
    before, said = outcome(table)
    assert before != REFUSED
    scenario = scenario_of_table(table, {})
    silent = []
    for path, hint in KEYS:
        present: Any = scenario
        for name in path:
            present = getattr(present, name, None)
        for value in others(hint, present):
            after, told = outcome(with_value(table, path, value))
            if after == before and told <= said and ".".join(path) not in IDLE:
                silent.append((".".join(path), value))
    assert silent == []
