"""The results of a study: columns, intervals over seeds, harm, and what the commands print of them."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.emulator.studies.experiments import SMALL, TWO_POLICIES, toml

from cosched_emulator import simulate, study
from cosched_emulator.cli.main import cli
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.statistics.intervals import t_critical
from cosched_emulator.statistics.saturation import saturation
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cell_run import state_figures
from cosched_emulator.studies.pictures import plot_study
from cosched_emulator.studies.study_result import StudyResult, base_of, check_figure, series_of
from cosched_emulator.studies.text import losers_text

MODULE = "tests.emulator.studies.test_running"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study") / "s"


@pytest.fixture(scope="module")
def result(folder: Path) -> StudyResult:
    return study(TWO_POLICIES, folder, jobs=1)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["study", *map(str, arguments)], catch_exceptions=False)


def test_a_row_has_the_figures_of_the_run_and_where_they_come_from(result: StudyResult) -> None:
    row = next(row for row in result.rows if (row["load"], row["policy"], row["seed"]) == ("0.9", "lomarc-r", "2"))
    scenario = json.loads(row["scenario"])
    assert (scenario["seed"], scenario["workload"]["load"]) == (2, 0.9)
    settings = json.loads(row["policy_settings"])
    assert settings["matching"]["name"] == "one-to-one" or settings["matching"]
    run = simulate(scenario, "lomarc-r")
    assert row["response_s_mean"] == run.summary["finished"]["response_s"]["mean"]
    assert row["all_wait_s_p95"] == run.summary["all"]["wait_s"]["p95"]
    assert row["node_utilisation"] == run.summary["machine"]["node_utilisation"]
    assert row["states_COMPLETED"] == 30
    base = simulate({**scenario}, "pss")
    harm = run.against(base)
    assert row["harm_h1"] == harm.figures.h1
    assert row["harm_lost_s"] == harm.figures.lost_s
    assert row["harm_hshk"] is not None
    assert row["harm_hshk_floor"] is not None
    assert row["version"]


def test_csv_and_sqlite_hold_the_same_table(result: StudyResult, folder: Path) -> None:
    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["cell"] for row in rows] == [str(number) for number in range(1, 13)]
    with closing(sqlite3.connect(folder / "results.sqlite")) as database:
        cursor = database.execute("SELECT * FROM results")
        names = [item[0] for item in cursor.description]
        found = cursor.fetchall()
        best = database.execute(
            "SELECT policy FROM results WHERE load = '0.9' GROUP BY policy ORDER BY avg(response_s_mean)"
        ).fetchone()
    assert names == list(rows[0])
    for row, values in zip(rows, found, strict=True):
        assert [*row.values()] == ["" if value is None else str(value) for value in values]
    assert best == ("lomarc-r",)
    assert set(result.columns) == set(names)
    assert math.isnan(result.columns["harm_h1"][0])  # the baseline itself


def test_wall_times_stand_apart(folder: Path, result: StudyResult) -> None:
    assert not any(name.endswith("wall_s") or name == "total_s" for name in result.rows[0])
    with open(folder / "timings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert all(float(row["total_s"]) >= float(row["wall_s"]) > 0 for row in rows)


def series_rows(**figures: Any) -> list[dict[str, Any]]:
    """Return rows of policies ``a`` and ``b``: figures by policy, one for each seed."""
    places = {"cell": 0, **dict.fromkeys(COLUMNS.values(), "")}
    return [
        {**places, "policy": policy, "seed": str(seed), "x": value, "key": "", "version": "", "policy_settings": "", "scenario": ""}
        for policy, values in figures.items()
        for seed, value in enumerate(values, 1)
    ]  # fmt: skip


def test_intervals_are_over_seeds_and_changes_are_paired() -> None:
    rows = series_rows(a=[10.0, 20.0, 40.0], b=[5.0, 10.0, 20.0])
    a, b = series_of(rows)
    found = a.interval("x")
    assert found is not None
    assert found.mean == pytest.approx(70 / 3)
    sd = math.sqrt(sum((value - 70 / 3) ** 2 for value in (10, 20, 40)) / 2)
    factor = math.exp(t_critical(0.95, 2) * sd / math.sqrt(3) / found.mean)
    assert (found.low, found.high) == pytest.approx((found.mean / factor, found.mean * factor))
    change = b.change("x", a)
    assert change is not None
    assert (change.mean, change.low, change.high) == pytest.approx((-50, -50, -50))  # each seed is halved
    assert base_of(b, [a, b], "a") is a
    assert not a.repeats
    assert series_of(series_rows(a=[1.0, 1.0]))[0].repeats
    assert series_of(series_rows(a=[1.0]))[0].repeats is False
    drawn = [{**row, "wait_s_mean": 3.0} for row in series_rows(a=[1.0, 2.0])]  # x is of a measure that draws
    assert series_of(drawn)[0].repeats
    drawn = [{**row, "wait_s_mean": 3.0} for row in series_rows(a=[1.0, 2.0], b=[2.0, 5.0], c=[1.0, 1.0])]
    a, b, c = series_of(drawn)
    assert [each.n for each in (b.change("x", a), b.change("x", c), b.change("wait_s_mean", a)) if each] == [2, 2, 1]


def test_seeds_that_only_one_has_do_not_count() -> None:
    a, b = series_of(series_rows(a=[10.0, 20.0, 40.0], b=[5.0, 10.0]))
    change = b.change("x", a)
    assert change is not None
    assert change.n == 2
    assert b.interval("gone") is None
    assert b.change("gone", a) is None
    zero = series_of(series_rows(a=[0.0, 1.0]))[0]
    assert b.change("x", zero) is None  # no percentage of nothing
    difference = b.difference("x", zero)
    assert difference is not None
    assert difference.mean == 7.0


def test_the_table_says_who_is_worse_off(result: StudyResult, folder: Path) -> None:
    shown = command("table", folder)
    assert shown.exit_code == 0
    assert "load=0.9 (3 seeds)" in shown.stdout
    assert "worse off than under PSS" in shown.stdout
    assert "later than all baselines (Hshk)" in shown.stdout
    assert "largest losses" in shown.stdout
    one = command("table", folder, "--figure", "wait_s_p95", "--losers", 0).stdout
    assert "wait_s_p95" in one or "wait, p95" in one
    assert "response, mean" not in one
    assert "largest losses" not in one
    found = json.loads(command("table", folder, "--figure", "response_s_mean", "--json").stdout)
    assert len(found["intervals"]) == 4
    series = next(item for item in result.series if item.policy == "lomarc-r" and item.places["load"] == "0.9")
    base = result.base(series)
    assert base is not None
    change = series.change("response_s_mean", base)
    assert change is not None
    assert found["intervals"][3]["change_percent_mean"] == change.mean
    wrong = CliRunner().invoke(cli, ["study", "table", str(folder), "--figure", "wait_mean"])
    assert "did you mean 'wait_s_mean'" in str(wrong.exception)


def test_a_row_says_what_its_means_are_worth(result: StudyResult) -> None:
    row = result.rows[0]
    run = simulate(json.loads(row["scenario"]), "pss")
    jobs = run.jobs
    area = jobs.run_s * jobs.threads
    assert row["weighted_response_s"] == pytest.approx((area * jobs.response_s).sum() / area.sum())
    assert row["saturated"] in ("yes", "no", "not shown")
    assert sum(row[f"{length}_jobs"] for length in ("short", "medium", "long")) == 30
    assert row["steady_jobs"] <= 30


def test_the_days_of_a_workload_are_as_long_as_its_load_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    days_s = []

    def noted(*columns: Any) -> Any:
        days_s.append(columns[-1])
        return saturation(*columns)

    monkeypatch.setattr("cosched_emulator.studies.cell_run.saturation", noted)
    run = simulate({"cluster": {"nodes": 8}, "workload": {"lublin": 50, "load": 0.5}}, "easy")
    state_figures(run)
    assert days_s == [run.prepared.workload.day_s] != [86_400.0]


def test_one_run_has_intervals_within_it_and_says_whether_its_queue_grows(tmp_path: Path) -> None:
    lines = [f"{job} {300 * job} 0 1000 1 -1 -1 1 1000 -1 1 1 1 -1 -1 -1 -1 -1" for job in range(1, 2001)]
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 2\n" + "\n".join(lines) + "\n")  # for two processors
    table = {
        "scenario": {"workload": {"swf": str(log)}},
        "policies": ["easy", "fcfs"],
        "seeds": [1, 2],
        "loads": [0.5, 1.5],
    }
    result = study({**table, "exclude": [{"loads": [0.5], "seeds": [2]}]}, tmp_path / "s", jobs=1)
    assert [row["saturated"] for row in result.rows] == ["no", "no", "yes", "yes", "yes", "yes"]
    twice = result.series[2]
    assert twice.repeats
    one, change = twice.interval("makespan_s"), result.series[3].change("wait_s_mean", twice)
    assert one is not None
    assert change is not None
    assert (one.n, one.exists, change.n, change.exists) == (1, False, 1, False)  # the same runs, twice
    interval = result.within(twice, "wait_s_mean")
    assert interval is not None
    assert interval.mean == pytest.approx(result.rows[2]["wait_s_mean"])
    assert result.within(twice, "makespan_s") is None
    shown = command("table", tmp_path / "s").stdout
    assert "saturated runs" in shown
    assert "2 of 2" in shown
    assert "its means say how long the run was" in shown
    assert "this workload draws nothing" in shown


def test_the_commands_of_a_small_study(tmp_path: Path) -> None:
    file, out = tmp_path / "e.toml", tmp_path / "s"
    sites = [{"name": "8", "cluster": {"nodes": 8}}, {"name": "9", "cluster": {"nodes": 9}}]
    policy = {"name": "S", "policy": f"{MODULE}:Sometimes", "set": {"otherwise": "raise"}}
    file.write_text(toml({"title": "two", "scenario": SMALL, "policies": ["easy", policy], "hardware": sites}))
    listed = command("run", file, "--out", out, "--dry-run")
    assert "     4  hardware=9 policy=S" in listed.stdout
    assert not out.exists()
    ran = command("run", file, "--out", out, "--jobs", 1)
    assert ran.exit_code == 1
    assert "4 runs: 0 done before, 3 made" in ran.stdout
    assert "1 failed" in ran.stdout
    assert "failed: cell 4 (hardware=9 policy=S): the policy failed: RuntimeError: no idea at all" in ran.stderr
    assert f"to repeat it: cosched-emulator study run {file} --out {out} --cell 4" in ran.stderr
    assert "Traceback" not in ran.stderr
    repeated = command("run", file, "--out", out, "--cell", 4)
    assert "Traceback" in repeated.stderr
    assert command("run", file, "--out", out, "--json").exit_code == 1
    state = command("status", out).stdout
    assert state.splitlines()[:3] == ["two", "3 of 4 cells done, 0 of 0 runs of baselines, 1 failed", "not running"]
    assert json.loads(command("status", out, "--json").stdout)["failed_cells"] == [4]
    assert "1 of 4 cells are not done" in command("table", out).stderr


def test_what_is_wrong_for_all_runs_is_told_once_and_nothing_runs(tmp_path: Path) -> None:
    file, out = tmp_path / "e.toml", tmp_path / "s"
    table = {"policies": ["easy", "fcfs"], "seeds": [1, 2], "loads": [0.5, 0.8]}
    for workload, expected in (
        (
            {"lublin": 12, "estimates": "exakt"},
            "workload.estimates: expected one of day, exact, f-model, halfway, predicted, got",
        ),
        ({"lublin": 12, "mix": "hi"}, "mix: expected one of"),
        ({"swf": str(file)}, "e.toml:1: expected 18 fields"),
    ):
        file.write_text(toml({**table, "scenario": {"cluster": {"nodes": 8}, "workload": workload}}))
        ran = CliRunner().invoke(cli, ["study", "run", str(file), "--out", str(out)])
        assert expected in str(ran.exception)
        assert not list(out.glob("cells/*"))
        assert not (out / "failures.json").exists()


def test_runs_that_fail_alike_are_told_once(tmp_path: Path) -> None:
    file, out = tmp_path / "e.toml", tmp_path / "s"
    policy = {"name": "S", "policy": f"{MODULE}:Sometimes", "set": {"otherwise": "raise"}}
    scenario = {"cluster": {"nodes": 9}, "workload": {"lublin": 12}}
    file.write_text(toml({"scenario": scenario, "policies": ["easy", policy], "seeds": [1, 2, 3]}))
    ran = command("run", file, "--out", out)
    text = "failed: cell 4{}, and 2 more alike, cells 4-6: the policy failed: RuntimeError: no idea at all"
    assert ran.stderr.startswith(text.format(" (policy=S seed=1)"))
    assert ran.stderr.count("to repeat it") == 1
    (told,) = command("status", out).stdout.splitlines()[2:]
    assert told.startswith(text.format(""))


@pytest.mark.parametrize(
    "more", [(), ("--change",), ("--levels",), ("--x", "policy"), ("--x", "load", "--figure", "harm_h1")]
)
def test_pictures_show_intervals(result: StudyResult, folder: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "p.svg"
    shown = CliRunner().invoke(cli, ["study", "plot", str(folder), "--out", str(file), *more])
    if "policy" in more:
        assert shown.exit_code == 2
        return
    assert shown.exit_code == 0, shown.output
    text = file.read_text()
    assert "lomarc-r" in text
    changes = "paired by seed" in text
    assert changes == (more in ((), ("--change",)))  # harm has no change
    assert ("PSS" in text) or not changes


def test_names_with_dollars_and_underscores_are_drawn_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    policies = [{"name": "_one", "policy": "easy"}, {"name": "$x^{$", "policy": "fcfs"}]
    result = study({"title": "$y^{$", "scenario": SMALL, "policies": policies}, tmp_path / "s", jobs=1)
    plot_study(tmp_path / "p.svg", result, "response_s_mean")
    text = (tmp_path / "p.svg").read_text()
    assert all(f"<!-- {name} -->" in text or f">{name}<" in text for name in ("$y^{$", "$x^{$", " _one"))


def test_a_baseline_that_fails_is_told_where_the_losers_would_stand(tmp_path: Path) -> None:
    bad = {"name": "B", "policy": f"{MODULE}:Sometimes", "set": {"otherwise": "raise"}}
    table = {
        "scenario": {**SMALL, "cluster": {"nodes": 9}},
        "policies": [bad, "easy"],
        "baseline": {"policy": "B", "shakes": 0},
    }
    result = study(table, tmp_path / "s", jobs=1)
    assert result.harm.missing == (2,)
    note = "note: who is worse off in 1 cells is not known: runs of the baseline are not done\n"
    assert losers_text(result) == note
    assert command("table", tmp_path / "s").stdout.endswith(note)
    with pytest.raises(
        ConfigurationError, match=r"--change: expected a figure above 0 that the baseline B has, too, got"
    ):
        plot_study(tmp_path / "p.svg", result, "response_s_mean", change=True)
    with pytest.raises(ConfigurationError, match="that holds numbers, got 'wait_mean'; did you mean 'wait_s_mean'"):
        check_figure("wait_mean", result.rows)
