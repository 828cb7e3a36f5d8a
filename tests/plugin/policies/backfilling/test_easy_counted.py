"""Passes by counts make the same decisions as the general pass, after any events of jobs and nodes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from cosched_emulator import prepare, simulate
from cosched_plugin.api import Context, Queue
from cosched_plugin.core.views.view import View
from cosched_plugin.policies.backfilling.easy import _Counts


def restless(seed: int, folder: Path) -> dict[str, Any]:
    """Return a scenario with wrong estimates, failing nodes, users that change their jobs, and some jobs with special requests."""
    random = Random(seed)
    rows = []
    at = 0
    nodes = random.choice((8, 40, 70))
    particular = random.random() < 0.4
    for number in range(1, 251):
        at += random.choice((0, 0, 10, 60, 60, 300))
        run_s = random.choice((30, 60, 60, 300, 900, 3600))
        size = random.choice((1, 1, 2, 4, 7, 16, 64)) % nodes + 1
        estimate = max(1, run_s * random.choice((1, 2, 10)) // random.choice((1, 1, 1, 2)))
        memory = random.choice((0, 0, 0, 1024)) * 1024 if particular and 60 < number < 90 else -1
        rows.append(f"{number} {at} -1 {run_s} {size} -1 -1 {size} {estimate} {memory} 1 1 1 1 1 -1 -1 -1\n")
    file = folder / f"{seed}.swf"
    file.write_text("".join(rows))
    script = []
    for _ in range(40):
        do = random.choice(("fail-node", "return-node", "return-node", "hold", "release", "release", "cancel"))
        target = {"node": random.randrange(min(nodes, 5))} if do.endswith("node") else {"job": random.randint(1, 250)}
        script.append({"at_s": float(random.randint(0, at)), "do": do, **target})
    back = [{"at_s": float(at + 1), "do": "return-node", "node": node} for node in range(min(nodes, 5))]
    back += [{"at_s": float(at + 2), "do": "release", "job": job} for job in range(1, 251)]
    return {
        "requeue": True,
        "cluster": {"nodes": nodes},
        "workload": {"swf": str(file), "cap_runs": False, "limits": random.choice(("none", "estimate"))},
        "script": script + back,
    }


@pytest.mark.by_default(13)
@pytest.mark.parametrize("preset", ["fcfs", "easy", "sjbf"])
@pytest.mark.parametrize("seed", range(1, 13))
def test_counts_give_the_decisions_of_the_general_pass(
    seed: int, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(restless(seed, tmp_path))
    counted = 0
    fast = _Counts._counted

    def watched(self: _Counts, context: Context) -> Queue | None:
        nonlocal counted
        queue = fast(self, context)
        counted += queue is not None
        return queue

    monkeypatch.setattr(_Counts, "_counted", watched)
    by_numbers = simulate(prepared, preset)
    assert counted > 50
    monkeypatch.setattr(_Counts, "_counted", lambda *_: None)
    generally = simulate(prepared, preset)
    assert by_numbers.records == generally.records
    assert by_numbers.summary["machine"]["mean_queue_length"] > 1
    assert not by_numbers.unfinished


def test_refused_jobs_are_not_examined_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrivals behind a pending job need no examination of the running jobs: the shadow time is unchanged."""
    rows = ["1 0 -1 5000 8 -1 -1 8 5000 -1 1 1 1 1 1 -1 -1 -1\n"]
    rows += [f"{number} {number} -1 100 4 -1 -1 4 100 -1 1 1 1 1 1 -1 -1 -1\n" for number in range(2, 202)]
    file = tmp_path / "queue.swf"
    file.write_text("".join(rows))
    looks: list[int] = []
    shadow = View.shadow

    def watched(self: View, threads: int) -> tuple[int, int] | None:
        looks.append(threads)
        return shadow(self, threads)

    monkeypatch.setattr(View, "shadow", watched)
    finished = simulate({"cluster": {"nodes": 8}, "workload": {"swf": file}}, "easy")
    assert not finished.unfinished
    # Once for the first job that cannot start, and once for each pair that starts later.
    assert len(looks) < 110
