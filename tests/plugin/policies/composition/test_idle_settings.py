"""Settings of parts that another setting of the same part switches off are refused."""

from __future__ import annotations

from typing import Any

import pytest

from cosched_plugin.common.errors import UsageError
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.resolved import resolve

ONLY = [
    (kind, name, key, other)
    for kind, entries in KINDS.items()
    for name, entry in entries.items()
    for key, parameter in entry.parameters.items()
    for other in parameter.only
]


@pytest.mark.parametrize(("kind", "name", "key", "other"), ONLY)
def test_a_setting_that_another_one_switches_off_is_refused(kind: str, name: str, key: str, other: str) -> None:
    """Of every setting that says what it needs; its default stands in the record of every run, and is accepted."""
    entry = KINDS[kind][name]
    values: tuple[Any, ...] = (True, False, 3, 1.5, [1.5], "one", "fair", "first", "none")
    at = {key: next(each for each in values if entry.parameters[key].check(each) and each != entry.default(key))}
    of_other = [each for each in values if entry.parameters[other].check(each)]
    off = [each for each in of_other if each not in entry.parameters[key].only[other]]
    assert off
    whole = {"glts": "group", "symbiosis": "guests", "lc": name, "co-execution": "halves"}
    preset = next(preset for preset, part in whole.items() if part == name)
    for value in off:
        resolve({"preset": preset, kind: {"name": name, other: value}})
        with pytest.raises(UsageError, match=f"^policy.{kind}.{key}: remove it: it has an effect with {other} = "):
            resolve({"preset": preset, kind: {"name": name, other: value, **at}})
