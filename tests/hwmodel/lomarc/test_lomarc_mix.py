"""The share of pairs of the LOMARC paper's workload that the slowdown limit accepts, in each form, as the page states it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.lomarc.lomarc_matrix import UsageColumns, c_ppm, slowdowns
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS, Usage

RANGES_PPM = {  # of the own bound, of one more, of their sum; the third share is the rest (section 6.1)
    "cpu": ("disk", (500_000, 900_000), (50_000, 400_000), (600_000, 950_000)),
    "network": ("disk", (400_000, 650_000), (50_000, 400_000), (500_000, 800_000)),
    "disk": ("network", (400_000, 650_000), (50_000, 400_000), (500_000, 800_000)),
}
ATTEMPTS = 60


def _between(draws: NDArray[np.float64], low: int, high: int) -> NDArray[np.int64]:
    return (low + draws * (high - low)).astype(np.int64)


def mix_1(jobs: int, seed: int) -> UsageColumns:
    """Return jobs of mix M1: bounds 40 to 30 to 30, shares and memory as the paper draws them."""
    ids = np.arange(jobs)
    kind = np.searchsorted([0.4, 0.7], uniforms(seed, "class", ids), side="right")
    memory_draw, level = uniforms(seed, "memory", ids), uniforms(seed, "level", ids)
    memory = np.where(
        level < 0.7,
        _between(memory_draw, 50_000, 500_001),
        np.where(level < 0.95, _between(memory_draw, 500_001, 800_000), _between(memory_draw, 800_000, 1_000_001)),
    )
    columns = UsageColumns(ids.tolist(), [(BOUNDS[index], 0, 0, 0, 0) for index in kind.tolist()])
    columns.memory = memory
    job, attempt = np.meshgrid(ids, np.arange(ATTEMPTS), indexing="ij")
    own_draw, other_draw = uniforms(seed, "own", job, attempt), uniforms(seed, "other", job, attempt)
    for index, bound in enumerate(BOUNDS):
        other, own_range, other_range, (least, most) = RANGES_PPM[bound]
        rest = next(name for name in BOUNDS if name not in (bound, other))
        own, second = _between(own_draw, *own_range), _between(other_draw, *other_range)
        fits: NDArray[np.bool_] = (least <= own + second) & (own + second < most)
        here = kind == index
        assert fits[here].any(axis=1).all()
        first = fits.argmax(axis=1)  # draw again until the sum fits
        drawn = {bound: own[ids, first], other: second[ids, first]}
        drawn[rest] = WHOLE_PPM - drawn[bound] - drawn[other]
        for name in BOUNDS:
            getattr(columns, name)[here] = drawn[name][here]
    return columns


def usage_of(columns: UsageColumns, job: int) -> Usage:
    bound, shares = BOUNDS[columns.bound[job]], (columns.cpu, columns.network, columns.disk, columns.memory)
    return Usage(bound, *(int(share[job]) for share in shares))


def matchable(model: LomarcModel, job: int, columns: UsageColumns) -> NDArray[np.bool_]:
    """Return which jobs fit into memory with this one, and differ in bound or are two cpu-bound jobs with the low c."""
    fits: NDArray[np.bool_] = columns.memory + columns.memory[job] <= WHOLE_PPM
    bound = int(columns.bound[job])
    cpu, disk = BOUNDS.index("cpu"), BOUNDS.index("disk")
    if model.cpu == "standard":  # cpu-bound with disk-bound alone
        fits &= columns.bound == {cpu: disk, disk: cpu}.get(bound, -1)
        return fits
    good = c_ppm(model, job, bound, columns) == model.good_c_ppm
    fits &= (columns.bound != bound) | (good & (bound == cpu))
    return fits


def share_passing(model: LomarcModel, columns: UsageColumns) -> float:
    """Return the share of matchable pairs with a slowdown of at most 1.6."""
    passing = total = 0
    for job in range(1, len(columns)):
        candidates = columns.take(np.arange(job))
        which = matchable(model, job, columns)[:job]
        found = slowdowns(model, job, usage_of(columns, job), candidates.take(which))
        passing += int((found <= 1.6).sum())
        total += len(found)
    return passing / total


MIX_1 = mix_1(1200, seed=1)


@pytest.mark.parametrize(
    ("model", "expected", "error"),
    [  # shares over many mixes, and three standard deviations of those of one
        (LomarcModel(True, "all"), 0.60, 0.03),
        (LomarcModel(True, "cpu_cpu"), 0.9455, 0.012),
        (LomarcModel(False, "all"), 0.963, 0.008),
        (LomarcModel(False, "cpu_cpu"), 0.996, 0.002),
        (LomarcModel(True, cpu="standard"), 0.39, 0.06),
        (LomarcModel(False, cpu="standard"), 0.94, 0.025),
    ],
)
def test_share_of_matchable_pairs_that_pass(model: LomarcModel, expected: float, error: float) -> None:
    assert share_passing(model, MIX_1) == pytest.approx(expected, abs=error)
    row = f"| `{str(model.remainder).lower()}` | `{model.c_scope}` | {model.cpu} | {expected:.2f} |"
    assert row in (Path(__file__).parents[3] / "docs" / "results" / "appendix" / "models.md").read_text(
        encoding="utf-8"
    )
