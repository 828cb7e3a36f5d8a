"""The rotation: whose turn it is, with which partner, and what changes in the middle of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.plugin.policies.gang.gang_cases import Site, spec_of

from cosched_plugin.api import NodeSet, Turn
from cosched_plugin.core.trace import TraceRecord
from cosched_plugin.policies.gang.gang import without_company
from cosched_plugin.policies.gang.matrix import Cell, Matrix
from cosched_plugin.policies.turns import following

STRICT: Mapping[str, Any] = {"backfill": {"name": "gang", "alternates": "off"}}
PAIRED: Mapping[str, Any] = {**STRICT, "pairing": "predesigned"}
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


# ---------------------------------------------------------------- partners


def test_blind_runs_two_rows_in_every_quantum() -> None:
    site = Site(BLIND)
    full(site, 3)
    assert rows_of(site, dict.fromkeys(range(1, 4), 1.0), 6) == [(0, 1), (1, 2), (2, 0)] * 2


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
