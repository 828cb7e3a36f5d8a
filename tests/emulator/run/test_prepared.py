"""A prepared scenario: any number of runs can start from it, also in parallel, and no run changes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from cosched_emulator import prepare, simulate
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.prepare import Prepared

DISTURBED: Final[dict[str, Any]] = {
    "requeue": True,
    "script": [{"at_s": 9_000, "do": "cancel", "job": 7}],
    "faults": {
        "nodes": {"mean_up_s": 40_000, "mean_down_s": 2_000},
        "slow": {"mean_normal_s": 30_000, "mean_slow_s": 5_000, "slowdown": 2},
    },
}
SCENARIOS: Final[dict[str, dict[str, Any]]] = {
    "rua": {"cluster": {"nodes": 8, "preset": "rua-4way"}, "workload": {"lublin": 120, "mix": "high"}},
    "lomarc-r": {
        "cluster": {"nodes": 8, "preset": "lomarc-ht"},
        "workload": {"lublin": 120, "characteristics": "M1"},
        "truth": {"contention": "lomarc"},
    },
    "glts": {
        "cluster": {"nodes": 8, "preset": "g-lomarc-2x2"},
        "workload": {"lublin": 120, "self_slowdowns": "table4", "lublin_size": "nodes"},
        "truth": {"contention": "statistical"},
    },
}


def play(prepared: Prepared, policy: str) -> list[JobRecord]:
    return simulate(prepared, policy).records


@pytest.mark.by_default(1)
@pytest.mark.parametrize("policy", list(SCENARIOS))
def test_runs_of_one_preparation_are_independent(policy: str) -> None:
    table = {"seed": 4, **DISTURBED, **SCENARIOS[policy]}
    expected = play(prepare(table), policy)
    assert any(
        len(record.intervals) > 1 or record.state == "CANCELLED" for record in expected
    )  # jobs were requeued or cancelled
    prepared = prepare(table)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: play(prepared, policy), range(3)))
    assert found == [expected] * 3
    assert play(prepared, policy) == expected
