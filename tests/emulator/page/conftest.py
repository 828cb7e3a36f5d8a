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
