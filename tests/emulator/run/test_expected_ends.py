"""With true knowledge the scheduler's expected ends are exact to the microsecond: co-located, in time slices, and via disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.run import run
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.resolved import resolve
from cosched_plugin.protocol.messages import COMPLETED, Action, Event, SuspendJob

LOMARC: Mapping[str, Any] = {
    "cluster": {"nodes": 128, "preset": "lomarc-ht"},
    "truth": {"contention": "lomarc"},
    "workload": {"lublin": 500, "aarr": 8.83, "characteristics": "M1"},
}
STATISTICAL: Mapping[str, Any] = {
    "cluster": {"nodes": 64, "preset": "g-lomarc-2x2"},
    "truth": {"contention": "statistical"},
    "workload": {
        "lublin": 250,
        "aarr": 8.83,
        "gap_factor": 0.5,
        "self_slowdowns": "table4",
        "lublin_size": "nodes",
        "grow": True,
    },
}
BOTH: Mapping[str, Any] = {
    "cluster": {"nodes": 64, "preset": "g-lomarc-2x2"},
    "truth": {"contention": "lomarc"},
    "workload": {"lublin": 250, "aarr": 8.83, "gap_factor": 0.3, "characteristics": "M1"},
}


class Counting(DirectLink):
    """A link that counts decisions by kind, and checks the scheduler's state after each batch."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__(lambda welcome: SchedulerCore(compose(table), welcome))
        self.seen: Counter[str] = Counter()

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        actions = super().exchange(seq, now_us, events)
        assert isinstance(self.scheduler, SchedulerCore)
        self.scheduler.check()
        for action in actions:
            to_disk = isinstance(action, SuspendJob) and action.to_disk
            self.seen[type(action).__name__ + (" to disk" if to_disk else "")] += 1
        return actions


def played(table: Mapping[str, Any], scenario: Mapping[str, Any]) -> tuple[list[JobRecord], Counter[str]]:
    link = Counting(table)
    sections = {"seed": 1, "preemption": {"resume_s": 60.0}, **scenario}
    finished = run(prepare(sections), link)
    assert finished.refused == 0
    return finished.records, link.seen


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    ("table", "scenario"),
    [
        ({"preset": "lomarc-r"}, LOMARC),
        ({"preset": "lomarc-r", "slices": "classes"}, LOMARC),
        ({"preset": "lomarc-r", "fairness": "slack"}, LOMARC),
        ({"preset": "lomarc-fm", "slices": "classes", "matching": {"weak_load": 1}}, LOMARC),
        ({"preset": "ac", "slices": "classes"}, LOMARC),
        ({"preset": "ssp"}, STATISTICAL),
        ({"preset": "glts"}, STATISTICAL),
        ({"preset": "glts", "slices": "none"}, STATISTICAL),
        ({"preset": "glts-nh"}, STATISTICAL),
        ({"preset": "glts"}, BOTH),
        ({"preset": "glts", "slices": "none"}, BOTH),
    ],
    ids=str,
)
def test_jobs_end_at_their_expected_end(table: Mapping[str, Any], scenario: Mapping[str, Any]) -> None:
    records, seen = played(table, scenario)
    assert {record.state for record in records} == {COMPLETED}
    assert all(record.work_us == record.job.run_us for record in records)
    late_us = {}
    for record in records:
        assert record.end_us is not None
        late_us[record.job.spec.id] = record.end_us - record.last_stays[0].start_us - record.estimate_us
    assert max(late_us.values()) <= 0
    # Expected ends are rounded up at every change of partners. In a group the expectation combines the worst own slowdown with
    # the worst partner, even if these are on two nodes.
    early = {job_id: late for job_id, late in late_us.items() if late < -5}
    assert len(early) <= (0.01 * len(records) if scenario is STATISTICAL else 0), early
    if table["preset"] != "ssp":
        assert seen["StartTogether"] + seen["ReviseJob"] > 3
    if resolve(table)["slices"]["name"] != "none":
        assert seen["SuspendJob to disk"] > 300
