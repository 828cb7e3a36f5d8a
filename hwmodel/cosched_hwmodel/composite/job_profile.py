"""What one process of a job asks of its node when it runs alone there: the demand of the composite model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from cosched_hwmodel.errors import PlacedError, suggestion
from cosched_hwmodel.units import WHOLE_PPM

# The shape of a `Profile` as a plain tuple.
ProfileTuple: TypeAlias = tuple[int, ...]


class ProfileError(PlacedError):
    """A profile with an unknown field or an impossible value; ``where`` names the field."""


class Profile(NamedTuple):
    """The demand of one process in whole numbers; the defaults are those of a process that asks for nothing.

    ``_ppm`` are millionths. The parts of the time are parts of the run time alone; they may add up to more than the whole,
    as a process may compute while it sends. `checked` refuses impossible values.
    """

    cpu_ppm: int = WHOLE_PPM  # part of the time in which it computes
    integer_ppm: int = 0  # issue slots of a reference core that it uses then: integer
    floating_ppm: int = 0  # and floating point
    stretch_ns: int = 0  # for how long it uses the slots without a wait; 0: unknown
    working_set_kb: int = 0  # data that it uses again and again, KiB
    # Accesses to these data in a millisecond of the run time, beyond the caches that no table of nodes has
    accesses_ms: int = 0
    exposed_ppm: int = WHOLE_PPM  # part of the time of an access to cache or memory that it waits for
    memory_mbs: int = 0  # memory bandwidth, mean over the run time, MB/s
    network_ppm: int = 0  # part of the time in which it communicates
    network_mbs: int = 0  # bandwidth that it uses then, MB/s
    message_ns: int = 0  # time of one message on the network; 0: unknown
    disk_ppm: int = 0  # part of the time in which it reads or writes
    disk_mbs: int = 0  # bandwidth that it uses then, MB/s
    request_ns: int = 0  # time of one request on the disk; 0: unknown
    memory_mb: int = 0  # memory, MiB


FIELDS: Final = Profile._fields
_MOST_RATE: Final = 4_000_000  # sums over the 1024 threads of the largest node must fit into 64 bits, with weights
MOST: Final[Mapping[str, int]] = {
    "cpu_ppm": WHOLE_PPM,
    "integer_ppm": _MOST_RATE,
    "floating_ppm": _MOST_RATE,
    "stretch_ns": 1_000_000_000,
    "working_set_kb": 1_000_000_000,
    "accesses_ms": 10_000_000,
    "exposed_ppm": WHOLE_PPM,
    "memory_mbs": _MOST_RATE,
    "network_ppm": WHOLE_PPM,
    "network_mbs": _MOST_RATE,
    "message_ns": 1_000_000_000,
    "disk_ppm": WHOLE_PPM,
    "disk_mbs": _MOST_RATE,
    "request_ns": 1_000_000_000,
    "memory_mb": 1_000_000_000,
}
# What has no effect without another field.
_NEEDS: Final = (
    ("integer_ppm", "cpu_ppm"),
    ("floating_ppm", "cpu_ppm"),
    ("accesses_ms", "working_set_kb"),
    ("network_mbs", "network_ppm"),
    ("disk_mbs", "disk_ppm"),
)


def checked(profile: ProfileTuple) -> Profile:
    """Return the values as a `Profile`; raises ProfileError for an impossible one."""
    if len(profile) != len(FIELDS):
        raise ProfileError("profile", f"must have {len(FIELDS)} values, not {len(profile)}")
    values = Profile(*profile)
    for field, value in zip(FIELDS, values, strict=True):
        if type(value) is not int:  # a bool is no int here
            raise ProfileError(field, f"must be a whole number, not {value!r}")
        if not 0 <= value <= MOST[field]:
            raise ProfileError(field, f"must be from 0 to {MOST[field]}, not {value}")
    for field, other in _NEEDS:
        if getattr(values, field) and not getattr(values, other):
            raise ProfileError(field, f"has no effect without {other}")
    return values


def from_mapping(values: Mapping[str, Any]) -> Profile:
    """Return the profile of these fields, with defaults for missing ones; raises ProfileError, which suggests the closest name."""
    for field in values:
        if field not in FIELDS:
            raise ProfileError(str(field), f"is no field of a profile; {suggestion(str(field), FIELDS)}")
    return checked(Profile(**values))


def to_mapping(profile: Profile) -> dict[str, int]:
    """Return the fields that differ from their defaults, in order: a row of a side file, a table of TOML, a map on the wire."""
    return {
        field: value for field, value in zip(FIELDS, profile, strict=True) if value != Profile._field_defaults[field]
    }


def _mean(weights: Mapping[Profile, int], field: str) -> int:
    """Return the weighted mean of a field, rounded to a whole number; 0 where all weights are 0."""
    total = sum(weights.values())
    summed = sum(weight * int(getattr(profile, field)) for profile, weight in weights.items())
    return (summed + total // 2) // total if total else 0
