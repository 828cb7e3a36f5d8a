"""What users see of time sharing: the slots with their jobs, the rotation, and which jobs run now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.time_sharing.progress import ProcessProgress
from cosched_hwmodel.units import WHOLE_PPM


def slot_table(manager: Manager, label: Callable[[int], str], node_list: Callable[[ManagedJob], str]) -> dict[str, Any]:
    """Return the slots of a manager whose nodes run processes, as plain values; ``label`` is the users' name of a job.

    ``turns`` are lists of slots, quanta and guests, the next turn first; ``jobs`` are lists of slot, job, nodes, the share
    measured last (None: not yet) and whether the job runs now.
    """
    processes = manager.processes
    assert processes is not None
    rotating = processes.rotating
    jobs = sorted(manager.running.items(), key=lambda item: (item[1].slot, item[0]))
    return {
        "quantum": rotating.quantum,
        "quantum_s": rotating.quantum_us / WHOLE_PPM,
        "turns": [
            [list(turn.slots), turn.quanta, [label(guest) for guest in turn.guests]] for turn in rotating.rotation.turns
        ],
        "jobs": [
            [
                job.slot,
                label(job_id),
                node_list(job),
                job.shares[0] / WHOLE_PPM if job.shares else None,
                processes.runs_now(job_id),
            ]
            for job_id, job in jobs
        ],
    }


def run_together(processes: ProcessProgress, job_id: int, neighbours: list[int]) -> list[int]:
    """Return those of a job's neighbours that run now, if it runs itself."""
    if not processes.runs_now(job_id):
        return []
    return [other for other in neighbours if processes.runs_now(other)]
