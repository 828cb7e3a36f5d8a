"""The pages of results: a verdict table made from the rows of the appendix, a row for each claim, and no page too long to be read."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from scripts.papers.figures import Figures
from scripts.papers.lists import LISTS
from scripts.papers.reproduce import PAPERS, paper_of
from scripts.papers.study import Size
from scripts.tables import wrapped, write_tables
from scripts.verdicts import FOLDER, claims_in, outcome_lines, verdict_lines, write_results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
MOST_WORDS = 3_000
BODY = [
    "## The claims: waits",
    "",
    "| id | claim |  | published | measured | seeds | p | verdict |",
    "|---|---|---|---|---|---|---|---|",
    "| C1 | mean wait, A, below 1 | X1 | helps | 0.50 (0.40 to 0.60) | 3 | .04 | yes |",
    "| C1 | mean wait, B, below 1 | X1 | helps | 1.20 (0.90 to 1.50) | 3 | .3 | not shown |",
    "| - | kills: A / B, within a quarter | W1 | 2 | 1,900 (1,800 to 2,000) | 3 | - | **no** |",
    "",
    "| two tries | | published | one try | verdict | all tried | verdict | seeds |",
    "|---|---|---|---|---|---|---|---|",
    "| no claim | | 1 | 2 | yes | 3 | yes | 3 |",
]


def test_rows_of_one_claim_are_one_row_with_the_range_and_the_counts() -> None:
    assert list(verdict_lines(BODY, "appendix/x.md"))[4:] == [
        "| C1: mean wait, below 1 | helps | 0.50 to 1.20 | 1 yes, 1 not shown | [2](appendix/x.md#the-claims-waits) |",
        "| kills: A / B, within a quarter | 2 | 1,900 (1,800 to 2,000) | **no** | [1](appendix/x.md#the-claims-waits) |",
        "",
    ]


def test_bounds_of_one_figure_are_one_row() -> None:
    body = [
        "| id | claim |  | published | measured | p | verdict |",
        "|---|---|---|---|---|---|---|",
        "| - | A against B, %: lower | W1 | -30 | -20 (-30 to -10) | - | yes |",
        "| - | A against B, %: within 5 points | W1 | -30 | -20 (-30 to -10) | - | not shown |",
    ]
    told = "lower: yes, within 5 points: not shown"
    assert list(verdict_lines(body, "x.md"))[4] == f"| A against B, % | -30 | -20 (-30 to -10) | {told} | [2](x.md#) |"


def test_a_report_is_split_and_its_links_still_lead_there(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    write_tables(page, "x", "X", [])
    page.write_text(page.read_text().replace("# X\n", "# X\n\n## Conditions\n"))
    write_results(
        page, "x", "X", [*BODY, "", "[a](#the-claims-waits) [b](#conditions) ![c](x.png) [d](https://example.org)"]
    )
    rows = (tmp_path / FOLDER / "x.md").read_text()
    assert "[a](#the-claims-waits) [b](../x.md#conditions) ![c](../x.png) [d](https://example.org)" in rows
    assert "| C1 | mean wait, B, below 1 |" in rows
    assert "## Conditions" in page.read_text()
    assert "[2](appendix/x.md#the-claims-waits)" in page.read_text()


def test_a_preview_says_so_first_and_a_terminal_what_came_out(tmp_path: Path) -> None:
    write_results(tmp_path / "x.md", "x", "X", BODY, "A preview, not a result.")
    for page in (tmp_path / "x.md", tmp_path / FOLDER / "x.md"):
        assert page.read_text().split("\n\n")[2] == "**A preview, not a result.**"
    assert [*outcome_lines(BODY)] == [
        "3 rows judge a claim: 1 yes, 1 no, 1 not shown (33 %).",
        "  1 yes, 1 not shown: C1: mean wait, below 1: 0.50 to 1.20; published helps",
        "  no: kills: A / B, within a quarter: 1,900 (1,800 to 2,000); published 2",
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_of_results_can_be_read_at_one_go(paper: str) -> None:
    """The verdict table is that of the rows in the appendix, and the page has at most 3,000 words."""
    page = (RESULTS / f"{paper}.md").read_text(encoding="utf-8")
    assert len(page.split()) <= MOST_WORDS
    begin, end = f"<!-- tables: written by scripts/reproduce {paper} -->", "<!-- end of tables -->"
    rows = (RESULTS / FOLDER / f"{paper}.md").read_text(encoding="utf-8").split(begin)[1].split(end)[0].split("\n")
    assert len([*claims_in(rows)]) >= 10
    written = [line for line in page.split(begin)[1].split(end)[0].split("\n") if line]
    expected = [part for line in verdict_lines(rows, f"{FOLDER}/{paper}.md") for part in wrapped(line)]
    assert written == [line for line in expected if line]


def rows_of(paper: str) -> list[str]:
    return (RESULTS / FOLDER / f"{paper}.md").read_text(encoding="utf-8").split("\n")


def without_row(paper: str, rows: Sequence[str]) -> list[str]:
    have = {each for claim in claims_in(rows) for each in claim.ids.split(", ")}
    return [each for each in LISTS[paper] if each not in have]


@pytest.mark.parametrize("paper", PAPERS)
def test_each_claim_of_the_lists_has_a_row(paper: str) -> None:
    rows = rows_of(paper)
    others = rows_of("lomarc") if paper == "hardware" else []  # either page has the rows on LOMARC's measurements
    assert without_row(paper, [*rows, *others]) == []


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "hardware"])
def test_a_report_without_runs_has_a_row_for_each_claim(name: str) -> None:
    paper = paper_of(name)
    assert without_row(paper.name, paper.report(Figures([], paper.usual), Size(paper.jobs, paper.seeds))) == []


@pytest.mark.parametrize("name", ["coscheduling", "symbiosis", "guests", "gpus"])
def test_a_picture_without_runs_is_left_out(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paper = paper_of(name)
    assert paper.draw(Figures([], paper.usual), tmp_path) == []


@pytest.mark.parametrize("paper", PAPERS)
def test_no_verdict_stands_without_an_interval(paper: str) -> None:
    """A verdict that runs decide has a p, which only an interval gives; its row says how many seeds would decide it."""
    rows = rows_of(paper)
    words = ("yes", "**no**", "yes (Holm)", "**no** (Holm)")
    assert [claim.text for claim in claims_in(rows) if claim.verdict in words and claim.p is None] == []
    cells = [line.strip("| ").split(" | ") for line in rows if line.endswith("| not shown |")]
    assert [row for row in cells if row[-2] == "-"] == []


SHARED: Final = Path(os.environ.get("COSCHED_SHARED") or ROOT.parent / "shared") / "claims"
IN_THE_LIST_OF: Final = {"hardware": "lomarc"}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_ids_are_those_of_the_lists_of_claims(paper: str) -> None:
    file = SHARED / f"{IN_THE_LIST_OF.get(paper, paper)}.md"
    if not file.exists():
        pytest.skip("the lists of claims are not on this machine")
    letters = {each[0] for each in LISTS[paper]}
    listed = re.findall(r"^\| ([A-Z]\d+) \|", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert [each for each in listed if each[0] in letters] == sorted(LISTS[paper], key=listed.index)
