"""The raw table of a log: from the bytes of a file to one row of checked numbers for each job.

The file is read by column, because reading single rows takes seconds for a quarter of a million rows, and in blocks of rows,
because lines as objects take more memory than the file. Only a file that fails the quick checks is read field by field, to
find the invalid line and field. The quick checks cover the values of the used fields, the number of fields, and the
characters of all others.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal
from enum import IntEnum
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import InputError
from cosched_emulator.offered import STDIN
from cosched_hwmodel.units import SECOND_US

FIELD_NAMES = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
LARGEST = 100_000_000_000  # seconds or processors: 3,000 years; sums of microseconds fit into int64

_BLOCK = 16_384  # rows that exist as lines at a time
_CHUNK = 1 << 20  # bytes that are read at a time
MOST_LINES = 50_000_000  # the largest public log has 10 million rows
_LONGEST_LINE = 1 << 20  # bytes; a packed file may be a thousand times as large as it seems
_NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_PLAIN = b"0123456789.- \t\r\n"
_WHOLE_PLAIN = b"0123456789- \t\r\n"
_MOST_DIGITS = 18  # with the sign: they fit into 64 bits
_LINE_FEED = ord("\n")
_BEGINS_NUMBER = np.frombuffer(b"0123456789-", np.uint8)
# Of other people's writers: several semicolons, blanks or none before and after the key and its colon, an equals sign or nothing before
# a number instead. Prose is no key: it has blanks.
_HEADER = re.compile(r";+\s*([A-Za-z][A-Za-z0-9_]*)(?:\s*[:=](.*)|(\s+[+-]?[0-9][0-9,]*\s*))", re.DOTALL)
_COMMENT = ord(";")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SwfField(IntEnum):
    """The fields that the reader uses, by column."""

    NUMBER = 0
    SUBMIT = 1
    RUN = 3
    ALLOCATED = 4
    REQUESTED = 7
    ESTIMATE = 8
    MEMORY = 9  # requested, KB a processor
    STATUS = 10
    USER = 11
    GROUP = 12
    NAME = 13
    QUEUE = 14
    PARTITION = 15


# No field of a job: the wait is kept for comparisons. The others are read only to count where they say something, and to see that the
# last one is there: CPU time, used memory, preceding job, think time. Some writers have 0 for what is unknown; only a wait of 0 says
# something.
WAIT: Final = 2
_COUNTED = (WAIT, 5, 6, 16, 17)
_READ = (*SwfField, *_COUNTED)


_WHOLE = {*SwfField} - {SwfField.SUBMIT, SwfField.RUN, SwfField.ESTIMATE, SwfField.MEMORY}
NOT_NEGATIVE = "a number that is not negative"
_NOT_NEGATIVE = (SwfField.NUMBER, SwfField.SUBMIT)
PART_STATUS = (2, 3, 4)  # of rows that are parts of a job; only its first part need have a submit time


class Flaw(NamedTuple):
    """An error in a row; ``field`` is a column, or None for the row as a whole."""

    field: int | None
    expected: str
    got: str


class HeaderValue(NamedTuple):
    """A comment of the form ``; Key: value``."""

    key: str
    value: str
    line: int  # of the file, from 1


class Lines(NamedTuple):
    """The lines of a log that are rows: where each is in the content, without white space before it, and its number in the file."""

    content: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return self.starts.size

    def line(self, row: int) -> bytes:
        """Return a row as it is in the file, without white space before it."""
        return self.content[int(self.starts[row]) : int(self.ends[row])]

    def fields(self, row: int) -> list[bytes]:
        """Return the fields of a row, of which those beyond the format's 18 do not count: recent public logs have GPUs there."""
        return _fields(self.line(row))

    def blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield all rows in blocks, each with the number of rows before it."""
        for first in range(0, len(self), _BLOCK):
            places = zip(
                self.starts[first : first + _BLOCK].tolist(), self.ends[first : first + _BLOCK].tolist(), strict=True
            )
            yield first, [self.content[start:end] for start, end in places]

    def only(self, rows: NDArray[np.bool_]) -> Lines:
        """Return some of the rows."""
        return Lines(self.content, self.starts[rows], self.ends[rows], self.numbers[rows])


class SwfTable(NamedTuple):
    """The well-formed rows of a log, in the order of the file."""

    header: list[HeaderValue]
    lines: Lines
    columns: dict[int, NDArray[np.float64]]  # by field; only those that the reader uses, and the wait
    longer: int  # rows of more than 18 fields, of which the others are ignored
    unread: dict[str, int]  # fields that the reader does not use, by name: in how many rows they say something
    skipped: int  # malformed rows left out
    unused: int  # rows left out of jobs that were never submitted: all fields after the number are -1

    def microseconds(self, field: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the seconds of a field in these rows as microseconds, rounded up.

        Fractions below the precision of a double (1 ns beyond 46 days) are lost.
        """
        seconds = self.columns[field][rows]
        whole = np.trunc(seconds)
        result = whole.astype(np.int64) * SECOND_US
        # Fractions are computed from their decimal digits, because a double may be on the wrong side of a microsecond.
        for index in np.flatnonzero(seconds != whole):
            digits = Decimal(self.lines.fields(int(rows[index]))[field].decode("ascii")) * SECOND_US
            result[index] = int(digits.to_integral_value(ROUND_CEILING))
        return result

    def flaw(self, row: int, field: int, expected: str) -> Flaw:
        """Return the flaw that a field of a well-formed row is not what a rule expects."""
        return Flaw(field, expected, printable(self.lines.fields(row)[field]))


