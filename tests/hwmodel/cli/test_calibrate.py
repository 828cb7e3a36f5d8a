"""The command ``calibrate``, and ``predict`` from a table of co-runs."""

from __future__ import annotations

import json
import os

import pytest
from tests.commands import Commands, assert_one_line

from cosched_hwmodel.cli.predicting.job_words import read_profiles
from cosched_hwmodel.cli.predicting.table_fits import places_on
from cosched_hwmodel.composite.calibration.pair_fit import fit_composite
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.measured.co_run_table import CoRunTable, read_table
from cosched_hwmodel.topology import Cache, NodeShape

NAMES = [f"app{number}" for number in range(7)]
GAPS = {("app1", "app2"), ("app5", "app0")}


def true_ratio(row: str, column: str) -> float:
    """Return level + sensitivity x intensity."""
    a, b = NAMES.index(row), NAMES.index(column)
    return 0.9 + 0.02 * a + (0.03 + 0.01 * a) * (b - 3)


@pytest.fixture
def table(commands: Commands) -> Commands:
    pairs = [(row, column) for row in NAMES for column in NAMES if (row, column) not in GAPS]
    lines = ["row,column,ratio", *[f"{row},{column},{true_ratio(row, column):.6f}" for row, column in pairs]]
    (commands.folder / "table.csv").write_text("\n".join(lines) + "\n")
    (commands.folder / "bad.csv").write_text("row,column,ratio\napp0,app1,slow\n")
    (commands.folder / "few.csv").write_text("row,column,ratio\na,a,1.1\na,b,1.3\nb,a,1.0\n")
    return commands


def test_unmeasured_pairs_are_predicted_with_intervals(table: Commands) -> None:
    ran = table.hwmodel("calibrate", "table.csv", "--method", "bilinear", "--json", "--out", "full.csv")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["error"]["pairs"] == 47
    assert found["error"]["mean"] < 0.005
    assert [each["name"] for each in found["applications"]] == NAMES
    intensities = [each["intensity"] for each in found["applications"]]
    assert intensities == sorted(intensities)
    missing = {(pair["row"], pair["column"]): pair for pair in found["pairs"] if not pair["measured"]}
    assert set(missing) == GAPS
    for pair, predicted in missing.items():
        assert predicted["ratio"] == pytest.approx(true_ratio(*pair), abs=0.01)
        assert predicted["low"] < true_ratio(*pair) < predicted["high"]
    full = read_table(table.folder / "full.csv")
    assert len(full.ratios) == 49
    assert full.ratios["app1", "app2"] == pytest.approx(missing["app1", "app2"]["ratio"])
    assert full.ratios["app0", "app0"] == pytest.approx(true_ratio("app0", "app0"), abs=1e-6)


def test_the_report_names_the_error_and_the_gaps(table: Commands) -> None:
    ran = table.hwmodel("calibrate", "table.csv", "--method", "bilinear")
    lines = ran.out.splitlines()
    assert lines[0] == "table.csv: 7 applications, 47 of 49 pairs measured"
    assert lines[1].startswith("Method bilinear; error by cross-validation, of 47 pairs predicted without them: 0.00")
    assert [line.split()[:2] for line in lines if line.endswith("predicted")] == [["app1", "app2"], ["app5", "app0"]]
    doubt = "7 applications are too few for these intervals, which promise 90%"
    assert lines[-1].startswith(doubt)  # of so few applications intervals held as few as 29 % of the pairs
    assert json.loads(table.hwmodel("calibrate", "table.csv", "--json").out)["doubt"].startswith(doubt)
    few = table.hwmodel("calibrate", "few.csv")
    assert "too few pairs to tell its error" in few.out
    assert few.code == 0


def test_the_composite_model_is_fitted_to_ratios_that_it_gave(table: Commands) -> None:
    node = NodeShape("n", 1, 4, 65536, caches=(Cache(3, 16384, 4, miss_ns=80),), memory_bandwidth_mbs=40000)
    profiles = {
        f"app{number}": Profile(
            memory_mbs=3500 * number,
            exposed_ppm=1_000_000 - 100_000 * number,
            working_set_kb=1800 * number,
            accesses_ms=1500,
        )
        for number in range(1, 9)
    }
    model, places = CompositeModel(), places_on(node, None)
    ratios = {
        (row, column): 0.9
        + 0.9
        * model.penalties(node, [Placed(profiles[row], 2, places.row), Placed(profiles[column], 2, places.column)])[0]
        for row in profiles
        for column in profiles
    }
    assert max(ratios.values()) > 1.3
    measured = {pair: ratio for pair, ratio in ratios.items() if pair != ("app4", "app3")}
    fit = fit_composite(CoRunTable(tuple(profiles), measured), places)
    found = {(each.row, each.column): each for each in fit.predictions()}
    gap = found["app4", "app3"]
    assert not gap.measured
    assert gap.ratio == pytest.approx(ratios["app4", "app3"], abs=0.1)
    assert gap.low < ratios["app4", "app3"] < gap.high
    assert fit.errors is not None
    assert fit.errors.pairs == 63
    spread = sum(abs(ratio - sum(measured.values()) / 63) for ratio in measured.values()) / 63
    assert fit.errors.mean < spread / 2  # half the error of predicting the mean for all


