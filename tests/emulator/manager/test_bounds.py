"""Bounds on what a scheduler stores with the manager: notes, wakes, and void ends."""

from __future__ import annotations

import pytest
from tests.emulator.parts import job, manager, start

from cosched_emulator.manager import actions
from cosched_emulator.manager import manager as manager_module
from cosched_emulator.manager import notes as notes_module
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.notes import Notes
from cosched_plugin.protocol import messages as m


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
