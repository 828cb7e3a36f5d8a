"""Every key of a scenario, by its declaration: another value changes the run, or it is refused, or a warning names it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from tests.emulator.scenario.walks import (
    BASES,
    KEYS,
    REFUSED,
    SHEETS,
    Key,
    before_of,
    others,
    outcome,
    silent,
    silent_in_sheets,
    with_value,
    write_files,
)

from cosched_emulator.scenario.difficult_manager import LAG_COLUMNS
from cosched_emulator.workload.side_files.annotations import ANNOTATION_COLUMNS, PROFILE_COLUMNS
from cosched_emulator.workload.side_files.job_programs import COLUMNS
from cosched_hwmodel.measured.co_run_table import FACTS, PAIR, VALUES
from cosched_hwmodel.topology import Cache, NodeShape

# Keys that may change nothing in a run of a few jobs, though they are in effect, and why.
IDLE = {
    "clock.deadline_s": "every policy answers in time",
    "cluster.memory_mb": "a limit that no job reaches",
    "workload.memory_mb": "likewise",
    "cluster.resources": "no job asks for any",
    "cluster.licences": "likewise",
    "partitions[].tier": "one partition has the lowest tier",
    "accounts[].name": "no job has an account",
    "accounts[].parent": "likewise",
    "limits[].gpus": "no job asks for any",
    "workload.nas_memory_mb": "likewise",
    "time_sharing.memory_mb": "likewise",
    "workload.memory": "what is told of memory that is there",
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
    "time_sharing.tick_ms": "no pairing of these few jobs turns on it",
    "monitoring.after_s": "what is measured was expected",
}
# Sections that a scenario need not have, and where each of their keys is tried; elsewhere where the scenario has them.
OPTIONAL = {"time_sharing": "model", "clock": "model", "faults": "log", "manager": "log", "script[]": "log",
    **dict.fromkeys(("partitions[]", "accounts[]", "limits[]"), "log"),
}  # fmt: skip


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


# Likewise, where another key was changed.
CROSSED = {
    "cluster.preset": "these jobs run alike on both",
    "cluster.network_mbs": "no job asks for it",
    "cluster.disk_mbs": "likewise",
    "belief.resources": "nothing is known of demand, or nobody asks for the resource",
    "belief.pairs": "no pair was refused for what it would lose",
    "truth.pair_seed": "no two cpu-bound jobs met",
    "belief.usage_missing": "few jobs, and none is drawn",
    "manager.seed": "the whole table is named",
    "workload.mix": "its jobs ask for memory bandwidth alone, and another resource is shared",
    **dict.fromkeys((f"workload.demand_{level}" for level in ("high", "medium", "low")), "likewise"),
    "truth.pairs": "exclusive jobs have no neighbours",
    "workload.characteristics": "likewise",
    "belief.usage_noise": "likewise",
    "belief.usage_bias": "likewise",
    "belief.pair_table": "likewise",
    "belief.pair_noise": "likewise",
    "belief.remainder": "likewise",
    "belief.c_scope": "likewise",
    "truth.cos_shares": "likewise",
    "workload.self_slowdowns": "no pair was refused for what it would lose",
    "time_sharing.rounded": "no two situations of these few jobs are nearly alike",
}
# Columns and keys in files, likewise.
IDLE_IN_FILES = {
    "cluster.file: name": "a label",
    "cluster.file: caches.level": "a label, in order",
    "cluster.file: memory_mb": "a limit that no job reaches; a table without preset must have it",
    "cluster.file: resources": "no job asks for any",
    "workload.annotations: priority": "no order goes by it",
    "workload.annotations: ran_on": "a replay alone starts jobs there",
    "workload.annotations: bound": "no job is refused a partner for it",
    "workload.annotations: ppn": "a job of one process",
    "workload.annotations: exclusive": "on nodes of one core",
    "workload.annotations: unpaired": "its job has no partner here",
    "workload.annotations: memory_mb": "a limit that no job reaches",
    "workload.annotations: cancel_s": "the job starts at once",
    **dict.fromkeys(
        [f"workload.annotations: {name}" for name in ("partition", "qos", "account")], "no table of the scenario has it"
    ),
    **dict.fromkeys([f"workload.annotations: {name}" for name in ("array", "at_once")], "one task"),
    "workload.programs: unpaired": "its job has no partner here",
    "workload.applications: procs": "jobs of a log or model have sizes of their own",
    "workload.applications: compact_s": "and run times",
    "workload.applications: ratio": "of truth.pairs and belief.pair_table, which may be the same table",
    "truth.pairs: procs": "of workload.applications, likewise",
    "truth.pairs: compact_s": "likewise",
    "truth.pairs: row": "what is not measured is predicted alike from the other pairs",
    "truth.pairs: column": "likewise",
    "manager.lags: ended_s": "nobody waits for these nodes",
}


@pytest.mark.parametrize("base", ["log", *(pytest.param(base, marks=SLOW) for base in BASES if base != "log")])
def test_a_column_of_a_file_changes_the_run_or_is_refused_or_named(base: str) -> None:
    assert [name for name in silent_in_sheets(*BASES[base]) if name not in IDLE_IN_FILES] == []


def test_the_walk_has_the_columns_of_all_files() -> None:
    node = {item.name for item in fields(NodeShape)} - {"caches"} | {"count", "preset"}
    declared: dict[str, Iterable[str]] = {
        "cluster.file": {*node, *[f"caches.{name}" for name in Cache._fields]},
        "workload.annotations": ANNOTATION_COLUMNS,
        "workload.profiles": PROFILE_COLUMNS,
        "manager.lags": LAG_COLUMNS,
        "workload.programs": COLUMNS,
        "truth.pairs": (*PAIR, VALUES[0], *FACTS),
    }
    for name, columns in declared.items():
        assert set(SHEETS[name].others) == set(columns), name


NO_PAIRS = "will pair no jobs"  # what is true of pairs then has no effect under a policy of whole nodes


@SLOW
@pytest.mark.parametrize("base", BASES)
def test_a_key_that_another_one_switches_off_is_refused_or_named(base: str) -> None:
    """Under each other value of each choice and each switch, a key has a value that can be seen."""
    table, policy = BASES[base]
    found: dict[str, list[str]] = {}
    keys = [key for key in keys_in(base) if key.path[0] in table or key.path[0] not in OPTIONAL]
    if "time_sharing" in table:  # whose runs take longer
        keys = [key for key in keys if key.path[0] == "time_sharing"]
    for switch in keys:
        if switch.hint is not bool and not switch.names and not switch.name.endswith(".contention"):
            continue
        for value in others(switch, before_of(table, switch)[1]):
            other = with_value(table, switch.path, value)
            came = outcome(other, policy)
            if came.digest != REFUSED and not any(NO_PAIRS in text for text in came.said):
                for name in silent(other, policy, [key for key in keys if key is not switch]):
                    if name not in IDLE | CROSSED:
                        found.setdefault(name, []).append(f"{switch.name} = {value}")
    assert found == {}
