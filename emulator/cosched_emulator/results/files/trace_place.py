"""Where a decision trace is written while the run goes on, and whether it becomes part of the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cosched_emulator.errors import InputError
from cosched_emulator.results.files.folder import TRACE
from cosched_plugin.common.trace_file import TraceFile

TRACE_BEGINS: Final = b'{"at_us":'


def place_trace(trace: str, out: str | None, *, force: bool) -> str:
    """Make way for a trace, and return where to write it while the run goes on.

    That is ``trace`` itself, or a file beside the run folder ``out`` that it is to be part of: `store` moves it there. Raises
    InputError or UsageError where no trace can be written, or one is there already and ``force`` is false.
    """
    path = Path(trace)
    if out is not None and in_run_folder(trace, out):
        path = _beside(out)
        path.parent.mkdir(parents=True, exist_ok=True)
    elif out is not None and _in_the_way(path.resolve(), Path(out).resolve()):
        raise InputError(trace, f"{Path(out) / TRACE}, or a file outside the run folder")
    if force and path.is_file() and not _is_trace(path):
        raise InputError(str(path), "a trace to replace", "something else, which is left alone")
    # Tried now, before a run of hours; what is to write it, maybe another process, then finds the place empty.
    with TraceFile(path, force=force):
        pass
    path.unlink()
    return str(path)


def in_run_folder(trace: str, out: str) -> bool:
    """Tell whether a trace is to be part of the run folder ``out``; any other is a file as it is given."""
    return Path(trace).resolve() == Path(out).resolve() / TRACE


def _in_the_way(path: Path, folder: Path) -> bool:
    """Tell whether a file at ``path`` would keep the run folder from being written, or be lost with what it replaces."""
    partial = folder.with_name(f"{folder.name}.partial")
    return path in (folder, *folder.parents, partial) or folder in path.parents or partial in path.parents


def _is_trace(path: Path) -> bool:
    """Tell whether a file is a decision trace, maybe an empty one."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(TRACE_BEGINS)) in (b"", TRACE_BEGINS)
    except OSError:
        return True  # what is wrong with it will be told when it is to be replaced


def _beside(out: str) -> Path:
    """Return where the trace of a run folder waits until the folder is written."""
    folder = Path(out).resolve()
    return folder.with_name(f"{folder.name}.trace.jsonl")
