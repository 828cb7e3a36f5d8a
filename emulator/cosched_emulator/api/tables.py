"""The jobs of a finished run as numpy columns: one row per job, and one row per allocation."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

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


# ---------------------------------------------------------------- arrow
#
# Columns as an Arrow stream, for pandas, polars and other libraries that read the PyCapsule interface; none of them is needed here.
#
# The C structures and who frees them: https://arrow.apache.org/docs/format/CStreamInterface.html. A structure is released once, by
# its reader, maybe after it was moved; what it points to is kept in `_kept` until then, under the number in ``private_data``.

_NAME: Final = b"arrow_array_stream"
_kept: dict[int, object] = {}  # number of a structure -> what it points to
_numbers = count(1)


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(_Schema))), ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
]  # fmt: skip
_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))), ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
]  # fmt: skip
_Fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Said = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
_Stream._fields_ = [
    ("get_schema", _Fill), ("get_next", _Fill), ("get_last_error", _Said), ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]  # fmt: skip


def _release(kind: type[_Schema | _Array | _Stream]) -> Any:
    """Return the function that releases a structure of a kind, and its children that were not moved away."""

    def release(address: int) -> None:
        found: Any = kind.from_address(address)
        for place in range(getattr(found, "n_children", 0)):
            child = found.children[place]
            if child.contents.release:
                release(ctypes.addressof(child.contents))
        found.release = None
        _kept.pop(found.private_data, None)

    return _Release(release)


_RELEASE: Final = {kind: _release(kind) for kind in (_Schema, _Array, _Stream)}


def _own(found: Any, *kept: object) -> Any:
    """Make a structure the owner of what it points to."""
    number = next(_numbers)
    _kept[number] = kept
    found.release = ctypes.cast(_RELEASE[type(found)], ctypes.c_void_p).value
    found.private_data = number
    return found


def _with_children(found: Any, children: list[Any], *kept: object) -> Any:
    kind = type(found)
    pointers = (ctypes.POINTER(kind) * len(children))(*map(ctypes.pointer, children))
    found.n_children, found.children = len(children), pointers
    return _own(found, children, pointers, *kept)


def _schema_of(columns: Mapping[str, npt.NDArray[Any]]) -> Any:
    forms = {"i": b"l", "f": b"g"}
    children = []
    for name, values in columns.items():
        text = name.encode()
        children.append(_own(_Schema(format=forms.get(values.dtype.kind, b"U"), name=text), text))
    return _with_children(_Schema(format=b"+s", name=b""), children)


def _array_of(columns: Mapping[str, npt.NDArray[Any]]) -> Any:
    children, rows = [], 0
    for values in columns.values():
        rows = len(values)
        buffers = _buffers(values)
        pointers = (ctypes.c_void_p * (1 + len(buffers)))(None, *(each.ctypes.data for each in buffers))
        children.append(_own(_Array(length=rows, n_buffers=len(pointers), buffers=pointers), buffers, pointers))
    nothing = (ctypes.c_void_p * 1)(None)
    return _with_children(_Array(length=rows, n_buffers=1, buffers=nothing), children, nothing)


def _buffers(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return the numbers; of texts where each begins, then all of them in UTF-8."""
    if values.dtype.kind in "if":
        return [np.ascontiguousarray(values, dtype=np.int64 if values.dtype.kind == "i" else np.float64)]
    texts = [str(value).encode("utf-8", "replace") for value in values.tolist()]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return [ends, np.frombuffer(b"".join(texts) or b"\0", dtype=np.uint8)]


def _move(found: Any, address: int) -> None:
    """Give a structure to the reader, who releases it from now on."""
    ctypes.memmove(address, ctypes.addressof(found), ctypes.sizeof(found))


def stream_of(columns: Mapping[str, npt.NDArray[Any]]) -> object:
    """Return a PyCapsule with a stream of one batch: whole numbers, floats, and texts of all other values."""
    left = [columns]

    def get_schema(_stream: int, address: int) -> int:
        _move(_schema_of(columns), address)
        return 0

    def get_next(_stream: int, address: int) -> int:
        _move(_array_of(left.pop()) if left else _Array(), address)
        return 0

    def get_last_error(_stream: int) -> None:
        return None

    calls = (_Fill(get_schema), _Fill(get_next), _Said(get_last_error))
    found = _own(_Stream(*calls), calls)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    _streams[ctypes.addressof(found)] = found
    made: object = capsule(ctypes.addressof(found), _NAME, ctypes.cast(_DROP, ctypes.c_void_p))
    return made


_streams: dict[int, Any] = {}  # address -> the structure in a capsule that is still there


def _drop(capsule: int) -> None:
    """Release a stream that nobody has read, as its capsule goes."""
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype = ctypes.c_void_p
    address_of.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    address = address_of(capsule, _NAME)
    if _streams[address].release:
        _RELEASE[_Stream](address)
    del _streams[address]


_DROP: Final = _Release(_drop)
