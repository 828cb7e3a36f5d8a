"""Reads TOML for all programs: whatever is wrong with a file is an OSError or a ValueError, never another error."""
# Under 60 lines: eight readers of settings, of all three packages, begin here.

from __future__ import annotations

import errno
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read_toml(file: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises OSError where it cannot be read, is a directory or a pipe, which could make us wait for ever; ValueError where it is not
    UTF-8 or not TOML.
    """
    path = Path(file)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "expected a regular file")
    return toml_of(path.read_text(encoding="utf-8"))


def toml_of(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the tables of a text; raises ValueError where it is not TOML, or nested too deeply for the parser."""
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None
