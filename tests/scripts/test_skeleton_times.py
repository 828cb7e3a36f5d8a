"""Jobs alone take the times of the paper's Table 1, on nodes whose processes poll."""

from __future__ import annotations

import csv
import operator
from dataclasses import replace

import pytest
from scripts.papers.coscheduling import calibrate

from cosched_emulator.nodeos.skeletons.nas_programs import compute_share, iterations_of
from cosched_emulator.workload.nas import NasKind, kinds

WITHIN = 0.02
NAME = operator.attrgetter("name")
CHEAP = [
    NasKind("EP", "C", 16),
    NasKind("MG", "A", 16),
    NasKind("IS", "C", 8),
    NasKind("BT", "A", 9),
    NasKind("sPPM", "", 4),
]
WHOLE = [NasKind("CG", "A", 16), NasKind("LU", "A", 16), NasKind("SP", "A", 9), NasKind("CG", "B", 8)]


@pytest.mark.parametrize("kind", CHEAP, ids=NAME)
def test_some_jobs_take_their_time(kind: NasKind) -> None:
    took_s = calibrate.alone_s(kind, compute_share(*kind), least_s=1.0)
    assert took_s == pytest.approx(kind.seconds, rel=WITHIN)


@pytest.mark.parametrize(
    ("kind", "grain"),
    [
        (NasKind("IS", "C", 8), 1 / 3),
        (NasKind("CG", "B", 16), 1 / 8),
        *[
            pytest.param(kind, grain, marks=pytest.mark.slow)
            for kind in kinds()
            for grain in (1 / 8, 1 / 3, 3.0)
            if iterations_of(*kind, grain) > 1
        ],
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_jobs_of_another_grain_take_the_same_time(kind: NasKind, grain: float) -> None:
    took_s = calibrate.alone_s(kind, compute_share(*kind, grain), least_s=1.0, grain=grain)
    assert took_s == pytest.approx(kind.seconds, rel=0.03)


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        (kind, policy) if kind == CHEAP[1] else pytest.param(kind, policy, marks=pytest.mark.slow)
        for kind in (*CHEAP, *WHOLE)
        for policy in ("hybrid", "sb")
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_jobs_alone_that_block_take_the_same_time(kind: NasKind, policy: str) -> None:
    nodes = replace(calibrate.NODES, coscheduling=policy)
    took_s = calibrate.alone_s(kind, compute_share(*kind), nodes, least_s=1.0)
    assert took_s == pytest.approx(kind.seconds, rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(), ids=NAME)
def test_all_jobs_take_their_time(kind: NasKind) -> None:
    assert calibrate.alone_s(kind, compute_share(*kind), seed=2) == pytest.approx(kind.seconds, rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHOLE, ids=NAME)
def test_whole_runs_take_as_long_as_their_first_iterations_say(kind: NasKind) -> None:
    took_s = calibrate.alone_s(kind, compute_share(*kind), least_s=kind.seconds)
    assert took_s == pytest.approx(kind.seconds, rel=WITHIN)


def test_the_file_has_every_kind_with_a_time_near_the_table() -> None:
    with calibrate.FILE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == calibrate.COLUMNS
    assert [f"{row['program']}.{row['class']}.{row['processes']}".replace("..", ".") for row in rows] == [
        kind.name for kind in kinds()
    ]
    for row, kind in zip(rows, kinds(), strict=True):
        assert float(row["alone_s"]) == pytest.approx(kind.seconds, rel=WITHIN)
