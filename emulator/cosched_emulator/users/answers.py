"""The form of a manager's answers to users: seconds under names that end in ``_s``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosched_hwmodel.units import SECOND_US


def seconds(span_us: int | None) -> float | None:
    """Return a span of microseconds in seconds; None for None."""
    return None if span_us is None else span_us / SECOND_US


def with_seconds(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map with the microseconds (names that end in ``_us``) replaced by seconds."""
    return {
        f"{key.removesuffix('_us')}_s" if key.endswith("_us") else key: seconds(value) if key.endswith("_us") else value
        for key, value in row.items()
    }


def ended_job(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer about a job that has ended, from its row in the accounting."""
    answer = with_seconds(row)
    if "id" in answer:
        answer = {"job_id": answer.pop("id"), **answer}
    submit_s, start_s, end_s = (answer.get(key) for key in ("submit_s", "start_s", "end_s"))
    answer["wait_s"] = None if start_s is None or submit_s is None else round(start_s - submit_s, 6)
    answer["elapsed_s"] = None if start_s is None or end_s is None else round(end_s - start_s, 6)
    return answer
