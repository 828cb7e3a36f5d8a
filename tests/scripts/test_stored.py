"""Runs that are stored in the repository: another machine repeats none of them, and writes the same page from them."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.papers import study as command
from scripts.papers.claims import Band, claims_table
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.lomarc.experiment import M1
from scripts.papers.lomarc.published import RESPONSE
from scripts.papers.reproduce import PAPERS, paper_of
from scripts.papers.rows import judged
from scripts.papers.stored import STORED, ReadRow, StoredRun, kept, read_stored, totals, write_stored
from scripts.papers.study import Paper, Size
from scripts.verdicts import write_results
from tests.processes import ROOT

from cosched_emulator.studies.cells import key_of, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import series_of

JOBS: Final = 12
EASY, FCFS = Where("", "easy"), Where("", "fcfs")


def experiment(size: Size, _traces: Path) -> Mapping[str, Any]:
    return {
        "scenario": {"cluster": {"nodes": 8}, "workload": {"lublin": size.jobs}},
        "policies": ["fcfs", "easy"],
        "seeds": [*range(1, size.seeds + 1)],
        "baseline": {"policy": "fcfs", "shakes": 1},
    }


def report(figures: Figures, _size: Size) -> list[str]:
    found = figures.ratio("all_response_s_mean", EASY, FCFS)
    later = figures.mean("harm_hshk", EASY)
    claims = [
        judged("C1: response", "w", "less", found, Band.below(1.0), interval_text),
        judged("C2: later", "w", "none", later, Band.below(0.1), interval_text),
    ]
    return ["## Claims", "", *claims_table(claims)]


PAPER = Paper(
    "tiny", "Tiny", "", "", JOBS, 6, 3, experiment, {}, report, lambda _figures, folder: [folder / "none.png"]
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what makes the reproduction with a store of a name, and returns what it says."""
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.setattr(command, "PROJECT", tmp_path)

    def call(store: str, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["reproduce", "--workers", "1", "--store", str(tmp_path / store), *options])
        command.reproduce(PAPER)
        said = capsys.readouterr()
        return said.err + said.out

    return call


def pages(folder: Path) -> list[str]:
    results = folder / "docs" / "results"
    return [(results / name).read_text(encoding="utf-8") for name in ("tiny.md", "appendix/tiny.md")]


def test_a_new_machine_repeats_nothing_and_writes_the_same_page(run: Callable[..., str], tmp_path: Path) -> None:
    said = run("first")
    assert said.startswith("9 runs, 0 of them done before")  # three of them shaken, only for comparisons
    written = pages(tmp_path)
    assert "| C1 | response |" in written[1]
    file = tmp_path / STORED / "tiny.jsonl.gz"
    assert "| `tiny` |" in (tmp_path / "docs" / "reproducing.md").read_text(encoding="utf-8")
    content = file.read_bytes()
    for options in ((), ("--report-only",)):
        for page in (tmp_path / "docs" / "results").glob("**/*.md"):
            page.unlink()
        run("second", *options)
        assert not (tmp_path / "second").exists()
        assert pages(tmp_path) == written
        assert file.read_bytes() == content


def test_runs_of_more_seeds_stay_stored(run: Callable[..., str], tmp_path: Path) -> None:
    run("first")
    all_seeds = read_stored("tiny", tmp_path / STORED)
    assert run("second", "--seeds", "1").startswith("3 runs, 3 of them done before")
    assert read_stored("tiny", tmp_path / STORED) == all_seeds
    assert run("second", "--seeds", "4").startswith("12 runs, 9 of them done before")
    assert len(read_stored("tiny", tmp_path / STORED)) == 8


def test_a_run_whose_comparison_is_missing_is_made_again_with_its_baselines(
    run: Callable[..., str], tmp_path: Path
) -> None:
    run("first")
    known = read_stored("tiny", tmp_path / STORED)
    first = next(found for found in known.values() if found.row["policy"] == "easy")
    less = first._replace(row={name: value for name, value in first.row.items() if not name.startswith("harm")})
    write_stored("tiny", [*({**known, first.key: less}).values()], tmp_path / STORED)
    assert run("second").startswith("9 runs, 6 of them done before")
    assert read_stored("tiny", tmp_path / STORED).keys() == known.keys()
    assert read_stored("tiny", tmp_path / STORED)[first.key].row == first.row


def test_a_preview_is_not_stored(run: Callable[..., str], tmp_path: Path) -> None:
    run("first", "--quick", "--seeds", "1")
    assert not (tmp_path / STORED).exists()
    with pytest.raises(SystemExit, match="no runs in"):
        run("second", "--quick", "--report-only")


def test_what_a_page_reads_is_stored_and_long_texts_only_where_they_are_read() -> None:
    row = ReadRow(
        {"seed": "1", "x_max": 1.23456789, "y": 2, "z_max": 3.0, "curve": [0.1234567], "scenario": "{}", "no": None}
    )
    row["x_max"], row["curve"]
    assert kept(row, {"x_max", "curve"}) == {"x_max": 1.23457, "y": 2, "curve": [0.123457]}
    other = ReadRow({"x_max": 5.0, "curve": [1.0], "scenario": "{}"})
    assert kept(other, {"x_max", "curve"}) == {"x_max": 5.0}


