"""A scheduler with groups or slices that replaces another one, or is called late; and the memory of guests."""

from __future__ import annotations

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.glomarc.glts_cases import RESUME_US, SECOND_US, belief_of, nodes_of, spec_of
from tests.runs import runs_on

from cosched_hwmodel.statistical import StatisticalModel
from cosched_hwmodel.units import NodeSet
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol import messages as m

FRIENDS = StatisticalModel(5, (100,))  # every pair has a small slowdown
HOUR_US = 3600 * SECOND_US


def welcome_of(*running: m.RunningJob, waiting: tuple[m.JobSpec, ...] = (), note: tuple[object, ...] = ()) -> m.Welcome:
    return m.Welcome(
        m.PROTOCOL_VERSION,
        m.FEATURES,
        1,
        NOW_US,
        (nodes_of(4),),
        (),
        belief_of(FRIENDS),
        running,
        tuple(m.PendingJob(job, False) for job in waiting),
        (m.Note(None, "slices", note),) if note else (),  # type: ignore[arg-type]
        (),
        RESUME_US,
    )


def started(actions: list[m.Action]) -> list[m.StartJob]:
    found: list[m.StartJob] = []
    for action in actions:
        found += (
            action.starts if isinstance(action, m.StartTogether) else [action] if isinstance(action, m.StartJob) else []
        )
    return found


@pytest.mark.parametrize(("mask", "beside"), [(0b0101, 0b1010), (0b1010, 0b0101), (0b0011, None), (0b1001, None)])
def test_a_job_placed_by_another_policy_gets_a_partner_only_with_free_cores(mask: int, beside: int | None) -> None:
    """EASY fills a CPU first, and such a job leaves no core of a CPU to another job."""
    there = m.RunningJob(spec_of(1, 8, 9000), NOW_US - SECOND_US, runs_on((0, 4, mask, 2)), 9000 * SECOND_US, None)
    core = SchedulerCore(compose({"preset": "glts", "slices": "none"}), welcome_of(there))
    starts = started(core.handle(NOW_US, [m.JobSubmitted(spec_of(2, 8, 9000))]))
    assert [start.runs for start in starts] == ([] if beside is None else [((0, 4, beside, 2),)])
    core.check()


@pytest.mark.parametrize("late_us", [0, 1, 5 * SECOND_US])
def test_a_wake_that_comes_late_loses_no_slice(late_us: int) -> None:
    """The long jobs have had their slice of the first hour; a short job is pending, so the second hour begins with a short slice."""
    long = m.RunningJob(spec_of(1, 16, 20_000, submit_us=0), 0, runs_on((0, 4, 0b1111, 4)), 20_000 * SECOND_US, None)
    short = spec_of(2, 16, 100, submit_us=0)
    before = (0, False, 2, 7, 8, 9)
    core = SchedulerCore(compose({"preset": "ssp"}), welcome_of(long, waiting=(short,), note=before))
    actions = core.handle(HOUR_US + late_us, [m.Woken(HOUR_US)])
    (note,) = [action for action in actions if isinstance(action, m.SetNote) and action.key == "slices"]
    worked_us = HOUR_US - round(0.3 * HOUR_US) - RESUME_US
    assert note.value == (HOUR_US, True, 0, 7, 8, 9 + worked_us)


def test_after_hours_without_a_batch_the_slice_is_that_of_the_time() -> None:
    long = m.RunningJob(spec_of(1, 16, 90_000, submit_us=0), 0, runs_on((0, 4, 0b1111, 4)), 90_000 * SECOND_US, None)
    core = SchedulerCore(compose({"preset": "ssp"}), welcome_of(long, note=(0, False, 1, 0, 0, 0)))
    now_us = 5 * HOUR_US + 2000 * SECOND_US
    (note,) = [action for action in core.handle(now_us, []) if isinstance(action, m.SetNote) and action.key == "slices"]
    assert note.value == (5 * HOUR_US, False, 2, 0, round(0.3 * HOUR_US) - RESUME_US, 0)


def test_a_guest_s_memory_blocks_no_job() -> None:
    """Only the memory of the class counts: a guest gives its memory back when it leaves."""
    guest = m.RunningJob(spec_of(1, 4, 9000, memory_mb=2000), 0, runs_on((0, 1, 0b1111, 4)), 9000 * SECOND_US, None)
    own = m.RunningJob(spec_of(2, 4, 20_000, memory_mb=1000), 0, runs_on((1, 1, 0b1111, 4)), 20_000 * SECOND_US, None)
    view = SchedulerCore(compose({"preset": "ssp"}), welcome_of(guest, own)).view
    machine = VirtualMachine(view, 10_800 * SECOND_US, 1 << 62)
    machine.turn_to(0, NodeSet(-1), int)
    end_us = machine.expected_end(machine.running[2])
    assert list(machine.memory_at(end_us - 1)) == [8192, 4192, 8192, 8192]
    assert list(machine.memory_at(end_us)) == [8192, 8192, 8192, 8192]
