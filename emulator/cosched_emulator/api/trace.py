"""The destination of the decision trace of a run: a file, a list or a function, through any coupling."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.files.trace_place import in_run_folder, place_trace
from cosched_emulator.run.coupling import TraceRecord, TraceSink

TraceTarget: TypeAlias = str | os.PathLike[str] | list[TraceRecord] | Callable[[TraceRecord], object]


class TraceWay(NamedTuple):
    """The path of the trace records."""

    to: str | TraceSink | None  # the file, or the function, in the scheduler's process; None: there is no trace
    inside: str | None = None  # that file, if it is to be moved into the run folder
    kept: list[TraceRecord] | Path | None = None  # where the records are after the run


@contextmanager
def trace_way(trace: TraceTarget | None, out: str | None, *, remote: bool, force: bool) -> Iterator[TraceWay]:
    """Yield the path of the records; a ``remote`` scheduler's records reach a list or a function when the block ends.

    Raises InputError or UsageError if no trace can be written to a file.
    """
    if trace is None:
        yield TraceWay(None)
    elif isinstance(trace, str | os.PathLike):
        name = os.fspath(trace)
        place = place_trace(name, out, force=force)
        inside = place if out is not None and in_run_folder(name, out) else None
        yield TraceWay(place, inside, Path(name))
    elif isinstance(trace, list) or callable(trace):
        kept = trace if isinstance(trace, list) else None
        sink = trace.append if isinstance(trace, list) else _returning_none(trace)
        if not remote:
            yield TraceWay(sink, None, kept)
            return
        with tempfile.TemporaryDirectory(prefix="cosched-") as folder:
            file = str(Path(folder) / "trace.jsonl")
            yield TraceWay(file, None, kept)
            for record in read_records(file):
                sink(record)
    else:
        raise ConfigurationError("trace", "a file's name, a list or a function", type(trace).__name__)


def read_records(file: str) -> list[TraceRecord]:
    """Return the records of a trace in a file, empty if the scheduler decided nothing; raises InputError."""
    if Path(file).is_file() and not Path(file).stat().st_size:
        return []
    from cosched_emulator.explain.trace_reader import read_trace  # noqa: PLC0415 - few runs have a trace

    return [dict(record) for record in read_trace(file)]


def _returning_none(function: Callable[[TraceRecord], Any]) -> TraceSink:
    def sink(record: TraceRecord) -> None:
        function(record)

    return sink
