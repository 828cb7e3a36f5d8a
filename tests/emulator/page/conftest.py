"""Runs that reports are made of."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from cosched_emulator import simulate

EVIL = '</script><script>alert("&")</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with co-located jobs and a decision trace, in which the user of job 1 has a name that is HTML."""
    folder = tmp_path_factory.mktemp("runs") / "shared"
    cluster = {"nodes": 16, "preset": "lomarc-ht"}
    workload = {"lublin": 300, "characteristics": "M1"}
    scenario = {"cluster": cluster, "workload": workload, "truth": {"contention": "lomarc"}}
    simulate(scenario, "lomarc-r", out=folder, trace=folder / "trace.jsonl")
    rows = (folder / "jobs.csv").read_text(encoding="utf-8").splitlines()
    named = [f"{row};user={quote(EVIL, safe='')}" if row.startswith("1,") else row for row in rows]
    (folder / "jobs.csv").write_text("\n".join([*named, ""]), encoding="utf-8")
    told = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    told["bytes"]["jobs.csv"] = (folder / "jobs.csv").stat().st_size
    (folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


GPU_LOG = "".join(
    f"{job} {10 * job} -1 {60 + 7 * job} {1 + job % 3} -1 -1 {1 + job % 3} 900 -1 1 {job % 4} 1 1 -1 -1 -1 -1\n"
    for job in range(1, 61)
)
GPU_MACHINE = """
[[nodes]]
count = 3
preset = "1x4x1"

[[nodes]]
count = 2
preset = "1x4x1"
resources = "gpu:a100:4"
"""


@pytest.fixture(scope="session")
def gpu_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with partitions, in which every second job asks for one to three GPUs."""
    place = tmp_path_factory.mktemp("gpus")
    (place / "log.swf").write_text(GPU_LOG)
    (place / "machine.toml").write_text(GPU_MACHINE)
    rows = [f"{job},{'gpu' if job % 2 else 'all'},high,{f'gpu:{1 + job % 3}' * (job % 2)}\n" for job in range(1, 61)]
    (place / "asked.csv").write_text("job,partition,qos,resources\n" + "".join(rows))
    scenario = {
        "cluster": {"file": str(place / "machine.toml")},
        "workload": {"swf": str(place / "log.swf"), "annotations": str(place / "asked.csv")},
        "partitions": [{"name": "all", "default": True}, {"name": "gpu", "nodes": "3-4"}],
    }
    simulate(scenario, "easy", settings={"shape": "threads"}, out=place / "run")
    return place / "run"
