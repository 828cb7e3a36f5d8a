"""Nodes that are one device each, such as GPUs: a job shares all of them or none, and contention is by type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.emulator.scenario.test_apart import run, together
from tests.runs import run_on

from cosched_emulator import prepare, simulate
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.prepare import Prepared
from cosched_plugin.common.allocation import Machine, ThreadPool
from cosched_plugin.common.errors import MachineError
from cosched_plugin.common.threads import layers_of
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import JobSpec, NodeClass

V: Final[dict[tuple[str, str], object]] = {("A", "A"): 1.9, ("A", "B"): 1.2, ("B", "A"): 1.3, ("B", "B"): 1.1}
K: Final[dict[tuple[str, str], object]] = {("A", "A"): "never", ("A", "B"): 1.1, ("B", "A"): 1.0, ("B", "B"): "never"}
SHARING: Final = ("ac", "am", "lomarc-fm", "lomarc-u1-shortest", "lomarc-r", "symbiosis", "guests", "easy-shortest")


def write(folder: Path, *, types: bool = False) -> str:
    """Write the table, of two types of devices or of the first, and return its path."""
    tables = {"v": V, "k": K} if types else {"v": V}
    lines = [f"{kind},{one},{other},{ratio}" for kind, table in tables.items() for (one, other), ratio in table.items()]
    text = "\n".join(["type,row,column,ratio", *lines])
    file = folder / "pairs.csv"
    file.write_text(text if types else text.replace("v,", "").replace("type,", ""))
    return str(file)


def site(folder: Path, **cluster: Any) -> Prepared:
    """Return a site of 16 GPUs, whose jobs are of two applications."""
    pairs = write(folder)
    machine = {"nodes": 16, "preset": "1x1x2", "same_nodes": True, **cluster}
    jobs = {"lublin": 120, "lublin_size": "nodes", "applications": pairs}
    return prepare({"cluster": machine, "truth": {"contention": "pairs", "pairs": pairs}, "workload": jobs})


def meetings(records: list[JobRecord]) -> Iterator[tuple[set[int], set[int]]]:
    """Yield the nodes of each two jobs that were on one at the same time."""
    stays = [
        (stay.start_us, stay.end_us, {node for run in stay.runs for node in range(run.first, run.first + run.count)})
        for record in records
        for stay in record.intervals
    ]
    for (begin_us, end_us, nodes), (begins_us, ends_us, others) in combinations(stays, 2):
        if nodes & others and begin_us < ends_us and begins_us < end_us:
            yield nodes, others


@pytest.mark.by_default(4)
@pytest.mark.parametrize("policy", SHARING)
def test_two_jobs_share_all_of_their_devices_or_none(policy: str, tmp_path: Path) -> None:
    records, refused = run(site(tmp_path), policy)
    found = list(meetings(records))
    assert [pair for pair in found if pair[0] != pair[1]] == []
    assert refused == 0
    assert bool(found) == (policy != "easy-shortest")
    assert any(len(nodes) > 1 for nodes, _ in found) or not found


@pytest.mark.parametrize("policy", ["lomarc-u1-shortest", "symbiosis"])
def test_without_the_rule_they_share_parts(policy: str, tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    records, _ = run(site(tmp_path, same_nodes=False), policy)
    assert [pair for pair in meetings(records) if pair[0] != pair[1]]


@pytest.mark.parametrize(
    "policy", ["easy", "conservative", "glts", "co-execution-easy", "symbiosis-express", "gang", "rua"]
)
def test_a_policy_that_would_share_parts_declines_the_machine(policy: str, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="share all nodes or none"):
        simulate(site(tmp_path).scenario, policy)


def test_both_ends_refuse_a_start_on_a_part_of_another_job_s_devices() -> None:
    pool = ThreadPool(Machine((NodeClass(4, 1, 1, 2, 0, 0, 0, 0, same_nodes=True), NodeClass(2, 1, 1, 2, 0, 0, 0, 0))))

    def start(job_id: int, *runs: tuple[int, int, int, int]) -> str | None:
        job = JobSpec(job_id, 0, sum(run[1] for run in runs), 10)
        placed = pool.place(job, [run_on(*run) for run in runs])
        if isinstance(placed, str):
            return placed
        pool.take(job, [run_on(*run) for run in runs], placed)
        return None

    assert start(1, (0, 2, 1, 1)) is None
    assert (
        start(2, (1, 1, 2, 1)) == "node 1 has a job with other nodes than these, and jobs share all such nodes or none"
    )
    assert start(3, (0, 3, 2, 1)) is not None
    assert start(4, (0, 2, 2, 1)) is None
    assert start(5, (4, 2, 1, 1)) is None
    assert start(6, (5, 1, 2, 1)) is None  # the last nodes have no such rule
    gone = [run_on(0, 2, 1, 1)]
    pool.give_back(JobSpec(1, 0, 2, 10), gone, layers_of(gone, 2, 6))
    assert start(7, (0, 1, 1, 1)) is not None  # job 4 is still there
    assert start(8, (2, 2, 1, 1)) is None


def test_a_job_alone_on_a_device_has_all_of_it(tmp_path: Path) -> None:
    """On a node that is not one device it would have a half: without a measured spread, its least ratio."""
    for same_nodes, longer in ((True, 1.0), (False, 1.2)):
        records, _ = run(site(tmp_path, same_nodes=same_nodes), "easy-shortest")
        ratios = {
            round((stay.end_us - stay.start_us) / record.job.run_us, 3)
            for record in records
            for stay in record.intervals
            if record.job.spec.name == "A"
        }
        assert ratios == {longer}


def typed(folder: Path, jobs: str, names: tuple[str, str] = ("v", "k"), notes: str = "", table: str = "") -> Prepared:
    """Return a site of a device of each type, with these jobs of a log."""
    (folder / "log.swf").write_text(jobs)
    lines = [f'[[nodes]]\nname = "{name}"\npreset = "1x1x2"\nsame_nodes = true\n' for name in names]
    (folder / "machine.toml").write_text("".join(lines))
    (folder / "notes.csv").write_text(notes)
    pairs = write(folder, types=True)
    if table:
        (folder / "pairs.csv").write_text(table)
    return prepare(
        {
            "cluster": {"file": str(folder / "machine.toml")},
            "truth": {"contention": "pairs", "pairs": pairs},
            "workload": {"swf": str(folder / "log.swf"), "annotations": str(folder / "notes.csv")},
        }
    )


def swf(*runs_s: int) -> str:
    """Return a log with a job of one process for each run time, all of them at once."""
    return "".join(
        [f"{n} 0 -1 {run_s} 1 -1 -1 1 {2 * run_s} -1 1 1 1 1 1 1 -1 -1\n" for n, run_s in enumerate(runs_s, 1)]
    )


@pytest.mark.parametrize("policy", ["lomarc-u1-shortest", "symbiosis"])
def test_contention_and_what_cannot_be_together_are_by_type(policy: str, tmp_path: Path) -> None:
    """Of the jobs of node 0, of type v, the last A may not join the first (1.9); on node 1, of type k, nobody joins its own kind."""
    notes = "job,name,eligible\n1,A,0\n2,B,0\n3,A,1\n4,A,1\n5,B,1\n"
    prepared = typed(tmp_path, swf(100, 100, 100, 100, 100), notes=notes)
    assert [item.type for item in prepared.nodes] == ["v", "k"]
    records, refused = run(prepared, policy)
    assert refused == 0
    pairs = [sorted(pair) for pair in together(records)]
    assert sorted(pairs) == [["A", "B"], ["A", "B"]]
    ended = {record.job.spec.id: stay.end_us for record in records for stay in record.intervals}
    # A beside B: 1.2 and 1.3 on v, 1.1 and 1.0 on k
    assert ended[1] == 120_000_000
    assert ended[2] == pytest.approx(120_000_000 + (100 - 120 / 1.3) * 1e6, abs=1)
    assert min(ended[3], ended[4]) >= 100_000_000


def test_a_belief_is_that_of_the_nodes_which_a_job_may_have(tmp_path: Path) -> None:
    prepared = typed(tmp_path, swf(100), notes="job,name\n1,A\n")
    core = choose("lomarc-u1").scheduler(build_manager(prepared).inventory())
    pairs = core._state.pairs
    assert pairs is not None

    def job(job_id: int, name: str, *nodes: int) -> JobSpec:
        return JobSpec(job_id, 0, 1, 10, name=name, eligible=tuple((node, 1) for node in nodes))

    assert pairs.slowdown(job(1, "A", 0), job(2, "B", 0)) == 1.2
    assert pairs.slowdown(job(1, "A", 1), job(2, "B", 1)) == 1.1
    assert pairs.slowdown(job(1, "A"), job(2, "B", 1)) == 1.1
    assert pairs.slowdown(job(1, "A"), job(2, "B")) == 1.2  # on any: the larger one
    assert pairs.both(job(1, "A"), job(2, "B", 0)) == 1.3
    assert pairs.slowdown(job(1, "A", 0), job(2, "B", 1)) == inf  # on no node together
    others = [job(2, "B", 0), job(3, "B", 1), job(4, "B"), job(5, "A", 0)]
    one = job(1, "A", 0)
    told = pairs.beside(one, SimpleNamespace(jobs=others))  # all that it reads
    assert told.slowdowns.tolist() == [pairs.both(one, other) for other in others] == [1.3, inf, 1.3, 1.9]


def test_an_application_of_one_type_s_table_alone_is_unknown_on_the_other(tmp_path: Path) -> None:
    text = "type,row,column,ratio\nv,A,A,1.9\nv,A,B,1.2\nv,B,A,1.3\nv,B,B,1.1\nk,A,A,1.4\n"
    prepared = typed(tmp_path, swf(100, 100), notes="job,name,eligible\n1,A,1\n2,B,1\n", table=text)
    records = simulate(prepared.scenario, "ac").records
    stays = [stay for record in records for stay in record.intervals]
    assert [stay.end_us - stay.start_us for stay in stays] == [100_000_000, 100_000_000]


def test_nodes_of_a_type_without_a_table_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nodes with the name 'x'"):
        typed(tmp_path, swf(100), names=("v", "x"), notes="job,name\n1,A\n")


def test_memory_and_cpus_of_a_device_count(tmp_path: Path) -> None:
    """Jobs 3 and 4 would join job 1 on the only GPU, as 2 does: 3 asks for too much of its memory, 4 for too many of its CPUs."""
    notes = "job,name,memory_mb,resources\n1,A,9000,cpu:6\n2,B,7000,cpu:2\n3,B,8000,cpu:1\n4,B,1000,cpu:5\n"
    (tmp_path / "log.swf").write_text(swf(1000, 10, 10, 10))
    (tmp_path / "notes.csv").write_text(notes)
    machine = {"nodes": 1, "preset": "1x1x2", "same_nodes": True, "memory_mb": 16000, "resources": "cpu:8"}
    prepared = prepare(
        {
            "cluster": machine,
            "truth": {"contention": "pairs", "pairs": write(tmp_path)},
            "workload": {"swf": str(tmp_path / "log.swf"), "annotations": str(tmp_path / "notes.csv")},
        }
    )
    records, refused = run(prepared, "guests")
    assert refused == 0
    starts = {record.job.spec.id: stay.start_us for record in records for stay in record.intervals}
    assert starts[1] == starts[2] == 0
    assert min(starts[3], starts[4]) >= 1_000_000_000
