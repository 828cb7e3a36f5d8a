"""Pairs that cannot be together: `never` in a table of co-runs holds under every policy, at both ends, and over a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
from tests.contract.links import ShadowLink
from tests.emulator.live.test_views import Site, begin, submit
from tests.emulator.parts import manager as manager_of
from tests.runs import run_on

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import NoContention
from cosched_emulator.manager.gate import Gate
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.limits import NO_RULES, Binding
from cosched_plugin.common.errors import MachineError
from cosched_plugin.config import choose
from cosched_plugin.protocol import messages as m

TABLE: Final = "row,column,ratio\nA,A,1.2\nA,B,never\nB,B,1.3\nA,C,1.1\nC,A,1.4\nC,C,never\nB,C,1.2\nC,B,1.05\n"
NEVER: Final = ({"A", "B"}, {"C"})
# One of each way of planning and of sharing.
POLICIES: Final = (
    "fcfs", "easy", "sjbf", "conservative", "rua", "lomarc-r", "lomarc-fm", "lomarc-u1-shortest", "guests", "symbiosis",
    "symbiosis-express", "co-execution-easy", "glts", "ssp", "slurm",
)  # fmt: skip


def site(folder: Path, **truth: Any) -> Prepared:
    """Return a small site, whose jobs share nodes and are of three applications."""
    (folder / "pairs.csv").write_text(TABLE)
    pairs = str(folder / "pairs.csv")
    return prepare(
        {
            "cluster": {"nodes": 8, "preset": "1x2x2"},
            "truth": {"contention": "pairs", "pairs": pairs, **truth},
            "workload": {"lublin": 70, "lublin_size": "nodes", "applications": pairs},
        }
    )


def together(records: list[JobRecord]) -> Iterator[set[str]]:
    """Yield the names of each two jobs that were on a node at the same time."""
    stays = [
        (stay.start_us, stay.end_us, node, record.job.spec.id, record.job.spec.name)
        for record in records
        for stay in record.intervals
        for run in stay.runs
        for node in range(run.first, run.first + run.count)
    ]
    for (begin_us, end_us, node, job, name), (begins_us, ends_us, there, other, its) in combinations(stays, 2):
        if node == there and job != other and begin_us < ends_us and begins_us < end_us:
            yield {name, its}


def run(prepared: Prepared, policy: str) -> tuple[list[JobRecord], int]:
    """Return the records of a run in which the scheduler restarts before every batch, and the number of refusals."""
    manager = build_manager(prepared)
    choice = choose(policy)
    link = ShadowLink(DirectLink(choice.scheduler), choice.scheduler)
    records = Simulation(manager, build_agenda(prepared, manager), link).run()
    assert not manager.running
    assert link.restarts > 1
    return records, manager.refused


@pytest.mark.by_default(8)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_places_a_pair_that_cannot_be_together(policy: str, tmp_path: Path) -> None:
    records, refused = run(site(tmp_path), policy)
    assert not [pair for pair in together(records) if pair in NEVER]
    assert refused == 0
    assert sum(bool(record.intervals) for record in records) > 60


def test_without_the_rule_such_pairs_meet(tmp_path: Path) -> None:
    """Else the test above would say nothing; here the scheduler believes in no contention, and jobs have no marks."""
    prepared = site(tmp_path)
    records, _ = run(replace(prepared, rules=NO_RULES, gated=False, contends=False), "easy")
    assert [pair for pair in together(records) if pair in NEVER]


def test_the_rule_does_not_depend_on_what_the_scheduler_believes(tmp_path: Path) -> None:
    prepared = site(tmp_path)
    records, refused = run(replace(prepared, belief=m.Belief("none", "bulk-synchronous", ())), "easy")
    assert not [pair for pair in together(records) if pair in NEVER]
    assert refused == 0


def test_a_manager_refuses_a_start_that_breaks_the_rule(tmp_path: Path) -> None:
    prepared = site(tmp_path)
    live = Site()
    inner = manager_of(*prepared.nodes, model=NoContention())
    agenda = Agenda(inner, gate=Gate(inner, Binding(prepared.rules, prepared.nodes)))
    live.live = LiveManager(inner, agenda, 1, live.books.ended_state, live.books.tasks)
    for name in ("A", "B", "C"):
        live.do(submit(1, name=name))
    batch = live.live.batch()
    assert batch is not None
    starts = [begin(job, run_on(0, 1, 1 << job, 1)) for job in (1, 2, 3)]
    live.live.answer(0, batch[0], tuple(starts))
    assert sorted(inner.running) == [1, 3]
    again = live.live.batch()
    assert again is not None
    assert [event.reason for event in again[2] if isinstance(event, m.ActionRefused)] == [
        "node 0 has a job with app:A, and none with app:B may be beside it"
    ]
    # What a scheduler that restarts is told has the rule, and the marks of the jobs.
    welcome = inner.inventory()
    assert welcome.nodes[0].apart == (("app:A", "app:B"),)
    assert [job.spec.resources for job in welcome.running] == [(("app:A", 1),), (("app:C", 1),)]
    actions = choose("easy").scheduler(welcome).handle(welcome.now_us, ())
    assert [(action.job_id, action.runs[0].first) for action in actions if isinstance(action, m.StartJob)] == [(2, 1)]


def test_a_policy_that_cannot_honour_it_declines_such_jobs(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="countable resources"):
        run(site(tmp_path), "batch-contiguous")
