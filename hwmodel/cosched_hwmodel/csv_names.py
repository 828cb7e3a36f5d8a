"""Names that users give, in the CSV files that the programs write: one rule for all of them, and back.

A name may hold anything: NUL and ESC, which a terminal obeys when a file is shown; a line end or a comma, which break rows for readers
that split them; ``=cmd|...``, which a spreadsheet carries out. So separators, quotes, ``%`` and all that is not printable are
percent-encoded, as bytes of UTF-8, and so is a first character that begins a formula. Reading decodes.
"""
# Under 60 lines: a rule that three programs share.

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

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
