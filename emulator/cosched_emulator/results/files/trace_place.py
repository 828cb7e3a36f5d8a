"""The place of a decision trace during the run, and whether it becomes part of the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cosched_emulator.errors import InputError
from cosched_emulator.results.files.folder import TRACE
from cosched_plugin.common.trace_file import TraceFile

TRACE_BEGINS: Final = b'{"at_us":'


def place_trace(trace: str, out: str | None, *, force: bool) -> str:
    """Remove an older trace, and return the path to write the new one to during the run.

    That is ``trace`` itself, or a file beside the run folder ``out`` if the trace belongs into it: `store` moves it there. Raises
    InputError or UsageError if no trace can be written, or if one exists and ``force`` is false.
    """
    path = Path(trace)
    if out is not None and in_run_folder(trace, out):
        path = _beside(out)
        path.parent.mkdir(parents=True, exist_ok=True)
    elif out is not None and _in_the_way(path.resolve(), Path(out).resolve()):
        raise InputError(trace, f"{Path(out) / TRACE}, or a file outside the run folder")
    if force and path.is_file() and not _is_trace(path):
        raise InputError(str(path), "a trace to replace", "something else, which is left alone")
    # Tried now, before a run of hours; the writer, perhaps another process, then finds no file there.
    with TraceFile(path, force=force):
        pass
    path.unlink()
    return str(path)


def in_run_folder(trace: str, out: str) -> bool:
    """Return whether a trace belongs into the run folder ``out``; any other trace is a file of its own."""
    return Path(trace).resolve() == Path(out).resolve() / TRACE


def _in_the_way(path: Path, folder: Path) -> bool:
    """Return whether a file at ``path`` would prevent the writing of the run folder, or be lost with the folder it replaces."""
    partial = folder.with_name(f"{folder.name}.partial")
    return path in (folder, *folder.parents, partial) or folder in path.parents or partial in path.parents


def _is_trace(path: Path) -> bool:
    """Return whether a file is a decision trace, possibly an empty one."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(TRACE_BEGINS)) in (b"", TRACE_BEGINS)
    except OSError:
        return True  # the error is reported when the file is to be replaced


def _beside(out: str) -> Path:
    """Return the path of a run folder's trace until the folder is written."""
    folder = Path(out).resolve()
    return folder.with_name(f"{folder.name}.trace.jsonl")
