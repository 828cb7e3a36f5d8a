"""A running job as planning sees it."""

from __future__ import annotations

from typing import Final, NamedTuple

from cosched_plugin.common.allocation import Layers, Machine, layers_of
from cosched_plugin.common.slots import NO_SLOTS
from cosched_plugin.core.availability import side_by_side
from cosched_plugin.protocol.messages import JobSpec, Run, RunningJob, SlotState

REQUEUED: Final = "REQUEUED"  # the state of an `Ended` job that is pending again


class Running(NamedTuple):
    """A running job, on its nodes or suspended."""

    job: JobSpec
    start_us: int
    end_us: int  # start + the run time expected under its placement, as last revised
    runs: tuple[Run, ...]
    layers: Layers
    joined: int  # the same as `availability.side_by_side` has it
    threads: int  # total held
    limit_us: int | None
    suspended_us: int | None = None  # since when it is suspended
    measured_ppm: int = 0  # slowdown measured among its present neighbours; 0: none
    idle_us: int = 0  # time in which it made no progress, up to its last resumption, or to `ready_us`
    on_disk: bool = False  # others may have its threads
    ready_us: int = 0  # when it resumed, or will, after it came back from disk
    slot: int = 0
    quanta: int = 0  # quanta since its start in which a share was measured
    shares: tuple[int, ...] = ()  # the last of these shares in millionths, the newest first; at most `MOST_SHARES`


class Ended(NamedTuple):
    """A job that ran and has released its nodes."""

    running: Running  # its state when it left
    state: str  # of its `JobEnded` (COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL), or REQUEUED
    at_us: int  # the instant of the batch that reports it
    progress_us: int  # its time of progress, as `View.progress_us` defines it


def running_job(told: RunningJob, machine: Machine) -> Running:
    """Return a running job of the manager's inventory, without its measured slowdown."""
    layers = layers_of(told.runs, machine.depth)
    joined = side_by_side(layers, machine.nodes)
    return Running(
        told.spec,
        told.start_us,
        told.start_us + told.estimate_us,
        tuple(told.runs),
        layers,
        joined,
        joined.bit_count(),
        told.limit_us,
        suspended_us=told.suspended_us,
        idle_us=told.idle_us,
        on_disk=told.on_disk,
        ready_us=told.ready_us,
        slot=told.slot,
        quanta=told.quanta,
        shares=tuple(told.shares),
    )


def check_place(running: RunningJob, machine: Machine, slots: SlotState | None) -> None:
    """Raise ValueError where a job is reported on nodes or threads, or in a slot, that the machine does not have."""
    if running.slot and slots is None:
        raise ValueError(f"job {running.spec.id} runs in slot {running.slot}: {NO_SLOTS}")
    for first, count, mask, _ in running.runs:
        if first + count > machine.nodes or mask.bit_length() > machine.depth:
            raise ValueError(f"job {running.spec.id} runs where there is no machine")


def progress_us(running: Running, now_us: int) -> int:
    """Return a job's time of progress by ``now_us``: neither suspended nor on its way back from disk."""
    until_us = now_us if running.suspended_us is None else running.suspended_us
    return max(until_us, running.ready_us) - running.start_us - running.idle_us


def delay(running: Running, by_us: int) -> Running:
    """Return a job after a time without progress: its expected end and its limit are later by that time."""
    return running._replace(
        end_us=running.end_us + by_us,
        limit_us=None if running.limit_us is None else running.limit_us + by_us,
        idle_us=running.idle_us + by_us,
    )
