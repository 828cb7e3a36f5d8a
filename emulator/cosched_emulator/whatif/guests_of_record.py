"""What sharing the schedule that a log records would have won and cost: that schedule again, and with guests beside its jobs.

No baseline stands in for what the site's scheduler did. Jobs that come sooner free their recorded places, which nobody else gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cosched_emulator.results.figures.replay_figures import RECORD
from cosched_emulator.studies.cells import Plan, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import StudyResult
from cosched_emulator.whatif.candidates import ALONE, FORMULA, GUESTS, TOLD
from cosched_emulator.whatif.question import Prepared
from cosched_emulator.whatif.validation import records_waits
from cosched_plugin.config import RECORDED

_MOST: Final = 10_000  # jobs, from the log's first on: no window begins as the record was there
_AS_RECORDED, _WITH_GUESTS = "as recorded", "guests in the recorded schedule"


def record_study(prepared: Prepared) -> Plan | None:
    """Return the plan of both runs; None where the log records no waits, or where `guests` is left out."""
    offered = any(one.policy == GUESTS for one in prepared.candidates)
    if not offered or not records_waits(prepared):
        return None
    scenario = {**prepared.base, "results": {"warmup": 0, "cooldown": 0}}
    seed = scenario.pop("seed")
    jobs = min(_MOST, len(prepared.log.jobs))
    backfill = f"backfill={RECORDED}"
    table = {
        "title": _WITH_GUESTS,
        "seeds": [seed],
        "scenario": {**scenario, "script": prepared.question.site.get("script", [])},
        "workloads": [{"name": RECORD, "workload": {"jobs": jobs}}],
        "hardware": [{"name": FORMULA, **prepared.hardware[FORMULA]}],
        "beliefs": [{"name": TOLD}],
        "policies": [
            {"name": _AS_RECORDED, "policy": "easy", "set": [backfill, *ALONE]},
            {"name": _WITH_GUESTS, "policy": GUESTS, "set": [backfill]},
        ],
    }
    return make_plan(read_experiment(table))


def told_of_record(result: StudyResult) -> Iterator[str]:
    """Yield the answer in a sentence; nothing where a run failed."""
    rows: dict[str, Any] = {row["policy"]: row for row in result.rows}
    if rows.keys() < {_AS_RECORDED, _WITH_GUESTS}:
        return
    alone, shared = rows[_AS_RECORDED], rows[_WITH_GUESTS]
    won_h = (alone["all_response_s_mean"] - shared["all_response_s_mean"]) * alone["record_jobs"] / 3600
    yield (
        f"In the schedule that your log records (its first {alone['record_jobs']:,} jobs), guests would have saved {won_h:,.0f} h: "
        f"{shared['record_sooner']:,} jobs start sooner, beside others; {shared['record_longer']:,} others run "
        f"{shared['record_longer_h']:,.0f} h longer; {shared['record_later']:,} start {shared['record_later_h']:,.0f} h later than "
        f"recorded, for lack of room (without guests {alone['record_later']:,}, {alone['record_later_h']:,.0f} h)."
    )
