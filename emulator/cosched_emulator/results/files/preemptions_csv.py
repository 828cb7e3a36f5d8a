"""``preemptions.csv``: every time that a job was suspended to disk. A run without preemptions has no such file.

``preemption`` counts a job's times from 0; ``end_s`` is when it resumed, ended or was requeued, empty if it never left the disk;
``swap_mb`` is the swap space that it took on all nodes of its preceding stay. Ordered by job id and time.
"""

from __future__ import annotations

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.workload.seconds import seconds_text

COLUMNS = ("job_id", "preemption", "start_s", "end_s", "swap_mb")


def preemption_rows(record: JobRecord) -> str:
    """Return the rows of a job, each with its line end; empty if it never was on disk."""
    text = ""
    for number, time in enumerate(record.disk):
        end = "" if time.end_us is None else seconds_text(time.end_us)
        text += f"{record.job.spec.id},{number},{seconds_text(time.start_us)},{end},{record.swap_mb}\n"
    return text
