"""``allocations.csv``: the nodes and hardware threads that each job held, and when; a preempted job has several stays.

One row per run of neighbouring nodes of each stay: ``interval`` counts a job's stays from 0, ``thread_mask`` (hexadecimal)
gives the hardware threads that it held on each of the ``node_count`` nodes from ``first_node`` on. Ordered by job id, stay and
run; times are exact decimals of seconds. The end is empty if the run was stopped before it.
"""

from __future__ import annotations

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.workload.seconds import seconds_text

COLUMNS = (
    "job_id", "interval", "start_s", "end_s", "first_node", "node_count", "thread_mask", "processes_per_node",
)  # fmt: skip


def allocation_rows(record: JobRecord) -> str:
    """Return the rows of a job, each with its line end; empty if it never ran."""
    text = ""
    for number, stay in enumerate(record.stays):
        end = "" if stay is record.present else seconds_text(stay.end_us)
        head = f"{record.job.spec.id},{number},{seconds_text(stay.start_us)},{end}"
        for first, count, mask, processes in stay.runs:
            text += f"{head},{first},{count},{mask:#x},{processes}\n"
    return text
