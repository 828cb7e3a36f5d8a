"""The page of a paper's results: a verdict table for people, and all rows in an appendix, both written by its reproduction.

A report is one body of Markdown. The appendix gets all of it. The page gets one row for each claim, or group of claims that no list
has: what is published, the range of what is measured, how many rows hold, and a link to them. Both begin with how many rows there are,
how many would hold by chance, and how many verdicts stand after Holm's correction, which needs all rows of a page. The verdicts
themselves are made in `scripts.papers.rows`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.papers.claims import NOT_PREDICTED, PREDICTED, WITHIN, Kind
from scripts.tables import NOTHING, table_head, table_row, write_tables

from cosched_emulator.statistics.intervals import LEVEL, holm

FOLDER: Final = "appendix"
YES, NO, NOT_SHOWN, NOT_RUN = "yes", "**no**", "not shown", "not run"
COUNTED: Final = (YES, NO, WITHIN, NOT_SHOWN, NOT_RUN)
STANDS: Final = " (Holm)"  # behind a verdict
_NUMBER: Final = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?")
_INTERVAL: Final = re.compile(r" \([^()]* to [^()]*\)")
# What is claimed of a figure, behind its name: rows with the same name are one group.
_BOUND: Final = re.compile(r"(.*): ((?:lower|higher|within|at least|at most)\b.*)")
MOST_TOLD: Final = 12  # rows of the table that a terminal tells
MOST: Final = 72  # rows of a table of verdicts; with more, claims without a number are put together by what stands before the colon
_IN_THE_APPENDIX: Final = {str(Kind.CONSTRUCTION), str(Kind.UNCHECKABLE), PREDICTED, NOT_PREDICTED}
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")


class Claim(NamedTuple):
    """A row of a table of claims: its ids and text, what is published, what was measured, and the verdict on it."""

    ids: str  # of the claims list; empty: it has none
    text: str
    published: str
    measured: str
    verdict: str
    anchor: str  # of the section that has the row
    p: float | None  # of its verdict by chance
    line: int  # in the body


def write_results(page: Path, paper: str, title: str, body: Sequence[str], preview: str = "") -> None:
    """Write the report of a paper into its appendix, and the verdicts into the page; text outside the markers stays unchanged.

    ``preview`` stands first in both: the page is none of results.
    """
    appendix = page.parent / FOLDER / page.name
    appendix.parent.mkdir(exist_ok=True)
    body = [*head_lines(body), *marked(body)]
    own = {anchor_of(line) for line in body if line.startswith("#")}
    first = [f"**{preview}**", ""] if preview else []
    rows = [_from_appendix(line, page.name, own) for line in body]
    write_tables(appendix, paper, f"{title}: all rows", [*first, *rows])
    write_tables(page, paper, title, [*first, *verdict_lines(body, f"{FOLDER}/{page.name}")])


def outcome_lines(body: Sequence[str]) -> Iterator[str]:
    """Yield what came out, for a terminal: how many verdicts of each kind, then what was measured, what is decided first."""
    for line in head_lines(body)[:1]:
        yield line.partition(" Of ")[0]
    rows = [_cells(line) for line in verdict_lines(marked(body), "") if line.startswith("|")][2:]
    rows = sorted((row for row in rows if row[3] != NOT_RUN), key=lambda row: row[3].startswith(NOT_SHOWN))
    for claim, published, measured, verdict, _ in rows[:MOST_TOLD]:
        told = f"; published {published}" * (published not in ("", NOTHING, "wanted"))
        yield f"  {verdict.replace('*', '')}: {claim}: {measured}{told}"
    if rows[MOST_TOLD:]:
        yield f"  and {len(rows) - MOST_TOLD} more on the page"


def _from_appendix(line: str, page: str, own: set[str]) -> str:
    """Return a line whose links are those of the page, as a line of the appendix."""

    def changed(match: re.Match[str]) -> str:
        target = match[2]
        if target.startswith("#"):
            target = target if target[1:] in own else f"../{page}{target}"
        elif not re.match(r"[a-z]+:", target):
            target = f"../{target}"
        return f"{match[1]}{target}{match[3]}"

    return _LINK.sub(changed, line)


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as Markdown viewers make it."""
    text = heading.lstrip("#").strip().lower().replace("`", "")
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def claims_in(body: Sequence[str]) -> Iterator[Claim]:
    """Yield the rows of the tables of claims, which begin with ``id`` and ``claim``."""
    anchor, names = "", None
    for number, line in enumerate(body):
        if line.startswith("#"):
            anchor = anchor_of(line)
        cells = _cells(line)
        if not cells:
            names = None
        elif cells[:2] == ["id", "claim"]:
            names = cells
        elif names is not None and not line.startswith("|--"):
            cell = dict(zip(names, cells, strict=True))
            ids, chance = cell["id"].strip(NOTHING), None if cell["p"] == NOTHING else float(cell["p"].lstrip("<"))
            yield Claim(
                ids, cell["claim"], cell["published"], cell["measured"], cell["verdict"], anchor, chance, number
            )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []


def marked(body: Sequence[str]) -> list[str]:
    """Return a body in which the verdicts that stand after Holm's correction over all its rows are marked."""
    lines = list(body)
    tested = [claim for claim in claims_in(body) if claim.p is not None]
    for claim, stands in zip(tested, holm([claim.p or 0.0 for claim in tested]), strict=True):
        if stands and claim.verdict in (YES, NO):
            lines[claim.line] = f"{lines[claim.line].removesuffix(' |')}{STANDS} |"
    return lines


