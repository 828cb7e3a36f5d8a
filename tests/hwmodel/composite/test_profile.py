"""Profiles of processes: what they refuse, and their plain form."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from cosched_hwmodel.composite.job_profile import FIELDS, MOST, Profile, ProfileError, checked, from_mapping, to_mapping
from cosched_hwmodel.units import WHOLE_PPM

BUSY = Profile(integer_ppm=535_000, working_set_kb=400, accesses_ms=1000, exposed_ppm=0, memory_mb=12)
SENDER = Profile(cpu_ppm=500_000, network_ppm=WHOLE_PPM, network_mbs=70, message_ns=13_300)


@pytest.mark.parametrize("profile", [Profile(), BUSY, SENDER])
def test_the_plain_form_keeps_a_profile(profile: Profile) -> None:
    plain = to_mapping(profile)
    assert from_mapping(plain) == profile
    assert all(value != Profile._field_defaults[field] for field, value in plain.items())
    assert to_mapping(Profile()) == {}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"interger_ppm": 1}, 'interger_ppm: is no field of a profile; did you mean "integer_ppm"?'),
        ({"cpu_ppm": 1_000_001}, "cpu_ppm: must be from 0 to 1000000, not 1000001"),
        ({"memory_mbs": -1}, "memory_mbs: must be from 0 to 4000000, not -1"),
        ({"memory_mbs": True}, "memory_mbs: must be a whole number, not True"),
        ({"memory_mbs": 1.0}, "memory_mbs: must be a whole number, not 1.0"),
        ({"network_mbs": 5}, "network_mbs: has no effect without network_ppm"),
        ({"accesses_ms": 5}, "accesses_ms: has no effect without working_set_kb"),
        ({"cpu_ppm": 0, "floating_ppm": 5}, "floating_ppm: has no effect without cpu_ppm"),
    ],
)
def test_impossible_values_are_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ProfileError) as caught:
        from_mapping(values)
    assert str(caught.value) == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_every_field_has_a_bound_and_a_profile_has_every_field() -> None:
    assert tuple(MOST) == FIELDS
    with pytest.raises(ProfileError, match="must have 15 values, not 3"):
        checked((1, 2, 3))
