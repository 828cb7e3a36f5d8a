"""Hand-made and random job records for the tests of results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import strategies as st
from tests.runs import run_on, runs_on

from cosched_emulator.manager.record import JobRecord, OnDisk, QuantumRecord, Stay
from cosched_emulator.results.ended_jobs import ended_jobs
from cosched_emulator.results.files.run_files import RunFiles, run_files_of
from cosched_emulator.results.files.run_folder import new_run_folder, write_files
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, REJECTED, TIMEOUT, JobSpec, NodeClass, Run

SECOND = 1_000_000
TWO_NODES = (NodeClass(2, 2, 2, 1, 16384, 6000, 256, 100),)
# Nodes 0 and 1 with four threads, node 2 with two.
UNEQUAL_NODES = (NodeClass(2, 2, 2, 1, 16384, 6000, 256, 100), NodeClass(1, 1, 2, 1, 8192, 6000, 256, 100))


def stay(start_s: float, end_s: float, *runs: Run) -> Stay:
    return Stay(round(start_s * SECOND), round(end_s * SECOND), runs)


def record(
    job_id: int,
    submit_s: float,
    state: str = COMPLETED,
    end_s: float | None = None,
    stays: tuple[Stay, ...] = (),
    work_s: float = 0,
    run_s: float | None = None,
    processes: int = 1,
    user: str = "",
    name: str = "",
    limit_s: float | None = None,
    reason: str = "",
) -> JobRecord:
    """Return a record; times in seconds, the end by default that of the last stay."""
    run_us = round((work_s if run_s is None else run_s) * SECOND)
    limit_us = None if limit_s is None else round(limit_s * SECOND)
    spec = JobSpec(job_id, round(submit_s * SECOND), processes, 2 * run_us, limit_us, user, name)
    end_us = (stays[-1].end_us if stays else None) if end_s is None else round(end_s * SECOND)
    work_us = round(work_s * SECOND)
    return JobRecord(WorkloadJob(spec, run_us, None, job_id), state, end_us, stays, work_us, run_us, limit_us, reason)


def write_run(
    out: str | os.PathLike[str],
    records: Sequence[JobRecord],
    machine: Sequence[NodeClass],
    *,
    force: bool = False,
    quanta: Iterable[QuantumRecord] = (),
    **told: Any,
) -> Path:
    """Write a whole run folder and return its path; ``told`` as of `write_files`."""
    with new_run_folder(out, force=force) as folder, run_files_of(records, out, machine, quanta) as files:
        write_files(folder, files, machine, **told)
    return Path(out)


def six_jobs() -> list[JobRecord]:
    """Return the jobs of the worked example, on `TWO_NODES`: two share node 1, one is requeued, two never run."""
    return [
        record(1, 0, COMPLETED, None, (stay(0, 100, run_on(0, 1, 0b1111, 4)),), 100, processes=4, user="ada"),
        record(2, 10, COMPLETED, None, (stay(20, 60, run_on(1, 1, 0b0011, 2)),), 32, processes=2, name="cg,B"),
        record(3, 20, TIMEOUT, None, (stay(30, 50, run_on(1, 1, 0b1100, 2)),), 16, 32, processes=2, limit_s=20),
        record(4, 30, COMPLETED, None, (stay(60, 70, run_on(1, 1, 1, 1)), stay(100, 106, run_on(0, 1, 2, 1))), 4),
        record(5, 40, CANCELLED, 60, run_s=10, reason="user; changed, mind"),
        record(6, 50, REJECTED, 50, run_s=10, reason="too large"),
    ]


def preempted_jobs() -> list[JobRecord]:
    """Return the jobs of the second worked example, on `TWO_NODES`, with their swap space.

    Job 1 (2 GB) leaves node 0 to job 2 and returns; job 3 (1 GB) goes to disk twice, is requeued there, and starts again on node 0;
    job 4 (1 GB) is cancelled on disk, job 5 (4 GB) is still on disk at the end.
    """
    wide, narrow = run_on(0, 1, 0b1111, 4), run_on(1, 1, 0b0001, 1)

    def preempted(record: JobRecord, memory_mb: int, suspended_s: int, *times: tuple[int, int | None]) -> JobRecord:
        spec = record.job.spec._replace(memory_mb=memory_mb)
        disk = tuple(OnDisk(start_s * SECOND, None if end_s is None else end_s * SECOND) for start_s, end_s in times)
        return record._replace(job=record.job._replace(spec=spec), suspended_us=suspended_s * SECOND, disk=disk)

    back = stay(70, 130, wide)._replace(resumed=True)
    again = stay(50, 60, narrow)._replace(resumed=True)
    two = record(2, 10, COMPLETED, None, (stay(40, 70, wide),), 30, processes=4)
    one = record(1, 0, COMPLETED, None, (stay(0, 40, wide), back), 90, processes=4, user="ada")
    three = record(3, 20, COMPLETED, None, (stay(30, 40, narrow), again, stay(130, 150, run_on(0, 1, 1, 1))), 20)
    four = record(4, 30, CANCELLED, 100, (stay(60, 80, narrow),), 20, 50)
    five = record(5, 40, "SUSPENDED", None, (stay(90, 110, run_on(1, 1, 2, 1)),), 20, 50)._replace(end_us=None)
    return [
        preempted(one, 512, 40, (40, 70)),
        two,
        preempted(three, 1024, 0, (40, 50), (60, 75)),
        preempted(four, 1024, 20, (80, 100)),
        preempted(five, 4096, 0, (110, None)),
    ]


def lines_of(name: str, records: list[JobRecord], machine: tuple[NodeClass, ...] = TWO_NODES) -> list[str]:
    """Return the lines of one of the files of a run, with their ends."""
    with TemporaryDirectory() as folder:
        with RunFiles(Path(folder) / "run", machine) as files:
            files.add(ended_jobs(sorted(records, key=lambda one: (one.end_us is None, one.end_us or 0))))
            files.complete(Path(folder), workload_of(records))
        return [line + "\n" for line in (Path(folder) / name).read_bytes().decode().removesuffix("\n").split("\n")]


def workload_of(records: list[JobRecord]) -> Workload:
    jobs = sorted((item.job for item in records), key=lambda job: (job.spec.submit_us, job.spec.id))
    return Workload(tuple(jobs), 8, "worked example", ("nothing repaired",))


@st.composite
def records_on_unequal_nodes(draw: st.DrawFn) -> list[JobRecord]:
    """Draw up to a dozen records; stays of different jobs may overlap in any way."""
    # Mostly few distinct times, so that events coincide, and some odd microseconds.
    span = st.one_of(st.integers(0, 20).map(lambda s: s * SECOND), st.integers(0, 100 * SECOND))
    found = []
    for job_id in range(1, draw(st.integers(0, 12)) + 1):
        submit_us = draw(span)
        now_us = submit_us
        stays: list[Stay] = []
        disk: list[OnDisk] = []
        for _ in range(draw(st.integers(0, 3))):
            start_us = now_us + draw(span)
            runs = draw(st.sampled_from(SHAPES))
            now_us = start_us + max(1, draw(span))  # a job that has started holds its nodes for some time
            stays.append(Stay(start_us, now_us, runs))
            for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
                start_us = now_us + draw(span)
                disk.append(OnDisk(now_us, start_us))
                now_us = start_us + draw(span)
                stays.append(Stay(start_us, now_us, runs, True))
            if draw(st.integers(0, 5)) == 0:  # it ends, or is requeued, on disk
                start_us, now_us = now_us, now_us + draw(span)
                disk.append(OnDisk(start_us, now_us))
        run_us = draw(st.integers(1, 60 * SECOND))
        if stays:
            state = draw(st.sampled_from([COMPLETED, COMPLETED, TIMEOUT, FAILED, CANCELLED]))
        else:
            state = draw(st.sampled_from([CANCELLED, REJECTED]))
        end_us = None if draw(st.integers(0, 9)) == 0 else now_us
        if end_us is None and disk and disk[-1].end_us == now_us and stays[-1].end_us == disk[-1].start_us:
            disk[-1] = disk[-1]._replace(end_us=None)  # the run was cut short while it was on disk
        work_us = run_us if state == COMPLETED else draw(st.integers(0, run_us))
        spec = JobSpec(
            job_id,
            submit_us,
            draw(st.integers(1, 8)),
            2 * run_us,
            threads_per_process=draw(st.integers(1, 2)),
            memory_mb=draw(st.sampled_from([0, 1, 100])),
        )
        job = WorkloadJob(spec, run_us, None, job_id + draw(st.integers(0, 1)))
        found.append(
            JobRecord(job, state, end_us, tuple(stays), work_us if stays else 0, run_us, None, disk=tuple(disk))
        )
    return draw(st.permutations(found))


SHAPES: tuple[tuple[Run, ...], ...] = (
    runs_on((0, 1, 0b0001, 1)),
    runs_on((0, 2, 0b1111, 4), (2, 1, 0b11, 2)),
    runs_on((1, 2, 0b0011, 2)),
    runs_on((0, 1, 0b0110, 2), (1, 1, 0b1000, 1)),
    runs_on((2, 1, 0b10, 1)),
)
