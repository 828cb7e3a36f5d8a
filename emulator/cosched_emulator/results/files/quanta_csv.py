"""``quanta.csv``: which jobs could run in each quantum, and what they used. Only a run with time sharing and a rotation has it.

One row per quantum and job that could run in it, in order of time and job. ``turn`` is the first slot of the quantum's turn,
``jobs`` the number of running jobs at its begin. ``role`` is ``row`` (of that slot), ``partner`` (of another slot of the turn) or
``guest``; ``paired`` is 1 if another job could run on one of its nodes. ``allowed_s`` is for how long the job could run, ``cpu_s``
the CPU time of all its processes, ``share_ppm`` the share that the scheduler is told, empty if none was measured. A quantum in
which all jobs end is shorter than the others, and the next one has its number again.
"""

from __future__ import annotations

from cosched_emulator.manager.time_sharing.record import QuantumRecord
from cosched_emulator.workload.seconds import seconds_text

COLUMNS = (
    "quantum", "start_s", "length_s", "turn", "jobs", "job_id", "slot", "role", "paired", "allowed_s", "cpu_s", "share_ppm",
)  # fmt: skip


def quantum_rows(record: QuantumRecord) -> str:
    """Return the rows of a quantum, each with its line end."""
    length = seconds_text(record.end_us - record.start_us)
    head = f"{record.number},{seconds_text(record.start_us)},{length},{record.turn},{record.jobs}"
    text = ""
    for job_id, slot, role, paired, allowed_us, consumed_us, share in record.parts:
        times = f"{seconds_text(allowed_us)},{seconds_text(consumed_us)}"
        text += f"{head},{job_id},{slot},{role},{paired:d},{times},{'' if share is None else share}\n"
    return text
