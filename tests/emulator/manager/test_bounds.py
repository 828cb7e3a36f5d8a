"""Bounds on what a scheduler stores with the manager: notes, wakes, and void ends."""

from __future__ import annotations

import pytest
from tests.emulator.parts import job, manager, start

from cosched_emulator.live.user_commands import (
    LARGEST_MB,
    LARGEST_MBS,
    LARGEST_PPM,
    LONGEST_NAME,
    LONGEST_US,
    MOST_JOBS,
)
from cosched_emulator.manager import actions
from cosched_emulator.manager import manager as manager_module
from cosched_emulator.manager import notes as notes_module
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.notes import Notes
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import encode, pack
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES, MAX_THREADS


def running(limit_us: int | None = None) -> Manager:
    managed = manager()
    spec = job(1, 0, 100_000, limit_us=limit_us)
    managed.accept(spec)
    managed.commit(1, 0, [m.JobSubmitted(spec.spec)], [start(1, estimate_us=100, limit_us=limit_us)])
    return managed


def test_notes_have_a_size_limit_and_deleted_ones_free_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "MOST_BYTES", 1_000)
    notes = Notes()
    kept = 0
    while notes.set(None, f"key{kept}", ("text", kept, 1.5)) is None:
        kept += 1
    assert 5 < kept < 30
    reason = notes.set(3, "more", ("text", 1, 1.5))
    assert reason is not None
    assert "1000 bytes" in reason
    assert notes.set(None, "key0", None) is None
    assert notes.set(3, "more", 1) is None
    assert notes.set(3, "more", 2) is None  # replaces the other one
    assert len(notes.inventory_entries()) == kept
    notes.drop(3)
    assert notes.set(4, "more", 1) is None
    assert notes.inventory_entries()[-1] == m.Note(4, "more", 1)


def test_a_note_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "MOST_BYTES", 100)
    managed = running()
    refused = managed.carry_out(2, 10, [m.SetNote(None, "a", "x" * 100), m.SetNote(1, "b", 2)])
    assert [event.action for event in refused if isinstance(event, m.ActionRefused)] == [0]


def test_a_wake_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_WAKES", 2)
    managed = running()
    refused = managed.carry_out(2, 10, [m.WakeAt(20), m.WakeAt(30), m.WakeAt(20), m.WakeAt(40)])
    assert [event.action for event in refused if isinstance(event, m.ActionRefused)] == [3]


def test_ends_that_have_become_void_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "MOST_VOID", 20)
    managed = running(limit_us=200)
    for number in range(500):
        limit_us = 200 + number
        assert managed.carry_out(2 + number, 10, [m.ReviseJob(1, 300, limit_us), m.WakeAt(1_000)]) == []
    assert len(managed.timeline) <= 20 + 4 * 2 + 1
    due = [
        managed.end_event(job_id, version) for _, rank, job_id, version in managed.timeline.pop_due(5_000) if rank == 0
    ]
    assert [event for event in due if event is not None] == [m.JobEnded(1, m.TIMEOUT)]


def test_a_welcome_holds_the_most_jobs_and_notes() -> None:
    """Users and a scheduler that use up all limits must not prevent a welcome of the next scheduler."""
    name = "\N{SNOWMAN}" * (LONGEST_NAME // 3)
    wide = 2**40
    spec = m.JobSpec(
        wide, wide, MAX_THREADS, LONGEST_US, LONGEST_US, "u" * 64, name, MAX_THREADS, MAX_THREADS, MAX_THREADS, LARGEST_MB, True,
        demand=(LARGEST_MBS,) * 3, usage=("network", 333_333, 333_333, 333_334, 999_999), self_slowdown=(LARGEST_PPM, LARGEST_PPM),
    )  # fmt: skip
    some = 1_000
    empty = manager().inventory()
    jobs = len(encode(empty._replace(pending=(m.PendingJob(spec, True),) * some))[1]) - len(encode(empty)[1])
    assert jobs / some * MOST_JOBS + notes_module.MOST_BYTES < MAX_FRAME_BYTES


def test_notes_take_at_most_their_counted_size_on_the_wire() -> None:
    for value in (None, True, -(2**60), 1.5, "\N{SNOWMAN}" * 40, ("a", (1, 2.5, "b" * 200), ()), tuple(range(300))):
        written = len(pack({"job_id": 2**50, "key": "k\N{SNOWMAN}", "value": value}))
        assert written <= notes_module._size("k\N{SNOWMAN}", value)


def test_an_extremely_long_span_is_refused() -> None:
    managed = running()
    refused = managed.carry_out(2, 10, [m.ReviseJob(1, 2**62, None)])
    assert len(refused) == 1