def read_table(file: str, *, skip_bad_rows: bool, drop_unused: bool = True) -> SwfTable:
    """Read a log, plain or gzip, by content.

    Raises `InputError` for a file that is not a log, and for the first malformed row unless malformed rows are skipped. Rows of
    jobs that were never submitted, with -1 in all fields, are malformed unless they are dropped.
    """
    content = _content(file).removeprefix(_BYTE_ORDER_MARK)
    lines, header = _lines(content)
    rows = len(lines)
    unused = 0
    read = _columns(lines, quick=True)
    if read is None or _odd_values(read.columns).any():
        good = np.ones(rows, dtype=np.bool_)
        for first, some in lines.blocks():
            for row, line in enumerate(some, first):
                fields = _fields(line)
                empty = drop_unused and _is_empty(fields)
                flaw = None if empty else _find_flaw(fields)
                if flaw is not None and not skip_bad_rows:
                    raise error_of(flaw, file, int(lines.numbers[row]))
                good[row] = flaw is None and not empty
                unused += empty
        lines = lines.only(good)
        read = _columns(lines, quick=False)
        if read is None:  # only if `_find_flaw` and the parser disagree on what a number is
            raise InputError(file, "rows of 18 numbers", "rows that cannot be parsed")
    return SwfTable(header, lines, *read, rows - len(lines) - unused, unused)


def error_of(flaw: Flaw, file: str, line: int) -> InputError:
    """Return the error that names the line and field of a flaw, and the option that leaves the row out."""
    field = None if flaw.field is None else FIELD_NAMES[flaw.field]
    return InputError(file, flaw.expected, flaw.got, line, field, hint="--skip-bad-rows leaves such rows out")


