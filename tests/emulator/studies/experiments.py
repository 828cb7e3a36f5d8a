"""Experiments that tests of studies have in common: small, and with every axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SMALL: Mapping[str, Any] = {"cluster": {"nodes": 8}, "workload": {"lublin": 12}}
SHARED: Mapping[str, Any] = {
    "cluster": {"preset": "lomarc-ht", "nodes": 16},
    "workload": {"lublin": 30, "characteristics": "M1"},
    "truth": {"contention": "lomarc"},
}
TWO_POLICIES: Mapping[str, Any] = {
    "scenario": SHARED,
    "policies": [{"name": "PSS", "policy": "pss"}, "lomarc-r"],
    "loads": [0.7, 0.9],
    "seeds": "1-3",
    "baseline": {"policy": "PSS", "shakes": 2},
}


def toml(table: Mapping[str, Any]) -> str:
    """Return an experiment as TOML: its tables are written inline."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
