"""The invariant of the resource manager: the held resources, recomputed from the running jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.managed_job import RUNNING, SUSPENDED, ManagedJob
from cosched_plugin.common.allocation import Machine, each_node, none_of, union
from cosched_plugin.common.slots import SlotPools


def check_holdings(
    machine: Machine, slots: SlotPools, running: Mapping[int, ManagedJob], pending: Collection[int]
) -> None:
    """Raise `InvariantError` if the free resources of ``slots`` do not match the running jobs, or a state is impossible.

    ``pending`` are the ids of the pending jobs.
    """
    taken_in = {0: none_of(machine)}
    memory_mb, swap_mb = list(machine.memory_mb), list(machine.swap_mb)
    for job_id, job in running.items():
        if job.state not in (RUNNING, SUSPENDED) or job_id in pending:
            raise InvariantError(f"job {job_id} is {job.state} among the running jobs")
        if (job.suspended_us is not None) != (job.state == SUSPENDED) or (job.on_disk and job.state != SUSPENDED):
            raise InvariantError(f"job {job_id} is {job.state}, and was suspended at {job.suspended_us}")
        for node, processes in each_node(job.runs):
            (swap_mb if job.on_disk else memory_mb)[node] -= processes * job.job.spec.memory_mb
        if job.on_disk:
            continue
        taken = taken_in.get(job.slot, none_of(machine))
        if any(a & b for a, b in zip(taken, job.layers, strict=True)):
            raise InvariantError(f"job {job_id} shares a hardware thread")
        taken_in[job.slot] = union(taken, job.layers)
    pool = slots.base
    for slot, taken in taken_in.items():
        free = tuple(exists & pool.up & ~held for exists, held in zip(machine.exists, taken, strict=True))
        if free != slots.free(slot):
            raise InvariantError(f"free threads differ in slot {slot} from what running jobs leave")
    if memory_mb != pool.free_memory_mb or min(memory_mb) < 0:
        raise InvariantError("free memory differs from what running jobs leave")
    if swap_mb != pool.free_swap_mb or min(swap_mb) < 0:
        raise InvariantError("free swap space differs from what jobs on disk leave")
