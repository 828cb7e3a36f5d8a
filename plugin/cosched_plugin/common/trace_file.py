"""A decision trace as a file: JSON lines, one record a line, written during the run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from cosched_plugin.common.errors import PluginError, PolicyError, UsageError


class TraceFile:
    """A new file for records; a context manager, which removes an empty file if its block raises.

    Lines are buffered, at most until the file is closed, or written ``at_once``. Raises UsageError if the file exists (unless
    ``force``: then it is replaced) or cannot be created, PluginError if a record cannot be written, PolicyError for a fact
    that JSON cannot hold.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool = False, at_once: bool = False) -> None:
        self.path = os.fspath(path)
        self.records = 0
        if os.path.lexists(self.path) and (os.path.islink(self.path) or not os.path.isfile(self.path)):
            raise UsageError(f"{self.path}: expected a file to write a trace to, got something else of that name")
        try:
            if force:
                with suppress(FileNotFoundError):
                    os.unlink(self.path)
            self._stream = open(self.path, "x", 1 if at_once else -1, "utf-8", newline="\n")  # noqa: SIM115 - see close
        except FileExistsError as error:
            raise UsageError(f"{self.path}: expected a new file for the trace, got one that exists") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.path}: {_unwritable(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        finally:
            if kind is not None and not self.records:
                os.unlink(self.path)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record. A scheduler core takes this method as its sink."""
        try:
            line = _line(record)
        except (TypeError, ValueError, RecursionError) as error:
            raise _not_json(record) from error
        self.records += 1
        try:
            self._stream.write(line + "\n")
        except OSError as error:
            raise PluginError(f"{self.path}: {_unwritable(error)}") from error

    def close(self) -> None:
        """Write the buffer, and close the file; safe to call twice."""
        try:
            self._stream.close()
        except OSError as error:
            raise PluginError(f"{self.path}: {_unwritable(error)}") from error


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def _not_json(record: Mapping[str, Any]) -> PolicyError:
    """Return what is wrong with a record: a fact of a policy's that JSON cannot represent."""
    for name, value in record.items():
        try:
            _line({name: value})
        except (TypeError, ValueError, RecursionError) as error:
            what = f"the fact {name!r} in its {record.get('kind')!r} records of the trace"
            return PolicyError(None, f"the policy failed: {what}: expected what JSON can hold, {error}")
    return PolicyError(None, "the policy failed: a record of the trace is no JSON")


def _unwritable(error: OSError | ValueError) -> str:
    return f"expected a file that can be written, got {getattr(error, 'strerror', None) or error}"
