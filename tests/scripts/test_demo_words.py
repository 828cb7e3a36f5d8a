"""What the demo says under its table: every number is that of the runs."""

from __future__ import annotations

from scripts.demo_words import gains, window
from tests.emulator.results.samples import record, stay
from tests.runs import run_on

from cosched_emulator.results.columns import JobColumns, job_columns
from cosched_plugin.protocol.messages import COMPLETED, TIMEOUT

PLACE = run_on(0, 1, 1, 1)


def columns(*jobs: tuple[float, float, float], killed: tuple[int, ...] = ()) -> JobColumns:
    """Return jobs of (submission, start, end) in seconds; those that were killed are TIMEOUT, the others COMPLETED."""
    return job_columns(
        [
            record(
                number, submit_s, TIMEOUT if number in killed else COMPLETED, None, (stay(start_s, end_s, PLACE),), 10
            )
            for number, (submit_s, start_s, end_s) in enumerate(jobs, 1)
        ]
    )


BASE = columns((0, 0, 10), (5, 10, 20), (6, 20, 30), (7, 30, 40), (8, 40, 50))


def test_who_gains_and_who_loses() -> None:
    run = columns((0, 0, 10), (5, 5, 15), (6, 60, 70), (7, 30, 45), (8, 45, 60), killed=(5,))
    assert list(gains("PSS", BASE, "OURS", run)) == [
        "OURS against PSS, 4 jobs that completed in both:",
        "    mean response: 30.50 s instead of 20.50 s (+49%)",
        "    respond earlier: 1 (25%); as before: 1 (25%); later: 2 (50%)",
        "    of the later ones, 1 start later, 1 take longer from start to end; 1 respond more than 1.5 times as late",
        "    job 3 loses most: its response is 64.00 s instead of 24.00 s",
        "    killed at their limits: 1 jobs; under PSS: 0",
    ]


def test_no_loser_is_named_where_no_job_loses() -> None:
    assert list(gains("A", BASE, "B", BASE)) == [
        "B against A, 5 jobs that completed in both:",
        "    mean response: 24.80 s instead of 24.80 s (+0%)",
        "    respond earlier: 0 (0%); as before: 5 (100%); later: 0 (0%)",
    ]
    killed = columns(*[(0, 0, 10)] * 5, killed=(1, 2, 3, 4, 5))
    assert list(gains("A", BASE, "B", killed)) == [
        "B against A, 0 jobs that completed in both:",
        "    killed at their limits: 5 jobs; under A: 0",
    ]


def test_the_half_day_with_most_starts() -> None:
    hour_s = 3600
    starts_h = (0, 20.5, 21, 25, 31.9, 33)
    assert window(columns(*[(0, hour * hour_s, 40 * hour_s) for hour in starts_h])) == (20, 32)
    assert window(columns()) == (0, 12)
