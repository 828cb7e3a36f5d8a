"""Keyed draws: they never change, are the same one by one and in arrays, and are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched_hwmodel import draws

INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, "demand"), 0x60895CEBC0A413A1),
        ((0, "demand", 0), 0x2B0DB6E59E9D24A0),
        ((0, "demand", 1), 0x8857A4A1CD996A53),
        ((42, "pair", 3, 7), 0x6124E442C635D19F),
        ((42, "pair", 7, 3), 0x82A297A1BC8C99E3),
        ((-1, "noise", -5), 0x90105FE62A28BD33),
        ((2**63, "é", 2**64 - 1), 0x3AE72AA954123407),
    ],
)
def test_golden_keys(arguments: tuple[int, str, *tuple[int, ...]], expected: int) -> None:
    assert draws.key(*arguments) == expected


def test_mixing_is_published_splitmix64_and_fnv1a() -> None:
    # First output of splitmix64 seeded with 0, and FNV-1a-64 of "a": from their authors' test vectors. The state before
    # the seed is the hash of the purpose, so a seed equal to it makes the seed step splitmix64's first from 0.
    assert draws.key(0xAF63DC4C8601EC8C, "a") == 0xE220A8397B1DCDAF


@given(INT64, st.lists(st.tuples(INT64, INT64), min_size=1, max_size=5), INT64)
def test_beginnings_are_those_of_the_whole_keys(seed: int, ids: list[tuple[int, int]], last: int) -> None:
    columns = np.array(ids, dtype=np.int64).T
    begun = draws.Beginnings(seed, "tick", *columns)
    for each in (last, 0):
        assert begun.uniforms(each).tolist() == [draws.uniform(seed, "tick", *row, each) for row in ids]


@settings(deadline=None, max_examples=60)
@given(seed=INT64, first=st.lists(INT64, min_size=1, max_size=20), data=st.data())
def test_vector_equals_scalar(seed: int, first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(INT64, min_size=len(first), max_size=len(first)))
    one = draws.uniforms(seed, "sizes", np.array(first, dtype=np.int64))
    assert one.tolist() == [draws.uniform(seed, "sizes", a) for a in first]
    two = draws.uniforms(seed, "sizes", np.array(first, dtype=np.int64), np.array(second, dtype=np.int64))
    assert two.tolist() == [draws.uniform(seed, "sizes", a, b) for a, b in zip(first, second, strict=True)]


def test_vector_keeps_shape_and_arguments() -> None:
    ids = np.arange(6, dtype=np.int64).reshape(2, 3)
    drawn = draws.uniforms(1, "self", ids)
    assert drawn.shape == (2, 3)
    assert drawn.dtype == np.float64
    assert drawn[1, 2] == draws.uniform(1, "self", 5)
    assert ids.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert draws.uniforms(1, "self", np.empty(0, dtype=np.int64)).shape == (0,)


def test_every_part_of_the_key_counts() -> None:
    keys = [
        draws.key(seed, purpose, *ids)
        for seed in range(5)
        for purpose in ("pair", "self", "pairs")
        for ids in ((), (0,), (0, 0), (1,), (1, 0), (0, 1), (1, 1), (1, 0, 0), (-1,))
    ]
    assert len(set(keys)) == len(keys)


def test_roughly_uniform_and_independent() -> None:
    n, seed = 100_000, 1
    drawn = draws.uniforms(seed, "demand", np.arange(n, dtype=np.int64))
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    bins = np.bincount((drawn * 100).astype(int), minlength=100)
    chi_square = float(((bins - n / 100) ** 2 / (n / 100)).sum())
    assert 50 < chi_square < 170  # 99 degrees of freedom: beyond these about 1 in 100,000
    # Neighbouring ids, neighbouring seeds, other purposes and swapped pairs are unrelated: |r| of about 1/sqrt(n).
    ids = np.arange(n, dtype=np.int64)
    for other in (
        np.roll(drawn, 1),
        draws.uniforms(seed + 1, "demand", ids),
        draws.uniforms(seed, "pair", ids),
        draws.uniforms(seed, "demand", ids, ids),
    ):
        assert abs(float(np.corrcoef(drawn, other)[0, 1])) < 5 / n**0.5


def test_extreme_keys_stay_in_the_unit_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "key", lambda *_: 2**64 - 1)
    assert draws.uniform(0, "x") == 1 - 2**-53
    monkeypatch.setattr(draws, "key", lambda *_: 0)
    assert draws.uniform(0, "x") == 0.0


def test_choice_follows_weights() -> None:
    assert [draws.choice(u, (80, 10, 10)) for u in (0.0, 0.79, 0.8, 0.89, 0.9, 1 - 2**-53)] == [0, 0, 1, 1, 2, 2]
    assert draws.choice(0.0, (0, 3, 0)) == 1
    assert draws.choice(1 - 2**-53, (0, 3, 0)) == 1
    counts = [0, 0, 0]
    for job in range(10_000):
        counts[draws.choice(draws.uniform(9, "demand", job), (50, 10, 40))] += 1
    assert counts == pytest.approx([5000, 1000, 4000], abs=200)


@settings(deadline=None, max_examples=200)
@given(weights=st.lists(st.integers(0, 10**6), min_size=1, max_size=6).filter(any), high=st.booleans())
def test_choice_never_picks_weight_zero(weights: list[int], high: bool) -> None:
    assert weights[draws.choice(1 - 2**-53 if high else 0.0, weights)] > 0


@pytest.mark.parametrize(("draw", "weights"), [(0.5, ()), (0.5, (0, 0)), (0.5, (2, -1)), (1.0, (1,)), (-0.1, (1,))])
def test_choice_refuses_what_it_cannot_choose(draw: float, weights: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no choice"):
        draws.choice(draw, weights)
