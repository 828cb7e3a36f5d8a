"""The jobs of a finished run as numpy columns: one row per job, and one row per allocation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.api.arrow import stream_of
from cosched_emulator.results.ended_jobs import BoolArray
from cosched_emulator.results.record_columns import RecordColumns, StayColumns
from cosched_emulator.workload.job import Workload
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.units import SECOND_US

if TYPE_CHECKING:
    import pandas

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
TextArray: TypeAlias = npt.NDArray[np.str_]


class _Table:
    """Columns of the same length, the fields of a dataclass."""

    __slots__ = ()

    def __len__(self) -> int:
        first: npt.NDArray[np.generic] = getattr(self, self.columns()[0])
        return first.size

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(item.name for item in fields(cls))  # type: ignore[arg-type]  # every table is a dataclass

    def to_pandas(self) -> pandas.DataFrame:
        """Return the columns as a pandas DataFrame; ImportError if pandas is not installed; nothing else needs it."""
        return frame_of(self._as_dict())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the columns as an Arrow stream: what ``polars.DataFrame(table)`` and others read."""
        return stream_of(self._as_dict())

    def _as_dict(self) -> dict[str, npt.NDArray[Any]]:
        return {name: getattr(self, name) for name in self.columns()}


def frame_of(columns: Mapping[str, npt.NDArray[Any]]) -> pandas.DataFrame:
    """Return columns as a pandas DataFrame; ImportError if pandas is not installed."""
    try:
        import pandas  # noqa: PLC0415 - an optional package, slow to load
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas, which is not installed: pip install 'cosched[pandas]'") from error
    return pandas.DataFrame(columns)


@dataclass(frozen=True, slots=True, eq=False)
class JobTable(_Table):
    """One row per job, in order of submission. Times are seconds since the first submission; NaN: the job has no such time.

    For a requeued job the start is the last one, and the time of lost runs counts as waiting.
    """

    id: IntArray  # from 1, in order of submission
    source_id: IntArray  # number in the log
    user: TextArray  # empty where the workload has none
    name: TextArray  # likewise
    submit_s: FloatArray
    start_s: FloatArray  # the last start; NaN: it never started
    end_s: FloatArray  # NaN: it never ended
    wait_s: FloatArray  # last start - submission
    response_s: FloatArray  # end - submission
    run_s: FloatArray  # how long it takes alone on its nodes
    wall_s: FloatArray  # time on its nodes since the last start, including slowdown by other jobs; 0: it never started
    estimate_s: FloatArray  # the user's
    processes: IntArray  # asked for
    threads: IntArray  # hardware threads asked for, of all processes
    nodes: IntArray  # held since the last start, 0: it never started
    state: TextArray  # COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL, REJECTED; its last state if it never ended


@dataclass(frozen=True, slots=True, eq=False)
class AllocationTable(_Table):
    """One row per run of neighbouring nodes of each stay of a job, with the same threads on each: rows of ``allocations.csv``."""

    job: IntArray  # its id
    start_s: FloatArray  # seconds since the first submission
    end_s: FloatArray
    first_node: IntArray  # from 0
    node_count: IntArray
    threads: IntArray  # hardware threads held on each of the nodes
    thread_mask: npt.NDArray[np.object_]  # their mask as a Python int: bit i is thread i of a node


def job_table(columns: RecordColumns, workload: Workload) -> JobTable:
    """Return the table of all jobs of a workload, in order of submission."""
    jobs = columns_of(workload.jobs)
    start_s = _seconds(columns.start_us, columns.started)
    end_s = _seconds(columns.end_us, columns.ended)
    submit_s = columns.submit_us / SECOND_US
    return JobTable(
        id=columns.id,
        source_id=jobs.source_id.array,
        user=np.array(list(jobs.each(jobs.user)), dtype=np.str_),
        name=np.array(list(jobs.each(jobs.name)), dtype=np.str_),
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        wait_s=_seconds(columns.start_us - columns.submit_us, columns.started),
        response_s=_seconds(columns.end_us - columns.submit_us, columns.ended),
        run_s=columns.run_us / SECOND_US,
        wall_s=columns.wall_us / SECOND_US,
        estimate_s=columns.estimate_us / SECOND_US,
        processes=jobs.processes.array,
        threads=columns.threads,
        nodes=columns.nodes,
        state=np.array(list(columns.state), dtype=np.str_),
    )


def allocation_table(columns: RecordColumns, stays: StayColumns) -> AllocationTable:
    """Return the table of all allocations, in order of job and start."""
    return AllocationTable(
        job=columns.id[stays.job],
        start_s=stays.start_us / SECOND_US,
        end_s=stays.end_us / SECOND_US,
        first_node=stays.first_node,
        node_count=stays.node_count,
        threads=stays.threads,
        thread_mask=np.array(list(stays.mask), dtype=np.object_),
    )


def _seconds(times_us: IntArray, exist: BoolArray) -> FloatArray:
    """Return seconds, NaN for times that do not exist."""
    return np.where(exist, times_us / SECOND_US, np.nan)