def stored_rows(name: str) -> tuple[Paper, list[dict[str, Any]]]:
    """Return a paper and its runs as the repository has them."""
    paper = paper_of(name)
    return paper, [run.row for run in read_stored(paper.name, ROOT / STORED).values()]


def stored_figures(name: str) -> tuple[Paper, Figures]:
    paper, rows = stored_rows(name)
    return paper, Figures(series_of(rows), paper.usual)


def assert_rectangles(lines: list[str]) -> None:
    """Assert that the rows of each table have as many cells."""
    for before, line in pairwise(lines):
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


@pytest.mark.parametrize("name", PAPERS)
def test_no_stored_run_names_a_file_of_the_machine_that_made_it(name: str) -> None:
    """A page that reads such a file comes out otherwise where it is not, and is then no page of the stored runs."""
    _, rows = stored_rows(name)
    named = re.compile(r'(^|["\s])/\w')
    assert {name for row in rows for name, it in row.items() if isinstance(it, str) and named.search(it)} == set()


# A page on hardware is a minute's work: it fits a model to LOMARC's tables.
DRAWN: Final = [pytest.param(name, marks=pytest.mark.slow) if name == "hardware" else name for name in PAPERS]


@pytest.mark.parametrize("name", DRAWN)
def test_a_page_of_few_runs_or_of_none_is_written_too(name: str) -> None:
    paper, rows = stored_rows(name)
    for some in (rows[:: 1 + len(rows) // 40], []):
        assert_rectangles(paper.report(Figures(series_of(some), paper.usual), Size(paper.jobs, paper.seeds)))


@pytest.mark.parametrize("name", DRAWN)
def test_pages_say_what_the_stored_runs_give(name: str, tmp_path: Path) -> None:
    """The README's figures are those of the pages (`tests/docs/test_readme.py`), and these are those of the runs."""
    paper, figures = stored_figures(name)
    results = ROOT / "docs" / "results"
    names = (f"{paper.name}.md", f"appendix/{paper.name}.md")
    (tmp_path / "appendix").mkdir()
    for each in names:
        shutil.copy(results / each, tmp_path / each)
    body = paper.report(figures, Size(paper.jobs, paper.seeds))
    assert_rectangles(body)
    write_results(tmp_path / names[0], paper.name, paper.title, body)
    for each in names:
        assert (tmp_path / each).read_text(encoding="utf-8") == (results / each).read_text(encoding="utf-8")


def test_the_page_on_reproducing_tells_what_is_stored() -> None:
    text = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    begin, end = "<!-- tables: written by scripts/reproduce all -->", "<!-- end of tables -->"
    assert text.split(begin)[1].split(end)[0] == "\n\n" + "\n".join(totals(ROOT / STORED))


def test_no_interval_in_the_readmes_picture_includes_1_for_what_it_claims() -> None:
    assert "](docs/results/lomarc.png)" in (ROOT / "README.md").read_text(encoding="utf-8")
    figures = stored_figures("lomarc")[1]
    for workload in M1:
        ratio = figures.ratio(RESPONSE, Where(workload, "L-R"), Where(workload, "PSS"))
        assert ratio is not None
        assert ratio.high < 1, workload


@pytest.mark.parametrize("name", PAPERS)
def test_stored_runs_are_those_of_the_experiment_as_it_is(name: str) -> None:
    """A changed scenario, policy or measure has another key: its old figures must not stay on a page."""
    paper, _ = stored_figures(name)
    known = read_stored(paper.name, ROOT / STORED)
    if not all((command.LOGS / file).exists() for file in paper.logs):
        pytest.skip("keys need the logs")
    try:
        plan = make_plan(read_experiment(paper.experiment(Size(paper.jobs, paper.seeds), command.LOGS)))
    except SystemExit as error:
        pytest.skip(str(error))
    fits = {cell.key for cell in plan.cells}
    for cell in plan.cells:  # those of an earlier behaviour stay until they are repeated
        older = range(cell.behaviour)
        fits |= {key_of(cell.group, cell.argument, cell.settings, each, cell.measures, cell.sources) for each in older}
    assert [run.row for key, run in known.items() if key not in fits] == []


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    file = write_stored(
        "tiny", [StoredRun("k", "1", 0.5, {"policy": "a", "seed": "1", "x": 1.5, "curve": [1, 2]})], tmp_path
    )
    assert read_stored("tiny", tmp_path)["k"].row["curve"] == [1, 2]
    assert read_stored("tiny", tmp_path)["k"].row["x"] == 1.5
    for content in (b"", b"no", gzip.compress(b"{}"), file.read_bytes()[:-9]):
        file.write_bytes(content)
        with pytest.raises(SystemExit, match=r"tiny\.jsonl\.gz is damaged"):
            read_stored("tiny", tmp_path)
