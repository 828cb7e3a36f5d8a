"""Whether a policy's starts are possible, in any slot and several at a time; `SchedulerCore` has the most frequent case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cosched_plugin.common.allocation import Layers, times_refusal
from cosched_plugin.common.slots import NO_SLOTS, Member, slot_refusal
from cosched_plugin.core.state import State
from cosched_plugin.protocol.messages import JobSpec, StartJob


def place_in_slot(
    state: State, job: JobSpec, start: StartJob, besides: Mapping[int, Member] = MappingProxyType({})
) -> Layers | str:
    """Return the threads that a start names in its slot, or the reason why it is impossible.

    ``besides`` are jobs that start in the same decision.
    """
    reason = slot_refusal(start.slot) or times_refusal(job.limit_us, start)
    if reason is not None:
        return reason
    if state.slots is not None:
        return state.slots.place(job, start, state.running, besides)
    return f"slot {start.slot}: {NO_SLOTS}" if start.slot else state.pool.place(job, start.runs)


def place_together(state: State, starts: Sequence[StartJob]) -> list[Layers] | str:
    """Return the threads of each of these starts, which happen together; or the reason why one of them is impossible."""
    seated: list[tuple[JobSpec, StartJob, Layers]] = []
    besides: dict[int, Member] = {}
    try:
        for start in starts:
            job = state.queue.get(start.job_id)
            if job is None or job.id in besides:
                return f"job {start.job_id} does not wait"
            placed = place_in_slot(state, job, start, besides)
            if isinstance(placed, str):
                return f"job {start.job_id}: {placed}"
            state.pool_of(start.slot).take(job, start.runs, placed)
            seated.append((job, start, placed))
            besides[job.id] = Member(start.slot, placed, job.unpaired)
    finally:
        for job, start, layers in seated:
            state.pool_of(start.slot).give_back(job, start.runs, layers)
            if start.slot and state.slots is not None:
                state.slots.pools.drop(start.slot)
    return [layers for _, _, layers in seated]
