"""The proof that the tests catch defects, on a tiny project with a test of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.proofs import defects
from scripts.proofs.defects import DEFECTS, Defect, StaleError, attempt, in_order, occurrences
from tests.processes import ROOT

QUICK = ("-p", "xdist", "-n", "0")
FEWER = Defect("fewer", "one less", "sums.py", "a + b", "a + b - 1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one function and its test, which loads none of the plug-ins that pytest finds."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[build-system]\n[tool.pytest.ini_options]\npythonpath = ["."]\n')
    (folder / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    (folder / "test_sums.py").write_text("from sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "arguments", "result"),
    [("[a for a in iter(int, 1)]", (), "late"), ("a + b - 1", ("--no-such-option",), "failed")],
)
def test_a_defect_is_not_caught(new: str, arguments: tuple[str, ...], result: str, project: Path) -> None:
    deadline_s = 2.0 if result == "late" else 60.0
    outcome = attempt(FEWER._replace(new=new), (*QUICK, *arguments), deadline_s, project)
    assert (outcome.result, outcome.as_wanted) == (result, False)


def test_a_defect_that_does_not_fit_is_refused(project: Path) -> None:
    assert occurrences(FEWER, project) == 1
    assert occurrences(FEWER._replace(file="missing.py"), project) == 0
    with pytest.raises(StaleError, match="is found 2 times in sums"):
        attempt(FEWER._replace(old=" b"), QUICK, 60, project)


def test_the_command_tries_all(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    same = FEWER._replace(name="same", new="b + a")
    monkeypatch.setattr(defects, "DEFECTS", (FEWER, same))
    figures = project.parent / "figures.json"
    assert defects.main(["--json", str(figures), "--", *QUICK], project) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "none: passed",
        "fewer: caught",
        "same: passed",
        "1 of 2 defects caught",
    ]
    rows = json.loads(figures.read_text())
    assert [row["result"] for row in rows] == ["passed", "caught", "passed"]
    assert rows[1]["test"] == "test_sums.py::test_add"
    assert "a + b\n" in (project / "sums.py").read_text()  # the project itself stays as it is
    monkeypatch.setattr(defects, "DEFECTS", (FEWER._replace(old="gone"),))
    assert defects.main([], project) == 2
    assert defects.main(["--list"], project) == 0
    assert "| fewer  | **stale** | one less" in capsys.readouterr().out


def test_defects_have_distinct_names_and_change_the_code() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) == 24
    assert all(defect.old != defect.new for defect in DEFECTS)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a copy of the project to which a defect has been applied")
def test_the_old_text_of_every_defect_occurs_once() -> None:
    assert [defect.name for defect in DEFECTS if occurrences(defect, ROOT) != 1] == []


def test_tests_beside_the_changed_file_are_first(project: Path) -> None:
    assert in_order(FEWER, ROOT) == ("tests",)
    for name in ("early", "late"):
        (project / "tests" / name).mkdir(parents=True)
        (project / "tests" / name / f"test_{name}.py").write_text("def test_it():\n    pass\n")
    words = in_order(FEWER._replace(file="late/cosched_late/inner/sums.py"), project)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words]
    found = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [line for line in found.splitlines() if "::" in line] == [
        f"tests/{name}/test_{name}.py::test_it" for name in ("late", "early", "late")
    ]
