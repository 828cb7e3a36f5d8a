"""The study on measured co-runs: its tables, the bound of a makespan, and a page from a small table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scripts.papers.figures import Figures
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware import predictions
from scripts.papers.hardware.bound import Application, area_s, best_pair, least_cost, least_makespan_s, totals
from scripts.papers.hardware.co_runs import ARIS, MARCONI, all_measured, mean_speedup, sub_map
from scripts.papers.hardware.report import FROM_HALVES, derive, told
from scripts.papers.stored import ReadRow, kept
from scripts.papers.study import LACKING, Size
from tests.scripts.commands import reproduce

from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.study_result import series_of
from cosched_hwmodel.measured.co_run_table import CoRunTable

NAMES = ("a", "b", "c", "d")
TABLE = CoRunTable(
    NAMES, {(one, other): 1.0 - 0.1 * i + 0.05 * j for i, one in enumerate(NAMES) for j, other in enumerate(NAMES)}
)


def test_the_least_cost_is_that_of_a_linear_program() -> None:
    draws = np.random.default_rng(3)
    for _ in range(40):
        progress = draws.uniform(0, 1, (draws.integers(4, 30), 3)) + np.eye(3)[draws.integers(0, 3)] * 0.1
        work = draws.uniform(0.1, 9, 3)
        expected = linprog(np.ones(len(progress)), A_ub=-progress.T, b_ub=-work).fun
        assert least_cost(progress, work) == pytest.approx(expected, rel=1e-6)


def test_bounds_of_one_application_by_hand() -> None:
    """Jobs of 8 processes, 1000 s in all, on 10 nodes of 4 cores: compact 2 nodes each; two of them on 4 nodes, .5 of the time."""
    table = CoRunTable(("a",), {("a", "a"): 0.5})
    work = [Application("a", 8, 1000.0)]
    assert area_s(work, 10, 4) == pytest.approx(200)
    assert least_makespan_s(work, table, 10, 4) == pytest.approx(100)
    wide = [Application("a", 24, 1000.0)]  # more than half of the machine, and too many nodes to be spread
    assert least_makespan_s(wide, table, 10, 4) == pytest.approx(1000)
    assert totals([("a", 8, 1.0), ("b", 4, 2.0), ("a", 8, 3.0)]) == [Application("a", 8, 4.0), Application("b", 4, 2.0)]


def test_sub_maps() -> None:
    assert sub_map(TABLE, mean_speedup(TABLE, NAMES)) == NAMES
    assert sub_map(TABLE, mean_speedup(TABLE, ("a", "b", "d"))) == ("a", "b", "d")
    assert sub_map(TABLE, 99) == ("b", "c", "d")  # nothing is near: the nearest
    assert best_pair(TABLE, NAMES)[:2] == ("d", "d")


def test_a_page_of_a_small_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = {"a.256": 256, "b.64": 64, "c.1024": 1024, "d.256": 256}
    rows = [f"{name},{size},{50 + size / 8}," + ",".join(["0.9"] * len(names)) for name, size in names.items()]
    (tmp_path / ARIS).write_text("app,procs,compact_s," + ",".join(names) + "\n" + "\n".join(rows) + "\n")
    speedups = {"a": 1.0, "b": 1.06, "c": 1.15, "d": 1.255}  # so that each published mean has another nearest set
    pairs = [f"{one},{other},{speedup}" for one, speedup in speedups.items() for other in NAMES]
    (tmp_path / MARCONI).write_text("row,column,speedup\n" + "\n".join(pairs) + "\n")
    store = tmp_path / "store"
    done = reproduce(
        "hardware", "--quick", "--jobs", "5", "--seeds", "1", "--traces", str(tmp_path), "--store", str(store)
    )
    assert done.code == 0, done.err
    page = (store / "appendix" / "hardware.md").read_text(encoding="utf-8")
    assert "| Table 2, mean speedup 1.12: makespan of the EASY co-scheduler against EASY, %" in page
    assert "| 64, 121, 128, 256, 484, 512, 1024 | 0.0 |" in page
    assert "| co-execution | 1.00 | 0 | 0 |" not in page  # a ratio of .9 helps every job
    assert "| d and d: 1.255 |" in page
    assert (store / "hardware.png").stat().st_size > 1000


def test_what_a_page_says_of_a_table_stays_where_the_table_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "HALVES", 1)
    file, names = tmp_path / "t.csv", [f"{number}" for number in range(8)]
    ratios = [f"{one},{other},{1 + int(one) / 50 + int(other) / 90}" for one in names for other in names]
    file.write_text("\n".join(["row,column,ratio", *ratios]), encoding="utf-8")
    scenario = {"truth": {"pairs": str(file)}, "workload": {"application_names": names[:3]}}
    place = {**dict.fromkeys(COLUMNS.values(), ""), **ex.USUAL, "workload": "Marconi 1.12", "policy": ex.EASY}
    row = ReadRow({**place, "scenario": json.dumps(scenario)})
    figures = Figures(series_of([row]), ex.USUAL)
    derive(figures, Size(1, 1))
    row.columns.clear()
    expected = {"applications": names[:3], "best_pair": ["0", "0", 1.0], "best_of_table": ["0", "0", 1.0]}
    assert {name: told(figures, "Marconi 1.12", name) for name in expected} == expected
    assert told(figures, "Marconi 1.12", "mean_speedup") == pytest.approx(0.97, abs=0.005)
    halves = told(figures, "Marconi 1.12", FROM_HALVES)
    assert max(error for found in halves.values() for error, *_ in found) < 0.05
    assert kept(row, row.columns).keys() == {*expected, "mean_speedup", FROM_HALVES}  # and no file


def test_missing_tables_are_named(tmp_path: Path) -> None:
    done = reproduce("hardware", "--quick", "--traces", str(tmp_path), "--store", str(tmp_path / "store"))
    assert done.code == LACKING
    assert f"no table {tmp_path.parent / 'contention' / ARIS}: get it from the measurements of" in done.err


def test_applications_of_which_all_pairs_were_measured() -> None:
    assert all_measured(TABLE) == [*NAMES]
    gap = CoRunTable((*NAMES, "gap"), TABLE.ratios)  # beside no other one
    assert all_measured(gap) == [*NAMES]
