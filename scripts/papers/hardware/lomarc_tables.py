"""The LOMARC paper's measurements beside the composite model: how well it is fitted, and what it predicts that it was not fitted to.

Each table is predicted from the other two, and each cell from all other cells. Claims on signs and orders are judged by the latter,
as a fit that has seen a number says little of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from scripts.papers.claims import Claim, claims_table, in_print, predicted
from scripts.papers.hardware.lomarc_fit import (
    IO_RANGE,
    NUMBERS,
    STORED,
    TableEntry,
    fit_lomarc,
    fitted_entries,
    lomarc_node,
    measurements,
)
from scripts.papers.hardware.lomarc_fit import predicted as predictions
from scripts.tables import NOTHING, number, table_head, table_row

TABLES: Final = (1, 2, 3)
PAGING: Final = 0
# Wanted: mean absolute error and the largest, of all numbers and of a table that is predicted.
WANTED: Final = (0.08, 0.35)
WANTED_OTHER: Final = (0.055, 0.2)
WORST: Final = 8
USUAL_IO: Final = (1.1, 1.3)  # "in most of the cases in the range of 1.2"
LITTLE: Final = 1.3  # slowdown of applications of different classes, at most
FORMULA: Final = 2.0  # the paper's largest estimate without a memory conflict
Pairs = Sequence[tuple[TableEntry, float]]  # measured, predicted


def lomarc_table() -> list[str]:
    """Return the errors by table, those of what was not fitted, the numbers that are off most, and the claims."""
    node = lomarc_node()
    asked = measurements(TABLES)
    pairs = [*zip(asked, predictions(node, asked), strict=True)]
    rows = [_row(f"Table {table}", _of(pairs, table)) for table in TABLES]
    rows.append(_row("all three", pairs, WANTED))
    for table in TABLES:
        kept, silent = _others(table)
        rest = f"Table {table}, predicted from {' and '.join(map(str, kept))} ({silent} numbers as at the start)"
        rows.append(_row(rest, _held_out(table), WANTED_OTHER))
    rows += [_row(f"Table {table}, each cell predicted from all others", _of(_left_out(), table)) for table in TABLES]
    worst = sorted(pairs, key=lambda pair: -abs(pair[1] - pair[0].slowdown))[:WORST]
    return [
        f"Slowdowns of synthetic programs on hyperthreaded Xeons. {len(NUMBERS)} numbers are fitted; demands follow from operation,"
        " type and size of the data, not from the cell. *A constant*: mean error if the mean of the fitted slowdowns is predicted for"
        " each. *As at the start*: numbers that do not affect the other tables, so the fit does not change them. Without Table 1 these"
        " are the numbers of floating point, multiplication and cache, so little of that table is predicted.",
        "",
        *table_head(("", "numbers"), ("mean error", "largest", "a constant", "wanted: mean", "largest")),
        *rows,
        "",
        f"The {WORST} numbers with the largest errors:",
        "",
        *table_head(("table", "program", "beside"), ("measured", "predicted")),
        *[
            table_row((str(each.table), each.name, each.beside), [number(each.slowdown), number(value)])
            for each, value in worst
        ],
        "",
        "What the paper says of its measurements, predicted with each cell left out of the fit:",
        "",
        *claims_table(lomarc_claims()),
    ]


def lomarc_claims() -> list[Claim]:
    """Return the claims of the paper's section 4.2 that a model of hardware can be asked for."""
    return [*_errors(), *_computing(), *_communicating(), *_others_of_the_section()]


def _errors() -> Iterator[Claim]:
    names = {1: "S3: Table 1", 2: "S7: Table 2", 3: "S11: Table 3"}
    for table, name in names.items():
        errors = [abs(value - each.slowdown) for each, value in _held_out(table)]
        mean, largest = statistics.fmean(errors), max(errors)
        kept = " and ".join(map(str, _others(table)[0]))
        text = f"{name}: its numbers follow from Tables {kept}, mean error at most {WANTED_OTHER[0]}, largest {WANTED_OTHER[1]}"
        holds = mean <= WANTED_OTHER[0] and largest <= WANTED_OTHER[1]
        yield predicted(text, f"{len(errors)} numbers", "wanted", f"{mean:.3f}, {largest:.3f}", holds=holds)


def _computing() -> Iterator[Claim]:
    worst, found = "float + 0", {(each.name, each.beside): value for each, value in _of(_left_out(), 1)}
    others = max(value for (name, _), value in found.items() if name != worst)
    told = f"{number(found[worst, worst])}, next {number(others)}"
    yield predicted("S4: float + without L2 data is worst", "Table 1", "2.10", told, holds=found[worst, worst] > others)
    same = {name: value for (name, beside), value in found.items() if name == beside}
    means = [
        statistics.fmean(value for name, value in same.items() if name.startswith(kind)) for kind in ("int", "float")
    ]
    told = " / ".join(map(number, means))
    text = "S5: int beside int is slowed by less than float beside float"
    yield predicted(text, "Table 1", "1.23 / 1.50", told, holds=means[0] < means[1])
    measured = {each.name: each.slowdown for each in measurements((1,)) if each.name == each.beside}
    for name, slowdown in measured.items():
        alone = f"{' '.join(name.split()[:2])} 0"
        if name != alone:
            word = "less" if slowdown < measured[alone] else "more"
            text = f"S6: with data in L2, {name} beside itself is slowed by {word} than {alone}"
            told = f"{number(same[name])} / {number(same[alone])}"
            holds = (same[name] < same[alone]) == (slowdown < measured[alone])
            yield predicted(text, "Table 1", f"{number(slowdown)} / {number(measured[alone])}", told, holds=holds)


