"""Files that are there whole, or not at all, and folders that do not stay: the one way in which all programs write them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream that becomes ``path`` when the block ends, and leaves nothing behind when it raises. Raises OSError.

    The bytes are on disk before the name is: after a crash there is the old file or the new one, never an empty one.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """Yield a new folder that is gone afterwards, also where what a signal raises ends the block, or the removal."""
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
