"""The local schedulers by themselves."""

from __future__ import annotations

from cosched_emulator.nodeos.local import LinuxEpochs, RoundRobin, WakeFirst
from cosched_emulator.nodeos.programs import Compute, Loop, Program
from cosched_emulator.nodeos.settings import TICK_US
from cosched_emulator.nodeos.simulated_process import ParallelJob, Process

JOB = ParallelJob(0, Program((Loop(1, (Compute(1),)),)))


def processes(number: int) -> list[Process]:
    return [Process(index, JOB, index, 0, 0) for index in range(number)]


def epochs(*counters: int) -> tuple[LinuxEpochs, list[Process]]:
    """Return a scheduler whose ticks come at multiples of 10 ms, and processes with these counters that are not runnable."""
    local = LinuxEpochs(0, seed=1)
    members = processes(len(counters))
    for process, counter in zip(members, counters, strict=True):
        local.enter(process)
        process.counter = counter
    return local, members


def test_new_processes_have_some_ticks() -> None:
    local = LinuxEpochs(0, seed=1)
    members = processes(50)
    for process in members:
        local.enter(process)
    assert {process.counter for process in members} == {1, 2, 3, 4, 5, 6}


def test_a_sleeper_gathers_eleven_ticks_at_most() -> None:
    local, (runs, sleeps) = epochs(6, 6)
    local.wake(runs)
    local.ran(runs, 0, 100 * TICK_US)  # 16 epochs and 4 ticks
    assert runs.counter == 2
    assert sleeps.counter == 11


def test_an_epoch_can_give_more_or_fewer_ticks() -> None:
    local = LinuxEpochs(0, seed=1, epoch_ticks=3)
    members = processes(30)
    for process in members:
        local.enter(process)
    assert {process.counter for process in members} == {1, 2, 3}
    runs, sleeps = members[:2]
    local.wake(runs)
    local.ran(runs, 0, 50 * TICK_US)
    assert sleeps.counter == 5


def test_a_process_without_ticks_waits_for_the_end_of_the_epoch() -> None:
    local, (empty, other) = epochs(0, 1)
    local.wake(empty)
    local.wake(other)
    assert local.pick(empty) is other
    assert local.turn_end_us(other, 0, 5) == TICK_US
    local.ran(other, 5, TICK_US)
    assert other.counter == 0
    assert local.pick(other) is other  # all are at 0: a new epoch, and it ran last
    assert (empty.counter, other.counter) == (6, 6)


def test_a_woken_process_preempts_if_it_is_better_by_more_than_1() -> None:
    local, (current, woken) = epochs(4, 6)
    local.wake(current)
    local.pick(current)
    local.wake(woken)
    assert not local.preempts(woken, current)  # 26 against 24 and 1 for running
    woken.counter = 7
    assert local.preempts(woken, current)
    woken.counter = 0
    assert not local.preempts(woken, current)


def test_a_tick_is_paid_by_the_process_on_the_cpu() -> None:
    local, (process, other) = epochs(3, 3)
    local.wake(process)
    local.wake(other)
    local.ran(process, 0, TICK_US - 1)
    assert process.counter == 3
    local.ran(process, TICK_US - 1, TICK_US)
    assert process.counter == 2


def test_slices_go_round() -> None:
    local = RoundRobin(1_000)
    first, second = processes(2)
    local.wake(first)
    assert local.queue == [first]
    assert local.turn_end_us(first, 100, 2_500) == 3_100  # alone, it has had two slices and is in the third
    local.wake(second)
    assert local.queue == [first, second]
    assert not local.preempts(second, first)
    local.end_turn(first)
    assert local.pick(first) is second
    local.sleep(second)
    assert local.pick(second) is first


def test_the_preempted_process_comes_next() -> None:
    local = WakeFirst(1_000)
    first, second, third = processes(3)
    for process in (first, second):
        local.resume(process)
    assert local.pick(None) is first
    local.wake(third)
    assert local.preempts(third, first)
    assert local.pick(first) is third
    local.sleep(third)
    assert local.pick(third) is first