def _communicating() -> Iterator[Claim]:
    found = {(each.name, each.beside): value for each, value in _of(_left_out(), 2)}
    for (fine, coarse), value in found.items():
        if fine.endswith("of 200") and coarse.endswith("of 18000"):
            measured = {(each.name, each.beside): each.slowdown for each in measurements((2,))}
            text = f"S9: the finer-grained program suffers more, {fine} beside {coarse}"
            published = f"{number(measured[fine, coarse])} / {number(measured[coarse, fine])}"
            its = found[coarse, fine]
            yield predicted(text, "Table 2", published, f"{number(value)} / {number(its)}", holds=value > its)
    cells = {(each.name, each.beside): value for each, value in _of(_left_out(), 3)}
    across = [value for (name, beside), value in cells.items() if name.split()[0] != beside.split()[0]]
    text = f"S11: little impact where classes differ, at most {LITTLE}"
    yield predicted(text, "Table 3", "at most 1.30", f"at most {number(max(across))}", holds=max(across) <= LITTLE)
    for size in ("200", "18000"):
        one, its = cells["I/O", f"comm {size}"], cells[f"comm {size}", "I/O"]
        text = f"S12: I/O is slowed by communication of {size} bytes more than that by I/O"
        told = {"200": "1.30 / 1", "18000": "1.20 / 1.10"}[size]
        yield predicted(text, "Table 3", told, f"{number(one)} / {number(its)}", holds=one > its)


def _others_of_the_section() -> Iterator[Claim]:
    both = lomarc_node().slowdowns("I/O", "I/O")[0]
    low, high = USUAL_IO
    text = f"S13: I/O beside I/O mostly 1.2, {low} to {high}; fitted to the middle of the range"
    told = f"{IO_RANGE[0]} to {IO_RANGE[1]}"
    yield predicted(text, "Table 3", told, number(both), holds=low <= both <= high)
    asked = measurements((PAGING,))
    found = predictions(lomarc_node(), asked)
    for each, value in zip(asked, found, strict=True):
        text = f"S14: paging, two of {each.name}, within 0.05; two numbers are fitted to two"
        holds = abs(value - each.slowdown) <= 0.05
        yield predicted(text, "512 MB", number(each.slowdown), number(value), holds=holds)
    measured = [each.slowdown for each in measurements(TABLES)]
    above = [value for value in measured if value > FORMULA]
    told = f"{len(above)} of {len(measured)} above it, the largest {number(max(measured))}"
    text = f"S15: no slowdown in Tables 1 to 3 is above the estimate of {number(FORMULA)}"
    yield in_print(text, "Tables 1 to 3", "none", told, holds=not above)


# ---------------------------------------------------------------- what was not fitted


def _others(table: int) -> tuple[tuple[int, ...], int]:
    """Return the two other tables, and of how many numbers they and paging say nothing."""
    kept = tuple(each for each in TABLES if each != table)
    asked = fitted_entries((PAGING, *kept))
    before = predictions(lomarc_node(), asked)
    silent = 0
    for place, each in enumerate(NUMBERS):
        middle = (each.low + each.high) / 2
        silent += predictions(lomarc_node((*STORED[:place], middle, *STORED[place + 1 :])), asked) == before
    return kept, silent


@cache
def _held_out(table: int) -> Pairs:
    """Return a table's numbers as the other two and paging predict them."""
    asked = measurements((table,))
    return _predicted(asked, fitted_entries((PAGING, *_others(table)[0])))


@cache
def _left_out() -> Pairs:
    """Return all numbers of the three tables, each cell predicted by a fit to all other cells."""
    found: list[tuple[TableEntry, float]] = []
    entries = fitted_entries((PAGING, *TABLES))
    cells = dict.fromkeys((each.table, frozenset((each.name, each.beside))) for each in measurements(TABLES))
    for table, names in cells:
        out = [each for each in measurements((table,)) if {each.name, each.beside} == names]
        kept = [each for each in entries if each not in out]
        found += _predicted(out, kept)
    return found


def _predicted(asked: Sequence[TableEntry], known: Sequence[TableEntry]) -> Pairs:
    return [*zip(asked, predictions(lomarc_node(fit_lomarc(known)), asked), strict=True)]


def _of(pairs: Pairs, table: int) -> Pairs:
    return [pair for pair in pairs if pair[0].table == table]


def _row(text: str, pairs: Pairs, wanted: Sequence[float] = ()) -> str:
    """Return how far predictions are off, beside a constant and what is wanted."""
    errors = [abs(value - each.slowdown) for each, value in pairs]
    tables = {each.table for each, _ in pairs}
    fitted = [each.slowdown for each in measurements(tuple({*TABLES} - tables) or TABLES)]
    constant = statistics.fmean(abs(each.slowdown - statistics.fmean(fitted)) for each, _ in pairs)
    cells = [statistics.fmean(errors), max(errors), constant, *wanted]
    return table_row((text, str(len(errors))), [*[f"{cell:.3f}" for cell in cells], *[NOTHING] * (5 - len(cells))])
