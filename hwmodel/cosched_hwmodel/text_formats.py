"""Text formats that all programs share: TOML and JSON as they are read, and names as CSV files hold them.

Whatever is wrong in TOML or JSON is an OSError or a ValueError, never another error.
"""

from __future__ import annotations

import errno
import json
import math
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO, cast
from urllib.parse import quote, unquote

MOST_BITS: Final = 1_000  # of an integer: more are no double, and Python prints no thousands of digits


@contextmanager
def open_text(file: str | Path, encoding: str = "utf-8", errors: str = "strict") -> Iterator[TextIO]:
    """Yield the content of a file as a stream, plain or gzip, by content; ``errors`` as of `bytes.decode`.

    Raises OSError where it cannot be read, is a directory or a pipe, which could make us wait for ever; reading raises ValueError
    where it is not in this encoding.
    """
    path = Path(file)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "expected a regular file")
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    if not packed:
        with path.open(encoding=encoding, errors=errors) as text:
            yield text
        return
    import gzip  # noqa: PLC0415 - few files are packed
    import zlib  # noqa: PLC0415

    try:
        with gzip.open(path, "rt", encoding=encoding, errors=errors) as unpacked:
            yield cast(TextIO, unpacked)
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EINVAL, f"not a whole gzip file: {error}") from error


def read_text(file: str | Path, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the content of a file, as of `open_text`."""
    with open_text(file, encoding, errors) as text:
        return text.read()


def read_toml(file: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file; raises OSError and ValueError as `read_text`, and ValueError where it is not TOML."""
    return toml_of(read_text(file))


def toml_of(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Return the tables of a text; raises ValueError where it is not TOML, nested too deeply, or has an integer beyond all bounds."""
    try:
        content = tomllib.loads(text, parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    check_numbers(content, finite=False)
    return content


def json_of(text: str | bytes) -> Any:
    """Return the value of a text; raises ValueError where it is not JSON, nested too deeply, or has numbers as of `check_numbers`."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    check_numbers(value)
    return value


def check_numbers(value: Any, *, finite: bool = True) -> None:
    """Raise ValueError, with the place, for an integer of more than `MOST_BITS` bits at any depth, or where a number is not finite."""
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        place, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{place}.{key}".lstrip("."), item) for key, item in value.items()]
        elif isinstance(value, list):
            left += [(place, item) for item in value]
        elif isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise ValueError(f"{place}: an integer of more than {MOST_BITS} bits")
        elif finite and isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{place}: {value} is no finite number")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


# Names that users give, in CSV files. A name may hold anything: NUL and ESC, which a terminal obeys when a file is shown; a line
# end or a comma, which break rows for readers that split them; ``=cmd|...``, which a spreadsheet carries out. So separators, quotes,
# ``%`` and all that is not printable are percent-encoded, as bytes of UTF-8, and so is a first character that begins a formula.

_SEPARATORS: Final = frozenset('%,;"')
_FORMULA: Final = frozenset("=+-@")  # with tab and return, which are not printable
_ERRORS: Final = "surrogatepass"  # half a character is written, and read, as it is


def encoded(name: str) -> str:
    """Return a name as a field that needs no quotes."""
    if name.isalnum():
        return name
    field = "".join([char if char.isprintable() and char not in _SEPARATORS else _escaped(char) for char in name])
    return f"%{ord(field[0]):02X}{field[1:]}" if field[:1] in _FORMULA else field


def decoded(field: str) -> str:
    """Return the name that a field stands for."""
    return unquote(field, errors=_ERRORS)


def _escaped(char: str) -> str:
    return quote(char.encode(errors=_ERRORS), safe="")
