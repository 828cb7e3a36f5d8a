"""A page of paragraphs, tables and figures, and how it becomes one HTML file that needs no network.

Everything that comes from outside (names of jobs, users, files) is escaped where it becomes HTML. Besides, the page allows
only its own scripts and its own style, by their hashes, and no request: what an escape missed would not run.
Figures are drawn in the browser (``assets``) from `Figure.data`; every figure has a table of the same numbers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from itertools import compress
from statistics import median
from typing import Any, Final, TypeAlias

from cosched_emulator.results.figures.comparison import FigureRow
from cosched_emulator.workload.atomic_file import new_text_file

_LONG: Final = 16  # characters of a text that may wrap
STYLES: Final = ("uplot/uPlot.min.css", "page.css")
SCRIPTS: Final = ("uplot/uPlot.iife.min.js", "unpack.js", "lines.js", "counted.js", "schedule.js", "page.js")


LIVE_SCRIPTS: Final = ("unpack.js", "live.js")  # of a page without figures


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``quiet``: a note, in smaller print; ``headline``: what the page says, in larger print; ``link``: where it leads."""

    text: str
    quiet: bool = False
    headline: bool = False
    link: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts. The first column names the rows; columns with numbers are aligned to the right, those of empty texts left out.

    ``strong`` has the (row, column) of cells in bold, ``marks`` what others are: ``good``, ``bad`` or ``open``; the text
    says it, too.
    ``closed``: only its caption is shown until it is opened. ``stacked``: on a narrow screen each row is a block, its cells behind
    their headings. ``links``: where the first cells of rows lead.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: frozenset[tuple[int, int]] = frozenset()
    closed: bool = False
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    stacked: bool = False
    links: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, drawn by the script of its ``kind`` (``lines``, ``schedule``) from ``data``, which is plain values for JSON."""

    kind: str
    title: str
    note: str
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bars:
    """Values with intervals, a row each, on one axis with a line at ``zero``; None where there is none. Has its table, too."""

    title: str
    unit: str
    names: Sequence[str]
    means: Sequence[float | None]
    lows: Sequence[float | None]
    highs: Sequence[float | None]
    zero: float = 0.0


@dataclass(frozen=True, slots=True)
class Beside:
    """Paragraphs with a table beside them, where the screen is wide enough."""

    paragraphs: Sequence[Paragraph]
    table: Table


Block: TypeAlias = Paragraph | Table | Figure | Bars | Beside


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, with its heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. Sections without blocks are left out."""

    title: str
    lead: Sequence[Block]
    sections: Sequence[Section]


def figure_table(caption: str, names: Sequence[str], rows: Sequence[FigureRow]) -> Table:
    """Return figures of runs or policies as a table; the best ones are bold."""
    return Table(
        caption,
        ("", "unit", *names),
        [(row.label.strip(), row.unit, *row.texts) for row in rows],
        frozenset((line, place + 2) for line, row in enumerate(rows) for place, best in enumerate(row.best) if best),
    )


def write_page(file: str | os.PathLike[str], page: Page, *, force: bool = False) -> None:
    """Write ``page`` to ``file``; raises InputError if it exists and ``force`` is false, or if it cannot be written."""
    with new_text_file(file, force=force) as stream:
        for part in page_parts(page):
            stream.write(part)


def fragment(blocks: Sequence[Block]) -> str:
    """Return paragraphs and tables as HTML that a notebook shows among its own: without style and scripts."""
    return f'<div class="cosched">{"".join(part for block in blocks for part in _block(block, []))}</div>'


