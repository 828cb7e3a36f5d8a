"""Columns as an Arrow stream, for pandas, polars and other libraries that read the PyCapsule interface; none of them is needed here.

The C structures and who frees them: https://arrow.apache.org/docs/format/CStreamInterface.html. A structure is released once, by
its reader, maybe after it was moved; what it points to is kept in `_kept` until then, under the number in ``private_data``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

import numpy as np
import numpy.typing as npt

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