def head_lines(body: Sequence[str]) -> list[str]:
    """Return what a page says of all its rows; of a body that is marked or is not, the same."""
    rows = [*claims_in(marked(body))]
    counts = Counter(claim.verdict.removesuffix(STANDS) for claim in rows)
    claims = sum(counts[word] for word in COUNTED)
    told = ", ".join(f"{counts[word]} {word.strip('*')}" for word in COUNTED if counts[word])
    share = f" ({100 * counts[NOT_SHOWN] / (claims - counts[NOT_RUN]):.0f} %)" if counts[NOT_SHOWN] else ""
    text = f"{claims} rows judge a claim: {told.replace(NOT_SHOWN, NOT_SHOWN + share)}."
    others = {word: count for word, count in counts.items() if word not in COUNTED}
    if others:
        uncounted = ", ".join(f"{count} *{word.replace('*', '')}*" for word, count in others.items())
        text += f" Rows that no run decides are not counted: {uncounted}."
    tested = sum(claim.p is not None for claim in rows)
    if tested:
        stand = sum(claim.verdict.endswith(STANDS) for claim in rows)
        text += (
            f" Of the {tested} rows with an interval at most {(1 - LEVEL) / 2 * tested:.1f} would be *yes* by chance alone;"
            f" {stand} verdicts stand after Holm's correction."
        )
    return [text, ""] if rows else []


def verdict_lines(body: Sequence[str], appendix: str) -> Iterator[str]:
    """Yield the table of verdicts: one row for each group of claims.

    What no run decides is in the appendix alone, but for what the paper's own print says.
    """
    claims = [claim for claim in claims_in(body) if claim.verdict not in _IN_THE_APPENDIX]
    groups = _grouped(claims, coarse=False)
    if len(groups) > MOST:
        groups = _grouped(claims, coarse=True)
    yield from head_lines(body)
    yield from table_head(("claim", "published", "measured", "verdict", "rows"))
    for (anchor, _), members in groups.items():
        measured, published = (_range([getattr(each, name) for each in members]) for name in ("measured", "published"))
        ids = f"{members[0].ids}: " if members[0].ids else ""
        label = _common([claim.text for claim in members])
        link = f"[{len(members)}]({appendix}#{anchor})"
        yield table_row((ids + label, published, measured, _verdict(members), link), ())
    yield ""


def _grouped(claims: Sequence[Claim], *, coarse: bool) -> dict[tuple[str, str], list[Claim]]:
    groups: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        group = claim.ids or _group(claim.text, coarse=coarse)
        groups.setdefault((claim.anchor, group), []).append(claim)
    return groups


def _group(text: str, *, coarse: bool) -> str:
    """Return the name of a claim's figure."""
    if coarse:
        return text.partition(":")[0] if ":" in text else text.rpartition(", ")[0] or text
    bounded = _BOUND.fullmatch(text)
    return bounded[1] if bounded else text


def _verdict(claims: Sequence[Claim]) -> str:
    """Return how many rows hold; by bound, where rows have different ones."""
    by_bound: dict[str, list[str]] = {}
    for claim in claims:
        match = _BOUND.fullmatch(claim.text)
        by_bound.setdefault(match[2] if match else "", []).append(claim.verdict)
    if len(by_bound) != 2:
        return _counts([claim.verdict for claim in claims])
    return ", ".join(f"{bound}: {_counts(found)}" for bound, found in by_bound.items())


def _common(texts: Sequence[str]) -> str:
    """Return the parts that all texts have: what is claimed, without what differs from row to row."""
    names = {_BOUND.sub(r"\1", text) for text in texts}
    if len(names) == 1:
        return texts[0] if len(set(texts)) == 1 else names.pop()
    parts = re.split(r"(?<=,) ", texts[0])
    others = [{part.rstrip(",") for part in re.split(r"(?<=,) ", text)} for text in texts[1:]]
    kept = [part for part in parts if all(part.rstrip(",") in other for other in others)]
    return " ".join(kept).rstrip(",") if kept else f"{texts[0]}, and similar claims"


def _range(cells: Sequence[str]) -> str:
    """Return the one cell, or the smallest and largest of their first numbers, or the first text and how many others there are."""
    different = list(dict.fromkeys(cell for cell in cells if cell != NOTHING))
    if not different:
        return NOTHING
    if len(different) == 1:  # of several values in one cell the appendix has the intervals
        return _INTERVAL.sub("", different[0]) if " / " in different[0] else different[0]
    numbers = [match[0] for cell in different if (match := _NUMBER.match(cell))]
    if len(numbers) == len(different):
        ordered = sorted(numbers, key=lambda text: float(text.replace(",", "")))
        return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"
    return "; ".join(different) if len(different) == 2 else f"{different[0]}; ..."


def _counts(found: Sequence[str]) -> str:
    counts = Counter(verdict.removesuffix(STANDS) for verdict in found)
    stand = Counter(verdict.removesuffix(STANDS) for verdict in found if verdict.endswith(STANDS))
    marks = {verdict: f" ({count} Holm)" if count < counts[verdict] else STANDS for verdict, count in stand.items()}
    if len(counts) == 1:
        return next(verdict + marks.get(verdict, "") for verdict in counts)
    known = [verdict for verdict in COUNTED if verdict in counts]
    known += [verdict for verdict in counts if verdict not in COUNTED]
    return ", ".join(f"{counts[verdict]} {verdict}{marks.get(verdict, '')}" for verdict in known)
