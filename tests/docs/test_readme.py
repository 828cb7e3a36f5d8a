"""The README's numbers are on the pages that it names, and its commands and the citation are complete."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.index_page import absolute
from tests.docs.test_links import anchors
from tests.processes import ROOT

README = ROOT / "README.md"
MOST_LINES = 10  # lines up to the commands to start with, without blank ones
_PLAIN = r"[+-]?\d[\d,]*(?:\.\d+)?"
_NUMBER = re.compile(rf"{_PLAIN}(?: ± \d+(?:\.\d+)?| \({_PLAIN} to {_PLAIN}\))?")  # with its interval


class Row(NamedTuple):
    """A row of the README's table: numbers that must stand in cells of the named section, and those that its page must have."""

    in_section: list[str]
    on_page: list[str]
    page: Path
    anchor: str


def table_of(text: str) -> Iterator[Row]:
    """Yield the rows of the README's table."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        link = re.fullmatch(r"\[[^\]]+\]\(([^)#]+)#([^)]+)\)", cells[-1])
        if line.startswith("|") and link is not None:
            workload, measured, published = cells[1], cells[3], cells[4]
            figures = [figure for cell in (measured, published) for figure in _NUMBER.findall(cell)]
            loads = [load for load in _NUMBER.findall(workload) if "." in load]
            yield Row(figures, loads, ROOT / link[1], link[2])


def conditions_of(text: str) -> Iterator[Row]:
    """Yield the numbers with a point of each item that ends with a link; they stand somewhere in the section that it names."""
    for item in re.split(r"\n- ", text.partition("Read these figures with their conditions")[2].partition("\n## ")[0]):
        words = " ".join(item.split())
        link = re.search(r"\(\[[^\]]+\]\(([^)#]+)#([^)]+)\)\)\.$", words)
        if link is not None:
            figures = [each for each in _NUMBER.findall(words[: link.start()]) if "." in each]
            yield Row(figures, [], ROOT / link[1], link[2])


def section(page: str, anchor: str) -> str:
    """Return the text below the heading with this anchor, up to the next heading of its level or above."""
    lines = page.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("#") and anchor in anchors(line):
            depth = len(line) - len(line.lstrip("#"))
            end = next((i for i in range(place + 1, len(lines)) if re.match(rf"#{{1,{depth}}} ", lines[i])), len(lines))
            return "\n".join(lines[place:end])
    raise AssertionError(f"no heading #{anchor}")


def missing(readme: str) -> list[str]:
    """Return the numbers of the README's table that are missing in the named sections and pages."""
    lost = []
    for row in table_of(readme):
        page = row.page.read_text(encoding="utf-8")
        pages = page
        if row.page.parent.name == "appendix":  # the page has the conditions of its rows
            pages += (row.page.parents[1] / row.page.name).read_text(encoding="utf-8")
        cells = {cell.strip() for line in section(page, row.anchor).splitlines() for cell in line.split("|")}
        lost += [figure for figure in row.in_section if figure not in cells]
        lost += [load for load in row.on_page if not re.search(rf"(?<![\d.]){re.escape(load)}(?![\d.])", pages)]
    for row in conditions_of(readme):
        words = " ".join(section(row.page.read_text(encoding="utf-8"), row.anchor).split())
        lost += [
            figure for figure in row.in_section if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", words)
        ]
    return lost


def test_numbers_are_on_the_pages_that_the_readme_names() -> None:
    text = README.read_text(encoding="utf-8")
    assert sum(len(row.in_section) for row in table_of(text)) >= 12
    assert missing(text) == []


def test_a_number_missing_from_its_page_is_found() -> None:
    text = README.read_text(encoding="utf-8")
    figures = [figure for row in (*table_of(text), *conditions_of(text)) for figure in row.in_section]
    with_intervals = [figure for figure in figures if " to " in figure or "±" in figure]
    assert len(with_intervals) >= 8
    for figure in with_intervals:
        other = re.sub(r"\d(?=\)?$)", lambda last: str((int(last[0]) + 1) % 10), figure)
        pattern = re.escape(figure).replace(r"\ ", r"\s+")  # a line may end within it
        assert missing(re.sub(pattern, other, text)) == [other]
    assert missing(re.sub(r"load 0\.\d+", "load 0.9417", text, count=1)) == ["0.9417"]


def test_the_start_is_short_and_its_commands_exist() -> None:
    start = README.read_text(encoding="utf-8").partition("./scripts/test ")[0]
    assert len([line for line in start.splitlines() if line]) <= MOST_LINES
    assert "./scripts/demo " in start
    assert (ROOT / "scripts" / "demo").exists()


def test_the_citation_has_what_its_format_needs() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    keys = dict(re.findall(r"^([a-z-]+):(.*)$", text, re.MULTILINE))
    assert {"cff-version", "message", "title", "authors", "type", "version", "license", "references"} <= keys.keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = re.findall(
        r"^  - ([A-Z][\w.-]+)$", text.partition("\nlicense:\n")[2].partition("\nkeywords:")[0], re.MULTILINE
    )
    assert (keys["version"].strip(), " AND ".join(licences)) == (project["version"], project["license"])
    assert text.count("  - type: article\n") == text.count("    title: ") == text.count("    authors:\n")


def test_a_package_index_gets_no_link_that_leads_nowhere() -> None:
    text = "a [link](docs/x.md#y), [one\nmore](z.md), [out](https://example.org)\n![picture](docs/p.png)\nend"
    assert absolute(text, "", "") == "a link, one\nmore, [out](https://example.org)\nend"
    found = absolute(text, "https://host/files/", "https://host/raw/")
    assert "[link](https://host/files/docs/x.md#y), [one\nmore](https://host/files/z.md)" in found
    assert "![picture](https://host/raw/docs/p.png)\n" in found
    page = absolute(README.read_text(encoding="utf-8"), "", "")
    assert re.findall(r"\]\((?![a-z]+:)[^)]*\)", page) == []
    assert "[tutorial]" not in page
