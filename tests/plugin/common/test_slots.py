"""Threads by slot, the rotation, and what it refuses: PROTOCOL.md, section 4, "Slots", literally and on small machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs import layers_on, runs_on

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Machine, ThreadPool
from cosched_plugin.common.slots import (
    Member,
    Rotation,
    SlotPools,
    joining_refusal,
    members_of,
    pairing_refusal,
    quantum_refusal,
    rotation_refusal,
    slot_refusal,
)
from cosched_plugin.common.threads import Layers, bits_of, layers_of
from cosched_plugin.protocol.limits import MAX_SLOTS
from cosched_plugin.protocol.messages import JobSpec, NodeClass, Run, Turn

Place: TypeAlias = tuple[int, int]  # (node, thread)

MACHINE = Machine((NodeClass(3, 1, 2, 1, 8, 0, 0, 0), NodeClass(1, 1, 1, 1, 4, 0, 0, 0)))
EVERYWHERE = {(node, thread) for node, threads in enumerate(MACHINE.threads_of) for thread in range(threads)}
JOB = JobSpec(1, 0, 1, 1, memory_mb=1)


def places_of(layers: Layers) -> set[Place]:
    return {(node, thread) for thread, layer in enumerate(layers) for node in bits_of(layer)}


# ---------------------------------------------------------------- threads by slot


class Literal:
    """The jobs by slot, each with the places that it holds; nothing else is stored."""

    def __init__(self) -> None:
        self.jobs: list[tuple[int, tuple[Run, ...]]] = []
        self.down: set[int] = set()

    def free(self, slot: int) -> set[Place]:
        held: set[Place] = set()
        for where, runs in self.jobs:
            held |= places_of(layers_of(runs, MACHINE.depth)) if where == slot else set()
        return {place for place in EVERYWHERE - held if place[0] not in self.down}

    def free_memory_mb(self) -> list[int]:
        return [
            room - sum(processes for _, runs in self.jobs for first, _, _, processes in runs if first == node)
            for node, room in enumerate(MACHINE.memory_mb)
        ]


@given(st.integers(0, 10_000))
def test_pools_of_slots_are_what_jobs_leave(seed: int) -> None:
    random = Random(seed)
    literal = Literal()
    pools = SlotPools(ThreadPool(MACHINE))
    for _ in range(random.randint(5, 40)):
        slot, node = random.choice((0, 1, 2, 7)), random.randrange(MACHINE.nodes)
        match random.choice(("take", "take", "take", "give back", "give back", "fail", "return", "drop")):
            case "take":
                here = [thread for where, thread in sorted(literal.free(slot)) if where == node]
                if here:
                    runs = runs_on((node, 1, 1 << random.choice(here), 1))
                    pools.pool(slot).take(JOB, runs, layers_of(runs, MACHINE.depth))
                    literal.jobs.append((slot, runs))
            case "give back" if literal.jobs:
                slot, runs = literal.jobs.pop(random.randrange(len(literal.jobs)))
                pools.pool(slot).give_back(JOB, runs, layers_of(runs, MACHINE.depth))
                pools.drop(slot)
            case "fail":
                literal.down.add(node)
                pools.fail_node(node)
            case "return" if node in literal.down:
                literal.down.discard(node)
                holders: dict[int, list[Layers]] = {}
                for where, runs in literal.jobs:
                    holders.setdefault(where, []).append(layers_of(runs, MACHINE.depth))
                pools.return_node(node, holders)
            case "drop":
                pools.drop(slot)
        for number in (0, 1, 2, 7, 99):
            assert places_of(pools.free(number)) == literal.free(number)
        assert pools.pool(slot).free == pools.free(slot)
        assert pools.pool(slot).free_memory_mb == literal.free_memory_mb()
    pools.clear()
    literal.jobs.clear()
    assert places_of(pools.free(7)) == places_of(pools.free(0)) == literal.free(0)
    assert pools.pool(7).free_memory_mb == MACHINE.memory_mb


def test_a_slot_whose_nodes_are_out_of_service_is_not_forgotten() -> None:
    pools = SlotPools(ThreadPool(MACHINE))
    runs = runs_on((2, 1, 1, 1))
    pools.pool(3).take(JOB, runs, layers_of(runs, MACHINE.depth))
    pools.fail_node(2)
    pools.drop(3)
    pools.return_node(2, {3: [layers_of(runs, MACHINE.depth)]})
    assert (2, 0) not in places_of(pools.free(3))
    assert (2, 0) in places_of(pools.free(0))


def test_a_change_of_slot_needs_free_threads_there() -> None:
    pools = SlotPools(ThreadPool(MACHINE, (3,)))
    runs = runs_on((1, 1, 1, 1))
    layers = layers_of(runs, MACHINE.depth)
    pools.pool(1).take(JOB, runs, layers)
    assert pools.change_refusal(0, 1, layers) is None
    assert pools.change_refusal(1, 1, layers) == "it is in slot 1 already"
    assert pools.change_refusal(1, 0, layers) == "node 1 is not free there"
    assert pools.change_refusal(2, 1, layers_on(0b1000, 0)) == "node 3 is not free there"
    for slot in (-1, MAX_SLOTS, True, 1.0, "1", None):
        assert pools.change_refusal(cast(int, slot), 1, layers) == slot_refusal(slot)
        assert "expected a number from 0 to 65535" in str(slot_refusal(slot))
    assert slot_refusal(0) is slot_refusal(MAX_SLOTS - 1) is None


# ---------------------------------------------------------------- the rotation

A, B, C = Turn((0, 5)), Turn((1,), 3), Turn((2,), 1, (7,))

rotations = st.permutations([A, B, C]).map(lambda turns: Rotation(tuple(turns)))


def test_the_next_turn_follows_the_one_that_ran() -> None:
    rotation = Rotation((A, B, C))
    assert rotation.ended(0, 0) == Rotation((B, C, A))
    assert rotation.ended(0, 0).ended(1, 2) == Rotation((B, C, A), 2)
    assert rotation.ended(0, 0).ended(1, 2).ended(1, 1) == Rotation((B, C, A), 1)
    assert rotation.ended(0, 0).ended(1, 1).ended(1, 0) == Rotation((C, A, B))
    assert rotation.ended(2, 0) == Rotation((A, B, C))  # the turns before it were passed over
    assert Rotation((A,)).ended(0, 0) == Rotation((A,))


def test_a_quantum_of_no_turn_leaves_the_rotation_as_it_is() -> None:
    assert Rotation((A, B), 1).ended(9, 0) == Rotation((A, B), 1)
    assert Rotation((A, B)).ended(5, 0) == Rotation((A, B))  # 5 is a slot of a turn, but not the one that names it
    assert Rotation().ended(0, 0) == Rotation()


@given(rotations, st.lists(st.tuples(st.sampled_from((0, 1, 2, 9)), st.integers(0, 2)), max_size=8))
def test_the_last_known_quantum_decides_which_turn_is_next(rotation: Rotation, ended: list[tuple[int, int]]) -> None:
    """A rotation that was set late is moved on by the quanta that have ended since: the order of turns never changes."""
    moved = rotation
    for slot, left in ended:
        moved = moved.ended(slot, left)
    known = [(slot, left) for slot, left in ended if slot != 9]
    slots = [turn.slots[0] for turn in moved.turns]
    circle = [turn.slots[0] for turn in rotation.turns] * 2
    assert any(circle[place : place + 3] == slots for place in range(3))
    if known:
        slot, left = known[-1]
        assert moved.left == left
        assert (slots[0] if left else slots[-1]) == slot
    else:
        assert moved == rotation


def test_a_rotation_begins_with_the_next_quantum_or_comes_late() -> None:
    assert [quantum_refusal(quantum, 4) is None for quantum in (0, 1, 4, 5, 6)] == [False, True, True, True, False]
    assert quantum_refusal(True, 4) == "a rotation from quantum True on: the next one is 5"


# ---------------------------------------------------------------- which rotations are possible

JOBS = {
    1: Member(0, layers_on(0b0011, 0), False),
    2: Member(1, layers_on(0b0001, 0), False),
    3: Member(1, layers_on(0b0110, 0), False),
    4: Member(2, layers_on(0b0010, 0), True),
}


def turn(slots: object, quanta: object = 1, guests: object = ()) -> Turn:
    """Return a turn with values of any type."""
    return Turn(cast("tuple[int, ...]", slots), cast(int, quanta), cast("tuple[int, ...]", guests))


@pytest.mark.parametrize(
    "turns",
    [
        [],
        [turn((0,)), turn((1,)), turn((2,))],
        [turn((0, 1)), turn((1, 0))],  # a pair runs twice a round, once in the turn of each
        [turn((0,), 9, (2,))],
        [turn((2,), 1, (2,))],  # job 2 is on another node than the unpaired job 4
        [turn([1], 1, [])],
    ],
)
def test_possible_rotations(turns: list[Turn]) -> None:
    assert rotation_refusal(turns, JOBS) is None


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([turn(())], "a turn without a slot"),
        ([turn((0,), 0)], "a turn of 0 quanta"),
        ([turn((0,), True)], "a turn of True quanta"),
        ([turn((0, 0))], "turn [0, 0] with guests [] names one of them twice"),
        ([turn((0,), 1, (2, 2))], "turn [0] with guests [2, 2] names one of them twice"),
        ([turn((3,))], "slot 3 has no job"),
        ([turn((0, 3))], "slot 3 has no job"),
        ([turn((False,))], "slot False has no job"),
        ([turn((0,), 1, (9,))], "job 9 does not run"),
        ([turn((0,), 1, (2.0,))], "job 2.0 does not run"),
        ([turn((0, 1), 1, (2,))], "job 2 is in slot 1 and cannot be a guest of a turn of that slot"),
        ([turn((0,)), turn((1,)), turn((0, 1))], "two turns begin with slot 0"),
        ([turn((1, 2))], "job 4 must not run beside job 3"),
        ([turn((1,), 1, (4,))], "job 4 must not run beside job 3"),
        ([turn((2,), 1, (1,))], "job 4 must not run beside job 1"),
    ],
)
def test_impossible_rotations(turns: list[Turn], reason: str) -> None:
    assert rotation_refusal(turns, JOBS) == reason


def test_jobs_of_one_slot_are_not_paired() -> None:
    """They may have different threads of a node: only jobs of other slots are kept away."""
    jobs = {
        1: Member(0, layers_on(1, 0), True),
        2: Member(0, layers_on(0, 1), True),
        3: Member(1, layers_on(2, 2), True),
    }
    assert rotation_refusal([Turn((0, 1))], jobs) is None
    assert rotation_refusal([Turn((1,), 1, (1, 2))], jobs) is None


# ---------------------------------------------------------------- random jobs, against the words of the specification


def drawn_jobs(random: Random) -> dict[int, Member]:
    """Return 1 to 7 jobs in up to 4 slots; those of one slot have different threads."""
    jobs: dict[int, Member] = {}
    left = dict.fromkeys(range(4), (1 << 5) - 1)
    for job_id in range(1, random.randint(2, 8)):
        slot = random.randrange(4)
        nodes = random.getrandbits(5) & left[slot]
        if nodes:
            left[slot] &= ~nodes
            jobs[job_id] = Member(slot, (NodeSet(nodes),), random.random() < 0.2)
    return jobs


def drawn_turns(random: Random, jobs: Mapping[int, Member]) -> list[Turn]:
    slots = sorted({member.slot for member in jobs.values()})
    firsts = random.sample(slots, random.randint(0, len(slots)))
    turns = []
    for first in firsts:
        others = [slot for slot in slots if slot != first and random.random() < 0.2]
        own = (first, *others)
        guests = [job_id for job_id in jobs if jobs[job_id].slot not in own and random.random() < 0.2]
        turns.append(Turn(own, 1, tuple(guests)))
    return turns


def is_paired_wrongly(turns: Sequence[Turn], jobs: Mapping[int, Member]) -> bool:
    return any(
        (one.slot in turn.slots or first in turn.guests)
        and (other.slot in turn.slots or second in turn.guests)
        and one.unpaired
        and one.slot != other.slot
        and one.layers[0] & other.layers[0]
        for turn in turns
        for first, one in jobs.items()
        for second, other in jobs.items()
    )


@given(st.integers(0, 100_000))
def test_no_job_of_another_slot_runs_beside_an_unpaired_one(seed: int) -> None:
    random = Random(seed)
    jobs = drawn_jobs(random)
    turns = drawn_turns(random, jobs)
    assert (rotation_refusal(turns, jobs) is not None) == is_paired_wrongly(turns, jobs)
    for each in turns:
        running = [job_id for job_id in sorted(jobs) if jobs[job_id].slot in each.slots or job_id in each.guests]
        assert members_of(each, jobs) == running


@given(st.integers(0, 100_000))
def test_a_job_joins_its_slot_where_the_rotation_stays_possible(seed: int) -> None:
    """The new job may be the guest of a turn already: one that was requeued starts again, perhaps on other nodes."""
    random = Random(seed)
    jobs = drawn_jobs(random)
    turns = drawn_turns(random, jobs)
    if not jobs or is_paired_wrongly(turns, jobs):
        return
    job_id = random.choice(sorted(jobs))
    member = jobs.pop(job_id)._replace(slot=random.randrange(4), layers=(NodeSet(random.randint(1, 31)),))
    joined = {**jobs, job_id: member}
    refusal = joining_refusal(job_id, member, turns, jobs)
    assert (refusal is not None) == is_paired_wrongly(turns, joined)
    assert (refusal is None) == all(pairing_refusal(each, joined) is None for each in turns)
