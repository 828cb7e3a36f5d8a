"""Nodes of 63 threads and more, with limits of processes a node: what is a set of threads has no width anywhere.

A mask of such a node does not fit into an integer of 64 bits: not in a message, a note, the saved state, a file or a database.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.contract.cases import BY_HALVES, IN_ROWS, SLICED, WHOLE_NODES
from tests.contract.links import DigestLink, ShadowLink
from tests.emulator.results.folder_rules import problems

from cosched_emulator import simulate
from cosched_emulator.couplings.link import LoopbackLink
from cosched_plugin.config import choose
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.protocol.scheduler import SchedulerFactory
from cosched_plugin.testing.check import check_policy

WIDTHS = (63, 64, 65, 128, 256)
PROMISING = ("conservative", "conservative-starts")  # their notes name threads
SEARCHING = ("lc", "lct", "rua")  # slow there
# Processes on so many threads of a core take minutes.
SHARES_TIME = (*IN_ROWS, "coscheduling", "coscheduling-scattered", "batch-contiguous", "gang-contiguous")


def every_policy(*without: str) -> list[Any]:
    """Return each policy at each width; by default those that note threads run, and every sixth one at one width."""
    found = []
    for place, preset in enumerate(name for name in PRESETS if name not in without):
        for width in WIDTHS:
            few = place % 6 == 0 and width == WIDTHS[place // 3 % len(WIDTHS)] and preset not in SEARCHING
            found.append(pytest.param(preset, width, marks=[] if few or preset in PROMISING else pytest.mark.slow))
    return found


def wide_scenario(preset: str, width: int, folder: Path) -> dict[str, Any]:
    """Return three nodes and a dozen jobs that may have all threads of a node, nearly all, or half of them."""
    random = Random(f"{preset} {width}")
    rows, limits, at = [], [], 0
    for number in range(1, 17):
        at += random.choice((0, 0, 10))
        run = random.choice((30, 60, 300))
        size = random.choice((1, width // 2, width, width + 1, 2 * width))
        estimate = run * random.choice((1, 2))
        rows.append(f"{number} {at} -1 {run} {size} -1 -1 {size} {estimate} -1 1 1 1 1 1 1 -1 -1\n")
        limits.append(f"{number},{random.choice((width, width - 1, width // 2, 7))}\n")
    (folder / "wide.swf").write_text("".join(rows))
    (folder / "ppn.csv").write_text("".join(["job,ppn\n", *limits]))
    workload: dict[str, Any] = {"swf": str(folder / "wide.swf"), "annotations": str(folder / "ppn.csv")}
    table: dict[str, Any] = {"cluster": {"nodes": 3, "preset": f"1x{width}x1"}, "workload": workload}
    if preset in SLICED or preset in BY_HALVES:
        workload["self_slowdowns"] = "table4"
        return table | {"truth": {"contention": "statistical"}, "preemption": {"resume_s": 5.0}}
    if preset in WHOLE_NODES:
        workload["characteristics"] = "M1"
        table["cluster"]["preset"] = f"1x{width}x1" if width % 2 else f"1x{width // 2}x2"
        return table | {"truth": {"contention": "lomarc"}}
    return table


@pytest.mark.parametrize(("preset", "width"), every_policy(*SHARES_TIME))
def test_schedulers_agree_and_the_folder_keeps_its_rules(preset: str, width: int, tmp_path: Path) -> None:
    links = []

    def linked(make: SchedulerFactory) -> DigestLink:
        links.append(DigestLink(ShadowLink(LoopbackLink(make), choose(preset).scheduler)))
        return links[0]

    table, out, db = wide_scenario(preset, width, tmp_path), tmp_path / "run", tmp_path / "run.db"
    found = simulate(table, preset, link=linked, out=str(out), db=str(db))
    assert problems(out) == []
    assert sum(found.summary["states"].values()) == 16
    assert links[0].kinds["SetNote"] or preset not in PROMISING
    with closing(sqlite3.connect(db)) as accounts:
        masks = {int(text, 16) for (text,) in accounts.execute("SELECT thread_mask FROM allocations")}
    assert max(mask.bit_length() for mask in masks) >= width // 2


@pytest.mark.parametrize(("preset", "width"), every_policy())
def test_every_policy_conforms_there(preset: str, width: int) -> None:
    """On machines whose jobs take turns, too: run 4 has slots."""
    report = check_policy(choose(preset).make, seed=1, runs=2, first=3, threads=width)
    assert report.decisions > 20


@pytest.mark.parametrize("policy", PROMISING)
def test_promised_starts_on_whole_nodes_of_128_threads(policy: str, tmp_path: Path) -> None:
    """Job 2 waits for both nodes; job 4 ends before that, and job 3 does not."""
    jobs = ((0, 1000, 128, 1000), (1, 1000, 256, 1000), (2, 100, 128, 5000), (3, 500, 128, 500))
    rows = [
        f"{number} {submit} -1 {run} {size} -1 -1 {size} {estimate} -1 1 1 1 1 1 1 -1 -1\n"
        for number, (submit, run, size, estimate) in enumerate(jobs, 1)
    ]
    (tmp_path / "log.swf").write_text("".join(rows))
    (tmp_path / "ppn.csv").write_text("job,ppn\n1,128\n2,128\n3,128\n4,128\n")
    workload = {"swf": str(tmp_path / "log.swf"), "annotations": str(tmp_path / "ppn.csv")}
    table = {"cluster": {"nodes": 2, "preset": "1x128x1"}, "workload": workload}
    found = simulate(table, policy).records
    assert {record.job.spec.id: record.intervals[0].start_us // 1_000_000 for record in found} == {
        1: 0, 2: 1000, 3: 2000, 4: 3,
    }  # fmt: skip
