"""The way of one submit through the files of the manager does not grow in silence."""

from __future__ import annotations

from scripts.bench.manager_way import batch_way, submit_way


def test_a_submit_and_its_start_pass_few_files() -> None:
    submitted, started = submit_way()
    assert (submitted.files[0], submitted.files[-1]) == ("live/live_server.py", "live/outbox.py")
    # One more since users have shares of the jobs, and one since faults strike after what is due, as far as a turn comes.
    assert len(submitted.files) - 1 <= 33
    assert len(submitted.folders) - 1 <= 17  # two more since live and emulated managers keep jobs back by one gate
    assert len(started.files) - 1 <= 29
    assert len(started.folders) - 1 <= 9


def test_a_batch_stays_in_the_managers_room() -> None:
    passed = batch_way()
    assert len(passed.files) - 1 <= 27
    assert len(passed.folders) - 1 <= 3
