"""The LOMARC model: its formula, its draws for pairs, its arrays, and jobs on a node."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import drawn
from tests.reference import lomarc as reference

from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.lomarc.lomarc_matrix import UsageColumns, c_ppm, slowdowns
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_hwmodel.topology import load_preset
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask
from cosched_hwmodel.usage import BOUNDS, Usage, UsageTuple

NODE = load_preset("lomarc-ht")
FORMS = [(remainder, c_scope) for remainder in (True, False) for c_scope in ("all", "cpu_cpu")]
SIX_FOUR = Usage("cpu", 600_000, 400_000, 0, 0)
FOUR_SIX = Usage("network", 400_000, 600_000, 0, 0)
ALL_GOOD = LomarcModel(remainder=True, good_share_ppm=WHOLE_PPM)
ALL_BAD = LomarcModel(remainder=True, good_share_ppm=0)
NO_COMPETITION = LomarcModel(remainder=True, good_share_ppm=WHOLE_PPM, good_c_ppm=WHOLE_PPM)


@st.composite
def usages(draw: st.DrawFn, most_memory_ppm: int = WHOLE_PPM) -> Usage:
    cpu_ppm = draw(st.integers(0, WHOLE_PPM))
    network_ppm = draw(st.integers(0, WHOLE_PPM - cpu_ppm))
    memory_ppm = draw(st.integers(0, most_memory_ppm))
    return Usage(draw(st.sampled_from(BOUNDS)), cpu_ppm, network_ppm, WHOLE_PPM - cpu_ppm - network_ppm, memory_ppm)


@st.composite
def models(draw: st.DrawFn) -> LomarcModel:
    bad_c_ppm = draw(st.integers(WHOLE_PPM, 2 * WHOLE_PPM))
    return LomarcModel(
        remainder=draw(st.booleans()),
        c_scope=draw(st.sampled_from(["all", "cpu_cpu"])),
        cpu=draw(st.sampled_from(["hyperthreaded", "hyperthreaded", "standard"])),
        pair_seed=draw(st.integers(0, 1000)),
        good_share_ppm=draw(st.sampled_from([0, 330_000, 500_000, WHOLE_PPM])),
        good_c_ppm=draw(st.integers(WHOLE_PPM, bad_c_ppm)),
        bad_c_ppm=bad_c_ppm,
        paging_ppm=draw(st.integers(WHOLE_PPM, 3 * WHOLE_PPM)),
    )


def plain(usage: Usage) -> UsageTuple:
    bound, cpu_ppm, network_ppm, disk_ppm, memory_ppm = usage
    return (bound, cpu_ppm, network_ppm, disk_ppm, memory_ppm)


JOBS = st.integers(0, 1 << 40)


# ---------------------------------------------------------------- the formula


@pytest.mark.parametrize(
    ("usage_a", "usage_b", "worst", "no_competition"),
    [(SIX_FOUR, SIX_FOUR, 2.0, 1.4), (SIX_FOUR, FOUR_SIX, 1.8, 1.4), (FOUR_SIX, FOUR_SIX, 2.0, 1.6)],
)
def test_estimates_of_table_2(usage_a: Usage, usage_b: Usage, worst: float, no_competition: float) -> None:
    for first, second in ((usage_a, usage_b), (usage_b, usage_a)):
        assert ALL_BAD.slowdown(1, first, 2, second) == worst
        assert NO_COMPETITION.slowdown(1, first, 2, second) == no_competition


@given(model=models(), job_a=JOBS, job_b=JOBS, usage_a=usages(), usage_b=usages())
def test_the_model_computes_the_formula(
    model: LomarcModel, job_a: int, job_b: int, usage_a: Usage, usage_b: Usage
) -> None:
    """The expected value is the float nearest to an independent calculation in exact fractions."""
    a, b = (
        reference.Usage(usage.bound, *(Fraction(part, WHOLE_PPM) for part in usage[1:]))  # type: ignore[arg-type]
        for usage in (usage_a, usage_b)
    )
    c = Fraction(model.c_ppm(job_a, usage_a.bound, job_b, usage_b.bound), WHOLE_PPM)
    expected = reference.slowdown(a, b, c, model.remainder, Fraction(model.paging_ppm, WHOLE_PPM))
    assert model.slowdown(job_a, usage_a, job_b, usage_b) == float(expected)


# ---------------------------------------------------------------- pairs


def test_a_third_of_the_pairs_go_well() -> None:
    """For pairs of one job with all others and pairs of neighbours; another seed draws independently."""
    number = 40_000
    ids = np.arange(1, number + 1)
    columns = UsageColumns(ids.tolist(), [SIX_FOUR] * number)
    for seed in (1, 2):
        good = c_ppm(LomarcModel(pair_seed=seed), 0, 0, columns) == 1_400_000
        assert abs(good.mean() - 0.33) < 4 * (0.33 * 0.67 / number) ** 0.5
    neighbours = [LomarcModel().c_ppm(job, "cpu", job + 1, "cpu") == 1_400_000 for job in range(10_000)]
    assert abs(sum(neighbours) / 10_000 - 0.33) < 4 * (0.33 * 0.67 / 10_000) ** 0.5
    first, second = (c_ppm(LomarcModel(pair_seed=seed), 0, 0, columns) for seed in (1, 2))
    assert abs((first == second).mean() - (0.33**2 + 0.67**2)) < 0.02


def test_a_pair_is_drawn_by_its_ids_alone() -> None:
    model = LomarcModel()
    pairs = [(a, b) for a in range(30) for b in range(30) if a != b]
    forward = {pair: model.c_ppm(pair[0], "cpu", pair[1], "disk") for pair in pairs}
    backward = {pair: LomarcModel().c_ppm(pair[0], "network", pair[1], "cpu") for pair in reversed(pairs)}
    assert forward == backward
    assert all(forward[a, b] == forward[b, a] for a, b in pairs)
    assert set(forward.values()) == {1_400_000, 2_000_000}


@pytest.mark.parametrize(("remainder", "c_scope"), FORMS)
def test_the_four_forms_differ_in_c_and_remainder(remainder: bool, c_scope: str) -> None:
    """The scope decides c for pairs that are not cpu with cpu; the remainder decides about the time without competition."""
    model = LomarcModel(remainder, c_scope, good_share_ppm=0)
    assert model.c_ppm(1, "cpu", 2, "cpu") == 2_000_000
    for bound_a, bound_b in (("cpu", "disk"), ("network", "cpu"), ("disk", "disk"), ("network", "disk")):
        assert model.c_ppm(1, bound_a, 2, bound_b) == (2_000_000 if c_scope == "all" else 1_400_000)
    c = 2.0 if c_scope == "all" else 1.4
    # 0.4 of CPU and 0.4 of network in common; 0.2 in which neither competes.
    assert model.slowdown(1, SIX_FOUR, 2, FOUR_SIX) == pytest.approx(
        c * 0.4 + 0.8 + (0.2 if remainder else 0), abs=1e-12
    )
    assert ALL_GOOD.c_ppm(1, "cpu", 2, "cpu") == 1_400_000


def test_a_standard_cpu_is_time_shared() -> None:
    for remainder, c_scope in FORMS:
        model = LomarcModel(remainder, c_scope, cpu="standard", good_share_ppm=WHOLE_PPM)
        columns = UsageColumns([2, 3], [SIX_FOUR, FOUR_SIX])
        assert model.c_ppm(1, "cpu", 2, "cpu") == model.c_ppm(1, "disk", 2, "cpu") == 2_000_000
        assert c_ppm(model, 1, 0, columns).tolist() == [2_000_000, 2_000_000]
        assert model.slowdown(1, SIX_FOUR, 2, SIX_FOUR) == 2


# ---------------------------------------------------------------- parameters


@given(model=models())
def test_parameters_make_the_model_again(model: LomarcModel) -> None:
    assert LomarcModel.from_parameters(model.parameters()) == model
    assert LomarcModel.from_parameters(reversed(model.parameters())) == model


def test_missing_parameters_take_defaults() -> None:
    assert LomarcModel.from_parameters([]) == LomarcModel()
    assert LomarcModel.from_parameters([("remainder", True)]) == LomarcModel(remainder=True)
    assert [name for name, _ in LomarcModel().parameters()] == [
        "remainder", "c_scope", "cpu", "pair_seed", "good_share_ppm", "good_c_ppm", "bad_c_ppm", "paging_ppm",
    ]  # fmt: skip
    assert LomarcModel().name == "lomarc"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("remainder", 1, "remainder: expected bool, not 1"),
        ("pair_seed", True, "pair_seed: expected int, not True"),
        ("pair_seed", 1 << 63, "pair_seed: expected -9223372036854775808 to"),
        ("good_c_ppm", 1.4, "good_c_ppm: expected int, not 1.4"),
        ("good_c_ppm", 999_999, "good_c_ppm: expected 1000000 to 2000000, not 999999"),
        ("bad_c_ppm", 2_000_001, "bad_c_ppm: expected 1000000 to 2000000, not 2000001"),
        ("bad_c_ppm", 1_300_000, "good_c_ppm: expected 1000000 to 1300000, not 1400000"),
        ("good_share_ppm", -1, "good_share_ppm: expected 0 to 1000000, not -1"),
        ("paging_ppm", 999_999, "paging_ppm: expected 1000000 to"),
        ("c_scope", "cpu", 'unknown c_scope "cpu"'),
        ("c_scope", None, "c_scope: expected str, not None"),
        ("cpu", "hyperthread", 'unknown cpu "hyperthread"; did you mean "hyperthreaded"?'),
        ("c_scopes", "all", 'unknown lomarc parameter "c_scopes"; did you mean "c_scope"?'),
    ],
)
def test_impossible_parameters_are_refused(name: str, value: object, text: str) -> None:
    with pytest.raises(HardwareModelError) as caught:
        LomarcModel.from_parameters([(name, value)])
    assert str(caught.value).startswith(text)


# ---------------------------------------------------------------- jobs on a node


def loads(*job_ids: int) -> list[Load]:
    return [Load(job_id, 1, ThreadMask(1 << place), (0, 0, 0)) for place, job_id in enumerate(job_ids)]


@given(model=models(), usage_a=usages(), usage_b=usages())
def test_two_jobs_progress_at_one_over_the_slowdown(model: LomarcModel, usage_a: Usage, usage_b: Usage) -> None:
    """Bit for bit, so that plans with the model come true."""
    contention = LomarcContention(model, {7: usage_a, 3: usage_b})
    slowdown = model.slowdown(3, usage_b, 7, usage_a)
    for penalty in contention.penalties(NODE, loads(7, 3)):
        assert composition_named("bulk-synchronous").slowdowns([0.0, penalty]) == [slowdown]


@drawn(model=models(), there=st.lists(usages(), min_size=3, max_size=5), few=30, many=100)
def test_excess_slowdowns_of_several_jobs_add_up(model: LomarcModel, there: list[Usage]) -> None:
    contention = LomarcContention(model, dict(enumerate(there)))
    jobs = list(range(len(there)))
    penalties = contention.penalties(NODE, loads(*jobs))
    for job in jobs:
        pairs = [model.slowdown(job, there[job], other, there[other]) - 1 for other in jobs if other != job]
        assert penalties[job] == pytest.approx(sum(pairs), abs=1e-12)
    for order in permutations(jobs):
        assert contention.penalties(NODE, loads(*order)) == [penalties[job] for job in order]


def test_a_job_alone_or_unknown_runs_at_full_speed() -> None:
    contention = LomarcContention(ALL_BAD, {1: SIX_FOUR, 2: plain(SIX_FOUR)})
    assert isinstance(contention, ContentionModel)
    assert contention.name == "lomarc"
    assert contention.penalties(NODE, loads(1)) == [0]
    assert contention.penalties(NODE, loads(8, 9)) == [0, 0]
    assert contention.penalties(NODE, loads(1, 9, 2)) == [1, 0, 1]
    assert contention.penalties(NODE, []) == []


# ---------------------------------------------------------------- arrays


@drawn(
    model=models(), job=JOBS, usage=usages(), others=st.lists(st.tuples(JOBS, usages()), max_size=30), few=30, many=100
)
def test_arrays_agree_with_single_pairs(
    model: LomarcModel, job: int, usage: Usage, others: list[tuple[int, Usage]]
) -> None:
    columns = UsageColumns([other for other, _ in others], [plain(there) for _, there in others])
    assert len(columns) == len(others)
    expected_c = [model.c_ppm(job, usage.bound, other, there.bound) for other, there in others]
    assert c_ppm(model, job, BOUNDS.index(usage.bound), columns).tolist() == expected_c
    expected = [model.slowdown(job, usage, other, there) for other, there in others]
    assert slowdowns(model, job, usage, columns).tolist() == expected
