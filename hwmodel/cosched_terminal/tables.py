"""Tables of text: which columns and rows are shown, in which order, and how they fit the terminal. All programs print by `align`.

Where a person looks, a table is as wide as the terminal: columns that matter least are left out, a table of figures goes on below,
and long texts wrap. `screen` says what a person asked for; anywhere else a table has all of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from cosched_terminal.console import PAINT, printable

# Columns of a long text at the end that other columns make room for, and of any text at least:
_READABLE, _NARROWEST = 24, 16
_GAP: Final = "  "
_USUAL: Final = 80  # columns of a terminal
_RESET: Final = 0
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
RED, GREEN, YELLOW, BLUE, CYAN = 31, 32, 33, 34, 36
_STATE_HEADS: Final = ("ST", "STATE")


class View:
    """How tables are shown: what a person asked for, and what of that was found in any of them.

    ``columns`` are shown, by name; none: those that matter. ``order`` are names of columns, with a minus in front for the largest
    first. ``everything``: also columns that are shown on demand only. ``width`` of tables: None for any; ``folds``: that of
    paragraphs. ``cuts``: a row is one line, whose end is cut where it is shown.
    """

    def __init__(
        self,
        columns: Sequence[str] = (),
        order: Sequence[str] = (),
        *,
        everything: bool = False,
        width: int | None = None,
        folds: int | None = None,
        colours: bool = False,
        cuts: bool = False,
    ) -> None:
        self.cuts = cuts
        self.columns = columns
        self.order = order
        self.everything = everything
        self.width = width
        self.folds = folds
        self.colours = colours
        self.found: set[str] = set()  # of columns and order
        self.offered: dict[str, None] = {}  # names of columns, in their order
        self.lines: set[str] = set()  # of tables of any width, which do not fold


VIEW: Final[ContextVar[View]] = ContextVar("view", default=View())  # noqa: B039 - what is shown nowhere in particular


def align(
    rows: Sequence[Sequence[str]],
    right: Container[int],
    *,
    head: bool = True,
    later: Sequence[str] = (),
    spare: Collection[str] = (),
    rule: bool = False,
    indent: int = 0,
    fit: bool = True,
    colours: Mapping[str, int] | None = None,
) -> list[str]:
    """Return a text for each row, two spaces between columns; those in ``right`` are right-aligned, the others left-aligned.

    Cells are made `printable`. The first row is the head, unless ``head`` is false. Where the table is too wide, columns of the names
    ``later`` are left out: those without a value, then the first of them first. A table without such names goes on below, behind
    its first columns. A text that wraps has line ends in it. ``spare`` columns are shown on demand only. Without ``fit`` a line is as
    long as it is. ``colours`` of states: `RED` and others.
    """
    view = VIEW.get()
    table = [[*map(printable, row)] for row in rows]
    if head and table:
        chosen = _chosen(view, table[0], spare)
        table = [table[0], *_sorted(view, table[0], table[1:])]
    else:
        chosen = [*range(len(table[0]))] if table else []
    width = None if view.width is None or not fit else view.width - indent
    shape = _Shape(table, right, head=head, rule=rule, colours=colours if view.colours and colours else {})
    if width is None:
        whole = shape.lines(chosen, None, indent)
        if view.folds is not None:
            view.lines.update(whole)
        return whole
    keys = 0
    if not later and not view.columns:
        keys = next((place for place, column in enumerate(chosen) if column in right), len(chosen))
    kept, hidden = shape.without_later(chosen, later if not view.columns else (), width)
    if view.cuts:
        return shape.lines(kept, width, indent, cuts=True)
    lines: list[str] = []
    for block in shape.blocks(kept, max(1, keys) if keys < len(kept) else 0, width):
        lines += [*([""] if lines else []), *shape.lines(block, width, indent)]
    if hidden:
        lines.append(f"{' ' * indent}(--wide shows {', '.join(hidden)})")
    return lines


def _chosen(view: View, heads: Sequence[str], spare: Collection[str]) -> list[int]:
    """Return the columns that are shown: of those that are asked for the ones that this table has; a table without any, as usual."""
    if view.columns or view.order:
        view.offered.update(dict.fromkeys(name for name in heads if name.strip()))
    asked = {name: _place(name, heads) for name in view.columns}
    found = {name: place for name, place in asked.items() if place is not None}
    view.found.update(found)
    if found:
        labels = [place for place, name in enumerate(heads) if not name.strip()]
        return [*labels, *found.values()]
    return [place for place, name in enumerate(heads) if view.everything or name not in spare]


def _sorted(view: View, heads: Sequence[str], rows: list[list[str]]) -> list[list[str]]:
    for name in reversed(view.order):
        place = _place(name.lstrip("+-"), heads)
        if place is not None:
            view.found.add(name)
            known = [row for row in rows if row[place].strip() not in ("", "-")]
            known.sort(key=lambda row: _value(row[place]), reverse=name.startswith("-"))
            rows = known + [row for row in rows if row[place].strip() in ("", "-")]
    return rows


def _place(name: str, heads: Sequence[str]) -> int | None:
    """Return the column of a name in any case, or of the only one that begins so."""
    names = [head.strip().casefold() for head in heads]
    wanted = name.strip().casefold()
    if wanted in names:
        return names.index(wanted)
    begun = [place for place, each in enumerate(names) if wanted and each.startswith(wanted)]
    return begun[0] if len(begun) == 1 else None


def _value(cell: str) -> tuple[int, Any]:
    """Return what cells are sorted by: numbers and times, then texts, in which numbers count as such."""
    text = cell.strip().rstrip("*%").rstrip()
    if clock := _CLOCK.fullmatch(text):
        days, *parts = (int(part) for part in clock.groups("-1"))
        hours, minutes, seconds = parts if parts[2] >= 0 else (0, *parts[:2])
        return 0, float(((max(0, days) * 24 + hours) * 60 + minutes) * 60 + seconds)
    try:
        return 0, float(text.replace(",", ""))
    except ValueError:
        parts_of = re.split(r"(\d+)", text.casefold())
        return 1, [int(part) if part.isdecimal() else part for part in parts_of]


class _Shape:
    """A table and how wide its columns are."""

    def __init__(
        self, rows: list[list[str]], right: Container[int], *, head: bool, rule: bool, colours: Mapping[str, int]
    ) -> None:
        self._rows = rows
        self._right = right
        self._rule = rule
        self._widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        states = [place for place, name in enumerate(rows[0]) if name in _STATE_HEADS] if rows and head else []
        self._painted = dict.fromkeys(states, colours)

    def without_later(self, columns: list[int], later: Sequence[str], width: int) -> tuple[list[int], list[str]]:
        """Return the columns that fit, and the names of those that are left out."""
        hidden: dict[int, str] = {}
        heads = self._rows[0]
        empty = {head for column, head in enumerate(heads) if all(row[column] in ("", "-") for row in self._rows[1:])}
        for name in sorted(later, key=lambda name: name not in empty):
            kept = [column for column in columns if column not in hidden]
            if self._least(kept) <= width:
                break
            hidden.update({column: name for column in kept if self._rows[0][column] == name})
        kept = [column for column in columns if column not in hidden]
        return kept, [hidden[column] for column in columns if column in hidden]

    def blocks(self, columns: list[int], keys: int, width: int) -> list[list[int]]:
        """Return the columns in parts that fit, each behind the first ``keys`` columns; as one where that is 0."""
        if not keys or self._total(columns) <= width:
            return [columns]
        names, rest = columns[:keys], columns[keys:]
        parts: list[list[int]] = []
        for column in rest:
            if parts and self._least([*names, *parts[-1], column]) <= width:
                parts[-1].append(column)
            else:
                parts.append([column])
        return [[*names, *part] for part in parts]

    def _total(self, columns: Sequence[int]) -> int:
        return _total_of([self._widths[column] for column in columns])

    def _least(self, columns: Sequence[int]) -> int:
        """Return the least width: the last column can wrap if it is a text."""
        last = columns[-1]
        spared = 0 if last in self._right else max(0, self._widths[last] - _READABLE)
        return self._total(columns) - spared

    def lines(self, columns: list[int], width: int | None, indent: int, *, cuts: bool = False) -> list[str]:
        """Return a text for each row; one line each if it ``cuts``."""
        widths = {column: self._widths[column] for column in columns}
        texts = [column for column in columns if column not in self._right]
        while width is not None and texts and (excess := _total_of(widths.values()) - width) > 0:
            widest = max(texts, key=lambda column: (widths[column], column))
            if widths[widest] <= _NARROWEST:
                break
            second = max([_NARROWEST, *[widths[column] for column in texts if column != widest]])
            narrower = min(widths[widest] - 1, max(second, widths[widest] - excess))
            widths[widest] = max(_NARROWEST, narrower)
        rows = self._rows
        if cuts:
            rows = [[short(cell, widths.get(place, 0)) for place, cell in enumerate(row)] for row in rows]
        shown = [self._row(row, widths, " " * indent) for row in rows]
        if self._rule:
            shown.insert(1, " " * indent + "-" * _total_of(widths.values()))
        return shown

    def _row(self, row: Sequence[str], widths: Mapping[int, int], margin: str) -> str:
        parts = {column: wrapped(row[column], width) for column, width in widths.items()}
        lines = []
        for number in range(max(map(len, parts.values()), default=0)):
            cells = [
                self._cell(column, part[number] if number < len(part) else "", widths[column])
                for column, part in parts.items()
            ]
            lines.append((margin + _GAP.join(cells)).rstrip())
        return "\n".join(lines)

    def _cell(self, column: int, text: str, width: int) -> str:
        colour = self._painted.get(column, {}).get(text)
        shown = text if colour is None else f"{PAINT}[{colour}m{text}{PAINT}[{_RESET}m"
        blanks = " " * (width - len(text))
        return blanks + shown if column in self._right else shown + blanks


def text_lines(text: str, lines: int) -> list[str]:
    """Return a text as at most so many lines of 80 columns, or as it fits the terminal then; the rest is cut."""
    from textwrap import wrap  # noqa: PLC0415 - few commands have paragraphs

    width = VIEW.get().folds or _USUAL
    most = -(-lines * _USUAL // width)
    text = printable(text)
    return wrap(text, width, max_lines=most, placeholder=" ...", subsequent_indent="  ", break_on_hyphens=False)


def short(text: str, width: int) -> str:
    """Return text cut to a width."""
    text = printable(text)
    return text if len(text) <= width else text[: width - 1] + "+"


def _total_of(widths: Collection[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines of at most ``width`` columns, broken behind blanks and commas, or in a word if need be."""
    if len(text) <= width:
        return [text]
    lines = [""]
    for piece in re.findall(r"[^ ,]*[ ,]*", text):
        if len((lines[-1] + piece).rstrip()) > width and lines[-1]:
            lines.append("")
        rest = lines[-1] + piece
        while len(rest.rstrip()) > width:
            cut = 1 + max(rest.rfind(mark, 0, width) for mark in "-/_")
            lines[-1], rest = rest[: cut or width], rest[cut or width :]
            lines.append("")
        lines[-1] = rest
    return [line.rstrip() for line in lines if line.strip()]