def test_fitted_demands_are_profiles(table: Commands) -> None:
    arguments = ("calibrate", "few.csv", "--method", "composite", "--node", "two-socket-2x32")
    ran = table.hwmodel(*arguments, "--out", "fitted.toml", "--seat", "L3", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["error"] is None
    assert [(pair["low"], pair["measured"]) for pair in found["pairs"]] == [(None, True)] * 3 + [(None, False)]
    assert list(read_profiles(str(table.folder / "fitted.toml"))) == ["a", "b"]
    assert "unknown" in table.hwmodel(*arguments).out


def test_predict_from_a_table_tells_measured_from_predicted(table: Commands) -> None:
    ran = table.hwmodel("predict", "--pairs", "table.csv", "app1", "app2", "--method", "bilinear")
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()[2:4]]
    assert ran.out.splitlines()[-1].startswith("7 applications are too few for these intervals")
    assert [(row[0], row[1], row[-1]) for row in rows] == [("app1", "app2", "predicted"), ("app2", "app1", "measured")]
    assert float(rows[1][2]) == pytest.approx(true_ratio("app2", "app1"), abs=5e-4)
    twice = table.hwmodel("predict", "--pairs", "table.csv", "app3", "app3", "--json")
    assert [(pair["row"], pair["column"]) for pair in json.loads(twice.out)] == [("app3", "app3")]


def test_a_pair_that_cannot_be_together_is_never_in_both_orders(table: Commands) -> None:
    """It has a ratio in one order, as where the rule was added to a measured table."""
    (table.folder / "never.csv").write_text("row,column,ratio\na,a,1.2\na,b,never\nb,a,1.3\nb,b,1.4\n")
    ran = table.hwmodel("predict", "--pairs", "never.csv", "a", "b")
    assert [line.split()[:3] for line in ran.out.splitlines()[2:]] == [["a", "b", "never"], ["b", "a", "never"]]
    told = json.loads(table.hwmodel("predict", "--pairs", "never.csv", "a", "b", "--json").out)
    assert [(pair["ratio"], pair["measured"], pair["never"]) for pair in told] == [(None, False, True)] * 2
    head = "never.csv: 2 applications, 2 of 4 pairs measured, 2 cannot be together"
    assert table.hwmodel("calibrate", "never.csv").out.splitlines()[0] == head
    for arguments in ((), ("--method", "composite", "--node", "two-socket-2x32")):
        found = json.loads(table.hwmodel("calibrate", "never.csv", "--json", *arguments).out)
        assert [(pair["row"], pair["column"]) for pair in found["pairs"]] == [("a", "a"), ("b", "b")]
        assert found["never"] == [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("calibrate", "bad.csv"),
            "bad.csv:2: field 'ratio': expected a number from 0.01 to 1000, or never, got 'slow'",
        ),
        (("calibrate", "few.csv", "--method", "composite"), "--method composite: expected --node NODE beside it"),
        (("calibrate", "few.csv", "--node", "rua-4way"), "--node and --seat: expected --method composite beside them"),
        (
            ("calibrate", "few.csv", "--method", "composite", "--node", "rua-4way"),
            "expected an even number of cores in a socket, got 1",
        ),
        (("calibrate", "none.csv"), "none.csv: expected a readable table of co-runs, got No such file or directory"),
        (("calibrate", "table.csv", "--out", "bad.csv"), "bad.csv: expected a new file, and it exists"),
        (("calibrate", "table.csv", "--method", "linear"), "Invalid value for '--method'"),
        (("predict", "--pairs", "table.csv", "app1", "ap2"), 'table.csv: no application "ap2"; did you mean "app2"?'),
        (("predict", "--pairs", "table.csv", "app1"), "app1: expected two applications or more"),
        (
            ("predict", "--pairs", "table.csv", "app1", "app2", "--seat", "L3"),
            "--pairs: expected no --profiles, --seat",
        ),
        (("predict", "rua-4way"), "Missing argument 'JOB...'"),
    ],
)
def test_bad_input_is_one_line(table: Commands, arguments: tuple[str, ...], text: str) -> None:
    assert text in assert_one_line(table.hwmodel(*arguments), 2, "cosched-hwmodel")


def test_a_table_of_a_spreadsheet_is_read_and_a_pipe_refused(table: Commands) -> None:
    folder = table.folder
    (folder / "bom.csv").write_text((folder / "table.csv").read_text(), encoding="utf-8-sig")
    with_mark, without = (table.hwmodel("calibrate", name, "--json") for name in ("bom.csv", "table.csv"))
    assert (with_mark.code, with_mark.out) == (0, without.out)
    os.mkfifo(folder / "pipe.csv")
    text = assert_one_line(table.hwmodel("calibrate", "pipe.csv"), 2, "cosched-hwmodel")
    assert text.startswith("pipe.csv: expected a regular file")
