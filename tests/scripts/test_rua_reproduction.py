"""The reproduction of RUA: its experiment over windows of two logs, the readings, and the page written from the runs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from scripts.papers.figures import Where
from scripts.papers.pictures import point_at, point_of
from scripts.papers.rua import claims
from scripts.papers.rua import experiment as rua
from scripts.papers.rua.measures import figures as measure
from scripts.papers.rua.windows import WindowFigures
from scripts.papers.study import BASE, Size, scenario_of
from tests.scripts.test_reproductions import fake_figures

import cosched_emulator
from cosched_emulator import Run
from cosched_emulator.statistics.intervals import Verdict
from cosched_emulator.studies.cells import make_plan
from cosched_emulator.studies.experiment import read_experiment

MED = "CTC MED"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder with logs of a few jobs; every third one ran past its estimate."""
    rows = []
    for job in range(1, 211):
        length, size = 600 if job % 3 else 1200, 1 + 40 * (job % 7)
        rows.append(f"{job} {60 * job} -1 {length} {size} -1 -1 {size} 900 -1 1 1 1 1 1 -1 -1 -1\n")
    for file, processors in rua.LOGS.values():
        with gzip.open(tmp_path / file, "wt") as stream:
            stream.write(f"; MaxProcs: {processors}\n" + "".join(rows))
    return tmp_path


def run(logs: Path, policy: str, variant: str = BASE, workload: str = "CTC HIGH 1") -> Run:
    """Return a run of the experiment on these logs."""
    table = rua.experiment(Size(60, 1), logs)
    preset, settings = rua.POLICIES[policy]
    settings = (*settings, *(rua.READINGS[variant].settings if variant != BASE else ()))
    return cosched_emulator.simulate(scenario_of(table, workloads=workload), preset, settings=settings, seed=1)


# ---------------------------------------------------------------- the experiment


def test_windows_do_not_overlap(logs: Path) -> None:
    """Else they are no independent samples of the log; of the windows beyond three what is measured does not."""
    submitted = [[*run(logs, "FF", workload=f"CTC MED {window}").jobs.source_id] for window in rua.WINDOWS]
    assert [len(jobs) for jobs in submitted] == [60] * len(rua.WINDOWS)
    assert len({job for jobs in submitted[:3] for job in jobs}) == 180
    assert len({job for jobs in submitted for job in jobs[30:]}) == 30 * len(rua.WINDOWS)


def test_kills_beyond_the_estimate_are_told_apart(logs: Path) -> None:
    found = run(logs, "FF")
    figures = measure(found)
    assert found.summary["killed"]["count"] == figures["killed_beyond"] + figures["killed_within"]
    assert figures["killed_beyond"] > 0
    assert figures["killed_week_mean"] == figures["killed_week_p95"] == 0  # there is no whole week


def test_first_fit_that_extends_is_first_fit_but_for_the_limits(logs: Path) -> None:
    """Its control needs limits longer, and nothing else."""
    preset, settings = rua.POLICIES[rua.FF_EXTENDS]
    table = rua.experiment(Size(60, 1), logs)
    scenario = scenario_of(table, workloads="CTC HIGH 1")
    settings = (*settings, "placement.extend_limit=false")
    same = cosched_emulator.simulate(scenario, preset, settings=settings, seed=1)
    first_fit = run(logs, "FF")
    assert [*same.jobs.start_s] == [*first_fit.jobs.start_s]
    assert [*same.jobs.end_s] == [*first_fit.jobs.end_s]


def test_readings_change_the_limits_that_they_name(logs: Path) -> None:
    """Longer limits kill fewer; with 4/3 and more no job is killed that keeps to its estimate (X5)."""
    kills = {
        (policy, variant): run(logs, policy, variant).summary["killed"]["count"]
        for policy, variant in (("LC", BASE), ("LC", "none"), ("LC", "control"), (rua.FF_EXTENDS, "control"))
    }
    assert kills["LC", "none"] > kills["LC", BASE] >= kills["LC", "control"]
    assert run(logs, "FF").summary["killed"]["count"] > kills[rua.FF_EXTENDS, "control"]
    table = rua.experiment(Size(60, 1), logs)
    scenario = scenario_of(table, workloads="CTC HIGH 1")
    longest = cosched_emulator.simulate(scenario, "lc", settings=["placement.limit_factors=[1.34]"], seed=1)
    assert longest.summary["killed"]["count"] == 0


