"""Communication skeletons: who sends what to whom, how finely, and how much is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.programs import CollectiveBegins, CollectiveEnds, Compute, Operation, Receive, Send
from cosched_emulator.nodeos.skeletons.nas_programs import (
    SKELETONS,
    compute_share,
    iterations_of,
    program_of_work,
    skeleton_program,
)
from cosched_emulator.workload.nas import PROGRAMS, NasKind, kind_of, kinds

SECOND = 1_000_000


def bodies(kind: NasKind) -> list[tuple[Operation, ...]]:
    """Return the operations of each process in one iteration."""
    program = skeleton_program(*kind, kind.seconds)
    return [program.loops[0].body_of(rank) for rank in range(kind.processes)]


def ends(kind: NasKind) -> Iterator[tuple[Operation, ...]]:
    program = skeleton_program(*kind, kind.seconds)
    for loop in program.loops[1:]:
        yield from (loop.body_of(rank) for rank in range(kind.processes))


def computed_us(body: tuple[Operation, ...]) -> list[int]:
    return [operation.us for operation in body if isinstance(operation, Compute)]


def in_collectives(body: tuple[Operation, ...]) -> tuple[int, int]:
    """Return the number of sends within collective operations, and outside."""
    inside, counts = False, [0, 0]
    for operation in body:
        if isinstance(operation, CollectiveBegins | CollectiveEnds):
            assert inside is isinstance(operation, CollectiveEnds)
            inside = not inside
        counts[not inside] += isinstance(operation, Send)
    assert not inside
    return counts[0], counts[1]


@pytest.mark.parametrize("name", SKELETONS)
def test_every_message_has_a_receiver_and_every_receiver_a_message(name: str) -> None:
    for kind in kinds():
        if kind.program == name and kind.size_class in ("A", ""):
            skeleton_program(*kind, kind.seconds).check(kind.processes)
            for each in (bodies(kind), list(ends(kind))):
                sent, received = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
                for rank, body in enumerate(each):
                    sent.update((rank, item.rank) for item in body if isinstance(item, Send))
                    received.update((item.rank, rank) for item in body if isinstance(item, Receive))
                assert sent == received
                assert all(sender != receiver for sender, receiver in sent)


def test_all_processes_compute_for_the_calibrated_share_of_the_time_alone() -> None:
    for kind in kinds():
        wanted_us = kind.seconds * SECOND * compute_share(*kind)
        for body in bodies(kind)[:: kind.processes - 1]:
            assert sum(computed_us(body)) * iterations_of(*kind) == pytest.approx(wanted_us, rel=0.005)


# Of class C on 16 processes: bursts of a process in an iteration, and their mean.
@pytest.mark.parametrize(
    ("name", "bursts", "least_ms", "most_ms"),
    [
        ("CG", 25 * 3 + 2, 24, 31),
        ("IS", 2, 200, 430),
        ("SP", 19, 62, 75),
        ("BT", 19, 220, 260),
        ("LU", 322, 6, 7.5),
        ("MG", 20, 380, 450),
        ("EP", 1, 900, 1_000),
        ("sPPM", 3, 380, 430),
        ("BlockSolve95", 2, 10, 20),
    ],
)
def test_bursts_are_as_long_as_the_structure_of_the_programs_makes_them(
    name: str, bursts: int, least_ms: float, most_ms: float
) -> None:
    size_class = "C" if "C" in PROGRAMS[name].seconds else ""
    bursts_us = computed_us(bodies(NasKind(name, size_class, 16))[5])
    assert len(bursts_us) == bursts
    assert least_ms <= sum(bursts_us) / len(bursts_us) / 1_000 <= most_ms


def test_who_uses_collective_operations() -> None:
    for kind in kinds():
        if kind.processes == 16 and kind.size_class in ("C", ""):
            inside, outside = in_collectives(bodies(kind)[3])
            if kind.program == "IS":
                assert (inside, outside) == (4 + 15 + 15, 0)
            elif kind.program in ("sPPM", "BlockSolve95"):
                assert inside in (4, 8)
                assert outside == 4
            else:
                assert inside == 0
                assert (outside == 0) == (kind.program == "EP")
            assert all(in_collectives(body)[1] == 0 for body in ends(kind))


def test_sizes_of_messages() -> None:
    def sizes(name: str, rank: int) -> Counter[int]:
        return Counter(item.size_bytes for item in bodies(kind_of(name, 16, "here"))[rank] if isinstance(item, Send))

    assert sizes("CG.C", 1) == {300_000: 26 * 3, 8: 26 * 4}
    assert sizes("CG.C", 0) == {300_000: 26 * 2, 8: 26 * 4}  # it is on the diagonal: its own transposed process
    assert sizes("IS.B", 0) == {4_116: 4, 4: 15, 524_288: 15}
    assert sizes("LU.C", 0) == {1_620: 2 * 160, 524_880: 2}  # a corner sends in one of the two sweeps
    assert sizes("LU.C", 5) == {1_620: 4 * 160, 524_880: 4}
    assert sizes("SP.A", 0) == {61_440: 6, 45_056: 9, 20_480: 9}


def test_a_program_can_have_other_iterations_and_jitter() -> None:
    half = skeleton_program("MG", "A", 4, 9.6, 2, 0)
    whole = skeleton_program("MG", "A", 4, 9.6)
    assert half.loops[0].times * 2 == whole.loops[0].times == 4
    assert computed_us(half.loops[0].body_of(0)) == computed_us(whole.loops[0].body_of(0))
    assert {item.jitter_ppm for item in half.loops[0].body_of(0) if isinstance(item, Compute)} == {0}
    assert skeleton_program("MG", "A", 4, 9.6) is whole
    assert program_of_work("EP", "A", 8, 16e6, None).loops[0].times == 16


@pytest.mark.parametrize(("grain", "iterations"), [(1 / 4, 80), (3.0, 7)])
def test_grain_makes_iterations_larger_and_fewer(grain: float, iterations: int) -> None:
    kind = NasKind("MG", "B", 16)
    usual, other = (skeleton_program(*kind, kind.seconds, grain=each).loops[0] for each in (1.0, grain))
    assert (usual.times, other.times) == (20, iterations)
    sizes, others = ([item.size_bytes for item in loop.body_of(3) if isinstance(item, Send)] for loop in (usual, other))
    factor = usual.times / other.times  # 7 iterations are not quite 3 times as large
    assert others == [max(1, round(size * factor)) for size in sizes]
    share = compute_share(*kind, grain)
    assert sum(computed_us(other.body_of(3))) * other.times == pytest.approx(kind.seconds * SECOND * share, rel=0.01)


def test_processes_of_finer_programs_compute_for_less_of_the_time() -> None:
    assert compute_share("CG", "A", 16, 1 / 8) < compute_share("CG", "A", 16, 1 / 3) < compute_share("CG", "A", 16)
    assert min(compute_share(*kind, 0.1) for kind in kinds()) > 0.3


def test_a_job_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"path: expected jobs of 4, 9 or 16 processes for SP\.C, got 8"):
        kind_of("SP.C", 8, "path")
    with pytest.raises(ConfigurationError, match=r"did you mean 'CG\.C'"):
        kind_of("CGC", 8, "path")
