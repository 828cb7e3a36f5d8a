"""Bounds in the annotations of settings: allowed values, and their description in errors."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, is_dataclass
from typing import Annotated, Any

import pytest

from cosched_emulator.bounds import Choice, Range, at_least, between, check_bounds, marked
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.needs import Later, later_of
from cosched_emulator.scenario import fault_sections, schema, sections, site_tables
from cosched_emulator.scenario.difficult_manager import ManagerSection
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.scenario.time_sharing import TimeSharingSection

_OF_MODULES = [
    kind
    for module in (fault_sections, schema, sections, site_tables)
    for kind in vars(module).values()
    if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
]
SECTIONS = [kind for kind in _OF_MODULES if kind is not Scenario] + [ManagerSection, TimeSharingSection]


@dataclass(frozen=True)
class Inner:
    share: Annotated[float, between(0, 1)] = 0.5
    jump: Annotated[float, Range("anything but 0", -5, 5, excluded=0)] = 1
    noise: Annotated[float, Range("from 0 to below 1", 0, 1, most_open=True)] = 0


@dataclass(frozen=True)
class Outer:
    count: Annotated[int, at_least(1)] | None = None
    names: tuple[Annotated[str, Choice(("left", "right"))], ...] = ()
    free: float = math.nan
    inner: Inner = Inner()
    more: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    "section",
    [Outer(), Outer(count=1), Outer(names=("left", "right")), Outer(more=(Inner(0), Inner(1, -5), Inner(noise=0.99)))],
)
def test_values_within_their_bounds_are_accepted(section: Outer) -> None:
    check_bounds(section)


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (Outer(count=0), "count: expected 1 or more, got 0"),
        (Outer(names=("left", "lft")), "names: expected one of left, right, got 'lft'; did you mean 'left'?"),
        (Outer(inner=Inner(share=math.nan)), "inner.share: expected a number from 0 to 1, got nan"),
        (Outer(inner=Inner(noise=1)), "inner.noise: expected from 0 to below 1, got 1"),
        (Outer(more=(Inner(), Inner(jump=0))), "more[1].jump: expected anything but 0, got 0"),
        (Outer(more=(Inner(jump=6),)), "more[0].jump: expected anything but 0, got 6"),
    ],
)
def test_values_out_of_their_bounds_are_refused(section: Any, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_bounds(section)
    assert str(caught.value) == text


def test_descriptions_of_ranges() -> None:
    assert between(1e-3, 1e6).expected == "a number from 0.001 to 1e+06"
    assert between(0, 1_000_000_000, "a number of seconds").expected == "a number of seconds from 0 to 1000000000"
    assert at_least(0, "a number of seconds", 9).expected == "a number of seconds, 0 or more"


def test_what_came_later_is_read_off_the_types_that_an_annotation_names() -> None:
    """A word of a text that is the name of such a type would take a setting out of the records of runs."""
    for kind in (Scenario, *SECTIONS):
        for name, _, marks in marked(kind, Later):
            assert set(later_of(kind, name)) == set(marks), (kind, name)


def test_defaults_are_within_their_bounds() -> None:
    """`check_bounds` does not look at them."""
    for kind in SECTIONS:
        for name, default, bounds in marked(kind, (Range, Choice)):
            for value in default if isinstance(default, tuple) else (default,):
                for bound in bounds if value is not None and value is not MISSING else ():
                    bound.check(value, name)
