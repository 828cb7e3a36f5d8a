"""The types of settings: each with its bounds, as the annotation of a section's field names it."""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.local import LOCAL_SCHEDULERS
from cosched_emulator.workload.side_files.programs import LEAST_GRAIN, MOST_GRAIN
from cosched_hwmodel.composition import COMPOSITIONS
from cosched_hwmodel.lomarc.model import C_SCOPES, CPUS
from cosched_hwmodel.topology import MOST_WATTS
from cosched_hwmodel.units import SECOND_US
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.protocol.limits import INT64_MAX

# The valid values of settings: ranges of numbers and choices of names, in the annotations of a section's fields.


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``least`` to ``most``, except ``excluded``; NaN is in no range.

    ``expected`` describes them in an error. The ends belong to the range unless they are ``open``.
    """

    expected: str
    least: float = -math.inf
    most: float = math.inf
    least_open: bool = False
    most_open: bool = False
    excluded: float | None = None

    def check(self, value: float, path: str) -> None:
        """Raise ConfigurationError for the setting at ``path`` if ``value`` is not in the range."""
        inside = self.least <= value <= self.most
        open_end = (self.least_open and value == self.least) or (self.most_open and value == self.most)
        if not inside or open_end or value == self.excluded:
            raise ConfigurationError(path, self.expected, str(value))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some names."""

    names: tuple[str, ...]

    def check(self, value: str, path: str) -> None:
        """Raise ConfigurationError for the setting at ``path`` if ``value`` is none of the names."""
        if value not in self.names:
            raise ConfigurationError.unknown_name(path, value, self.names)


def between(least: float, most: float, what: str = "a number") -> Range:
    """Return the range from ``least`` to ``most``, of ``what``."""
    return Range(f"{what} from {_text(least)} to {_text(most)}", least, most)


def at_least(least: float, what: str = "", most: float = math.inf) -> Range:
    """Return the range from ``least`` on, of ``what``; errors do not name ``most``, as no sensible value reaches it."""
    return Range(f"{what}, {_text(least)} or more" if what else f"{_text(least)} or more", least, most)


def check_bounds(section: Any, path: str = "") -> None:
    """Raise ConfigurationError for the first setting of a section, or of a section in it, that is out of its bounds.

    The annotation of a field holds its bounds, as in ``Annotated[float, between(0, 1)]``. Each item of a tuple must be
    within them; None always is.
    """
    kind: Any = type(section)
    for name, bounds in _fields(kind):
        place = f"{path}.{name}" if path else name
        value = getattr(section, name)
        for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
            if is_dataclass(item):
                check_bounds(item, f"{place}[{index}]" if isinstance(value, tuple) else place)
            elif item is not None:
                for bound in bounds:
                    bound.check(item, place)


@cache
def _fields(kind: type) -> list[tuple[str, list[Any]]]:
    """Return the name and the bounds of each field of a section."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [(name, _bounds(hint)) for name, hint in hints.items()]


def _bounds(hint: Any) -> list[Any]:
    """Return the bounds anywhere in an annotation."""
    found = [item for item in getattr(hint, "__metadata__", ()) if isinstance(item, Range | Choice)]
    for part in typing.get_args(hint):
        found += _bounds(part)
    return found


def _text(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


LONGEST_S: Final = INT64_MAX // SECOND_US
SECONDS: Final = "a number of seconds"
Instant: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
Duration: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
DurationAboveZero: TypeAlias = Annotated[float, Range(f"{SECONDS} above 0", 0, LONGEST_S, least_open=True)]
Jump: TypeAlias = Annotated[float, Range(f"{SECONDS} other than 0", -LONGEST_S, LONGEST_S, excluded=0)]
FaultSpan: TypeAlias = Annotated[
    float, at_least(1, SECONDS, LONGEST_S)
]  # much shorter times would leave no time for anything else
Wait: TypeAlias = Annotated[float, between(0, 1_000_000_000, SECONDS)]  # every wait ends
# A scheduler may compute for half a second without being replaced.
Takeover: TypeAlias = Annotated[Wait, Range(f"{SECONDS} from 0.5 on", 0.5)]

AtLeastOne: TypeAlias = Annotated[int, at_least(1)]
PluginFaultCount: TypeAlias = Annotated[int, between(0, 100_000, "a whole number")]
Speed: TypeAlias = Annotated[float, between(1e-3, 1e6)]
Share: TypeAlias = Annotated[float, between(0, 1)]
Slowdown: TypeAlias = Annotated[float, between(1, 1_000)]
SlowdownLimit: TypeAlias = Annotated[float, between(0, 1_000)]
Noise: TypeAlias = Annotated[float, Range("a number from 0 to below 1", 0, 1, most_open=True)]
OfferedLoad: TypeAlias = Annotated[float, Range("a number above 0, at most 1000", 0, 1_000, least_open=True)]
Bias: TypeAlias = Annotated[float, Range("a number above -1, at most 1000", -1, 1_000, least_open=True)]

ClockMode: TypeAlias = Annotated[str, Choice(("virtual", "scaled", "real"))]
Composition: TypeAlias = Annotated[str, Choice(tuple(COMPOSITIONS))]
Resource: TypeAlias = Annotated[str, Choice(RESOURCES)]
CScope: TypeAlias = Annotated[str, Choice(C_SCOPES)]
Cpu: TypeAlias = Annotated[str, Choice(CPUS)]
Knowledge: TypeAlias = Annotated[str, Choice(("exact", "unknown"))]
SelfSlowdowns: TypeAlias = Annotated[str, Choice(("table4",))]
LoadMethod: TypeAlias = Annotated[str, Choice(("gaps", "users"))]
LublinSize: TypeAlias = Annotated[str, Choice(("cores", "nodes"))]
NodeKind: TypeAlias = Annotated[str, Choice(("exact", "fluid", "windows"))]
MemoryTold: TypeAlias = Annotated[str, Choice(("aware", "unaware"))]
Local: TypeAlias = Annotated[str, Choice(LOCAL_SCHEDULERS)]
Watts: TypeAlias = Annotated[float, between(0, MOST_WATTS, "a number of watts")]
Milliseconds: TypeAlias = Annotated[float, between(0, 1_000_000, "a number of milliseconds")]
Microseconds: TypeAlias = Annotated[int, between(0, 1_000_000_000, "a whole number of microseconds")]
WindowLength: TypeAlias = Annotated[float, between(1, 1_000_000, SECONDS)]
Above0: TypeAlias = Annotated[int, between(1, 1_000_000_000, "a whole number")]
EpochTicks: TypeAlias = Annotated[int, between(1, 10_000, "a whole number of ticks")]
Grain: TypeAlias = Annotated[float, between(LEAST_GRAIN, MOST_GRAIN)]
Amount: TypeAlias = Annotated[int, between(0, 1_000_000_000, "a whole number")]
