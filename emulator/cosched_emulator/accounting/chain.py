"""What shows that a journal is whole: a chain of digests over its steps, and a mark of the last confirmed one beside the database.

Each step has a digest of itself and of the digest before it. So a changed step does not fit, and none can be missing in the middle.
The end is told by the mark: SQLite drops what follows a damaged place of its write-ahead log without a word, or all of a log that is
gone. The mark is written after a step that was synced to the disk, so it is never ahead of what a crash leaves; a crash may leave an
older mark, which tells less, and nothing wrong.

A journal may begin anew (`Accounting.compact_journal`). Its meta data then has a `Base`, a digest of what
went before: so the chain goes on.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from cosched_emulator.errors import InputError
from cosched_terminal.own_file import open_own
from cosched_terminal.whole_file import whole_file

DIGEST_BYTES: Final = 16
_NUMBERS: Final = struct.Struct("<qq")
_MARK: Final = struct.Struct(f"<8sq{DIGEST_BYTES}s{DIGEST_BYTES}s")
_MAGIC: Final = b"cosmark1"
BASE: Final = "base"
MACHINE: Final = "machine"  # what the file of the machine says, if there is one
# Meta data that a database is made with, or a journal begins anew with.
_FIRST: Final = ("kind", "scenario", "workload", MACHINE, BASE)
Row = tuple[int, str, int, bytes]  # step, kind, at_us, body


class Base(NamedTuple):
    """What a journal that began anew goes on from: the end of the journal before it, and the rows that remain of that."""

    step: int = 0  # the last one
    link: bytes = b""
    first: bytes = b""  # the digest before the first step
    at_us: int = -1  # rows up to this time remain ...
    past: bytes = b""  # ... and have this digest (`again.past_digest`)

    def as_text(self) -> str:
        """Return its entry in the meta data."""
        return json.dumps([value.hex() if isinstance(value, bytes) else value for value in self])


_NO_BASE: Final = Base()


def base_of(meta: Mapping[str, str]) -> Base:
    """Return what a journal goes on from: nothing (step 0) if it is the first. ValueError for what is none."""
    if BASE not in meta:
        return _NO_BASE
    try:
        step, link, first, at_us, past = json.loads(meta[BASE])
        return Base(int(step), bytes.fromhex(link), bytes.fromhex(first), int(at_us), bytes.fromhex(past))
    except TypeError as error:
        raise ValueError(str(error)) from error


def first_link(meta: Mapping[str, str]) -> bytes:
    """Return the digest before the first step: of what the database was made for."""
    return digest(repr([(key, meta[key]) for key in _FIRST if key in meta]).encode())


def next_link(before: bytes, row: Row) -> bytes:
    """Return the digest of a step after the digest ``before``."""
    step, kind, at_us, body = row
    return digest(before + _NUMBERS.pack(step, at_us) + kind.encode() + b"\0" + body)


def digest(content: bytes) -> bytes:
    """Return the digest that guards a file of accounts and what lies beside it."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


class Linked(NamedTuple):
    """A step of a journal, as it stands there."""

    row: Row
    link: bytes


def whole_part(linked: Iterable[Linked], before: bytes, base_step: int = 0) -> Iterable[Linked]:
    """Yield the steps up to the first one that is missing or does not fit."""
    for number, (row, link) in enumerate(linked, base_step + 1):
        if row[0] != number or next_link(before, row) != link:
            return
        before = link
        yield Linked(row, link)


# ---------------------------------------------------------------- the mark


class Reached(NamedTuple):
    """A step all of whose changes are in the tables."""

    step: int
    changes: int
    link: bytes
    first: bytes  # the digest before the first step


class Mark(NamedTuple):
    """A step that was confirmed; 0: none yet."""

    step: int
    link: bytes
    first: bytes  # the digest before the first step


def is_of(mark: Mark, meta: Mapping[str, str]) -> bool:
    """Tell whether a mark belongs to a database: a process may have been killed between a journal that begins anew and its mark."""
    base = base_of(meta)
    return first_link(meta) == mark.first or (base.step > 0 and base.first == mark.first and mark.step <= base.step)


def mark_file(database: str) -> str:
    """Return the path of the mark of a database."""
    return f"{database}-mark"


def read_mark(database: str, *, shared: bool = False) -> Mark:
    """Return the mark beside a database; InputError if there is none, a damaged one, or, unless ``shared``, another user's."""
    file = mark_file(database)
    try:
        with open(open_own(file, shared=shared), "rb") as stream:
            content = stream.read(2 * _MARK.size)
    except OSError as error:
        raise InputError(file, "the mark of the last confirmed step", error.strerror or str(error)) from error
    body, check = content[: _MARK.size], content[_MARK.size :]
    if len(body) != _MARK.size or check != digest(body) or not body.startswith(_MAGIC):
        raise InputError(file, "the mark of the last confirmed step", "a damaged mark, or another file")
    return Mark(*_MARK.unpack(body)[1:])


class MarkFile:
    """The mark of a database that this process has open."""

    def __init__(self, database: str, mark: Mark | None = None) -> None:
        """With ``mark`` it is made anew; else it exists. Raises OSError."""
        if mark is not None:
            with whole_file(mark_file(database)) as stream:
                os.fchmod(stream.fileno(), 0o600)
                stream.write(_written(mark))
        self._descriptor = open_own(mark_file(database), os.O_RDWR)

    def write(self, mark: Mark) -> None:
        """Move the mark. It fits into a sector of the disk, so it is there whole. Raises OSError."""
        os.pwrite(self._descriptor, _written(mark), 0)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._descriptor)


def _written(mark: Mark) -> bytes:
    body = _MARK.pack(_MAGIC, *mark)
    return body + digest(body)
