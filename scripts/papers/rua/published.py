"""What the RUA paper prints of its results (its tables 1 to 7)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Columns of the study.
KILLED: Final = "killed_count"
PENALISED_P95: Final = "penalised_percent_p95"
PENALISED: Final = "penalised_percent_mean"
SLOWDOWN_P95: Final = "bounded_slowdown_10s_p95"
SLOWDOWN: Final = "bounded_slowdown_10s_mean"
WAIT_P95: Final = "wait_s_p95"
WAIT: Final = "wait_s_mean"

# By figure and workload: a value for each policy, of which the paper shows RUA in figures only. Empty: lost or not printed.
with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    PUBLISHED: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
        (row.pop("figure"), row.pop("workload")): row for row in csv.DictReader(_file)
    }


def published(key: str, workload: str, policy: str) -> float | None:
    """Return a value of the paper's tables; it shows RUA in figures only."""
    text = PUBLISHED.get((key, workload), {}).get(policy)
    return float(text) if text else None


def published_ratio(key: str, workload: str, policy: str, base: str = "FF") -> float | None:
    """Return a value of the paper's tables over that of another policy."""
    value, theirs = (published(key, workload, name) for name in (policy, base))
    return None if value is None or not theirs else value / theirs
