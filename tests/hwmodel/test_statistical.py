"""The statistical model of G-LOMARC-TS: Table 4, pairs and their two directions, arrays, jobs on a node, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched_hwmodel import statistical
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.topology import NodeShape, load_preset
from cosched_hwmodel.units import ThreadMask

# Table 4 once more, from [0.9, 1.0) on.
TABLE_4 = {
    "scr": (0, 25, 17, 17, 13, 17, 8, 3, 0),
    "sno": (25, 45, 12, 5, 13, 0, 0, 0, 0),
    "cos": (0, 68, 17, 7, 3, 2, 1, 1, 1),
}

MODEL_MD = (Path(__file__).parents[2] / "hwmodel" / "MODEL.md").read_text(encoding="utf-8")
NODE = load_preset("g-lomarc-2x2")
INT64 = st.integers(-(2**63), 2**63 - 1)
JOBS = st.integers(0, 1 << 40)
MODEL = statistical.StatisticalModel()
# Quantiles of chi-square by degrees of freedom, exceeded once in ten thousand times.
RARE = {4: 23.5, 6: 27.9, 7: 29.9, 9: 33.7, 34: 73.7}


@st.composite
def models(draw: st.DrawFn) -> statistical.StatisticalModel:
    cuts = sorted(draw(st.lists(st.integers(0, 100), max_size=12)))
    shares = tuple(high - low for low, high in zip([0, *cuts], [*cuts, 100], strict=True))
    return statistical.StatisticalModel(draw(INT64), shares)


SELVES = st.tuples(st.integers(900_000, 1_400_000), st.integers(1_000_000, 1_700_000))


def chi_square(found: Iterable[int], expected: Iterable[float]) -> float:
    return sum((seen - due) ** 2 / due for seen, due in zip(found, expected, strict=True) if due)


def by_range(slowdowns_ppm: Sequence[int]) -> list[int]:
    """Count by the ranges of Table 4; a value outside of them fails."""
    counts = [0] * 9
    for slowdown_ppm in slowdowns_ppm:
        assert 900_000 <= slowdown_ppm < 1_800_000
        counts[slowdown_ppm // 100_000 - 9] += 1
    return counts


def pairs_ppm(model: statistical.StatisticalModel, jobs: int) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for job in range(jobs):
        for other in range(job + 1, jobs):
            found[job, other] = round(model.coscheduling(job, other) * 1_000_000)
            found[other, job] = round(model.coscheduling(other, job) * 1_000_000)
    return found


# ---------------------------------------------------------------- Table 4


def test_the_shares_are_those_of_table_4() -> None:
    assert (0, *statistical.CORE_SHARES, 0) == TABLE_4["scr"]
    assert (*statistical.NODE_SHARES, 0, 0, 0, 0) == TABLE_4["sno"]
    assert (0, *MODEL.shares) == TABLE_4["cos"]
    assert {sum(column) for column in TABLE_4.values()} == {100}


def test_model_md_has_the_table() -> None:
    stated = [[cell.strip() for cell in row.split("|")[1:-1]] for row in MODEL_MD.splitlines() if row.startswith("| [")]
    columns = list(zip(*stated, strict=True))
    assert columns[0] == tuple(f"[{tenth / 10}, {(tenth + 1) / 10})" for tenth in range(9, 18))
    assert columns[1:] == [tuple(f"{share} %" if share else "" for share in column) for column in TABLE_4.values()]
    means = [
        sum(share * (95 + 10 * index) for index, share in enumerate(column)) / 10_000 for column in TABLE_4.values()
    ]
    assert f"| mean | {' | '.join(f'{mean:.3f}' for mean in means)} |" in MODEL_MD


def test_self_slowdowns_are_distributed_as_table_4() -> None:
    number = 20_000
    drawn = [statistical.draw_self_slowdown(1, job) for job in range(number)]
    node, core = ([own[column] for own in drawn] for column in (0, 1))
    assert chi_square(by_range(node), (number * share / 100 for share in TABLE_4["sno"])) < RARE[4]
    assert chi_square(by_range(core), (number * share / 100 for share in TABLE_4["scr"])) < RARE[6]
    # The two are independent: a table of five by seven ranges, whose chi-square has 34 degrees of freedom.
    joint = [0] * 35
    for node_ppm, core_ppm in drawn:
        joint[(node_ppm // 100_000 - 9) * 7 + core_ppm // 100_000 - 10] += 1
    shares = (number * a * b / 10_000 for a, b in product(statistical.NODE_SHARES, statistical.CORE_SHARES))
    assert chi_square(joint, shares) < RARE[34]


def test_pairs_are_distributed_as_table_4() -> None:
    """Over all ordered pairs, and over those of one job: as the slowed job and as the other one."""
    found = pairs_ppm(MODEL, 200)
    assert len(found) == 200 * 199
    slowdown = MODEL.coscheduling
    suffered = [round(slowdown(5, other) * 1_000_000) for other in range(6, 20_006)]
    caused = [round(slowdown(other, 5) * 1_000_000) for other in range(6, 20_006)]
    for drawn in (list(found.values()), suffered, caused):
        assert chi_square(by_range(drawn), (len(drawn) * share / 100 for share in TABLE_4["cos"])) < RARE[7]


@given(model=models(), word=st.integers(0, 2**53 - 1))
def test_draws_invert_the_distribution(model: statistical.StatisticalModel, word: int) -> None:
    """Compared with exact fractions; the doubles may differ by one millionth."""
    position = Fraction(word, 2**53) * 100
    index, below = 0, 0
    while position >= below + model.shares[index]:
        below += model.shares[index]
        index += 1
    exact = 1_000_000 + 100_000 * (index + (position - below) / model.shares[index])
    found = statistical.draw_ppm(word * 2.0**-53, model.shares, 1_000_000)
    assert found - 1 <= exact <= found + 2
    assert 1_000_000 + 100_000 * index <= found < 1_100_000 + 100_000 * index


def test_formula_8_gives_the_stated_shares_of_jobs() -> None:
    """The shares of parallel jobs with 4, 2 and 1 processes a node in space sharing, as MODEL.md states them."""
    number = 20_000
    counts = {4: 0, 2: 0, 1: 0}
    for node_ppm, core_ppm in (statistical.draw_self_slowdown(3, job) for job in range(number)):
        four = node_ppm * core_ppm <= 1_250_000 * 1_000_000
        counts[4 if four else 2 if node_ppm <= 1_120_000 else 1] += 1
    stated = {4: 0.36, 2: 0.38, 1: 0.26}
    for processes, share in stated.items():
        assert abs(counts[processes] / number - share) < 0.005 + 3 * (share * (1 - share) / number) ** 0.5
    assert "| parallel jobs of 4, 2, 1 processes a node by formula 8 | 36 %, 38 %, 26 % |" in MODEL_MD


# ---------------------------------------------------------------- draws


def test_draws_have_the_golden_values() -> None:
    """These numbers were drawn once: a change of them changes all workloads."""
    assert [statistical.draw_self_slowdown(1, job) for job in (1, 2, 3)] == [
        (1045831, 1109549),
        (1045434, 1255780),
        (1380148, 1513239),
    ]
    assert [MODEL.coscheduling(*pair) for pair in ((1, 2), (2, 1), (3, 1))] == [1.104846, 1.04388, 1.071482]


# ---------------------------------------------------------------- a job and itself


@given(sockets=st.integers(1, 5), cores=st.integers(1, 6), layers=st.integers(1, 3), bits=st.integers(0, (1 << 90) - 1))
def test_spread_agrees_with_the_topology(sockets: int, cores: int, layers: int, bits: int) -> None:
    node = NodeShape("test", sockets, cores, 1024, threads_per_core=layers)
    mask = bits & ((1 << node.threads) - 1)
    where = [node.socket_of(thread) for thread in range(node.threads) if mask >> thread & 1]
    assert statistical.spread(node, ThreadMask(mask)) == (
        len(set(where)),
        max((where.count(socket) for socket in where), default=0),
    )


@pytest.mark.parametrize("mask", [1 << 4, 0b10001, -1])
def test_threads_beyond_the_node_are_an_error(mask: int) -> None:
    with pytest.raises(IndexError, match="of a node with 4"):
        statistical.spread(NODE, ThreadMask(mask))
    with pytest.raises(IndexError, match="of a node with 4"):
        statistical.StatisticalContention(MODEL, {}).penalties(NODE, [Load(1, 1, ThreadMask(mask), (0, 0, 0))])


def test_self_factor() -> None:
    own = (950_000, 1_300_000)
    assert [statistical.self_factor(own, *place) for place in ((0, 0), (1, 1), (2, 1), (1, 2), (2, 2), (4, 8))] == [
        1.0, 1.0, 0.95, 1.3, 1.235, 1.235,
    ]  # fmt: skip
    assert {statistical.self_factor(None, cpus, cores) for cpus in range(5) for cores in range(9)} == {1.0}


# ---------------------------------------------------------------- jobs on a node


def load(job_id: int, mask: int) -> Load:
    return Load(job_id, mask.bit_count(), ThreadMask(mask), (0, 0, 0))


OWN = (1_080_000, 1_250_000)
GAINS = (900_000, 1_000_000)


def test_penalties_of_the_papers_cases() -> None:
    """Processes a node on two dual-core CPUs: 1, 2 on different CPUs or on one, 4; alone, and beside another job."""
    contention = statistical.StatisticalContention(MODEL, {1: OWN})
    assert isinstance(contention, ContentionModel)
    assert contention.name == MODEL.name == "statistical"
    for mask, own in ((0b0001, 1.0), (0b0101, 1.08), (0b1010, 1.08), (0b0011, 1.25), (0b1111, 1.35)):
        assert contention.penalties(NODE, [load(1, mask)]) == [own - 1.0]
    # One core of each CPU for each job; the other one's own slowdown is not known.
    assert contention.penalties(NODE, [load(1, 0b0101), load(2, 0b1010)]) == [
        1.08 * MODEL.coscheduling(1, 2) - 1.0,
        MODEL.coscheduling(2, 1) - 1.0,
    ]
    # One process of each job.
    assert contention.penalties(NODE, [load(2, 0b0100), load(1, 0b0001)]) == [
        MODEL.coscheduling(2, 1) - 1.0,
        MODEL.coscheduling(1, 2) - 1.0,
    ]
    assert contention.penalties(NODE, []) == []


@given(model=models(), own=SELVES, job=JOBS, other=JOBS, mask=st.integers(1, 15))
def test_for_two_jobs_one_plus_penalty_is_the_slowdown(
    model: statistical.StatisticalModel, own: statistical.SelfSlowdown, job: int, other: int, mask: int
) -> None:
    """Bit for bit, so that plans with the model come true."""
    loads = [load(job, mask)] if job == other else [load(job, mask), load(other, 15 & ~mask)]
    penalty = statistical.StatisticalContention(model, {job: own}).penalties(NODE, loads)[0]
    slowdown = statistical.self_factor(own, *statistical.spread(NODE, ThreadMask(mask))) * (
        1 if job == other else model.coscheduling(job, other)
    )
    assert penalty > -1
    assert composition_named("bulk-synchronous").slowdowns([penalty]) == [slowdown]


def test_excess_slowdowns_of_three_jobs_add_up() -> None:
    selves = {1: OWN, 2: GAINS}
    contention = statistical.StatisticalContention(MODEL, selves)
    found = contention.penalties(NODE, [load(1, 0b0001), load(2, 0b1010), load(3, 0b0100)])
    factors = {1: 1.0, 2: 0.9, 3: 1.0}
    for job, penalty in zip((1, 2, 3), found, strict=True):
        costs = sum(MODEL.coscheduling(job, other) - 1 for other in (1, 2, 3) if other != job)
        assert penalty == pytest.approx(factors[job] * (1 + costs) - 1, abs=1e-15)
    selves[3] = OWN  # becomes known later: the mapping may grow
    assert contention.penalties(NODE, [load(3, 0b0101)]) == [1.08 - 1.0]


def test_penalties_of_many_loads_do_not_depend_on_their_order() -> None:
    """Ten on a node, where sums in the order of the loads would differ in their last bits."""
    for first in range(50):
        loads = [load(first + place, 1) for place in range(10)]
        contention = statistical.StatisticalContention(MODEL, {})
        assert contention.penalties(NODE, loads[::-1]) == contention.penalties(NODE, loads)[::-1]


# ---------------------------------------------------------------- parameters


def test_parameters() -> None:
    assert MODEL.parameters() == (("pair_seed", 1), ("shares", (68, 17, 7, 3, 2, 1, 1, 1)))
    assert statistical.StatisticalModel.from_parameters([]) == MODEL
    assert statistical.StatisticalModel.from_parameters([("pair_seed", -3)]) == statistical.StatisticalModel(-3)
    assert statistical.StatisticalModel.from_parameters([("shares", [0, 100])]) == statistical.StatisticalModel(
        shares=(0, 100)
    )
    assert 1.1 <= statistical.StatisticalModel(shares=(0, 100)).coscheduling(1, 2) < 1.2


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("pair_seed", True, "pair_seed: expected an integer -9223372036854775808 to 9223372036854775807, not True"),
        ("pair_seed", 1.0, "pair_seed: expected an integer"),
        ("pair_seed", 1 << 63, "pair_seed: expected an integer"),
        ("shares", 100, "shares: expected a tuple of whole percentages that add up to 100, not 100"),
        ("shares", "68", "shares: expected a tuple"),
        ("shares", None, "shares: expected a tuple"),
        ("shares", (), "shares: expected a tuple"),
        (
            "shares",
            (68, 17, 7, 3, 2, 1, 1),
            "shares: expected a tuple of whole percentages that add up to 100, not (68,",
        ),
        ("shares", (101, -1), "shares: expected a tuple"),
        ("shares", (99, True), "shares: expected a tuple"),
        ("shares", (50.0, 50), "shares: expected a tuple"),
        ("shares", ("100",), "shares: expected a tuple"),
        ("share", (100,), 'unknown statistical parameter "share"; did you mean "shares"?'),
    ],
)
def test_impossible_parameters_are_refused(name: str, value: object, text: str) -> None:
    with pytest.raises(HardwareModelError) as caught:
        statistical.StatisticalModel.from_parameters([(name, value)])
    assert str(caught.value).startswith(text)
