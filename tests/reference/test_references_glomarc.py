"""The references of G-LOMARC-TS, against the specification's checks, cases worked by hand, and each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest
from tests.reference.glomarc import (
    Cos,
    Member,
    Number,
    Planned,
    Waiting,
    coscheduled,
    evolve,
    exact,
    forecast,
    form_groups,
    ppn,
    space_gain,
    u_gain,
)
from tests.reference.slices import Class, wall_of

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


# ---------------------------------------------------------------- forming groups

PRIMARY = Member(0, 16, 10_000, 1, 8)


def candidate(number: int, nodes: int, left: Number = 10_000, factor: Number = 1) -> Member:
    return Member(number, 2 * nodes, left, factor, nodes)


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


# ---------------------------------------------------------------- the calendar of slices


def never(number: int) -> bool:
    return False


def always(number: int) -> bool:
    return True


def second(number: int) -> bool:
    return number % 2 == 1


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
