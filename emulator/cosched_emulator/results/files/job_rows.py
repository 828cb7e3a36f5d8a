"""``jobs.csv``: one row per job with exactly the columns of Batsim's ``out_jobs.csv``, so that Batsim's tools can read it.

Resources are hardware threads, numbered through the machine. ``requested_time`` is the user's estimate. Times are exact
decimals of seconds; the start is the last one, and the execution time lasts from there to the end, time on disk included. A job
that never started has empty times. A job that never ended has an empty finish, and comes last. ``stretch`` is turnaround /
execution time, to six places. Energy is in joules; where it is not measured -1, as Batsim writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Final

import numpy as np

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.ended_jobs import BoolArray, EndedJobs, IntArray
from cosched_emulator.results.thread_intervals import ThreadNumbering
from cosched_emulator.workload.job import NO_TERMS
from cosched_emulator.workload.jobs_in_columns import seconds_texts
from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import amounts_text, seconds_text
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, REJECTED, TIMEOUT

JOB_COLUMNS: Final[Mapping[str, str]] = {
    "job_id": "number in this run, from 1 in submit order",
    "workload_name": "always `w0`, Batsim's name of the first workload",
    "profile": "the job's name, else its id, [percent-encoded](../run-folder.md#jobscsv)",
    "submission_time": "when it was submitted",
    "requested_number_of_resources": "hardware threads asked for: processes * threads per process",
    "requested_time": "the user's estimate (not the limit)",
    "success": "1 for `COMPLETED`, else 0",
    "final_state": (
        "Batsim's name of the state: `COMPLETED_SUCCESSFULLY`, `COMPLETED_WALLTIME_REACHED` (killed at its "
        "limit), `COMPLETED_KILLED` (cancelled), `COMPLETED_FAILED` (also: lost with a node), `REJECTED`; "
        "`RUNNING` or `SUBMITTED` where it never ended"
    ),
    "starting_time": "its last start; this and the next five columns are empty if it never started",
    "execution_time": "from its last start to its end, time on disk included; empty if it ran when the run was cut short",
    "finish_time": "empty for a refused job and one that never ended; a cancelled job has one",
    "waiting_time": "start - submission",
    "turnaround_time": "finish - submission",
    "stretch": "turnaround / execution time, six places",
    "allocated_resources": "hardware threads, numbered through the machine from 0, node after node: `0-3 8`",
    "consumed_energy": "joules (energy); -1 where the watts of nodes are not known",
    "metadata": "`key=value` joined by `;`, values percent-encoded like `profile`",
}
# Keys of ``metadata``, in order: values without a column in Batsim.
METADATA: Final[Mapping[str, str]] = {
    "state": "Slurm's name",
    "run_s": "run time alone",
    "work_s": "of a job that started: work done since its last start, in seconds alone",
    "expected_s": "of a job that started: run time as expected at its last start or last revised, with time suspended since then",
    "limit_s": "of a job that started and has a limit: the limit as granted at its last start or last revised",
    "cpu_s": "if jobs take turns: CPU time since its last start, the mean over its processes",
    "dispatched_s": "if jobs take turns: time since its last start for which it could run",
    "slot": "if jobs take turns: its last slot",
    "starts": "number of its starts, if more than one, or if it has not started again",
    "preemptions": "of a preempted job: how often it was suspended to disk, requeued starts included",
    "suspended_s": "of a preempted job: time since its last start in which it was suspended or came back from disk",
    "until_s": "of a job that ran when the run was cut short: when that was",
    "end_s": "of a refused job: when it was refused",
    "user": "its user, if known",
    "source": "its number in the log, if another",
    "partition": "the partitions that accepted it, if any",
    "qos": "its QOS, if any",
    "account": "its account, if any",
    "resources": "resources that it asks of each of its nodes, such as `gpu:2`, if any",
    "licences": "licences that it asks of the machine, if any",
    "reason": "why it was refused, failed or cancelled",
}
WORKLOAD_NAME = "w0"  # Batsim's name of the first workload
BATSIM_STATES = {
    COMPLETED: "COMPLETED_SUCCESSFULLY",
    FAILED: "COMPLETED_FAILED",
    NODE_FAIL: "COMPLETED_FAILED",
    TIMEOUT: "COMPLETED_WALLTIME_REACHED",
    CANCELLED: "COMPLETED_KILLED",
    REJECTED: "REJECTED",
}


def job_rows(jobs: EndedJobs, numbering: ThreadNumbering) -> list[str]:
    """Return the row of each job, line end included."""
    started, ended = jobs.started, jobs.ended
    finished = ended & np.array([state != REJECTED for state in jobs.state], dtype=np.bool_)
    execution_us, turnaround_us = jobs.left_us - jobs.start_us, jobs.end_us - jobs.submit_us
    ran = started & np.array([record is None or record.present is None for record in each_more(jobs)], dtype=np.bool_)
    states = zip(jobs.state, ended.tolist(), started.tolist(), strict=True)
    names = {name: encoded(name) for name in set(jobs.name)}
    rows = zip(
        jobs.id.tolist(),
        [names[name] or job_id for job_id, name in zip(jobs.id.tolist(), jobs.name, strict=True)],
        seconds_texts(jobs.submit_us),
        jobs.asked.tolist(),
        seconds_texts(jobs.estimate_us),
        [1 if state == COMPLETED else 0 for state in jobs.state],
        [BATSIM_STATES[state] if over else "RUNNING" if began else "SUBMITTED" for state, over, began in states],
        _seconds(jobs.start_us, started),
        _seconds(execution_us, ran),
        _seconds(jobs.end_us, finished),
        _seconds(jobs.start_us - jobs.submit_us, started),
        _seconds(turnaround_us, finished),
        _stretches(turnaround_us, execution_us, ended & ran),
        map(numbering.text, jobs.runs),
        _metadata(jobs),
        strict=True,
    )
    return list(map(_ROW.__mod__, rows))


# The columns in their order; a row made by `%` takes half the time of one by an f-string with these names.
_ROW: Final = f"%s,{WORKLOAD_NAME},%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,-1,%s\n"


def each_more(jobs: EndedJobs) -> Iterator[JobRecord | None]:
    """Yield for each job the record that says more than the columns; None: there is none."""
    return map(jobs.more.get, range(len(jobs.state)))


def _seconds(times_us: IntArray, known: BoolArray) -> Sequence[int | str]:
    """Return `seconds_texts`, empty where a time is not known."""
    texts = seconds_texts(times_us)
    return (
        texts
        if known.all()
        else [text if is_known else "" for text, is_known in zip(texts, known.tolist(), strict=True)]
    )


def _stretches(turnaround_us: IntArray, execution_us: IntArray, known: BoolArray) -> Sequence[int | str]:
    # In integers: seconds_text of millionths is six places of the ratio, rounded half up. Their products may need more than 64 bits.
    known = known & (execution_us > 0)
    pairs = zip(turnaround_us.tolist(), np.where(known, execution_us, 1).tolist(), strict=True)
    millionths = [(turnaround * 2_000_000 + execution) // (2 * execution) for turnaround, execution in pairs]
    return [seconds_text(ratio) if is_known else "" for ratio, is_known in zip(millionths, known.tolist(), strict=True)]


def with_energy(lines: Iterable[str], energy_j: Mapping[int, float]) -> Iterator[str]:
    """Yield the rows with the energy of each job, by id, instead of -1; ``lines`` are those of the file."""
    for line in lines:
        before, _, metadata = line.rsplit(",", 2)
        yield f"{before},{round(energy_j[int(line.partition(',')[0])], 3):.10g},{metadata}"


def _metadata(jobs: EndedJobs) -> list[str]:
    """Return for each job the values without a column of their own."""
    started = jobs.started
    works = zip(seconds_texts(jobs.work_us), seconds_texts(jobs.expected_us), started.tolist(), strict=True)
    ran = [f";work_s={work};expected_s={expected}" if began else "" for work, expected, began in works]
    limits = [
        "" if limit == "" else f";limit_s={limit}" for limit in _seconds(jobs.limit_us, started & (jobs.limit_us >= 0))
    ]
    users = {user: f";user={encoded(user)}" if user else "" for user in set(jobs.user)}
    heads = [
        f"state={state};run_s={run}{work}{limit}"
        for state, run, work, limit in zip(jobs.state, seconds_texts(jobs.run_us), ran, limits, strict=True)
    ]
    tails = [
        users[user] if source == job_id else f"{users[user]};source={source}"
        for job_id, user, source in zip(jobs.id.tolist(), jobs.user, jobs.source_id, strict=True)
    ]
    for row, record in jobs.more.items():
        heads[row] += _happened(record, ran=bool(started[row]))
        tails[row] += _said(record)
    return list(map(add, heads, tails))


def _happened(record: JobRecord, *, ran: bool) -> str:
    """Return what has become of a job besides; ``ran``: there are stays since the last start."""
    text = ""
    if ran and record.cpu_us is not None and record.dispatched_us is not None:
        times = f"cpu_s={seconds_text(record.cpu_us)};dispatched_s={seconds_text(record.dispatched_us)}"
        text += f";{times};slot={record.slot}"
    if len(record.stays) > ran and (record.starts > 1 or record.waits_again):
        text += f";starts={record.starts}"
    if record.disk:
        text += f";preemptions={len(record.disk)};suspended_s={seconds_text(record.suspended_us)}"
    if record.present is not None:
        text += f";until_s={seconds_text(record.present.end_us)}"
    if record.state == REJECTED and record.end_us is not None:
        text += f";end_s={seconds_text(record.end_us)}"
    return text


def _said(record: JobRecord) -> str:
    """Return what a job asks for besides, and why it ended."""
    job, text = record.job, ""
    if job.terms != NO_TERMS:
        facts = {"partition": ",".join(job.terms.partitions), "qos": job.terms.qos, "account": job.terms.account}
        text += "".join([f";{name}={encoded(value)}" for name, value in facts.items() if value])
    if amounts_text(job.spec.resources):
        text += f";resources={encoded(amounts_text(job.spec.resources))}"
    if job.spec.licences:
        text += f";licences={encoded(amounts_text(job.spec.licences))}"
    if record.reason:
        text += f";reason={encoded(record.reason)}"
    return text
