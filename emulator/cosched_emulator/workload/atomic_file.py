"""New folders and text files, compressed or not, with the errors of the emulator."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TextIO, cast

from cosched_emulator.errors import InputError, os_errors
from cosched_terminal.whole_file import whole_file


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder with those above it, unless it is there. Raises `InputError`."""
    with os_errors(path, "a folder to write into"):
        Path(path).mkdir(parents=True, exist_ok=True)


@contextmanager
def new_text_file(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[TextIO]:
    """Yield a text stream that becomes ``path`` when the block ends, and leaves nothing behind when it raises.

    A file whose name ends in ``.gz`` is compressed; the same text always gives the same bytes. Raises `InputError` if the file
    exists and ``force`` is false, or if it cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(str(path), "a file to write", "a directory")
    if target.exists() and not force:
        raise InputError(str(path), "a new file (--force overwrites)", "one that exists")
    with os_errors(path, "a file that can be written"), whole_file(target) as file, ExitStack() as open_layers:
        binary: IO[bytes] = file
        if target.name.endswith(".gz"):
            # No name and no time in the gzip header: with them, equal workloads would differ in bytes.
            packed = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
            binary = cast(IO[bytes], open_layers.enter_context(packed))
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
        yield text
        text.detach()  # flushes, and keeps the streams below open
