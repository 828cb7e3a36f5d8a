"""The rotation: whose turn it is, with which partner, and what changes in the middle of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.plugin.policies.gang.gang_cases import Site, spec_of
from tests.reference.gang import Quantum

from cosched_plugin.api import NodeSet, Turn
from cosched_plugin.core.trace import TraceRecord
from cosched_plugin.policies.gang.gang import without_company
from cosched_plugin.policies.gang.matrix import Cell, Matrix
from cosched_plugin.policies.turns import following
from cosched_plugin.protocol.messages import COMPLETED, JobEnded, QuantumEnded, SetRotation

STRICT: Mapping[str, Any] = {"backfill": {"name": "gang", "alternates": "off"}}
PAIRED: Mapping[str, Any] = {**STRICT, "pairing": "predesigned"}
BEST_FIT: Mapping[str, Any] = {**STRICT, "pairing": "best-fit"}
BLIND: Mapping[str, Any] = {**STRICT, "pairing": "blind"}


def full(site: Site, jobs: int, first: int = 1) -> None:
    """Submit jobs of the size of the machine, so that each has a row of its own."""
    site.end({}, arrived=[spec_of(job_id, 8) for job_id in range(first, first + jobs)])


def rows_of(site: Site, shares: Mapping[int, float], quanta: int) -> list[tuple[int, int | None]]:
    """End quanta in which each job consumes its share; return the rows and partners that ran in them."""
    found = []
    for _ in range(quanta):
        found.append(site.now()[:2])
        site.end({job_id: shares[job_id] for job_id in site.members()})
    return found


def alone(*rows: int) -> list[tuple[int, int | None]]:
    return [(row, None) for row in rows]


# ---------------------------------------------------------------- rounds


def test_turns_follow_each_other_whatever_comes_and_goes() -> None:
    assert following([2], 2) == ([2], True)
    assert following([0, 2], None) == ([0, 2], True)
    assert following([0, 2, 5], 2) == ((5, 0, 2), False)
    assert following([0, 2, 5], 3) == ((5, 0, 2), False)  # the row at the pointer has vanished
    assert following([0, 2], 5) == ([0, 2], True)  # the last one has


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_rows_take_turns(rows: int) -> None:
    site = Site(STRICT)
    full(site, rows)
    shares = dict.fromkeys(range(1, rows + 1), 0.0)
    assert rows_of(site, shares, 2 * rows) == alone(*range(rows), *range(rows))


def test_a_quantum_that_changes_nothing_is_answered_by_nothing() -> None:
    site = Site(STRICT)
    full(site, 3)
    assert [site.end({site.members()[0]: 0.5}) for _ in range(5)] == [[]] * 5


def test_a_row_that_vanishes_has_no_turn() -> None:
    site = Site(STRICT)
    full(site, 4)
    assert rows_of(site, dict.fromkeys(range(1, 5), 0.0), 1) == alone(0)
    site.end({}, ended=[2])  # the row at the pointer
    site.batch()
    assert rows_of(site, dict.fromkeys(range(1, 5), 0.0), 1) == alone(2)
    site.end({}, ended=[4])  # and the last one
    assert rows_of(site, dict.fromkeys(range(1, 5), 0.0), 3) == alone(0, 2, 0)


def test_a_row_that_appears_in_the_middle_of_a_round_has_its_turn_in_it() -> None:
    site = Site(STRICT)
    full(site, 2)
    full(site, 1, first=3)
    assert rows_of(site, dict.fromkeys(range(1, 4), 0.0), 4) == alone(1, 2, 0, 1)


def test_after_everything_has_ended_a_round_begins() -> None:
    site = Site(STRICT)
    full(site, 2)
    rows_of(site, {1: 0.0}, 1)
    site.batch()
    site.end({}, ended=[1, 2])
    assert not site.view.running
    full(site, 2, first=3)
    assert rows_of(site, {3: 0.0, 4: 0.0}, 3) == alone(0, 1, 0)


def test_several_quanta_may_end_before_the_scheduler_answers() -> None:
    site = Site(PAIRED)
    full(site, 3)
    rows_of(site, {1: 0.1, 2: 0.1, 3: 0.1}, 3)
    before = site.view.rotation
    events = [QuantumEnded(site.quantum + number, before.turns[number - 1].slots[0]) for number in (1, 2)]
    site.quantum += 2
    site.batch(*events)
    assert site.now() == Quantum(2, before.turns[2].slots[1] if len(before.turns[2].slots) > 1 else None, ())


# ---------------------------------------------------------------- partners


def test_the_partners_of_a_round() -> None:
    """One job of 0 % among three of 97 %: it runs in every quantum, and each of the others in two of five."""
    site = Site(PAIRED)
    full(site, 4)
    shares = {1: 0.97, 2: 0.971, 3: 0.972, 4: 0.0}
    assert rows_of(site, shares, 4) == alone(0, 1, 2, 3)  # a new job runs alone
    assert rows_of(site, shares, 8) == [(0, 3), (1, 3), (2, 3), (3, 2)] * 2


def test_as_printed_one_of_the_three_runs_alone() -> None:
    site = Site({**PAIRED, "pairing": "printed"})
    full(site, 4)
    shares = {1: 0.97, 2: 0.971, 3: 0.972, 4: 0.0}
    rows_of(site, shares, 4)
    assert rows_of(site, shares, 4) == [(0, None), (1, 3), (2, 3), (3, 2)]


@pytest.mark.parametrize(
    ("mix", "chosen"),
    [
        (0, {}),
        (1, {0: 2, 3: 6}),  # the three compute jobs would take turns if their shares varied
        (2, {0: 4, 3: 4}),
        (3, {0: 6, 3: 2}),
        (4, {2: 2, 3: 6}),
    ],
)
def test_how_often_best_fit_chooses_each_slot(mix: int, chosen: dict[int, int]) -> None:
    """Section 4.1: slots 2 and 3 are chosen in 25 and 75 % of the quanta with four I/O jobs, and so on."""
    site = Site(BEST_FIT)
    full(site, 4)
    shares = {job_id: 0.97 if job_id <= 4 - mix else 0.0 for job_id in range(1, 5)}
    shares[1] += 0.001 if mix < 4 else 0  # no exact ties of compute jobs
    rows_of(site, shares, 8)
    partners = [partner for _, partner in rows_of(site, shares, 8) if partner is not None]
    assert {slot: partners.count(slot) for slot in sorted(set(partners))} == chosen


def test_blind_runs_two_rows_in_every_quantum() -> None:
    site = Site(BLIND)
    full(site, 3)
    assert rows_of(site, dict.fromkeys(range(1, 4), 1.0), 6) == [(0, 1), (1, 2), (2, 0)] * 2


def test_a_partner_that_vanishes_leaves_its_row_alone() -> None:
    site = Site(PAIRED)
    full(site, 3)
    rows_of(site, dict.fromkeys(range(1, 4), 0.1), 3)
    assert site.now() == (0, 2, ())
    site.end({1: 0.1}, ended=[3])
    assert rows_of(site, {1: 0.1, 2: 0.1}, 2) == [(1, 0), (0, 1)]


def test_a_partner_is_examined_again_when_the_turn_comes() -> None:
    site = Site(PAIRED, 2)
    site.end({}, arrived=[spec_of(1, 2), spec_of(2, 1)])
    rows_of(site, {1: 0.1, 2: 0.1}, 2)
    assert site.now() == (0, 1, ())
    site.end({1: 0.1, 2: 0.1}, arrived=[spec_of(3, 1)])  # a new job joins row 1
    assert site.rows() == {0: [1], 1: [2, 3]}
    assert rows_of(site, {1: 0.1, 2: 0.1, 3: 0.1}, 2) == [(1, None), (0, 1)]


def test_a_new_row_runs_alone_until_the_next_round() -> None:
    site = Site(PAIRED)
    full(site, 2)
    shares = dict.fromkeys(range(1, 5), 0.1)
    rows_of(site, shares, 2)
    full(site, 1, first=3)
    assert rows_of(site, shares, 2) == [(1, 0), (2, None)]
    assert rows_of(site, shares, 3) == [(0, 2), (1, 0), (2, 0)]


def test_the_slot_of_a_row_that_vanished_is_not_used_in_the_same_round() -> None:
    site = Site(PAIRED)
    full(site, 3)
    shares = dict.fromkeys(range(1, 6), 0.1)
    rows_of(site, shares, 3)
    assert site.now() == (0, 2, ())
    site.end({1: 0.1}, ended=[3], arrived=[spec_of(4, 8)])
    assert site.rows() == {0: [1], 1: [2], 3: [4]}


def test_jobs_that_are_never_paired_run_alone() -> None:
    site = Site(PAIRED)
    site.end({}, arrived=[spec_of(job_id, 8, unpaired=job_id < 3) for job_id in range(1, 5)])
    shares = dict.fromkeys(range(1, 5), 0.1)
    rows_of(site, shares, 4)
    assert rows_of(site, shares, 4) == [(0, None), (1, None), (2, 3), (3, 2)]
    site = Site(PAIRED)
    site.end({}, arrived=[spec_of(job_id, 8, unpaired=True) for job_id in range(1, 4)])
    assert rows_of(site, shares, 6) == alone(0, 1, 2, 0, 1, 2)


def test_a_pair_parts_before_a_job_that_is_never_paired_joins_it() -> None:
    site = Site(PAIRED, 2)
    site.end({}, arrived=[spec_of(1, 2), spec_of(2, 1)])
    rows_of(site, {1: 0.1, 2: 0.1}, 2)
    assert site.now() == (0, 1, ())
    actions = site.end({1: 0.1, 2: 0.1}, arrived=[spec_of(3, 1, unpaired=True)])
    assert [type(action).__name__ for action in actions] == ["SetRotation", "StartJob"]
    assert rows_of(site, {1: 0.1, 2: 0.1, 3: 0.1}, 4) == alone(1, 0, 1, 0)


def test_turns_without_company() -> None:
    matrix = Matrix()
    for slot in range(3):
        matrix.enter(Cell(slot, 1 << slot, NodeSet(1 << slot), 0, True, False), slot)
    turns = [Turn((0, 1)), Turn((1, 0), 1, (2,)), Turn((2,), 1, (0,)), Turn((7, 0))]
    assert without_company(turns, 9, 2, matrix) == (Turn((0, 1)), Turn((1, 0), 1, (2,)), Turn((2,)))
    assert without_company(turns, 9, 0, matrix) == (Turn((0,)), Turn((1,)), Turn((2,), 1, (0,)))
    assert without_company(turns, 0, 5, matrix) == (Turn((0, 1)), Turn((1, 0), 1, (2,)), Turn((2,)))


# ---------------------------------------------------------------- alternates


def test_an_alternate_has_its_own_turn_too_and_is_measured_in_both() -> None:
    site = Site({"backfill": "gang"})
    site.end({}, arrived=[spec_of(1, 5), spec_of(2, 5), spec_of(3, 2)])
    assert site.rows() == {0: [1, 3], 1: [2]}
    assert site.now() == (0, None, ())
    site.end({1: 0.5, 3: 0.5})
    assert site.now() == (1, None, (3,))
    site.end({2: 0.5, 3: 0.4})
    assert site.now() == (0, None, ())
    assert site.view.running[3].shares == (400_000, 500_000)


def test_alternates_come_from_the_rows_that_are_next_in_turn() -> None:
    site = Site({"backfill": {"name": "gang", "place_fresh": "new"}})
    site.end({}, arrived=[spec_of(job_id, 3) for job_id in (1, 2, 3)] + [spec_of(4, 5)])
    layers = {job_id: running.layers[0] for job_id, running in site.view.running.items()}
    assert layers == {1: 0b111, 2: 0b111, 3: 0b111, 4: 0b11111}
    site.end({1: 0.0})
    assert site.now() == (1, None, ())
    site = Site({"backfill": {"name": "gang", "place_fresh": "new"}, "placement": "least-loaded"})
    site.end({}, arrived=[spec_of(job_id, 3) for job_id in (1, 2, 3, 4)])
    layers = {job_id: running.layers[0] for job_id, running in site.view.running.items()}
    assert layers == {1: 0b111, 2: 0b111000, 3: 0b11000001, 4: 0b1110}
    assert site.now() == (0, None, (2,))  # 3 and 4 need nodes that these have
    site.end({1: 0.0, 2: 0.0})
    assert site.now() == (1, None, (3,))  # after row 1 come rows 2, 3 and 0
    site.end({2: 0.0, 3: 0.0})
    assert site.now() == (2, None, (4,))
    site.end({3: 0.0, 4: 0.0})
    assert site.now() == (3, None, (3,))


def test_an_alternate_that_ends_leaves_the_rotation() -> None:
    site = Site({"backfill": "gang"})
    site.end({}, arrived=[spec_of(1, 5), spec_of(2, 5), spec_of(3, 2)])
    site.end({1: 0.5, 3: 0.5})
    assert site.now() == (1, None, (3,))
    site.batch(JobEnded(3, COMPLETED))
    site.end({2: 0.5})
    assert site.view.rotation.turns == (Turn((0,)), Turn((1,)))


# ---------------------------------------------------------------- the trace


def test_a_trace_tells_why_a_pair_runs() -> None:
    told: list[TraceRecord] = []
    site = Site({**PAIRED, "backfill": {"name": "gang", "band": 20, "sharp_change": "any"}}, trace=told.append)
    site.end({}, arrived=[spec_of(1, 8), spec_of(2, 7), spec_of(3, 1)])
    site.end({1: 0.3})
    site.end({2: 0.3, 3: 0.8})
    site.end({3: 0.8})
    site.end({1: 0.6, 2: 0.3})
    assert [record["kind"] for record in told if record["kind"] not in ("start", "rotation")] == [
        "turn", "turn", "slot", "turn", "turn", "sharp_change", "turn",
    ]  # fmt: skip
    told = [record for record in told if record["kind"] not in ("start", "rotation")]
    assert told[2] | {"at_us": 0} == {
        "at_us": 0, "kind": "slot", "job": 3, "slot": 2, "reason": "band", "out_of": 1, "share_ppm": 800_000, "least_ppm": 300_000,
    }  # fmt: skip
    assert told[4]["slots"] == [0, 1]
    assert told[4]["shares_ppm"] == [300_000, 300_000]
    assert told[5] | {"at_us": 0} == {
        "at_us": 0,
        "kind": "sharp_change",
        "job": 1,
        "share_ppm": 600_000,
        "before_ppm": 300_000,
    }
    assert told[6]["slots"] == [1]  # its partner counts as new
    assert (told[6]["alone"], told[6]["other"], told[6]["other_ppm"]) == ("no-fit", 0, 1_000_000)


def test_a_rotation_is_for_the_next_quantum() -> None:
    site = Site(STRICT)
    full(site, 1)
    (action,) = site.end({1: 0.5}, arrived=[spec_of(2, 8)])[1:]
    assert action == SetRotation(2, (Turn((1,)), Turn((0,))))
