"""Profiles of jobs in a scenario: from a side file to the truth of the hardware, the scheduler's belief and the run folder."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator.api.simulate import simulate
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.results.files.run_reader import read_machine
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.workload.side_files.annotations import read_profiles
from cosched_plugin.protocol.messages import CacheLevel, NodeHardware

ROW = "{} 0 -1 100 2 -1 -1 2 200 -1 1 {} 1 {} -1 -1 -1 -1\n"
NODES = """[[nodes]]
name = "smt"
sockets = 1
cores_per_socket = 2
threads_per_core = 2
memory_mb = 1000
integer_slots_ppm = 1000000
caches = [{ level = 2, size_kb = 512, cores = 1, miss_ns = 10 }]
"""
PROFILES = "application,job,integer_ppm,memory_mbs\n9,,800000,\n3,,,100\n,3,700000,5\n"


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    """Return a scenario of four jobs on one node; the last one has no profile."""
    (tmp_path / "log.swf").write_text(
        "; MaxProcs: 4\n" + "".join(ROW.format(job, 7, program) for job, program in ((1, 9), (2, 9), (3, 9), (4, 5)))
    )
    (tmp_path / "nodes.toml").write_text(NODES)
    (tmp_path / "profiles.csv").write_text(PROFILES)
    return {
        "cluster": {"file": str(tmp_path / "nodes.toml")},
        "workload": {"swf": str(tmp_path / "log.swf"), "profiles": str(tmp_path / "profiles.csv")},
        "truth": {"contention": "composite"},
    }


def prepared_of(table: dict[str, Any], **belief: Any) -> Prepared:
    return prepare(read_scenario(None, {**table, **({"belief": belief} if belief else {})}))


def test_jobs_on_the_threads_of_one_core_are_slowed(table: dict[str, Any], tmp_path: Path) -> None:
    """Two jobs of two processes each: the second threads of both cores are the other one's."""
    simulate(table, policy="easy", out=tmp_path / "run")
    with open(tmp_path / "run" / "jobs.csv", newline="") as file:
        rows = {row["job_id"]: (row["starting_time"], row["finish_time"]) for row in csv.DictReader(file)}
    times = [[float(time) for time in rows[job]] for job in "1234"]
    assert times == [[0, 160], [0, 160], [160, 260], [160, 260]]  # a job without a profile slows no other one
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["machine"][0]["hardware"]["caches"] == [
        {"level": 2, "size_kb": 512, "cores": 1, "miss_ns": 10, "accesses_ms": 0}
    ]
    (machine,) = read_machine(tmp_path / "run")
    assert machine.hardware == NodeHardware(1_000_000, 0, (CacheLevel(2, 512, 1, 10),))
    assert (tmp_path / "run" / "workload-profiles.csv").read_text().startswith("job,integer_ppm")


def test_parameters_of_the_belief_override_those_of_the_truth(table: dict[str, Any]) -> None:
    table["truth"]["parameters"] = {"overlap": "worst", "queueing_ppm": 7}
    belief = dict(prepared_of(table, parameters={"queueing_ppm": 8}).belief.parameters)
    assert (belief["overlap"], belief["queueing_ppm"], belief["paging_ppm"]) == ("worst", 8, 1_175_000)
    table["truth"]["parameters"] = {"overlap": "worse"}
    with pytest.raises(ConfigurationError, match=r'truth\.parameters: .*did you mean "worst"'):
        prepared_of(table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("application,integers_ppm\n9,1\n", "did you mean 'integer_ppm'"),
        ("application,integer_ppm\n9,x\n", ":2: field 'integer_ppm': expected a whole number, got 'x'"),
        (
            "application,cpu_ppm\n9,2000000\n",
            "expected a possible value .must be from 0 to 1000000, not 2000000., got '2000000'",
        ),
        ("application,integer_ppm\n9,1\n9,2\n", "each key once, got application 9 again"),
        ("application,integer_ppm\n,1\n", "one of job, application, user"),
        ("application,integer_ppm\n", "at least one row of values"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_profiles(str(file))
