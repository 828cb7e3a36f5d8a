"""The figures of a run as columns of a study's table: all of its summary, flat, plus figures of whole studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cosched_emulator.api.run import Run

LEFT_OUT: Final = ("format", "percentile_rule")


def figures_of(run: Run) -> dict[str, Any]:
    """Return the figures of a run by column: those of completed jobs without a prefix, those of all jobs with ``all_``."""
    found: dict[str, Any] = {}
    for key, value in run.summary.items():
        if key in LEFT_OUT:
            continue
        prefix = "" if key in ("machine", "finished") else f"{key}_"
        if isinstance(value, Mapping):
            found.update(_flat(prefix, value))
        else:
            found[key] = value
    return found


def _flat(prefix: str, table: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(_flat(f"{name}_", value))
        else:
            found[name] = value
    return found
