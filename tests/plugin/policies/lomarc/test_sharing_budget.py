"""Policies that choose neighbours under a budget: with any budget schedules are valid, and decisions do not depend on caches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.work import Work
from cosched_plugin.protocol.messages import Action, Event, Welcome

NODES = 6
LOOK = 81  # price of an examination of such a small machine


def busy() -> dict[str, Any]:
    """Return an overloaded machine of 4-thread nodes, with demand, wrong estimates and enforced limits."""
    return {
        "seed": 7,
        "requeue": True,
        "cluster": {"nodes": NODES, "preset": "rua-4way"},
        "workload": {"lublin": 120, "aarr": 9.0, "mix": "60:20:20", "limits": "estimate", "estimates": "f-model", "run_factor": 0.3},
        "script": [{"at_s": 3200.0, "do": "fail-node", "node": 1}, {"at_s": 9000.0, "do": "return-node", "node": 1}],
    }  # fmt: skip


class Judge(DirectLink):
    """A link that compares with a scheduler made from the inventory before every batch, and records the cost of each decision."""

    def __init__(self, preset: str, units: int, spent: list[int]) -> None:
        self._choice = choose(preset, ("budget=counted", f"budget.units={units}"))
        super().__init__(self._choice.scheduler)
        self._spent = spent
        self.costs: list[int] = []  # cost of each decision
        self.running: list[int] = []  # number of running jobs before it

    def open(self, inventory: Any) -> None:
        self._inventory = inventory
        super().open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        welcome: Welcome = self._inventory()
        shadow: SchedulerCore = self._choice.scheduler(welcome)
        expected = shadow.handle(now_us, events)
        before = sum(self._spent)
        actions = super().exchange(seq, now_us, events)
        assert list(actions) == expected
        self.costs.append(sum(self._spent) - before)
        self.running.append(len(welcome.running))
        return actions


@pytest.mark.by_default(3)
@pytest.mark.parametrize("preset", ["rua", "lc", "lct"])
@pytest.mark.parametrize("units", [1, 150])
def test_a_budget_bounds_the_work_and_schedules_stay_valid(
    preset: str, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[int] = []
    spend = Work.spend

    def counted(work: Work, price: int) -> bool:
        spent.append(price)  # also beyond the budget: the first job's reservation is searched at any cost
        return spend(work, price)

    monkeypatch.setattr(Work, "spend", counted)
    prepared = prepare(busy())
    link = Judge(preset, units, spent)
    records = run(prepared, link).records
    assert len(records) == 120
    assert {record.state for record in records} <= {"COMPLETED", "TIMEOUT"}
    # The last payment may exceed the budget, and a reservation is found by bisection.
    for cost, running in zip(link.costs, link.running, strict=True):
        assert cost <= units + LOOK * (4 + running.bit_length())
    assert max(link.costs) > units


@pytest.mark.parametrize("preset", ["rua", "lc", "lct"])
def test_a_large_budget_changes_nothing(preset: str) -> None:
    prepared = prepare(busy())
    plain = simulate(prepared, preset).records
    ample = simulate(prepared, preset, settings=("budget=counted", "budget.units=1000000000")).records
    small = simulate(prepared, preset, settings=("budget=counted", "budget.units=1")).records
    assert ample == plain
    assert small != plain


@pytest.mark.parametrize("preset", ["rua", "lc", "lct", "easy", "conservative"])
@pytest.mark.parametrize("units", [1, 2000])
def test_jobs_that_cannot_start_take_no_budget_of_jobs_behind(preset: str, units: int, tmp_path: Path) -> None:
    """Thirty jobs need the memory of a node that is out of service; small jobs behind them run."""
    rows = [f"{number} {number} -1 100 4 -1 -1 4 120 12582912 1 1 1 1 1 -1 -1 -1\n" for number in range(1, 31)]
    rows += [f"{number} {number} -1 100 1 -1 -1 1 120 -1 1 1 1 1 1 -1 -1 -1\n" for number in range(31, 36)]
    file = tmp_path / "jobs.swf"
    file.write_text("".join(rows))
    table = {
        "cluster": {"nodes": 4, "preset": "rua-4way"},
        "workload": {"swf": str(file), "mix": "med", "memory_mb": 12_000},
        "script": [{"at_s": 0.0, "do": "fail-node", "node": 3}],
    }
    left = simulate(table, preset, settings=("budget=counted", f"budget.units={units}")).unfinished
    assert left == list(range(1, 31))
