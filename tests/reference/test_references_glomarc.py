"""The references of G-LOMARC-TS, against the specification's checks, cases worked by hand, and each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.reference.glomarc import (
    Cos,
    Member,
    Number,
    Planned,
    Waiting,
    best_window,
    blocks_of,
    coscheduled,
    evolve,
    exact,
    fill,
    fits,
    forecast,
    form_groups,
    ppn,
    preselect,
    purify,
    run_factor,
    space_gain,
    u_gain,
    windows,
)
from tests.reference.slices import Calendar, Class, progress_between, slices_of, wall_of

F = Fraction


# ---------------------------------------------------------------- processes on a node and run times


@pytest.mark.parametrize(
    ("size", "sno", "scr", "expected"),
    [
        (1, 1.0, 1.0, 1),  # a serial job, whatever its slowdowns
        (8, 1.0, 1.25, 4),  # at the limit
        (8, 1.0, 1.26, 2),
        (8, 1.12, 1.2, 2),  # at the limit
        (8, 1.13, 1.2, 1),
        (8, 1.25, 1.0, 4),
        (8, 1.13, 1.1, 4),  # 1.243, though two a node alone would be too slow
        (8, 0.9, 1.38, 4),  # 1.242
        (128, 1.3, 1.3, 1),
        (129, 1.3, 1.3, 2),  # more than one a node
        (257, 1.3, 1.3, 4),
        (257, 1.0, 1.4, 4),
        (512, 1.0, 1.0, 4),
    ],
)
def test_processes_on_a_node(size: int, sno: float, scr: float, expected: int) -> None:
    assert ppn(size, sno, scr) == expected
    assert ppn(size, exact(sno), exact(scr)) == expected


def test_processes_on_other_machines() -> None:
    with pytest.raises(ValueError, match="513 processes on 128 nodes of 2 x 2 cores"):
        ppn(513, 1.0, 1.0)
    assert ppn(9, 1.3, 1.3, nodes=8) == 2
    assert [ppn(8, sno, scr, cpus=4, cores=3) for sno, scr in ((1, 1), (1, 1.3), (1.2, 1.3))] == [12, 4, 1]
    assert ppn(8, 1.13, 1.2, self_sl_2=1.2) == 2
    assert ppn(8, 1.13, 1.2, max_sl=1.4) == 4


def test_run_factors() -> None:
    assert [run_factor(processes, 1.1, 1.2) for processes in (1, 2, 4)] == [1, F(11, 10), F(132, 100)]
    assert run_factor(2, 1.1, 1.2, (1.05, 1.3, 1)) == F(143, 100)
    assert run_factor(1, 1.1, 1.2, (1.05,)) == F(105, 100)
    assert run_factor(2, 0.9, 1.2) == F(9, 10)


# ---------------------------------------------------------------- groups


def table(pairs: Mapping[tuple[int, int], Number]) -> Cos:
    """Return SL_cos from a table; 1 where it has none."""
    return lambda job, other: pairs.get((job, other), 1)


def test_evolution_of_a_group() -> None:
    # Job 1 ends first, after 40: at 5/4 the primary job has 68 left, and so has job 2. Without job 1 the primary job
    # is not slowed: 108. Job 2 has done 68 * 4/5 = 54.4 by then, and 13.6 are left, which it does alone.
    primary, first, second = Member(0, 8, 100, 1, 4), Member(1, 4, 40, 1, 2), Member(2, 4, 100, 1, 2)
    cos = table({(0, 1): 1.25, (2, 0): 1.25})
    group = evolve(primary, [first, second], cos)
    assert group.periods == ((F(40), (1, 2)), (F(68), (2,)))
    assert group.ends == {0: 108, 1: 40, 2: F("121.6")}
    assert group.length == 108
    # 40 * (4 + 4 * .8 + 8 * .8) + 68 * (4 * .8 + 8) = 1305.6 node-seconds, in 108 on 4 nodes.
    assert u_gain(primary, [first, second], cos) == F("1305.6") / 432 - 1
    # One after the other, from 100 on: the group ends with its last matched job.
    group = evolve(primary._replace(left=200), [first, second], cos)
    assert group.periods == ((F(40), (1, 2)), (F(85), (2,)))  # 68 left at 5/4
    assert group.ends == {0: 125 + (200 - 32 - 85), 1: 40, 2: 125}


def test_a_group_with_slowdowns_of_its_own_jobs() -> None:
    # Together: the primary job is slowed by 1.1 * 1.2 = 1.32, job 1 by .9 * 1.5 = 1.35.
    primary, matched = Member(0, 8, 50, 1.1, 4), Member(1, 8, 60, 0.9, 4)
    group = evolve(primary, [matched], table({(0, 1): 1.2, (1, 0): 1.5}))
    assert group.periods == ((F(66), (1,)),)
    assert group.ends == {0: 66, 1: 66 + (60 - 66 / F("1.35")) * F("0.9")}


def test_all_end_at_once() -> None:
    members = [Member(number, 4, 70, 1, 2) for number in range(3)]
    group = evolve(members[0], members[1:], table({}))
    assert group.periods == ((F(70), (1, 2)),)
    assert group.ends == {0: 70, 1: 70, 2: 70}


@pytest.mark.parametrize("matched", [[], [Member(0, 4, 1, 1, 2)], [Member(1, 4, 0, 1, 2)]])
def test_evolution_without_nodes_or_matched_jobs_is_refused(matched: list[Member]) -> None:
    with pytest.raises(AssertionError, match="group"):
        evolve(Member(0, 4, 1, 1, 2), matched, table({}))


def test_gains() -> None:
    # The specification's check: (S + S - S/2) / (S/2) = 3.
    for size in (2, 8, 128):
        one, other = (coscheduled(number, size, 1000, 1, 1) for number in (0, 1))
        assert u_gain(one, [other], table({})) == 3
    # Serial jobs: two processes on one node instead of two.
    assert u_gain(coscheduled(0, 1, 100, 1, 1), [coscheduled(1, 1, 100, 1, 1)], table({})) == 1
    # Half of the nodes: (S + S/2 - S/2) / (S/2) = 2. More than the nodes: 9 + 8 processes on 5 nodes.
    assert u_gain(coscheduled(0, 8, 100, 1, 1), [coscheduled(1, 4, 100, 1, 1)], table({})) == 2
    assert u_gain(coscheduled(0, 8, 100, 1, 1), [coscheduled(1, 9, 100, 1, 1)], table({})) == F(17, 5) - 1
    # Odd sizes hold whole nodes: 7 + 7 processes on 4 nodes.
    assert u_gain(coscheduled(0, 7, 100, 1, 1), [coscheduled(1, 7, 100, 1, 1)], table({})) == F(14, 4) - 1
    # Slowdowns: 4 cores at 1/(1.1 * 1.25) each.
    one, other = (coscheduled(number, 8, 100, 1.1, 1) for number in (0, 1))
    assert u_gain(one, [other], table({(0, 1): 1.25, (1, 0): 1.25})) == 4 / F("1.375") - 1
    assert [space_gain(4, 1.25), space_gain(2, 1), space_gain(1, 1)] == [F(11, 5), 1, 0]


def drawn_group(random: Random, matched: int) -> tuple[Member, list[Member], dict[tuple[int, int], Number]]:
    members = [
        coscheduled(n, random.randint(2, 40), random.randint(100, 9999), F(random.randint(90, 140), 100), 1)
        for n in range(matched + 1)
    ]
    pairs: dict[tuple[int, int], Number] = {
        (a, b): F(random.randint(100, 150), 100) for a in range(matched + 1) for b in range(matched + 1)
    }
    return members[0], members[1:], pairs


@pytest.mark.parametrize("seed", range(30))
def test_groups_conserve_work_and_have_the_gain_of_formula_5(seed: int) -> None:
    random = Random(seed)
    primary, matched, pairs = drawn_group(random, random.randint(1, 4))
    group = evolve(primary, matched, table(pairs))
    over = group.length
    assert over == min(group.ends[0], max(group.ends[one.id] for one in matched))
    in_group = F(0)  # process-seconds of work
    # From the ends alone: the jobs there between two of them, and the pace of each.
    edges = sorted({F(0), over, *(end for end in group.ends.values())})
    for one in (primary, *matched):
        done = F(0)
        for since, until in pairwise(edge for edge in edges if edge <= group.ends[one.id]):
            there = [other for other in (primary, *matched) if group.ends[other.id] >= until]
            partners = [other for other in there if (other.id == 0) != (one.id == 0)]
            slowest = max((exact(pairs[one.id, other.id]) for other in partners), default=F(1)) if until <= over else 1
            work = (until - since) / (exact(one.factor) * slowest)
            done += work
            in_group += one.size * work if until <= over else 0
        assert done == one.left
    held = over * max(primary.nodes, sum(one.nodes for one in matched))
    assert u_gain(primary, matched, table(pairs)) == (in_group - held) / held  # sum of T_i * S_i: formula (5)
    # A larger slowdown of one job lets no job end earlier.
    slower = {**pairs, random.choice(sorted(pairs)): F(2)}
    later = evolve(primary, matched, table(slower)).ends
    assert all(later[job] >= end for job, end in group.ends.items())


# ---------------------------------------------------------------- forming groups

PRIMARY = Member(0, 16, 10_000, 1, 8)


def candidate(number: int, nodes: int, left: Number = 10_000, factor: Number = 1) -> Member:
    return Member(number, 2 * nodes, left, factor, nodes)


def numbers(members: Sequence[Member] | None) -> list[int]:
    assert members is not None
    return [one.id for one in members]


def test_preselection() -> None:
    cos = table({(0, 1): 1.25, (1, 0): 1.25, (0, 2): 1.26, (3, 0): 1.26, (0, 5): 1.1, (6, 0): 1.1})
    lefts = {4: 13_000, 5: 14_000, 6: 11_819, 7: 13_001, 8: 11_819}
    jobs = [candidate(number, 1, lefts.get(number, 10_000)) for number in range(1, 9)]
    jobs[7] = jobs[7]._replace(factor=1.1)
    # 4 is 3000 s longer, 5 too: 14,000 - 11,000; 6 and 8 are 3000.9 s longer.
    assert numbers(preselect(PRIMARY, jobs, cos)) == [1, 4, 5]
    assert numbers(preselect(PRIMARY, jobs, cos, max_sl=1.26, matched_longer=3001)) == [1, 2, 3, 4, 5, 6, 7, 8]
    slow = [candidate(1, 1, 14_000), candidate(2, 1, 14_001)]
    assert numbers(preselect(PRIMARY._replace(factor=1.1), slow, table({}))) == [1]


def test_blocks() -> None:
    jobs = [candidate(number, 1, left) for number, left in enumerate([5, 9, 9, 1, 8, 2, 7], 1)]
    assert [numbers(block) for block in blocks_of(jobs, 3)] == [[2, 3, 1], [5, 6, 4], [7]]
    assert [numbers(block) for block in blocks_of(jobs, 3, sort=False)] == [[1, 2, 3], [4, 5, 6], [7]]
    assert [len(block) for block in blocks_of([PRIMARY] * 33)] == [16, 16, 1]
    assert blocks_of([]) == []


def test_the_window_slides_over_the_block() -> None:
    # 8 nodes and one more. From 1: 3 + 4; from 2: 4 + 5; 5 nodes and then 9; 10 are never seen.
    block = [candidate(number, nodes) for number, nodes in enumerate([3, 4, 5, 9, 10, 2, 2], 1)]
    assert [numbers(one) for one in windows(PRIMARY, block)] == [[1, 2], [2, 3], [3], [4], [6, 7], [7]]
    assert [numbers(one) for one in windows(PRIMARY, block, larger=0)] == [[1, 2], [2], [3], [6, 7], [7]]
    assert fits(PRIMARY, block[3:4])
    assert not fits(PRIMARY, block[4:5])
    # Of 7 nodes no job may need one more: .875.
    assert not fits(PRIMARY._replace(nodes=7), [candidate(1, 8)])


def test_the_best_window() -> None:
    # All are as long as the primary job: the shared nodes and the slowdowns decide.
    block = [candidate(number, nodes) for number, nodes in enumerate([3, 4, 4, 4, 2], 1)]
    assert numbers(best_window(PRIMARY, block, table({}))) == [2, 3]  # 8 nodes; so are 3 and 4, later
    assert numbers(best_window(PRIMARY, block, table({(0, 2): 1.2}))) == [3, 4]
    assert numbers(best_window(PRIMARY, block, table({}), wanted=1)) == [1, 2]
    assert numbers(best_window(PRIMARY, block, table({}), wanted=5)) == [4, 5]
    assert best_window(PRIMARY, block, table({}), wanted=6) is None
    assert best_window(PRIMARY, [candidate(1, 10)], table({})) is None


def test_other_blocks_fill_what_is_left() -> None:
    blocks = [[candidate(1, 5), candidate(2, 2)], [candidate(3, 1), candidate(4, 1)], [candidate(5, 1)]]
    best = (candidate(6, 4),)
    # 5 more nodes make 9: one too many is allowed, and no node is left.
    assert [numbers(one) for one in fill(PRIMARY, best, blocks, table({}))] == [[6], [6, 1]]
    # 4 + 2 + 1 + 1 are all; job 3 slows the primary job too much to gain.
    groups = fill(PRIMARY, best, blocks, table({(0, 3): 1.6}), larger=0)
    assert [numbers(one) for one in groups] == [[6], [6, 2], [6, 2, 4], [6, 2, 4, 5]]
    gains = [u_gain(PRIMARY, one, table({(0, 3): 1.6})) for one in groups]
    assert gains == sorted(gains)
    full = (candidate(6, 8),)
    assert fill(PRIMARY, full, blocks, table({})) == [full]
    # No job is added without a free node, even if it would gain: (16/3 + 16/3) / 8 with all of its nodes shared, (16/3 + 16/3 +
    # 2) / 9 with job 7 too.
    slow, full, more = PRIMARY._replace(factor=3), (candidate(6, 8, factor=3),), candidate(7, 1, left=30_000)
    assert u_gain(slow, (*full, more), table({})) > u_gain(slow, full, table({}))
    assert fill(slow, full, [[more]], table({})) == [full]
    # A job that adds exactly nothing: 16 + 12 or 14 + 14.
    assert len(fill(PRIMARY, (candidate(6, 6),), blocks[2:], table({(0, 5): F(16, 14)}))) == 1
    assert len(fill(PRIMARY, (candidate(6, 6),), blocks[2:], table({(0, 5): F(16, 15)}))) == 2


def test_purified_groups() -> None:
    group = (candidate(1, 6), candidate(2, 1), candidate(3, 1))
    cos = table({(0, 1): 1.05, (0, 2): 1.25, (0, 3): 1.6})
    # At work: 16/1.6 + 16 = 26 processes; without 3 16/1.25 + 14 = 26.8; without 2 16/1.05 + 12 = 27.2.
    assert numbers(purify(PRIMARY, group, cos)) == [1]
    assert numbers(purify(PRIMARY, group, cos, wanted=3)) == [1, 2, 3]
    assert numbers(purify(PRIMARY, group, cos, wanted=2)) == [1, 2]
    assert numbers(purify(PRIMARY, group[2:], cos)) == [3]  # the last one stays, however slow
    assert numbers(purify(PRIMARY, group, table({(0, 1): 1.2, (0, 3): 1.1}))) == [1, 2, 3]  # the worst contributes
    # A job that adds exactly nothing leaves: 14 + 14 or 16 + 12.
    even = table({(0, 3): F(16, 14)})
    assert u_gain(PRIMARY, (group[0], group[2]), even) == u_gain(PRIMARY, (group[0],), even)
    assert numbers(purify(PRIMARY, (group[0], group[2]), even)) == [1]


def test_groups_of_all_steps() -> None:
    # Block 1 after preselection: 1, 3 (left 9000) | 4 (left 9500), 5 | 6.
    cos = table({(0, 2): 1.5})
    jobs = [candidate(number, nodes, left) for number, nodes, left in [(1, 4, 9000), (2, 4, 9000), (3, 2, 9000)]]
    jobs += [candidate(4, 1, 9500), candidate(5, 1, 9000), candidate(6, 3, 9000)]
    groups = form_groups(PRIMARY, jobs, cos, block_size=2)
    assert [group.matched for group in groups] == [(1, 3, 4, 5), (1, 3, 4), (1, 3)]
    assert [group.gain for group in groups] == sorted((group.gain for group in groups), reverse=True)
    assert [one.matched for one in form_groups(PRIMARY, jobs, cos, block_size=2, first_block_only=True)] == [(1, 3)]
    assert [one.matched for one in form_groups(PRIMARY, jobs, cos)] == [(4, 1, 3, 5)]  # and then 6
    assert form_groups(PRIMARY, [], cos) == form_groups(PRIMARY, [jobs[1]], cos) == []
    assert form_groups(PRIMARY, jobs, cos, wanted=2) == []


@pytest.mark.parametrize("seed", range(8))
def test_drawn_groups_keep_the_rules(seed: int) -> None:
    random = Random(seed)
    _, jobs, pairs = drawn_group(random, 40)
    primary = coscheduled(0, 40, 5000, 1, 1)
    pairs = {pair: 1 + (exact(sl) - 1) / 2 + F(random.randint(0, 9), 10_000) for pair, sl in pairs.items()}
    groups = form_groups(primary, jobs, table(pairs), block_size=8)
    assert groups
    by_id = {one.id: one for one in jobs}
    for group in groups:
        members = [by_id[number] for number in group.matched]
        assert sum(one.nodes for one in members) <= 22  # 20 and a tenth more; an eighth would be 22.5
        assert group.gain == u_gain(primary, members, table(pairs))
        assert preselect(primary, members, table(pairs)) == members
        for one in members if len(members) > 1 else []:
            rest = [other for other in members if other is not one]
            slows = all(pairs[0, one.id] > pairs[0, other.id] for other in rest)
            assert not slows or u_gain(primary, rest, table(pairs)) < group.gain
    # No window of the first block is better than the best group.
    first = blocks_of(preselect(primary, jobs, table(pairs)), 8)[0]
    for start in range(len(first)):
        sets = [first[start:stop] for stop in range(start + 1, len(first) + 1) if fits(primary, first[start:stop])]
        assert not sets or u_gain(primary, sets[-1], table(pairs)) <= groups[0].gain


# ---------------------------------------------------------------- forecast


def test_a_forecast() -> None:
    # 4 nodes; 0 and 1 are held until 10 and, by one beside it, until 20; 2 until 5.
    running = [(10, [0, 1]), (20, [1]), (5, [2])]
    waiting = [Waiting(1, 3, 10), Waiting(2, 1, 10), Waiting(3, 1, 2), Waiting(4, 4, 1), Waiting(5, 2, 5)]
    expected = {
        1: Planned(F(10), F(20)),  # nodes 0, 2 and 3
        2: Planned(F(0), F(10)),  # node 3, which is not needed before
        3: Planned(F(5), F(7)),
        4: Planned(F(20), F(21)),
        5: Planned(F(21), F(26)),
    }
    assert forecast(4, 0, running, waiting) == expected
    assert forecast(4, 0, running, waiting, keep_nodes=True) == expected
    assert forecast(4, 0, running, []) == {}
    assert forecast(4, 7, [(9, [0])], [Waiting(1, 4, 1)]) == {1: Planned(F(9), F(10))}


def test_reserving_nodes_at_planning_may_delay_a_job() -> None:
    # Job 1 is planned on nodes 0 and 1 at 4. Job 2 could be on node 1 from 3 to 5, if job 1 had node 2.
    running: list[tuple[Number, list[int]]] = [(4, [0]), (3, [1]), (4, [2])]
    waiting = [Waiting(1, 2, 1), Waiting(2, 1, 2)]
    assert forecast(3, 0, running, waiting) == {1: Planned(F(4), F(5)), 2: Planned(F(3), F(5))}
    assert forecast(3, 0, running, waiting, keep_nodes=True) == {1: Planned(F(4), F(5)), 2: Planned(F(4), F(6))}


@pytest.mark.parametrize(
    ("running", "waiting"),
    [
        ([(0, [0])], []),
        ([(1, [2])], []),
        ([], [Waiting(1, 3, 1)]),
        ([], [Waiting(1, 0, 1)]),
        ([], [Waiting(1, 1, 0)]),
        ([], [Waiting(1, 1, 1), Waiting(1, 1, 1)]),
    ],
)
def test_impossible_forecasts_are_refused(running: list[tuple[Number, list[int]]], waiting: list[Waiting]) -> None:
    with pytest.raises(AssertionError, match="job"):
        forecast(2, 0, running, waiting)


@pytest.mark.parametrize("keep_nodes", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_drawn_forecasts_are_possible_and_leave_no_earlier_start(seed: int, keep_nodes: bool) -> None:
    random = Random(seed)
    nodes, now = 6, 3
    running: list[tuple[Number, list[int]]] = [
        (random.randint(4, 12), random.sample(range(nodes), 2)) for _ in range(random.randint(0, 4))
    ]
    waiting = [Waiting(n, random.randint(1, nodes), random.randint(1, 9)) for n in range(12)]
    plans = forecast(nodes, now, running, waiting, keep_nodes)
    horizon = range(now, 1 + int(max(plan.end for plan in plans.values())))

    def free(instant: int, before: int) -> int:
        held = {node for end, those in running if end > instant for node in those}
        taken = sum(job.nodes for job in waiting[:before] if plans[job.id].start <= instant < plans[job.id].end)
        return nodes - len(held) - taken

    assert min(free(instant, len(waiting)) for instant in horizon) >= 0
    for place, job in enumerate(waiting):
        assert plans[job.id].end - plans[job.id].start == job.span
        assert forecast(nodes, now, running, waiting[: place + 1], keep_nodes)[job.id] == plans[job.id]
        if keep_nodes:
            continue
        for start in range(now, int(plans[job.id].start)):  # all at whole instants
            assert min(free(instant, place) for instant in range(start, start + int(job.span))) < job.nodes


# ---------------------------------------------------------------- the calendar of slices


def never(number: int) -> bool:
    return False


def always(number: int) -> bool:
    return True


def second(number: int) -> bool:
    return number % 2 == 1


@pytest.mark.parametrize(
    ("number", "has_short", "calendar", "expected"),
    [
        (0, False, Calendar(), [(0, 60, 1080, "medium"), (1080, 1140, 3600, "long")]),
        (
            2,
            True,
            Calendar(),
            [(7200, 7260, 7800, "short"), (7800, 7860, 8700, "medium"), (8700, 8760, 10_800, "long")],
        ),
        (0, True, Calendar(100, 10, 50, 1), [(0, 1, 10, "short"), (10, 11, 55, "medium"), (55, 56, 100, "long")]),
    ],
)
def test_slices_of_an_interval(number: int, has_short: bool, calendar: Calendar, expected: list[Any]) -> None:
    assert slices_of(number, has_short, calendar) == expected


@pytest.mark.parametrize(
    ("of", "needed", "wall", "pattern", "expected"),
    [
        ("medium", 1, 0, never, 61),
        ("medium", 1020, 0, never, 1080),  # all of a slice
        ("medium", 1021, 0, never, 3661),
        ("medium", 2041, 0, never, 7261),
        ("medium", 10, 500, never, 510),
        ("medium", 10, 30, never, 70),  # during a switch
        ("medium", 10, 1075, never, 3665),
        ("medium", 10, 1080, never, 3670),
        ("medium", 0, 2000, never, 2000),
        ("medium", 1020, 0, second, 1080),
        ("medium", 1021, 0, second, 4261),  # the second interval's slice is at 600..1500
        ("medium", 1020 + 840 + 1, 0, second, 7261),
        ("long", 2460, 0, never, 3600),
        ("long", 2461, 0, never, 4741),
        ("long", 2041, 0, always, 3600 + 1561),
        ("short", 541, 0, always, 3661),
        ("short", 1, 0, second, 3661),
        ("short", 541, 3600, second, 3 * 3600 + 61),
    ],
)
def test_wall_clock(of: Class, needed: int, wall: int, pattern: Callable[[int], bool], expected: int) -> None:
    assert wall_of(of, needed, wall, pattern) == expected


def test_a_class_without_slices_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no time for short jobs"):
        wall_of("short", 1, 0, never)


@pytest.mark.parametrize("of", ["short", "medium", "long"])
def test_wall_clock_and_progress_belong_together(of: Class) -> None:
    random = Random(of)
    calendar = Calendar(360, 60, 30, 6)
    for _ in range(100):
        since, needed = random.randint(0, 2000), random.randint(1, 1500)
        until = wall_of(of, needed, since, second, calendar)
        assert progress_between(of, since, until, second, calendar) == needed
        assert progress_between(of, since, until - F(1, 9), second, calendar) == needed - F(1, 9)
        first = random.randint(0, needed)
        assert wall_of(of, needed - first, wall_of(of, first, since, second, calendar), second, calendar) == until
