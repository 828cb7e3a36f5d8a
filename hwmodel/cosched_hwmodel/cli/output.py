"""Files that a command writes: there whole, or not at all; texts of TOML."""

from __future__ import annotations

import os
from pathlib import Path

from cosched_hwmodel.errors import PlacedError
from cosched_terminal.whole_file import whole_file


class CommandError(PlacedError):
    """An argument, or a file, that is not as expected."""


def quoted(text: str) -> str:
    """Return a text as a basic string of TOML."""
    escaped = "".join(f"\\U{ord(char):08X}" if char in '"\\' or not char.isprintable() else char for char in text)
    return f'"{escaped}"'


def check_new(out: str, force: bool) -> None:
    """Raise CommandError if a file can already be seen not to be writable: better before the measurement than after it."""
    path = Path(out)
    if path.exists() and not (force and path.is_file()):
        raise CommandError(out, "expected a new file, and it exists" + ("" if force else " (--force replaces it)"))
    if not os.access(path.parent, os.W_OK):
        raise CommandError(out, f"expected a folder that can be written to, and {path.parent} is none")


def write_whole(file: str, text: str) -> None:
    """Write a file so that it is there whole, or not at all. Raises CommandError."""
    try:
        with whole_file(file) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise CommandError(file, f"cannot be written: {error.strerror or error}") from error
