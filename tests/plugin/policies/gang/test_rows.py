"""The matrix: where jobs are put, when they change their rows, and when rows dissolve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.plugin.policies.cases import welcome_of
from tests.plugin.policies.gang.gang_cases import Site, spec_of

from cosched_plugin.common.errors import MachineError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import ChangeSlot, NodeClass, NodeFailed, SetNote

PAIRED: Mapping[str, Any] = {"preset": "paired-gang", "placement": "first-fit"}
ROWS: Mapping[str, Any] = {"backfill": "gang", "placement": "first-fit"}


def site_with(table: Mapping[str, Any], sizes: Mapping[int, int], nodes: int = 4, **changes: Any) -> Site:
    """Return a site on which jobs of these numbers of nodes have just been submitted."""
    backfill = {"name": "gang", **changes}
    site = Site({**table, "backfill": backfill} if changes else table, nodes)
    site.end({}, arrived=[spec_of(job_id, size) for job_id, size in sizes.items()])
    return site


def moves_in(site: Site, shares: Mapping[int, float], **more: Any) -> list[tuple[int, int]]:
    """End a quantum; return the changes of rows that follow, as (job, slot)."""
    return [(action.job_id, action.slot) for action in site.end(shares, **more) if isinstance(action, ChangeSlot)]


# ---------------------------------------------------------------- new jobs


def test_new_jobs_take_the_first_row_with_room_else_a_new_one() -> None:
    site = site_with(ROWS, {1: 3, 2: 2, 3: 1, 4: 4, 5: 2})
    assert site.rows() == {0: [1, 3], 1: [2, 5], 2: [4]}


def test_a_new_job_gets_a_row_of_its_own_where_that_is_wanted() -> None:
    assert site_with(ROWS, {1: 1, 2: 1}, place_fresh="new").rows() == {0: [1], 1: [2]}


def test_a_new_job_is_put_where_the_band_admits_a_share_of_100() -> None:
    site = site_with(PAIRED, {1: 1}, band=20, place_fresh="band")
    site.end({1: 0.79}, arrived=[spec_of(2, 1)])
    assert site.rows() == {0: [1], 1: [2]}
    site.end({2: 0.81}, arrived=[spec_of(3, 1)])
    assert site.rows() == {0: [1], 1: [2, 3]}


def test_the_order_of_the_queue_is_kept_where_there_may_be_no_more_rows() -> None:
    site = site_with(ROWS, {1: 4, 2: 3, 3: 2, 4: 1}, rows=2)
    assert site.rows() == {0: [1], 1: [2]}
    assert [job.id for job in site.view.queue] == [3, 4]  # job 4 would fit, but 3 comes first


def test_no_job_is_put_beyond_the_memory_and_none_overtakes() -> None:
    site = Site(ROWS, 2, memory_mb=100)
    jobs = [spec_of(1, 2, memory_mb=40), spec_of(2, 2, memory_mb=40), spec_of(3, 1, memory_mb=30), spec_of(4, 1)]
    site.end({}, arrived=jobs)
    assert site.rows() == {0: [1], 1: [2]}
    assert [job.id for job in site.view.queue] == [3, 4]
    site.end({}, ended=[1])
    assert site.rows() == {1: [2], 2: [3, 4]}


def test_jobs_wait_for_the_end_of_the_quantum_unless_nothing_runs() -> None:
    site = Site(ROWS)
    site.batch()
    assert site.end({}, arrived=[spec_of(1, 4)])
    assert site.rows() == {0: [1]}
    before = site.view.rotation
    site.batch()
    assert site.view.rotation == before
    site.end({}, ended=[1])  # all jobs end
    site.end({}, arrived=[spec_of(2, 4)])
    assert site.rows() == {0: [2]}


@pytest.mark.parametrize(
    ("placement", "nodes"),
    [
        ("first-fit", {1: 0b1, 2: 0b110, 3: 0b1111111}),
        ("least-loaded", {1: 0b1, 2: 0b110, 3: 0b11111011}),
        ("buddy", {1: 0b1, 2: 0b1100, 3: 0b1111111}),
    ],
)
def test_columns(placement: str, nodes: dict[int, int]) -> None:
    """The third job gets a row of its own, and any seven of the eight nodes."""
    site = Site({"backfill": "gang", "placement": placement}, 8)
    site.end({}, arrived=[spec_of(1, 1), spec_of(2, 2), spec_of(3, 7)])
    assert site.rows() == {0: [1, 2], 1: [3]}
    assert {job_id: running.layers[0] for job_id, running in site.view.running.items()} == nodes


@pytest.mark.parametrize(("failed", "nodes"), [((), 0b111), ((1,), 0b1101), ((1, 2), 0b11001)])
def test_a_job_does_not_wait_for_a_block_with_failed_nodes(failed: tuple[int, ...], nodes: int) -> None:
    site = Site({"backfill": "gang", "placement": "buddy"}, 5)
    site.batch(*map(NodeFailed, failed))
    site.end({}, arrived=[spec_of(1, 3)])
    assert site.view.running[1].layers == (nodes,)


# ---------------------------------------------------------------- bands


def test_a_job_that_needs_far_more_cpu_leaves_its_row() -> None:
    site = site_with(PAIRED, {1: 1, 2: 1, 3: 1})
    assert site.rows() == {0: [1, 2, 3]}
    assert moves_in(site, {1: 0.5, 2: 0.7, 3: 0.69}) == [(2, 1)]  # 70 is not below 50 + 20
    assert site.rows() == {0: [1, 3], 1: [2]}


def test_a_job_far_below_stays_and_the_others_go() -> None:
    site = site_with(PAIRED, {1: 1, 2: 1, 3: 1})
    assert moves_in(site, {1: 0.5, 2: 0.1, 3: 0.6}) == [(1, 1), (3, 1)]


def test_a_row_must_admit_a_job_both_ways() -> None:
    site = site_with(PAIRED, {1: 1, 2: 1, 3: 1})
    assert moves_in(site, {1: 0.1, 2: 0.5, 3: 0.9}) == [(2, 1), (3, 2)]  # 90 is not below 50 + 20
    site = site_with(PAIRED, {1: 1, 2: 1, 3: 1})
    assert moves_in(site, {1: 0.5, 2: 0.9, 3: 0.6}) == [(2, 1)]
    assert moves_in(site, {2: 0.9}) == []
    assert moves_in(site, {1: 0.5, 3: 0.95}) == [(3, 1)]  # 80 by now: 90 is below 80 + 20


def test_a_job_finds_its_columns_taken_everywhere() -> None:
    site = Site(PAIRED, 2)
    site.end({}, arrived=[spec_of(1, 1), spec_of(2, 1), spec_of(3, 2)])
    assert site.rows() == {0: [1, 2], 1: [3]}
    assert moves_in(site, {1: 0.1, 2: 0.5}) == [(2, 2)]


def test_jobs_that_have_not_been_measured_have_no_band() -> None:
    site = site_with(PAIRED, {1: 1, 2: 1})
    assert moves_in(site, {1: 0.1}) == []  # 2 ran for less than half a quantum
    assert moves_in(site, {1: 0.1, 2: 0.9}) == [(2, 1)]


def test_where_there_may_be_no_more_rows_a_job_stays() -> None:
    site = site_with(PAIRED, {1: 1, 2: 1}, band=20, rows=1)
    assert moves_in(site, {1: 0.1, 2: 0.9}) == []
    assert site.rows() == {0: [1, 2]}


def test_without_bands_rows_mix() -> None:
    site = site_with({**ROWS, "pairing": "predesigned"}, {1: 1, 2: 1})
    assert moves_in(site, {1: 0.1, 2: 0.9}) == []


# ---------------------------------------------------------------- compaction


@pytest.mark.parametrize("compaction", [True, False])
def test_a_row_dissolves_where_all_its_jobs_have_a_place(compaction: bool) -> None:
    site = site_with(ROWS, {1: 2, 2: 2, 3: 3, 4: 1, 5: 4}, compaction=compaction)
    assert site.rows() == {0: [1, 2], 1: [3, 4], 2: [5]}
    expected = [(3, 0), (4, 0)] if compaction else []
    site.batch()
    assert moves_in(site, {}, ended=[1, 2]) == []  # row 0 is gone
    assert site.rows() == {1: [3, 4], 2: [5]}
    site = site_with(ROWS, {1: 2, 2: 2, 3: 3, 4: 2}, compaction=compaction)
    assert site.rows() == {0: [1, 2], 1: [3], 2: [4]}
    expected = [(4, 0)] if compaction else []
    assert moves_in(site, {}, ended=[1]) == expected


def test_a_row_does_not_dissolve_in_part() -> None:
    site = site_with(ROWS, {1: 2, 2: 2, 3: 2, 4: 2}, compaction=True)
    assert site.rows() == {0: [1, 2], 1: [3, 4]}
    assert moves_in(site, {}, ended=[1]) == []


# ---------------------------------------------------------------- sharp changes


def test_a_sharp_change_makes_a_job_new_for_a_quantum() -> None:
    table = {**PAIRED, "backfill": {"name": "gang", "sharp_change": "any"}}
    site = Site(table, 2)
    site.end({}, arrived=[spec_of(1, 2), spec_of(2, 2)])
    site.end({1: 0.3})
    assert site.now() == (1, None, ())  # it has not been measured
    site.end({2: 0.3})
    assert site.now() == (0, 1, ())
    actions = site.end({1: 0.7, 2: 0.3})
    assert SetNote(1, "fresh", 2) in actions
    assert site.now() == (1, None, ())  # its partner is new again
    site.end({2: 0.3})
    assert site.now() == (0, None, ())
    assert not any(isinstance(action, SetNote) for action in site.end({1: 0.2}))  # the quantum alone is not compared
    site.end({2: 0.3})
    assert site.now() == (0, 1, ())
    assert not any(isinstance(action, SetNote) for action in site.end({1: 0.35, 2: 0.3}))  # two steps of 15 points
    assert not any(isinstance(action, SetNote) for action in site.end({1: 0.5, 2: 0.3}))


def test_machines_without_slots_are_declined() -> None:
    core = SchedulerCore(compose({"preset": "gang"}), welcome_of([NodeClass(2, 1, 1, 1, 0, 0, 0, 0)], (), ()))
    with pytest.raises(MachineError, match="expected a machine with slots"):
        core.handle(0, ())
