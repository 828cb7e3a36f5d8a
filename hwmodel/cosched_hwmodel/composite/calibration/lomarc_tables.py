"""The measured co-runs of the LOMARC paper (section 4.2, Tables 1 to 3 and paging), by application.

Names of applications: ``float + 40`` (type, operation, KiB of data beyond L1), ``comm 200`` (bytes of a message),
``0.4 of 200`` (part of the time in such communication, the rest is ``int + 0``), ``I/O`` (reads a file), ``400 MB`` (memory).
"""

from __future__ import annotations

from typing import Final, NamedTuple


def _same(name: str, slowdown: float) -> tuple[str, str, float, None]:
    return (name, name, slowdown, None)


# One number stands for two equal applications.
_TABLE_1: Final = (
    _same("float + 0", 2.1),
    _same("int + 0", 1.07),
    _same("float + 40", 1.0),
    _same("int + 40", 1.3),
    _same("float + 400", 1.5),
    _same("int + 400", 1.3),
    _same("float * 0", 1.6),
    _same("int * 0", 1.4),
    _same("float * 80", 1.1),
    _same("int * 80", 1.1),
    _same("float * 400", 1.7),
    _same("int * 400", 1.2),
    ("float + 0", "int + 0", 1.1, 1.0),  # said of all sizes at once
    ("float * 0", "int * 0", 1.8, 1.4),
    ("float * 80", "int * 80", 1.2, 1.1),
    ("float * 400", "int * 400", 1.7, 1.4),
)
_TABLE_2: Final = (
    ("0.4 of 200", "0.4 of 200", 1.1, 1.1),
    ("0.4 of 200", "0.4 of 18000", 1.2, 1.0),
    ("0.4 of 200", "0.6 of 200", 1.1, 1.1),
    ("0.4 of 200", "0.6 of 18000", 1.3, 1.1),
    ("0.4 of 18000", "0.4 of 18000", 1.1, 1.1),
    ("0.4 of 18000", "0.6 of 200", 1.0, 1.3),
    ("0.4 of 18000", "0.6 of 18000", 1.1, 1.1),
    ("0.6 of 200", "0.6 of 200", 1.2, 1.2),
    ("0.6 of 200", "0.6 of 18000", 1.4, 1.1),
    ("0.6 of 18000", "0.6 of 18000", 1.1, 1.1),
)
_TABLE_3: Final = (
    ("comm 200", "comm 200", 1.4, 1.4),
    ("comm 200", "comm 18000", 1.7, 1.1),
    ("comm 200", "int + 0", 1.0, 1.0),
    ("comm 200", "I/O", 1.0, 1.3),
    ("comm 18000", "comm 18000", 1.3, 1.3),
    ("comm 18000", "int + 0", 1.0, 1.0),
    ("comm 18000", "I/O", 1.1, 1.2),
    ("int + 0", "int + 0", 1.1, 1.1),
    ("int + 0", "I/O", 1.0, 1.2),
)
_PAGING: Final = (_same("400 MB", 2.5), _same("267 MB", 2.2))
IO_RANGE: Final = (1.2, 2.3)  # of two that read files: usual, and worst


class Measurement(NamedTuple):
    """One number of the tables: the slowdown of an application beside another one."""

    table: int
    name: str
    beside: str
    slowdown: float
    second: bool = False  # it is the second of the pair that is named in the other order


def measurements(tables: tuple[int, ...] = (1, 2, 3)) -> list[Measurement]:
    """Return the numbers of these tables (0: paging), without I/O beside I/O: 58 in Tables 1 to 3."""
    found = []
    for table, cells in enumerate((_PAGING, _TABLE_1, _TABLE_2, _TABLE_3)):
        if table in tables:
            for one, other, slowdown, its in cells:
                found.append(Measurement(table, one, other, slowdown))
                if its is not None:
                    found.append(Measurement(table, other, one, its, second=True))
    return found