def page_parts(page: Page, *, is_live: bool = False) -> Iterator[str]:
    """Yield the text of the HTML file; ``is_live``: it asks its server for itself again, and may ask for nothing else."""
    style = "\n".join(map(_asset, STYLES))
    scripts = [_asset(name) for name in (LIVE_SCRIPTS if is_live else SCRIPTS)]
    allowed = " ".join(map(_hash, scripts))
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {allowed}" + "; connect-src 'self'" * is_live
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(page.title)}</title>
<style>{style}</style>
</head>
<body>
"""
    yield from _body(page)
    for script in scripts:
        yield f"<script>{script}</script>\n"
    yield "</body>\n</html>\n"


def _body(page: Page) -> Iterator[str]:
    """Yield what is visible, then the data of the figures."""
    sections = [section for section in page.sections if section.blocks]
    figures: list[Mapping[str, Any]] = []
    yield f"<header>\n<h1>{escape(page.title)}</h1>\n"
    lead = [*page.lead]
    if lead and isinstance(lead[0], Paragraph) and lead[0].headline:  # the first line, before the links
        yield from _block(lead.pop(0), figures)
    if sections:
        links = [f'<a href="#part-{number}">{escape(section.title)}</a>' for number, section in enumerate(sections, 1)]
        yield f'<nav aria-label="Parts of the page">{" ".join(links)}</nav>\n'
    yield "</header>\n<main>\n"
    for block in lead:
        yield from _block(block, figures)
    for number, section in enumerate(sections, 1):
        yield f'<section aria-labelledby="part-{number}">\n<h2 id="part-{number}">{escape(section.title)}</h2>\n'
        for block in section.blocks:
            yield from _block(block, figures)
        yield "</section>\n"
    yield "</main>\n"
    # In a script nothing is escaped, and </script> would end it: so no "<" is in it.
    data = json.dumps(figures, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    yield f'<script type="application/json" id="figures">{data}</script>\n'


def _block(block: Block, figures: list[Mapping[str, Any]]) -> Iterator[str]:
    match block:
        case Paragraph(text, quiet, headline, link):
            shown = f'<a href="{escape(link)}">{escape(text)}</a>' if link else escape(text)
            yield f"{'<p class=headline>' if headline else '<p class=quiet>' if quiet else '<p>'}{shown}</p>\n"
        case Table():
            yield from _table(block)
        case Figure(kind, title, note, data):
            number = len(figures)
            figures.append({"kind": kind, "title": title, **data})
            yield f'<figure id="figure-{number}" class="{escape(kind)}" aria-label="{escape(title)}">\n'
            yield f"<figcaption>{escape(title)}</figcaption>\n"
            yield '<div class="chart"><p class="quiet">This figure is drawn by a script.</p></div>\n'
            if note:
                yield f'<p class="quiet">{escape(note)}</p>\n'
            yield f'<details class="numbers"><summary>Table: {escape(title)}</summary></details>\n</figure>\n'
        case Bars():
            yield from _bars(block)
        case Beside(paragraphs, table):
            yield '<div class="beside"><div>\n'
            for each in paragraphs:
                yield from _block(each, figures)
            yield "</div>\n"
            yield from _table(table)
            yield "</div>\n"


def _table(table: Table) -> Iterator[str]:
    if table.closed:
        yield f"<details><summary>{escape(table.caption)}</summary>\n"
    name = escape(table.caption)
    caption = "" if table.closed else f'<p class="caption" aria-hidden="true">{name}</p>\n'
    yield f'<div class="table">{caption}'
    # A wide table scrolls by itself; so that it does by keys, too, its frame takes the focus.
    stacked = ' class="stacked"' * table.stacked
    yield f'<div class="wide" tabindex="0" role="group" aria-label="{name}"><table aria-label="{name}"{stacked}>\n<thead><tr>'
    bare = [[cell.lstrip("+-±–") for cell in row] for row in table.rows]  # noqa: RUF001 - signs, and what does not exist
    is_text = [_is_text(table, bare, place) for place in range(len(table.headings))]
    kinds = [_kind(table, place) if text else "" for place, text in enumerate(is_text)]
    classes = [f' class="{kind}"' * bool(kind) for kind in kinds]
    filled = [not place or any(row[place] for row in table.rows) for place in range(len(classes))]
    for heading, kind in compress(zip(table.headings, classes, strict=True), filled):
        yield f'<th scope="col"{kind}>{escape(heading)}</th>' if heading else "<td></td>"
    yield "</tr></thead>\n<tbody>\n"
    for line, row in enumerate(table.rows):
        first, *cells = row
        name = escape(first)
        if table.links:
            name = f'<a href="{escape(table.links[line])}">{name}</a>'
        yield f'<tr><th scope="row">{name}</th>'
        for place, cell in compress(enumerate(cells, 1), filled[1:]):
            text = escape(cell)
            mark = table.marks.get((line, place))
            kind = classes[place] if mark is None else f' class="{f"{kinds[place]} {mark}".strip()}"'
            kind += f' data-label="{escape(table.headings[place])}"' * table.stacked
            yield f"<td{kind}>{f'<strong>{text}</strong>' if (line, place) in table.strong else text}</td>"
        yield "</tr>\n"
    yield "</tbody></table></div></div>\n"
    if table.closed:
        yield "</details>\n"


def _is_text(table: Table, bare: Sequence[Sequence[str]], place: int) -> bool:
    """Tell whether a column has texts and no numbers: a marked cell, such as a verdict below figures, counts where all are marked."""
    cells = [row[place] for line, row in enumerate(bare) if (line, place) not in table.marks] or [
        row[place] for row in bare
    ]
    return any(cell[:1] and not cell[:1].isdigit() for cell in cells)


def _kind(table: Table, place: int) -> str:
    """Return the classes of a column of texts: a long one keeps some width where others wrap."""
    return "text long" if any(len(row[place]) > _LONG for row in table.rows) else "text"


@cache
def _asset(name: str) -> str:
    return files("cosched_emulator.page").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Values with intervals, as pictures of their own (SVG), one a row: they need no script, and take their colours from the style. Places
# are in percent of the width: a picture becomes narrower with the page, and the text beside it stays as large.


def _bars(bars: Bars) -> Iterator[str]:
    low, high = _limits(bars)

    def at(value: float) -> str:
        return f"{100 * (min(max(value, low), high) - low) / ((high - low) or 1.0):.2f}%"

    title = f"{bars.title} [{bars.unit}]" if bars.unit else bars.title
    yield f'<figure class="bars" aria-label="{escape(title)}">\n<figcaption>{escape(title)}</figcaption>\n'
    yield f'<div role="img" aria-label="{escape(title)}; its table follows">\n'
    columns = (bars.names, bars.means, bars.lows, bars.highs)
    for name, mean, least, most in zip(*columns, strict=True):
        yield f'<div class="bar"><span>{escape(name)}</span><svg>'
        if mean is not None:
            yield f'<line class="change" x1="{at(bars.zero)}" x2="{at(mean)}" y1="50%" y2="50%"/>'
        yield f'<line class="zero" x1="{at(bars.zero)}" x2="{at(bars.zero)}" y1="0" y2="100%"/>'
        if least is not None and most is not None:
            yield f'<line class="interval" x1="{at(least)}" x2="{at(most)}" y1="50%" y2="50%"/>'
            for is_cut, value, anchor, head in (
                (least < low, low, "start", "\u25c0"),
                (most > high, high, "end", "\u25b6"),
            ):
                yield f'<text class="cut" x="{at(value)}" y="50%" text-anchor="{anchor}">{head}</text>' * is_cut
        if mean is not None:
            yield f'<circle cx="{at(mean)}" cy="50%" r="5"/>'
        yield "</svg></div>\n"
    yield '<div class="bar"><span></span><svg>'
    near = 0.08 * (high - low)
    marks = {value: anchor for value, anchor in ((low, "start"), (high, "end")) if abs(value - bars.zero) > near}
    for value, anchor in {bars.zero: "middle", **marks}.items():
        yield f'<text class="quiet" text-anchor="{anchor}" x="{at(value)}" y="50%">{value:.3g}</text>'
    yield "</svg></div>\n</div>\n"
    rows = [
        (name, *("" if value is None else f"{value:.3g}" for value in values))
        for name, *values in zip(*columns, strict=True)
    ]
    yield from _table(Table(f"Table: {title}", ("", "mean", "low", "high"), rows, closed=True))
    yield "</figure>\n"


def _limits(bars: Bars) -> tuple[float, float]:
    """Return the ends of the axis: it has all means; of intervals much wider than what the means span, only a part."""
    means = [bars.zero, *(value for value in bars.means if value is not None)]
    bounds = [value for column in (bars.lows, bars.highs) for value in column if value is not None]
    halves = [
        (high - low) / 2
        for low, high in zip(bars.lows, bars.highs, strict=True)
        if low is not None and high is not None
    ]
    beyond = max(max(means) - min(means), median(halves) if halves else 0.0)
    low, high = min(means) - beyond, max(means) + beyond
    return max(low, min(means + bounds)), min(high, max(means + bounds))
