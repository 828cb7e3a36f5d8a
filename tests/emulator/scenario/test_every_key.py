"""Every key of a scenario, by its declaration: another value changes the run, or it is refused, or a warning names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.emulator.scenario.walks import (
    BASES,
    KEYS,
    REFUSED,
    Key,
    outcome,
    silent,
    write_files,
)

# Keys that may change nothing in a run of a few jobs, though they are in effect, and why.
IDLE = {
    "cluster.memory_mb": "a limit that no job reaches",
    "workload.memory_mb": "likewise",
    "workload.nas_memory_mb": "likewise",
    "time_sharing.memory_mb": "likewise",
    "workload.limits": "the source's own, or no job reaches it",
    "workload.lublin_size": "nodes of one core",
    "workload.jobs": "more than there are",
    "workload.cap_runs": "no job runs beyond its estimate",
    "workload.minimum_estimate_s": "no estimate is below",
    "workload.skip_bad_rows": "no row is bad",
    "workload.log_memory": "the memory that is asked for is there",
    "time_sharing.barrier_us": "a program is as long as its job's run time, whatever a barrier takes",
    "time_sharing.windows": "the same rates, kept",
    "manager.ended_s": "nobody waits for these nodes",
    "manager.elsewhere": "other nodes, the same times",
    "manager.refused": "started again at the same instant",
    "manager.lost": "results have what really happened",
    "truth.composition": "the nodes of a job are slowed alike",
    "truth.paging": "the memory of each two jobs fits",
    "belief.pair_missing": "no pair is drawn",
    "monitoring.after_s": "what is measured was expected",
}
# Sections that a scenario need not have, and where each of their keys is tried; elsewhere where the scenario has them.
OPTIONAL = {"time_sharing": "model", "clock": "model", "faults": "log", "manager": "log", "script[]": "log"}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # rates of fluid nodes are kept in files, too
    write_files(tmp_path)


def keys_in(base: str) -> list[Key]:
    table, _ = BASES[base]
    return [
        key
        for key in KEYS
        if (key.path[0] in table or OPTIONAL.get(key.path[0], base) == base)
        and (key.name != "time_sharing.nodes" or key.path[0] in table)  # large jobs, message by message: minutes
    ]


def test_the_walk_finds_the_keys() -> None:
    found = {key.name for key in KEYS}
    assert {"requeue", "cluster.nodes", "faults.nodes.mean_up_s", "time_sharing.slice_ms", "manager.lost"} <= found
    assert {"faults.at[].slowdown", "script[].node", "truth.cos_shares", "workload.application_names"} <= found
    assert found >= IDLE.keys()
    assert len(found) > 180


SLOW = pytest.mark.slow
QUICK = ("model", "log", "pairs", "lags")


@pytest.mark.parametrize("base", [*QUICK, *(pytest.param(base, marks=SLOW) for base in BASES if base not in QUICK)])
def test_another_value_changes_the_run_or_is_refused_or_named(base: str) -> None:
    table, policy = BASES[base]
    assert outcome(table, policy).digest != REFUSED
    assert [
        name for name in silent(table, policy, keys_in(base), each=base in OPTIONAL.values()) if name not in IDLE
    ] == []