def test_the_experiment_has_all_readings_in_every_window(logs: Path) -> None:
    size = Size(60, 3)
    plan = make_plan(read_experiment(rua.experiment(size, logs)))
    assert {run.names["variants"] for run in plan.cells} == {BASE, *rua.READINGS, *rua.DEMANDS, *rua.VARIANTS}
    demands = {run.names["variants"]: run.scenario.workload.demand_high for run in plan.cells}
    assert [demands[name][0] for name in (BASE, *rua.DEMANDS)] == [2000, *map(int, rua.DEMANDS)]
    for name, reading in rua.READINGS.items():
        cells = {
            (cell.names["workloads"], cell.policy)
            for cell in plan.cells
            if cell.names["variants"] == name and cell.names["seeds"] == "1"
        }
        names = {rua.in_window(workload, window) for workload in rua.WORKLOADS for window in rua.WINDOWS}
        assert cells == {(workload, policy) for workload in names for policy in reading.policies}
    assert {run.policy for run in plan.cells if run.key in plan.baselines} == {"LC", "RUA"}


# ---------------------------------------------------------------- intervals over windows


def test_a_window_is_one_value() -> None:
    """Its seeds are averaged first: geometric means of ratios, arithmetic ones of figures."""
    cells = {
        Where(f"{MED} {window}", policy): {"x": [value * window, 4 * value * window]}
        for window in rua.APART
        for policy, value in (("LC", 1.0), ("RUA", 0.5 if window == 1 else 0.25))
    }
    figures = WindowFigures(fake_figures(cells, rua.USUAL))
    lc, other = Where(MED, "LC"), Where(MED, "RUA")
    assert figures.seeds(lc) == 6
    assert figures.values("x", lc)[2001] == 2.0
    mean = figures.mean("x", lc)
    assert mean is not None
    assert (mean.mean, mean.n) == (5.0, 3)
    assert mean.low > 0  # as over seeds, an amount is not below 0
    ratio = figures.ratio("x", other, lc)
    assert ratio is not None
    assert ratio.n == 3
    assert ratio.mean == pytest.approx(0.5 / 2 ** (2 / 3))
    difference = figures.difference("x", lc, other)
    assert difference is not None
    assert difference.mean == pytest.approx((1.25 + 3.75 + 5.625) / 3)
    assert difference.n == 3
    one = WindowFigures(fake_figures({Where(f"{MED} 1", "LC"): {"x": [1.0, 2.0]}}, rua.USUAL)).mean("x", lc)
    assert one is not None
    assert not one.exists  # two seeds of one window say nothing of another
    assert figures.mean("x", Where(MED, "FF")) is None


def test_runs_of_one_window_are_no_samples_that_agree() -> None:
    worst_first = {name: len(claims.THRESHOLDS) - place for place, name in enumerate(claims.THRESHOLDS)}
    cells = {
        Where(f"CTC {mix} {window}", policy): {column: [float(value)] * 3 for column in claims.OF_THREE}
        for mix in rua.MIXES
        for window in rua.APART
        for policy, value in worst_first.items()
    }
    figures = WindowFigures(fake_figures(cells, rua.USUAL))
    (claim, *_) = claims._balance(figures)
    assert claim.seeds == len(rua.APART)
    assert claim.verdict is Verdict.NOT_SHOWN
    assert claim.measured == "in 0 of 3 seeds; runs: LCT=1.5 27"


def test_a_picture_has_the_means_and_intervals_of_the_tables() -> None:
    """Runs of a window are one value, means of ratios are geometric, and the halves of an interval differ."""
    cells = {
        Where(f"{MED} {window}", policy): {"x": [value * window] * 5}
        for window in rua.APART
        for policy, value in (("LC", 1.0), ("RUA", 0.5 if window == 1 else 0.25))
    }
    figures, lc, other = WindowFigures(fake_figures(cells, rua.USUAL)), Where(MED, "LC"), Where(MED, "RUA")
    for found, drawn in (
        (figures.mean("x", lc), point_at(figures, "x", lc, factor=1.0)),
        (figures.ratio("x", other, lc), point_of(figures.ratio("x", other, lc))),
    ):
        assert found is not None
        assert drawn is not None
        assert (drawn.mean, drawn.mean - drawn.down, drawn.mean + drawn.up) == pytest.approx(found[:3])
