"""The matrix: where jobs are put, when they change their rows and when rows dissolve; contiguous rows; predicted shares."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import welcome_of
from tests.plugin.policies.gang.gang_cases import Site, spec_of
from tests.reference.gang import PPM, predicted

from cosched_plugin.api import predict
from cosched_plugin.common.errors import MachineError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.gang.matrix import counted, is_sharp
from cosched_plugin.protocol.messages import ChangeSlot, NodeClass, StartJob

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


def test_a_new_job_is_put_where_the_band_admits_a_share_of_100() -> None:
    site = site_with(PAIRED, {1: 1}, band=20, place_fresh="band")
    site.end({1: 0.79}, arrived=[spec_of(2, 1)])
    assert site.rows() == {0: [1], 1: [2]}
    site.end({2: 0.81}, arrived=[spec_of(3, 1)])
    assert site.rows() == {0: [1], 1: [2, 3]}


# ---------------------------------------------------------------- bands


def test_a_job_far_below_stays_and_the_others_go() -> None:
    site = site_with(PAIRED, {1: 1, 2: 1, 3: 1})
    assert moves_in(site, {1: 0.5, 2: 0.1, 3: 0.6}) == [(1, 1), (3, 1)]


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


def test_machines_without_slots_are_declined() -> None:
    core = SchedulerCore(compose({"preset": "gang"}), welcome_of([NodeClass(2, 1, 1, 1, 0, 0, 0, 0)], (), ()))
    with pytest.raises(MachineError, match="expected a machine with slots"):
        core.handle(0, ())


# ---------------------------------------------------------------- three rows on contiguous columns (communication-driven coscheduling)

GANG: Mapping[str, Any] = {"preset": "gang-contiguous"}
SKIPPING: Mapping[str, Any] = {"preset": "gang-contiguous", "backfill": {"skip": True}}


def columns(site: Site) -> dict[int, tuple[int, int]]:
    """Return the first node and the number of nodes of each running job; all are contiguous."""
    found = {}
    for job_id, running in site.view.running.items():
        ((first, count, mask, processes),) = running.runs
        assert (mask, processes) == (1, 1)
        found[job_id] = (first, count)
    return found


def test_a_job_without_a_place_is_passed_over_where_that_is_wanted() -> None:
    site = Site(SKIPPING, 16)
    site.end({}, arrived=[spec_of(job_id, size) for job_id, size in enumerate((9, 4, 16, 9, 8, 4), start=1)])
    assert site.rows() == {0: [1, 2], 1: [3], 2: [4, 6]}
    assert [job.id for job in site.view.queue] == [5]


def test_jobs_of_other_rows_run_on_idle_nodes() -> None:
    site = Site(GANG, 16)
    site.end({}, arrived=[spec_of(1, 9), spec_of(2, 9), spec_of(3, 4), spec_of(4, 4)])
    assert site.rows() == {0: [1, 3], 1: [2, 4]}
    assert columns(site) == {1: (0, 9), 2: (7, 9), 3: (9, 4), 4: (0, 4)}
    site.end({1: 1.0, 3: 1.0}, ended=[1])  # nodes 0 to 8 are idle in row 0
    site.end({2: 1.0, 4: 1.0})
    assert site.now() == (0, None, (4,))


@pytest.mark.parametrize("policy", [GANG, SKIPPING], ids=["strict", "skip"])
def test_no_node_holds_more_than_three_jobs_or_its_memory(policy: Mapping[str, Any]) -> None:
    """All slots of a node count together; the sizes and 900 MB are the paper's."""
    random = Random(5)
    site = Site(policy, 16, memory_mb=900)
    started = most_jobs = 0
    most_mb = 0
    for number in range(60):
        job = spec_of(number, random.choice((4, 8, 9, 16)), memory_mb=random.choice((60, 176, 228, 354, 428)))
        ended = [each for each in site.view.running if random.random() < 0.2]
        actions = site.end({}, ended=ended, arrived=[job])
        started += sum(isinstance(action, StartJob) for action in actions)
        for node in range(16):
            there = [
                site.view.running[each].job
                for each, (first, count) in columns(site).items()
                if first <= node < first + count
            ]
            most_jobs = max(most_jobs, len(there))
            most_mb = max(most_mb, sum(each.memory_mb for each in there))
    assert started > 30
    assert most_jobs == 3
    assert 800 < most_mb <= 900


# ---------------------------------------------------------------- predicted shares (paired gang paper, section 2.3)

POINT = 10_000  # ppm


@pytest.mark.parametrize(
    ("shares", "renormalised", "padded"),
    [
        ((), 100, 100),  # a new job needs the whole CPU
        ((50,), 50, 80),  # one quantum: its share, or .4 of it and .6 of the whole
        ((60, 30), (4 * 60 + 3 * 30) / 7, 24 + 9 + 30),
        ((60, 30, 0), (4 * 60 + 3 * 30) / 9, 24 + 9 + 10),
        ((40, 30, 20, 10), 30, 30),  # .4, .3, .2, .1: the newest first
        ((10, 20, 30, 40), 20, 20),
        ((140, 100, 100, 100), 100, 100),  # ticks may log more than there is
    ],
)
def test_shares_by_hand(shares: tuple[int, ...], renormalised: float, padded: float) -> None:
    ppm = [share * POINT for share in shares]
    assert predict(ppm) == int(renormalised * POINT)
    assert predict(ppm, pad=True) == int(padded * POINT)


def test_shares_are_predicted_as_by_the_reference() -> None:
    random = Random(1)
    for _ in range(500):
        history = [random.randint(0, 1_100_000) for _ in range(random.randint(0, 6))]
        for pad in (False, True):
            expected = predicted([Fraction(share, PPM) for share in history], pad=pad)
            assert predict(history[::-1][:4], pad=pad) == expected * PPM


def test_a_history_that_was_given_up_does_not_count() -> None:
    assert counted((7, 6, 5, 4), 9, 0) == (7, 6, 5, 4)
    assert counted((7, 6, 5, 4), 9, 7) == (7, 6)
    assert counted((7, 6, 5, 4), 9, 9) == ()
    assert counted((7, 6, 5, 4), 30, 7) == (7, 6, 5, 4)


@pytest.mark.parametrize(
    ("shares", "rise", "any_change"),
    [
        ((80, 49), True, True),  # up by 31 points
        ((49, 80), False, True),  # down
        ((50, 30), False, False),  # 20 points are not more than 20
        ((30, 50), False, False),
        ((65, 50, 35), False, False),  # two steps of 15
        ((90,), False, False),  # after a quantum alone nothing is compared
        ((), False, False),
    ],
)
def test_sharp_changes(shares: tuple[int, ...], rise: bool, any_change: bool) -> None:
    ppm = [share * POINT for share in shares]
    assert is_sharp(ppm, "rise") == rise
    assert is_sharp(ppm, "any") == any_change
    assert not is_sharp(ppm, "off")
