"""The time sharing of a manager for the tables of users: the matrix of slots, what runs now, and CPU shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.node_use import node_list
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.time_sharing.progress import ProcessProgress
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common.slots import Member, members_of, predict
from cosched_plugin.protocol.messages import Turn

SLOT_COLUMNS: Final = ("slot", "share")  # more columns of the queue, where jobs share time


class SlotView:
    """A snapshot of a manager whose jobs share time."""

    def __init__(self, live: LiveManager, processes: ProcessProgress) -> None:
        self._live = live
        self._running = live.manager.running
        self._processes = processes
        self._rotating = processes.rotating

    @cached_property
    def _company(self) -> Mapping[int, set[int]]:
        """Return, by job, the jobs that run at the same time as it under the present rotation, on whatever nodes."""
        members = {job_id: Member(job.slot, job.layers, unpaired=False) for job_id, job in self._running.items()}
        found: dict[int, set[int]] = {job_id: set() for job_id in members}
        for turn in self._rotating.rotation.turns or (Turn((0,)),):
            together = members_of(turn, members)
            for job_id in together:
                found[job_id].update(together)
        return found

    def together(self, job: ManagedJob, neighbours: Sequence[int]) -> list[int]:
        """Return those jobs on a job's nodes that run at the same time as it."""
        company = self._company[job.job.spec.id]
        return [other for other in neighbours if other in company]

    def elapsed_us(self, job: ManagedJob) -> int:
        """Return for how long a running job could run since its start; its limit counts this time."""
        return self._processes.dispatched_us(job, self._live.now_us)

    def columns(self, job: ManagedJob) -> tuple[Any, ...]:
        """Return the values of `SLOT_COLUMNS`."""
        if job.job.spec.id not in self._running:
            return None, None
        return job.slot, _part(job.shares[0]) if job.shares else None

    def details(self, job: ManagedJob) -> dict[str, Any]:
        """Return what `job` tells besides of a job that has not ended."""
        told: dict[str, Any] = {}
        if job.job.spec.id in self._running:
            told["predicted"] = _part(predict(job.shares))
            told["shares"] = [_part(share) for share in job.shares]
            told["quanta"] = job.quanta
            told["progress"] = self._processes.work_us(job, self._live.now_us) / job.job.run_us
            told["runs_as"] = self._rotating.role_of(job.job.spec.id)
        return told

    def matrix(self) -> dict[str, Any]:
        """Return the rotation, what runs now, and the jobs of each slot."""
        rotating, label = self._rotating, self._live.label
        present = rotating.present
        rows: dict[int, list[ManagedJob]] = {}
        for _, job in sorted(self._running.items()):
            rows.setdefault(job.slot, []).append(job)
        return {
            "quantum_s": rotating.quantum_us / WHOLE_PPM,
            "quantum": None if present is None else present.number,
            "began_s": None if present is None else present.begin_us / WHOLE_PPM,
            "turn": None if present is None else _turn(present.turn, label),
            "left": None if present is None else present.left,
            "turns": [_turn(turn, label) for turn in rotating.rotation.turns],
            "rows": [{"slot": slot, "jobs": [self._cell(job) for job in jobs]} for slot, jobs in sorted(rows.items())],
        }

    def _cell(self, job: ManagedJob) -> dict[str, Any]:
        job_id = job.job.spec.id
        return {
            "job": self._live.label(job_id),
            "node_list": node_list(job),
            "share": _part(job.shares[0]) if job.shares else None,
            "predicted": _part(predict(job.shares)),
            "quanta": job.quanta,
            "runs_as": self._rotating.role_of(job_id),
        }


def _turn(turn: Turn, label: Callable[[int], str]) -> dict[str, Any]:
    return {"slots": list(turn.slots), "quanta": turn.quanta, "guests": [label(job_id) for job_id in turn.guests]}


def _part(share_ppm: int) -> float:
    return share_ppm / WHOLE_PPM
