"""Policies under beliefs of measured hardware: schedulers that are restarted before every batch decide the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.contract.links import DigestLink, ShadowLink

from cosched_emulator import prepare
from cosched_emulator.couplings.link import LoopbackLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose

NODES = """
[[nodes]]
count = 4
sockets = 2
cores_per_socket = 2
threads_per_core = 2
memory_mb = 4096
swap_mb = 65536
memory_bandwidth_mbs = 6000
integer_slots_ppm = 1000000
floating_slots_ppm = 1000000
caches = [{ level = 3, size_kb = 4096, cores = 2, miss_ns = 60 }]
"""
PROFILES = """application,integer_ppm,floating_ppm,working_set_kb,accesses_ms,memory_mbs
1,900000,,,,200
2,,900000,8192,2000,400
3,300000,200000,1024,500,3000
"""
TABLE = "row,column,speedup\n" + "".join(
    f"{row},{column},{speedup}\n"
    for row, column, speedup in (
        (1, 1, 0.8), (1, 2, 1.1), (1, 3, 1.0), (2, 1, 1.05), (2, 2, 0.6), (2, 3, 0.9), (3, 1, 1.1), (3, 2, 0.85), (3, 3, 0.55),
    )
)  # fmt: skip


def scenario(truth: str, folder: Path) -> dict[str, Any]:
    """Return an overloaded machine, on which the scheduler believes in what is true."""
    random = Random(3)
    rows = []
    at = 0
    for number in range(1, 51):
        at += random.choice((0, 0, 60, 300, 600))
        run_s = random.choice((300, 900, 3600, 7200))
        size = random.choice((1, 1, 2, 3, 4, 8))
        program = number % 3 + 1
        rows.append(f"{number} {at} -1 {run_s} {size} -1 -1 {size} {2 * run_s} -1 1 1 1 {program} 1 -1 -1 -1\n")
    files = {
        "jobs.swf": "; MaxProcs: 16\n" + "".join(rows),
        "nodes.toml": NODES,
        "profiles.csv": PROFILES,
        "table.csv": TABLE,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    table: dict[str, Any] = {
        "requeue": True,
        "cluster": {"file": str(folder / "nodes.toml")},
        "workload": {"swf": str(folder / "jobs.swf")},
        "truth": {"contention": truth},
        "script": [{"at_s": 4000.0, "do": "fail-node", "node": 1}, {"at_s": 9000.0, "do": "return-node", "node": 1}],
    }
    if truth == "pairs":
        table["truth"]["pairs"] = str(folder / "table.csv")
    else:
        table["workload"]["profiles"] = str(folder / "profiles.csv")
    return table


SHARES = {"lomarc-r": "ReviseJob", "glts": "StartTogether"}
QUICK = (("rua", "pairs"), ("lomarc-r", "composite"), ("glts", "composite"))


@pytest.mark.parametrize(
    ("preset", "truth"),
    [
        pytest.param(preset, truth, marks=[] if (preset, truth) in QUICK else [pytest.mark.slow])
        for preset in ("lc", "lct", "rua", "lomarc-r", "glts")
        for truth in ("pairs", "composite")
    ],
)
def test_restarts_change_nothing(preset: str, truth: str, tmp_path: Path) -> None:
    choice = choose(preset)
    shadowed = ShadowLink(LoopbackLink(choice.scheduler), choice.scheduler)
    link = DigestLink(shadowed)
    finished = run(prepare(scenario(truth, tmp_path)), link)
    assert finished.refused == 0
    assert link.batches > 50
    assert shadowed.restarts > 5
    if preset in SHARES:
        assert link.kinds[SHARES[preset]] > 0
