"""The example of the page on nodes runs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from scripts.doc_files import write_files


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = write_files("nodeos.md", tmp_path, ".py")
    runpy.run_path(str(example))
    rows = [list(map(int, line.split())) for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows] == [[job, node] for job in (0, 1) for node in range(8)]
    assert all(row[3] == 0 for row in rows if row[0] == 1)  # the CPU time of I/O is logged to no process
