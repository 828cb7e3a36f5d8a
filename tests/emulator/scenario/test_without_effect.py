"""Settings without effect are refused or give a warning; a log without a machine size is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosched_emulator.run.policy_warnings import warnings_of as policy_warnings
from cosched_emulator.run.prepare import prepare
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

ROW = "{} 0 -1 {} 2 -1 -1 2 100 {} 1 1 1 1 -1 -1 -1 -1\n"


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "log.swf"
    file.write_text("; MaxProcs: 8\n" + ROW.format(1, 300, -1) + ROW.format(2, 100, 4096 * 1024))
    return str(file)


def warnings_of(table: dict[str, Any]) -> list[str]:
    return [note for note in prepare(read_scenario(None, table)).workload.notes if note.startswith("warning: ")]


def test_memory_of_a_log_beyond_all_nodes_gives_a_warning(log: str) -> None:
    def told(**settings: object) -> bool:
        table = {"cluster": {"nodes": 8, "memory_mb": 1024}, "workload": {"swf": log, **settings}}
        return any("1 jobs request more memory a process than any node has" in text for text in warnings_of(table))

    assert told()
    assert not told(log_memory=False)
    assert not told(memory_mb=5)


def test_watts_of_polling_need_processes_that_poll() -> None:
    def told(sharing: dict[str, Any]) -> bool:
        watts = {"nodes": 4, "idle_w": 10.0, "busy_w": 5.0, "spin_w": 3.0}
        nas = {"nas": 2} if sharing.get("nodes") else {"lublin": 2}
        return "cluster.spin_w has no effect with processes that never poll" in " ".join(
            warnings_of({"cluster": watts | {"nodes": 16}, "workload": nas, "time_sharing": sharing})
        )

    assert told({})
    assert told({"nodes": "exact"})
    assert not told({"nodes": "windows"})
    assert not told({"nodes": "exact", "coscheduling": "sb"})


NODE = "[[nodes]]\ncount = 4\nsockets = 1\ncores_per_socket = 2\nthreads_per_core = 2\nmemory_mb = 1000\n"
SIDE = {
    "nodes.toml": NODE + "network_mbs = 100\ninteger_slots_ppm = 1000000\n",
    "lags.csv": "job,start_s\n99,5\n",
    "use.csv": "job,cpu,network,memory\n1,.5,.5,.1\n",
    "profiles.csv": "job,network_ppm,network_mbs,disk_ppm\n1,500000,60,9\n",
}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            {"cluster": {"file": "nodes.toml"}},
            "cluster.file: network_mbs has no effect where no job slows another one down",
        ),
        ({"cluster": {"file": "nodes.toml"}}, "cluster.file: integer_slots_ppm: no effect without contention"),
        ({"manager": {"lags": "lags.csv"}}, "manager.lags: the file names none of the 3 jobs"),
        ({"workload": {"lublin": 3, "mix": "med"}}, "workload.mix has no effect under this contention"),
        (
            {"workload": {"lublin": 3, "mix": "med"}, "belief": {"contention": "lomarc", "demand": "unknown"}},
            'belief.demand has no effect without contention = "bandwidth"',
        ),
        (
            {"workload": {"lublin": 3, "characteristics": "M1"}, "belief": {"usage_noise": 0.1}},
            'belief.usage_noise has no effect without contention = "lomarc"',
        ),
        ({"workload": {"lublin": 3, "characteristics": "M1"}}, "workload.characteristics has no effect under"),
        (
            {"workload": {"lublin": 3, "annotations": "use.csv"}},
            "workload.annotations (bound, cpu, network, disk, memory) has no",
        ),
        (
            {
                "cluster": {"file": "nodes.toml"},
                "truth": {"contention": "composite"},
                "workload": {"lublin": 3, "profiles": "profiles.csv"},
            },
            "workload.profiles (disk_ppm): no effect where no node has a limit of that",
        ),
    ],
)
def test_facts_that_nobody_uses_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], told: str
) -> None:
    """A file's columns and keys, too: they were accepted without a word, as the record of a job has what is told of it."""
    monkeypatch.chdir(tmp_path)
    for name, text in SIDE.items():
        (tmp_path / name).write_text(text)
    prepared = prepare(read_scenario(None, {"workload": {"lublin": 3}, **table}))
    assert [text for text in policy_warnings(choose("easy"), prepared) if told in text]