def printable(field: bytes | str) -> str:
    """Return a field as text for a message, shortened if it is long."""
    text = field if isinstance(field, str) else field.decode("latin-1")
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def _content(file: str) -> bytes:
    try:
        if file == STDIN:
            return _standard_input(file)
        kind = os.stat(file).st_mode
        if not stat.S_ISREG(kind):  # reading a pipe could block for ever
            raise InputError(file, "a regular file", "a directory" if stat.S_ISDIR(kind) else "a pipe or device")
        with open(file, "rb") as plain:
            if plain.peek(2)[:2] != b"\x1f\x8b":
                return _bounded(plain, file)
            with gzip.open(plain, "rb") as packed:
                return _bounded(packed, file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(file, "a whole gzip file", f"a truncated or damaged one ({error})") from error
    except OSError as error:
        raise InputError(file, "a file that can be read", error.strerror or str(error)) from error


def _standard_input(file: str) -> bytes:
    """Return the content of standard input, plain or gzip; raise InputError if it is a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(file, "a log piped into standard input", "a terminal" if sys.stdin else "none")
    content = sys.stdin.buffer.read()
    plain = io.BytesIO(content)
    return _bounded(gzip.open(plain, "rb") if content[:2] == b"\x1f\x8b" else plain, file)


# How files begin that other programs have packed.
_PACKED: Final = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstd", b"PK\x03\x04": "zip"}


def _refuse_packed(content: bytes, file: str) -> None:
    for begin, name in _PACKED.items():
        if content.startswith(begin):
            raise InputError(file, "a log as text or gzip", f"one packed by {name}", hint="unpack it")


def _bounded(stream: IO[bytes] | gzip.GzipFile, file: str) -> bytes:
    """Return the content of a stream; InputError as soon as it has a line or a number of lines that no log has."""
    chunks: list[bytes] = []
    number, length = 1, 0  # of the line that is open
    while chunk := stream.read(_CHUNK):
        if not chunks:
            _refuse_packed(chunk, file)
        chunks.append(chunk)
        length += chunk.find(b"\n") if b"\n" in chunk else len(chunk)
        if length > _LONGEST_LINE:
            raise InputError(file, f"lines of at most {_LONGEST_LINE} bytes", "a longer one", number)
        number += chunk.count(b"\n")
        if number > MOST_LINES:
            raise InputError(file, f"at most {MOST_LINES} lines", "more")
        length = len(chunk) - 1 - chunk.rfind(b"\n") if b"\n" in chunk else length
    return b"".join(chunks)


def _lines(content: bytes) -> tuple[Lines, list[HeaderValue]]:
    """Return the lines that are rows, and the header from the others."""
    header: list[HeaderValue] = []
    chars = np.frombuffer(content, np.uint8)
    spans = range(0, len(chars), _CHUNK)
    ends = [np.flatnonzero(chars[first : first + _CHUNK] == _LINE_FEED) + first for first in spans]
    last = [] if content.endswith(b"\n") else [np.array([len(chars)])]
    all_ends = np.concatenate([np.array([], dtype=np.int64), *ends, *last])
    starts = np.concatenate([np.array([0], dtype=np.int64), all_ends[:-1] + 1])[: len(all_ends)]
    is_row = np.zeros(len(starts), dtype=np.bool_)
    filled = starts < all_ends
    is_row[filled] = np.isin(chars[starts[filled]], _BEGINS_NUMBER)
    for place in np.flatnonzero(filled & ~is_row).tolist():  # of most logs the head alone
        start, end = int(starts[place]), int(all_ends[place])
        line = content[start:end].lstrip()
        if line and line[0] == _COMMENT:
            match = _HEADER.fullmatch(line.decode("utf-8", "replace"))
            if match is not None:
                header.append(HeaderValue(match[1], (match[2] or match[3] or "").strip(), place + 1))
        elif line:
            starts[place] = end - len(line)
            is_row[place] = True
    return Lines(content, starts[is_row], all_ends[is_row], np.flatnonzero(is_row) + 1), header


def _fields(line: bytes) -> list[bytes]:
    return line.split(None, len(FIELD_NAMES))[: len(FIELD_NAMES)]


def _looks_plain(lines: list[bytes]) -> bool:
    """Return whether the lines contain only digits, points and minus signs, and on average 18 fields."""
    content = b"\n" + b"\n".join(lines)
    if content.translate(None, _PLAIN):
        return False
    is_field = np.frombuffer(content, np.uint8) > ord(" ")
    return int(np.count_nonzero(is_field[1:] & ~is_field[:-1])) == len(FIELD_NAMES) * len(lines)


def _whole_numbers(lines: list[bytes]) -> NDArray[np.int64] | None:
    """Return rows of 18 whole numbers each, in a tenth of the time that `np.loadtxt` takes; None: there is something else."""
    text = b"\n".join([b"", *lines, b""])
    if text.translate(None, _WHOLE_PLAIN):
        return None
    chars = np.frombuffer(text, np.uint8)
    is_field = chars > ord(" ")
    begins, ends = (np.flatnonzero(edge) + 1 for edge in (is_field[1:] & ~is_field[:-1], is_field[:-1] & ~is_field[1:]))
    places, signs = np.flatnonzero(chars == _LINE_FEED)[:-1], np.flatnonzero(chars == ord("-"))
    whole = (
        len(begins) == len(FIELD_NAMES) * len(lines)
        and np.array_equal(np.searchsorted(begins, places), np.arange(len(lines)) * len(FIELD_NAMES))
        and not is_field[signs - 1].any()
        and (chars[signs + 1] >= ord("0")).all()
        and (ends - begins).max(initial=0) <= _MOST_DIGITS
    )
    return np.fromstring(text, dtype=np.int64, sep=" ").reshape(-1, len(FIELD_NAMES)) if whole else None


class _Columns(NamedTuple):
    """What `SwfTable` has of the same names."""

    columns: dict[int, NDArray[np.float64]]
    longer: int
    unread: dict[str, int]


def _columns(lines: Lines, *, quick: bool) -> _Columns | None:
    """Return the fields that are used; None if one is missing or is not a number, or if a ``quick`` check fails.

    The last field is read, so no row has fewer than 18 fields; with an average of 18, every row has 18.
    """
    columns: dict[int, NDArray[np.float64]] = {field: np.empty(len(lines)) for field in (*SwfField, WAIT)}
    unread = dict.fromkeys(_COUNTED, 0)
    longer = 0
    for first, some in lines.blocks():
        table: NDArray[Any] | None = _whole_numbers(some)
        rows = some if table is None else []
        if table is None and (not quick or not _looks_plain(rows)):
            longer += sum([len(line.split(None, len(FIELD_NAMES))) > len(FIELD_NAMES) for line in some])
            rows = [b" ".join(_fields(line)) for line in some]
            if quick and not _looks_plain(rows):
                return None
        try:
            table = np.loadtxt(rows, dtype=np.float64, comments=None, ndmin=2) if table is None else table
        except ValueError:
            return None
        for field in _READ:
            if field in columns:
                columns[field][first : first + len(some)] = table[:, field]
            if field in unread:
                says = table[:, field] >= 0 if field == WAIT else table[:, field] > 0
                unread[field] += int(np.count_nonzero(says))
    return _Columns(columns, longer, {FIELD_NAMES[field]: count for field, count in unread.items() if count})


def _odd_values(columns: dict[int, NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Return the mask of the rows with an impossible number."""
    odd = np.zeros(len(columns[SwfField.NUMBER]), dtype=np.bool_)
    for field in SwfField:
        odd |= np.abs(columns[field]) > LARGEST
    for field in _WHOLE:
        odd |= columns[field] != np.trunc(columns[field])
    part = np.isin(columns[SwfField.STATUS], PART_STATUS)
    for field in _NOT_NEGATIVE:
        odd |= (columns[field] < 0) & ~(part & (field == SwfField.SUBMIT))
    return odd


def _is_empty(fields: list[bytes]) -> bool:
    """Return whether a row is of a job that was never submitted: all fields are -1, except perhaps the job number."""
    return (
        len(fields) == len(FIELD_NAMES)
        and all(field == b"-1" for field in fields[1:])
        and (fields[0] == b"-1" or fields[0].isdigit())
    )


def _find_flaw(fields: list[bytes]) -> Flaw | None:
    """Return the first error in a row, if any, by a slow check of every field."""
    if any(byte < ord("\t") or byte > ord("~") for field in fields for byte in field):
        return Flaw(None, "a row of 18 numbers", "binary data")
    if len(fields) < len(FIELD_NAMES):
        return Flaw(None, f"{len(FIELD_NAMES)} fields", str(len(fields)))
    for index, field in enumerate(fields):
        if _NUMBER.fullmatch(field) is None:
            return Flaw(index, "a number", printable(field))
        value = float(field)
        if index not in list(SwfField):
            continue
        if index in _WHOLE and not value.is_integer():
            return Flaw(index, "a whole number", printable(field))
        if index in _NOT_NEGATIVE and value < 0 and not (index == SwfField.SUBMIT and _is_part(fields)):
            return Flaw(index, NOT_NEGATIVE, printable(field))
        if abs(value) > LARGEST:
            return Flaw(index, f"at most {LARGEST}", printable(field))
    return None


def _is_part(fields: list[bytes]) -> bool:
    status = fields[SwfField.STATUS]
    return _NUMBER.fullmatch(status) is not None and float(status) in PART_STATUS
