"""The README's numbers are on the pages that it names, and its commands and the citation are complete."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    return lost


def test_numbers_are_on_the_pages_that_the_readme_names() -> None:
    text = README.read_text(encoding="utf-8")
    assert sum(len(row.in_section) for row in table_of(text)) >= 12
    assert missing(text) == []


def test_a_number_missing_from_its_page_is_found() -> None:
    text = README.read_text(encoding="utf-8")
    for number, other in (("-60.7 ± 7.1", "-60.7 ± 7.2"), ("-53.2", "-53.3"), ("load 0.94", "load 0.9417")):
        assert missing(text.replace(number, other)) == [other.removeprefix("load ")]


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
    assert (keys["version"].strip(), keys["license"].strip()) == (project["version"], project["license"])
    assert text.count("  - type: article\n") == text.count("    title: ") == text.count("    authors:\n")
