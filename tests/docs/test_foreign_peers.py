"""The scheduler and the manager of docs/examples, written from the protocol's page alone, beside this project's own.

The page itself runs 500 jobs with each (test_docs.py); here nodes fail, users interfere, and a scheduler is killed.
"""

from __future__ import annotations

import ast
import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands
from tests.processes import ROOT, Process, ended, killed_at_the_end, start_python, wait_until

EXAMPLES = ROOT / "docs" / "examples"
PEERS = ("foreign_scheduler", "foreign_manager")
LINES = 200  # of an example: fewer
SCENARIO = """
requeue = true
[cluster]
nodes = 16
preset = "rua-4way"
[workload]
lublin = 250
aarr = 9.0
exclusive = {exclusive}
[faults.nodes]
mean_up_s = 200000
mean_down_s = 7200
{more}
[[script]]
at_s = 40000
do = "hold"
job = 9
[[script]]
at_s = 90000
do = "release"
job = 9
[[script]]
at_s = 50000
do = "cancel"
job = 12
"""
LOSSES = """
[faults.messages]
drop = 0.001
duplicate = 0.1
delay = 0.05
delay_s = 0.01
reorder = 0.01
"""


@pytest.mark.parametrize("peer", PEERS)
def test_an_example_is_short_and_imports_nothing_of_cosched(peer: str) -> None:
    text = (EXAMPLES / f"{peer}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < LINES
    tree = ast.parse(text)
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= {"heapq", "msgpack", "os", "pathlib", "sys", "time", "typing", "zmq"}


def start_example(peer: str, *arguments: str, folder: Path, children: list[Process]) -> Process:
    child = start_python(str(EXAMPLES / f"{peer}.py"), *arguments, folder=folder)
    children.append(child)
    return child


def places(allocations: Path) -> list[tuple[str, ...]]:
    """Return the rows of a file of allocations node by node: a run of nodes may be told as one or as several."""
    rows = [line.split(",") for line in allocations.read_text().splitlines()[1:]]
    return [(*row[:4], str(node), *row[6:]) for row in rows for node in range(int(row[4]), int(row[4]) + int(row[5]))]


@pytest.mark.parametrize("exclusive", ["false", "true"])
def test_the_scheduler_decides_as_fcfs_while_nodes_fail_and_messages_are_lost(
    exclusive: str, commands: Commands
) -> None:
    folder = commands.folder
    (folder / "scenario.toml").write_text(SCENARIO.format(exclusive=exclusive, more=""))
    (folder / "losses.toml").write_text(SCENARIO.format(exclusive=exclusive, more=LOSSES))
    own = commands.emulator("simulate", "scenario.toml", "--policy", "fcfs", "--out", "own")
    assert own.code == 0, own
    endpoint = f"ipc://{folder}/s"
    with killed_at_the_end() as children:
        scheduler = start_example("foreign_scheduler", endpoint, folder=folder, children=children)
        foreign = commands.emulator("serve", "losses.toml", "--bind", endpoint, "--out", "foreign")
        assert foreign.code == 0, foreign
        assert ended(scheduler).code == 0
    intervals = (folder / "own" / "allocations.csv").read_text().splitlines()[1:]
    assert len({line.split(",")[0] for line in intervals}) >= 248
    assert any(line.split(",")[1] != "0" for line in intervals), "a job has started twice"
    for name in ("jobs.csv", "schedule.swf"):
        assert (folder / "own" / name).read_bytes() == (folder / "foreign" / name).read_bytes(), name
    assert places(folder / "own" / "allocations.csv") == places(folder / "foreign" / "allocations.csv")


def test_the_two_examples_serve_each_other_and_a_killed_scheduler_has_a_successor(commands: Commands) -> None:
    folder = commands.folder
    assert commands.emulator("workload", "lublin", "--jobs", "3000", "--processors", "64", "--out", "log.swf").code == 0
    shape = ("--nodes", "16", "--node", "rua-4way")
    assert commands.emulator("simulate", "--swf", "log.swf", *shape, "--policy", "fcfs", "--out", "own").code == 0
    rows = [line.split(",") for line in (folder / "own" / "jobs.csv").read_text().splitlines()]
    expected = [",".join((row[0], row[8], row[10])) for row in rows]
    endpoint = f"ipc://{folder}/s"
    with killed_at_the_end() as children:
        manager = start_example(
            "foreign_manager", endpoint, "16", "4", "own/workload.swf", folder=folder, children=children
        )
        first = start_example("foreign_scheduler", endpoint, folder=folder, children=children)
        wait_until((folder / "s").exists)
        time.sleep(0.2)  # some batches
        assert manager.poll() is None, "the log is too short: all is over before the scheduler is killed"
        first.kill()
        first.wait()
        second = start_example("foreign_scheduler", endpoint, folder=folder, children=children)
        ran = ended(manager)
        assert (ran.code, ran.out.splitlines()) == (0, expected), ran.err
        assert ended(second).code == 0


def test_the_manager_refuses_what_is_impossible(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("1 0 -1 9 3 -1 -1 3 9\n2 0 -1 9 2 -1 -1 2 9\n")
    spec = importlib.util.spec_from_file_location("foreign_manager", EXAMPLES / "foreign_manager.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    site = module.Site(1, 4, str(tmp_path / "log.swf"))
    site.commit(*site.next_events())

    def start(job_id: int, mask: int, processes: int, limit_us: int | None = 9_000_000) -> Any:
        runs = [[0, 1, mask, processes]]
        return site.act(
            {"type": "start_job", "job_id": job_id, "runs": runs, "estimate_us": 9_000_000, "limit_us": limit_us}
        )

    assert start(1, 7, 3, limit_us=None) is not None
    assert start(1, 3, 2) is not None
    assert start(3, 7, 3) is not None
    assert site.act({"type": "wake_at", "at_us": 5}) is not None
    assert start(1, 7, 3) is None
    assert start(2, 12, 2) == "node 0 has no 2 free threads at c"
    assert site.act({"type": "reject_job", "job_id": 2, "reason": "too large"}) is None
    assert site.inventory()["running"][0]["runs"] == [[0, 1, 7, 3]]
    assert site.inventory()["pending"] == []
