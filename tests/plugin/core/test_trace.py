"""The decision trace: its records, and that tracing does not change decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.plugin.core.parts import NOW_US, START_LIMITED, START_PLAIN, WELCOME

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m


class Explain(NamedTuple):
    job_id: int
    facts: dict[str, Any]


class Tell(NamedTuple):
    kind: str
    facts: dict[str, Any]


Said = Explain | Tell


class Explaining:
    """A policy that follows a list of explanations and decisions, one list for each batch."""

    def __init__(self, *passes: Sequence[Said | m.Action]) -> None:
        self.passes = list(passes)

    def decide(self, view: View) -> Iterator[m.Action]:
        for item in self.passes.pop(0) if self.passes else ():
            match item:
                case Explain():
                    view.explain(item.job_id, **item.facts)
                case Tell():
                    view.tell(item.kind, **item.facts)
                case _:
                    yield item


def traced(*passes: Sequence[Said | m.Action], welcome: m.Welcome = WELCOME) -> list[dict[str, Any]]:
    """Return the trace of these passes, and check that a core without a trace decides the same."""
    records: list[dict[str, Any]] = []
    core = SchedulerCore(Explaining(*passes), welcome, records.append)
    plain = SchedulerCore(Explaining(*passes), welcome)
    for number in range(len(passes)):
        assert core.handle(NOW_US + number, ()) == plain.handle(NOW_US + number, ())
    assert json.loads(json.dumps(records)) == records  # the trace is plain JSON
    return records


PLAIN_START = {
    "at_us": NOW_US,
    "kind": "start",
    "job": 2,
    "submit_us": 10,
    "processes": 2,
    "estimate_us": 100,
    "expected_us": 100,
    "runs": [[1, 1, 3, 2]],
}


def test_jobs_that_start_together_name_each_other() -> None:
    first, second = traced([Explain(3, {"slowdown": 1.5}), m.StartTogether((START_PLAIN, START_LIMITED))])
    assert first == PLAIN_START | {"together": [3]}
    assert (second["job"], second["together"], second["slowdown"]) == (3, [2], 1.5)
    assert (second["estimate_us"], second["expected_us"], second["runs"]) == (100, 150, [[2, 1, 1, 1]])
    (alone,) = traced([m.StartTogether((START_PLAIN,))])
    assert "together" not in alone


def test_suspensions_and_resumptions_are_recorded() -> None:
    records = traced(
        [Explain(1, {"measured_slowdown": 1.8}), m.SuspendJob(1)], [Explain(1, {"left": 3}), m.ResumeJob(1)]
    )
    assert records == [
        {"at_us": NOW_US, "kind": "suspend", "job": 1, "measured_slowdown": 1.8},
        {"at_us": NOW_US + 1, "kind": "resume", "job": 1, "left": 3},
    ]


def test_facts_of_a_policy_do_not_replace_those_of_the_record() -> None:
    facts = {"at_us": 5, "job": 9, "runs": "mine", "kind_of": 1}
    started, stopped, told = traced(
        [Explain(2, facts), START_PLAIN, Explain(1, facts), m.SuspendJob(1), Tell("weak", {"at_us": 5, "free": 3})]
    )
    assert started == PLAIN_START | {"kind_of": 1}
    assert stopped == {"at_us": NOW_US, "kind": "suspend", "job": 1, "runs": "mine", "kind_of": 1}
    assert told == {"at_us": NOW_US, "kind": "weak", "free": 3}


def test_other_decisions_are_not_recorded() -> None:
    assert traced([m.SetNote(1, "a", 1), m.WakeAt(9000), m.ReviseJob(1, 600, None)]) == []


def test_a_rejection_is_recorded_with_its_reason() -> None:
    assert traced([Explain(5, {"reason": "order", "free": 4}), m.RejectJob(5, "no licence")]) == [
        {"at_us": NOW_US, "kind": "reject", "job": 5, "reason": "no licence"}
    ]


def test_explanations_without_a_start_are_dropped_after_the_instant() -> None:
    assert traced([Explain(2, {"reason": "old"})], [START_PLAIN]) == [PLAIN_START | {"at_us": NOW_US + 1}]


def test_equal_records_of_one_kind_are_written_once() -> None:
    reserve: Said = Tell("reserve", {"job": 5, "shadow_us": 1400})
    later: Said = Tell("reserve", {"job": 5, "shadow_us": 1500})
    other: Said = Tell("weak", {"free": 3})
    records = traced([reserve, reserve, other], [reserve, other], [later], [reserve])
    assert [(record["at_us"] - NOW_US, record["kind"], record.get("shadow_us")) for record in records] == [
        (0, "reserve", 1400),
        (0, "weak", None),
        (2, "reserve", 1500),
        (3, "reserve", 1400),
    ]
