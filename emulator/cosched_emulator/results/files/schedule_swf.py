"""``schedule.swf``: the resulting schedule in the Standard Workload Format.

The format has whole seconds. Submissions, starts and ends are each rounded up: this keeps the order of events, and creates no
overlap of jobs. Processors are hardware threads. The run time of a job lasts from its last start to its end; while it was on
disk, other jobs may have used its processors. Status: 1 completed, 5 cancelled or refused, 0 failed, killed at its limit, or
lost with a node, -1 not ended. A job that never started has
no run time and no allocated processors.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.swf.swf_writer import header_lines, row_of
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, REJECTED, TIMEOUT, NodeClass

STATUS = {COMPLETED: 1, FAILED: 0, TIMEOUT: 0, NODE_FAIL: 0, CANCELLED: 5, REJECTED: 5}
NOTES = (
    "the schedule of an emulated machine; submissions, starts and ends rounded up to whole seconds",
    "processors are hardware threads; status 0 includes jobs killed at their limit",
)
PREEMPTED = "the run times of preempted jobs include their time on disk, when others may have had their processors"


def schedule_header(jobs: int, machine: Sequence[NodeClass], workload: Workload, *, preempted: bool) -> str:
    """Return the lines above the rows of ``jobs`` jobs of a workload."""
    threads = sum(node_class.nodes * node_class.threads for node_class in machine)
    nodes = sum(node_class.nodes for node_class in machine)
    header = header_lines(
        jobs=jobs,
        processors=threads,
        origin=workload.origin,
        notes=(*NOTES, PREEMPTED) if preempted else NOTES,
        computer="cosched emulator",
        epoch=workload.epoch,
        more=[("MaxNodes", str(nodes))],
    )
    return "".join(f"{line}\n" for line in header)


def schedule_row(record: JobRecord) -> str:
    """Return the row of a job, line end included."""
    job = record.job
    spec = job.spec
    submit_s = -(-spec.submit_us // SECOND_US)
    wait_s = run_s = allocated = -1
    if stays := record.last_stays:
        stay = stays[0]
        start_s = -(-stay.start_us // SECOND_US)
        wait_s = start_s - submit_s
        allocated = sum([count * mask.bit_count() for _, count, mask, _ in stay.runs])
        if record.end_us is not None:
            run_s = -(-record.left_us // SECOND_US) - start_s
    elif record.end_us is not None:
        wait_s = -(-record.end_us // SECOND_US) - submit_s
    row = row_of(
        spec.id,
        (submit_s, wait_s, run_s, -(-spec.estimate_us // SECOND_US)),
        spec.processes * spec.threads_per_process,
        allocated,
        -1 if record.end_us is None else STATUS[record.state],
        spec.user,
        job.group,
        spec.name,
        0,
        job.queue,
        job.partition,
    )
    return row + "\n"
