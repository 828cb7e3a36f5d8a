"""The page of a paper's results: a verdict table for people, and all rows in an appendix, both written by its reproduction.

A report is one body of Markdown. The appendix gets all of it. The page gets one row for each group of claims: what is published, the
range of what is measured, how many rows hold, and a link to them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.tables import NOTHING, table_head, table_row, write_tables

FOLDER: Final = "appendix"
VERDICTS: Final = ("yes", "**no**", "not shown", "not run")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?")
# What is claimed of a figure, behind its name: rows with the same name are one group.
_BOUND: Final = re.compile(r"(.*): ((?:lower|higher|within|at least|at most)\b.*)")
MOST: Final = 64  # rows of a table of verdicts; with more, claims without a number are put together by what stands before the colon
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")


class Claim(NamedTuple):
    """A row of a table of claims: its text, what is published, and what was measured with the verdict on it, by column."""

    text: str
    published: str
    measured: Mapping[str, tuple[str, str]]  # name of the column -> (figure, verdict)
    anchor: str  # of the section that has the row


def write_results(page: Path, paper: str, title: str, body: Sequence[str]) -> None:
    """Write the report of a paper into its appendix, and the verdicts into the page; text outside the markers stays unchanged."""
    appendix = page.parent / FOLDER / page.name
    appendix.parent.mkdir(exist_ok=True)
    own = {anchor_of(line) for line in body if line.startswith("#")}
    write_tables(appendix, paper, f"{title}: all rows", [_from_appendix(line, page.name, own) for line in body])
    write_tables(page, paper, title, [*verdict_lines(body, f"{FOLDER}/{page.name}")])


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
    """Yield the rows of the tables of claims: those whose first column is ``claim`` and that have a verdict."""
    anchor, names = "", None
    for line in body:
        if line.startswith("#"):
            anchor = anchor_of(line)
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            names = None
        elif cells[0] == "claim" and "verdict" in cells:
            names = cells
        elif names is not None and not line.startswith("|--"):
            at = [place for place, name in enumerate(names) if name == "verdict"]
            before = [max(p for p in range(place) if names[p] not in ("seeds", "verdict")) for place in at]
            found = {names[p]: (cells[p], cells[place]) for p, place in zip(before, at, strict=True)}
            yield Claim(cells[0], cells[names.index("published")], found, anchor)


def verdict_lines(body: Sequence[str], appendix: str) -> Iterator[str]:
    """Yield the table of verdicts: one row for each group of claims."""
    claims = [*claims_in(body)]
    groups = _grouped(claims, coarse=False)
    if len(groups) > MOST:
        groups = _grouped(claims, coarse=True)
    yield from table_head(("claim", "published", "measured", "verdict", "rows"))
    for (anchor, _), members in groups.items():
        figures, verdicts = [], []
        for column in members[0].measured:
            where = f"{column}: " if len(members[0].measured) > 1 else ""
            told = _range([claim.measured[column][0] for claim in members if column in claim.measured])
            figures += [where + told] * (told != NOTHING)
            verdicts.append(_verdict(members, column))
        label = _common([claim.text for claim in members])
        link = f"[{len(members)}]({appendix}#{anchor})"
        published = _range([claim.published for claim in members])
        yield table_row(
            (label, published, "; ".join(figures) or NOTHING, " / ".join(dict.fromkeys(verdicts)), link), ()
        )
    yield ""


def _grouped(claims: Sequence[Claim], *, coarse: bool) -> dict[tuple[str, str], list[Claim]]:
    groups: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        groups.setdefault((claim.anchor, _group(claim.text, coarse=coarse)), []).append(claim)
    return groups


def _group(text: str, *, coarse: bool) -> str:
    """Return the number of a claim, as in ``C12: ...``; else the name of its figure."""
    before = text.partition(":")[0]
    if coarse or re.fullmatch(r"C\d+\w*", before):
        return before if ":" in text else text.rpartition(", ")[0] or text
    bounded = _BOUND.fullmatch(text)
    return bounded[1] if bounded else text


def _verdict(claims: Sequence[Claim], column: str) -> str:
    """Return how many rows hold; by bound, where rows have different ones."""
    bounds = [match[2] if (match := _BOUND.fullmatch(claim.text)) else "" for claim in claims]
    different = list(dict.fromkeys(bounds))
    if not 1 < len(different) <= 2:
        return _counts([claim.measured[column] for claim in claims if column in claim.measured])
    by_bound = (
        (bound, [claim.measured[column] for claim, own in zip(claims, bounds, strict=True) if own == bound])
        for bound in different
    )
    return ", ".join(f"{bound}: {_counts(found)}" for bound, found in by_bound)


def _common(texts: Sequence[str]) -> str:
    """Return the parts that all texts have: what is claimed, without what differs from row to row."""
    names = {_BOUND.sub(r"\1", text) for text in texts}
    if len(names) == 1:
        return texts[0] if len(set(texts)) == 1 else names.pop()
    parts = re.split(r"(?<=,) ", texts[0])
    others = [{part.rstrip(",") for part in re.split(r"(?<=,) ", text)} for text in texts[1:]]
    kept = [part for part in parts if all(part.rstrip(",") in other for other in others)]
    return " ".join(kept).rstrip(",") if kept else f"{texts[0]}, and others alike"


def _range(cells: Sequence[str]) -> str:
    """Return the one cell, or the smallest and largest of their first numbers, or the first text and how many others there are."""
    different = list(dict.fromkeys(cell for cell in cells if cell != NOTHING))
    if len(different) <= 1:
        return different[0] if different else NOTHING
    numbers = [match[0] for cell in different if (match := _NUMBER.match(cell))]
    if len(numbers) == len(different):
        ordered = sorted(numbers, key=lambda text: float(text.replace(",", "")))
        return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"
    return "; ".join(different) if len(different) == 2 else f"{different[0]}; ..."


def _counts(found: Sequence[tuple[str, str]]) -> str:
    counts = Counter(verdict for _, verdict in found)
    if len(counts) == 1:
        return next(iter(counts))
    known = [verdict for verdict in VERDICTS if verdict in counts]
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in [*known, *(v for v in counts if v not in VERDICTS)])
