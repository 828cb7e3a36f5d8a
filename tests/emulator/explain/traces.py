"""Decision traces of small runs."""

from __future__ import annotations

from typing import Any

from cosched_emulator import simulate
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences

Record = dict[str, Any]
PAIRS = ("--characteristics", "M1", "--node", "lomarc-ht", "--contention", "lomarc", "--aarr", "8.83")
SCENARIO: dict[str, Any] = {
    "cluster": {"nodes": 32, "preset": "lomarc-ht"},
    "workload": {"lublin": 120, "aarr": 8.83, "characteristics": "M1"},
    "truth": {"contention": "lomarc"},
}


def records_of(policy: str, table: dict[str, Any] = SCENARIO, *settings: str) -> list[Record]:
    """Return the trace of a run, directly from the sink."""
    records: list[Record] = []
    simulate(table, policy, settings=settings, trace=records)
    return records


SLICES: dict[str, Any] = {
    "cluster": {"nodes": 32, "preset": "g-lomarc-2x2"},
    "workload": {"lublin": 300, "aarr": 9.83, "self_slowdowns": "table4", "grow": True},
    "truth": {"contention": "statistical"},
    "preemption": {"resume_s": 60.0},
}


def lines_of(records: list[Record], job: int) -> list[str]:
    return list(sentences(explain(records, job, "t.jsonl")))


START: Record = {
    "at_us": 90_000_000, "kind": "start", "job": 7, "submit_us": 30_000_000, "processes": 2, "estimate_us": 100_000_000,
    "expected_us": 100_000_000, "runs": [[0, 2, 1, 1]],
}  # fmt: skip
MATCHABLE = "of medium length or longer, known and willing to share"
GROUP: Record = {"primary": 7, "matched": [5, 6], "running": [], "gain": 0.877, "candidates": 3, "tried": 1}
SEARCH: Record = {"left": {"all": 1, "short": 1}, "removed": {"short": []}, "candidates": [8], "profits": [0.5]}
