"""The composite model against the LOMARC paper's measurements: what must hold, and how many numbers it takes."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from scripts.papers.hardware.lomarc_fit import (
    IO_RANGE,
    NUMBERS,
    STORED,
    Number,
    blended,
    fit,
    fit_lomarc,
    fitted_entries,
    lomarc_node,
    measurements,
    predicted,
)
from tests.hwmodel.lomarc.lomarc_tables import TABLES

from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.topology import load_preset
from cosched_hwmodel.units import WHOLE_PPM


class Errors(NamedTuple):
    numbers: int
    mean_absolute: float
    largest: float


def errors_of(values: tuple[float, ...], tables: tuple[int, ...]) -> Errors:
    asked = measurements(tables)
    found = predicted(lomarc_node(values), asked)
    errors = [abs(value - each.slowdown) for value, each in zip(found, asked, strict=True)]
    return Errors(len(errors), sum(errors) / len(errors), max(errors))


def test_the_measurements_are_those_of_the_paper() -> None:
    """The same numbers as in the validation of the LOMARC model, which were typed independently."""
    for table, name in enumerate(("paging", "Table 1", "Table 2", "Table 3")):
        typed = Counter(value for cell in TABLES[name] if cell.name != "I/O with I/O" for value in cell.measured)
        assert Counter(each.slowdown for each in measurements((table,))) == typed


def test_tables_1_to_3_are_explained_with_at_most_24_numbers() -> None:
    assert len(NUMBERS) == len(STORED) <= 24
    numbers, mean, largest = errors_of(STORED, (1, 2, 3))
    assert numbers == 58
    assert mean <= 0.08
    assert largest <= 0.35
    assert (round(mean, 3), round(largest, 3)) == (0.044, 0.143)  # as MODEL.md states
    assert max(errors_of(STORED, (0,))[1:]) < 0.01  # paging
    low, high = IO_RANGE
    assert all(low <= slowdown <= high for slowdown in lomarc_node().slowdowns("I/O", "I/O"))


def test_every_number_has_an_effect() -> None:
    asked = measurements((0, 1, 2, 3))
    before = [*predicted(lomarc_node(), asked), *lomarc_node().slowdowns("I/O", "I/O")]
    for index, number in enumerate(NUMBERS):
        assert number.low <= STORED[index] <= number.high
        middle = (number.low + number.high) / 2
        node = lomarc_node((*STORED[:index], middle, *STORED[index + 1 :]))
        assert [*predicted(node, asked), *node.slowdowns("I/O", "I/O")] != before, number.name


@pytest.mark.slow
def test_the_fit_gives_the_stored_numbers() -> None:
    fitted = fit_lomarc(fitted_entries((0, 1, 2, 3)))
    assert fitted == pytest.approx(STORED, abs=2e-2, rel=2e-2)
    assert errors_of(fitted, (1, 2, 3)).mean_absolute == pytest.approx(0.044, abs=2e-3)


@pytest.mark.slow
def test_table_2_follows_from_tables_1_and_3() -> None:
    numbers, mean, largest = errors_of(fit_lomarc(fitted_entries((0, 1, 3))), (2,))
    assert numbers == 20
    assert mean <= 0.055
    assert largest <= 0.2


def test_the_preset_is_the_fitted_node() -> None:
    preset, fitted = load_preset("lomarc-ht-fitted"), lomarc_node().node
    assert preset.caches == fitted.caches
    assert (preset.integer_slots_ppm, preset.floating_slots_ppm) == (1_000_000, 1_000_000)
    assert (preset.network_mbs, preset.disk_mbs) == (fitted.network_mbs, fitted.disk_mbs)
    assert (preset.cores, preset.threads, preset.memory_mb) == (1, 2, 512)


def test_a_fit_finds_the_numbers_that_made_the_measurements() -> None:
    places = [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
    numbers = (Number("slope", 1.0, -5.0, 5.0), Number("square", 0.0, -5.0, 5.0))
    measured = [1.5 * place - 0.25 * place * place for place in places]
    found = fit(numbers, lambda values: [values[0] * place + values[1] * place * place for place in places], measured)
    assert found == pytest.approx((1.5, -0.25), abs=1e-5)
    bounded = fit((numbers[0]._replace(high=1.2), numbers[1]), lambda values: [values[0], values[1]], [9.0, 2.0])
    assert bounded == pytest.approx((1.2, 2.0), abs=1e-3)  # a number stays within its bounds


def test_a_blend_is_the_mean_over_the_time_of_each_phase() -> None:
    busy = Profile(integer_ppm=535_000, working_set_kb=400, accesses_ms=1000, exposed_ppm=0, memory_mb=12)
    sender = Profile(cpu_ppm=500_000, network_ppm=WHOLE_PPM, network_mbs=70, message_ns=13_300)
    whole = blended({busy: 600_000, sender: 400_000})
    assert whole.cpu_ppm == 600_000 + 200_000
    assert whole.integer_ppm == 535_000 * 600_000 // 800_000  # of the time in which it computes
    assert (whole.network_ppm, whole.network_mbs, whole.message_ns) == (400_000, 70, 13_300)
    assert whole.accesses_ms == 600
    assert blended({busy: WHOLE_PPM}) == busy
