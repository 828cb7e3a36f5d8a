"""What the demo says under its table: every number is that of the runs."""

from __future__ import annotations

import pytest
from scripts.demo_words import gains, overload, quanta_window, turns
from tests.emulator.results.samples import TWO_NODES, record, stay
from tests.runs import run_on

from cosched_emulator.manager.record import PARTNER, ROW, QuantumPart, QuantumRecord
from cosched_emulator.results.harm import Outcomes, outcomes
from cosched_emulator.results.record_columns import RecordColumns, job_columns, quanta_columns
from cosched_plugin.protocol.messages import COMPLETED, TIMEOUT

PLACE = run_on(0, 1, 1, 1)


def columns(*jobs: tuple[float, float, float], killed: tuple[int, ...] = ()) -> RecordColumns:
    """Return jobs of (submission, start, end) in seconds; those that were killed are TIMEOUT, the others COMPLETED."""
    return job_columns(
        [
            record(
                number, submit_s, TIMEOUT if number in killed else COMPLETED, None, (stay(start_s, end_s, PLACE),), 10
            )
            for number, (submit_s, start_s, end_s) in enumerate(jobs, 1)
        ]
    )


def results(*jobs: tuple[float, float, float], killed: tuple[int, ...] = ()) -> Outcomes:
    return outcomes(columns(*jobs, killed=killed), TWO_NODES)


TIMES = ((0, 0, 100), (50, 100, 200), (60, 200, 300), (70, 300, 400), (80, 400, 500))
BASE = results(*TIMES)


def test_which_jobs_gain_and_which_lose() -> None:
    run = results((0, 0, 100), (50, 50, 150), (60, 3600, 3700), (70, 300, 450), (80, 450, 600), killed=(5,))
    assert list(gains("PSS", BASE, "OURS", run)) == [
        "OURS against PSS, 4 jobs that completed in both:",
        "    mean response: 17.58 min instead of 3.42 min (+415%)",
        "    jobs that respond later, by more than 5% and 60 s: 1 (25%)",
        "    all responses added up: 0.01 h gained, 0.96 h lost",
        "    job 3 loses most: its response is 60.67 min instead of 4.00 min (later start)",
        "    killed at their limits: 1 jobs; under PSS: 0",
    ]


def test_no_loser_is_named_where_no_job_loses() -> None:
    assert list(gains("A", BASE, "B", BASE)) == [
        "B against A, 5 jobs that completed in both:",
        "    mean response: 4.13 min instead of 4.13 min (+0%)",
        "    jobs that respond later, by more than 5% and 60 s: 0 (0%)",
        "    all responses added up: 0.00 h gained, 0.00 h lost",
    ]
    assert list(gains("A", BASE, "B", results(*TIMES, killed=(1, 2, 3, 4, 5)))) == [
        "B against A, 0 jobs that completed in both:",
        "    killed at their limits: 5 jobs; under A: 0",
    ]


def test_an_overloaded_machine_is_told() -> None:
    assert overload(1.228).startswith(
        "The jobs ask for 123% of what the machine can do without sharing: the queue grows"
    )


def test_what_happened_in_the_quanta() -> None:
    told = {"quanta": 2_000, "quanta_paired": 500, "mean_jobs": 7.25, "max_jobs": 20, "jobs_at_last_submission": 6}
    assert turns("PAIRED", {"time_sharing": told}) == (
        "    PAIRED:  2,000 quanta, 25% of them with a pair; 7.2 jobs at a time, at most 20; 6 left at the last submission"
    )
    assert "0 quanta, no pairs; " in turns("GANG", {"time_sharing": {**told, "quanta": 0}})


def test_the_picture_shows_the_time_with_the_most_pairs() -> None:
    def quantum(number: int, *, paired: bool) -> QuantumRecord:
        part = QuantumPart(1, 0, ROW, paired, 1_000_000, 450_000, 450_000)
        other = part._replace(job_id=2, slot=1, role=PARTNER)
        return QuantumRecord(
            number, (number - 1) * 1_000_000, number * 1_000_000, 0, 2, 1, 1, (part, other)[: 1 + paired]
        )

    pairs = {5, *range(150, 190), 300}
    columns = quanta_columns([quantum(number, paired=number in pairs) for number in range(1, 401)])
    assert quanta_window(columns) == pytest.approx((149 / 3600, 189 / 3600))
    alone = quanta_columns([quantum(number, paired=False) for number in range(1, 10)])
    assert quanta_window(alone) == pytest.approx((0, 40 / 3600))
