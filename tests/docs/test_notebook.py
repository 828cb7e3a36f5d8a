"""The shipped notebook runs from its top, in an empty folder, and each cell shows something."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.processes import ROOT

NOTEBOOK = ROOT / "docs" / "examples" / "sharing.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> object:
    """Run a cell as a notebook does: what its last line is worth is shown. None: that is no expression."""
    *lines, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        lines.append(last)
    exec(compile(ast.Module(lines, []), str(NOTEBOOK), "exec"), names)
    return (
        eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names) if isinstance(last, ast.Expr) else None
    )


@pytest.mark.slow  # what its cells call is in python.md, whose examples run
def test_the_notebook_runs_and_each_cell_shows_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    names: dict[str, Any] = {}
    first, *cells = [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    run_cell(first, names)
    shown = [run_cell(source, names) for source in cells]
    for source, value in zip(cells, shown, strict=True):
        if source.endswith(".plot()"):
            assert value._repr_png_().startswith(b"\x89PNG"), source  # type: ignore[attr-defined]
        elif not isinstance(value, str):
            assert value._repr_html_().startswith('<div class="cosched"><'), source  # type: ignore[attr-defined]
    verdict = str(names["both"].verdict)
    assert verdict.startswith("Jobs respond sooner under lomarc-r than under pss: ")
    assert verdict in names["both"]._repr_html_()
    assert f"{names['harm'].figures.later} of {names['harm'].figures.jobs} jobs" in verdict
    assert os.listdir(tmp_path / "whatif")


def test_outputs_are_not_stored() -> None:
    """They would be those of another version, and nobody reads their changes."""
    assert all(not cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"])
