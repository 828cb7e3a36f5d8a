"""``compare`` and ``plot`` of runs with several seeds of a policy."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.cli.test_results import invoke, killed
from tests.emulator.results.samples import TWO_NODES, record, six_jobs, stay, workload_of, write_run
from tests.runs import run_on

from cosched_emulator.cli.results import compare, plot
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures.metrics import summarise

T1 = 12.706205  # Student's t for an interval of 95 % over two seeds
FACTOR = math.exp(T1 / 2)  # of the interval of a mean over two seeds, one of which has a third of the other
OF_20, OF_10 = (f"{mean:.2f} ({mean / FACTOR:.2f} to {mean * FACTOR:,.0f})" for mean in (20, 10))


def written(
    at: Path, policy: str, seed: int, wait_s: float | None = None, records: Sequence[JobRecord] = (), **workload: Any
) -> Path:
    """Write a run, by default of the worked example, with another mean wait if one is given."""
    done = list(records) or six_jobs()
    summary: dict[str, Any] = copy.deepcopy(summarise(done, TWO_NODES))
    if wait_s is not None:
        summary["finished"]["wait_s"]["mean"] = wait_s
    config = {"seed": seed, "policy": {"name": policy, "shape": {"name": "nodes"}}, "workload": workload}
    arguments: Any = {"summary": summary, "resolved_config": config, "timing": {}}
    return write_run(at / f"{policy}-{seed}", done, TWO_NODES, workload=workload_of(done), **arguments)


def waits(output: str) -> list[str]:
    """Return the line of the mean wait and the one below it, without double spaces."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    place = next(index for index, line in enumerate(lines) if line.startswith("wait, mean"))
    return lines[place : place + 2]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return two runs of ``easy`` and two of ``rua``, whose waits are half as long."""
    return [
        written(tmp_path, policy, seed, wait_s)
        for policy, seed, wait_s in (("easy", 1, 10), ("easy", 2, 30), ("rua", 1, 5), ("rua", 2, 15))
    ]


def test_a_column_for_each_policy(runs: list[Path]) -> None:
    result = invoke(compare, *runs)
    assert result.stdout.splitlines()[0].split() == ["easy", "(2", "seeds)", "rua", "(2", "seeds)"]
    # Waits of 10 and 30 s: 12.706 x 14.142 / sqrt(2) is 6.353 of the mean.
    assert waits(result.stdout) == [
        f"wait, mean s {OF_20} {OF_10}*",
        "change against easy, % -50.0 (-50.0 to -50.0) yes",
    ]
    assert result.stderr == "note: yes: lower than easy; no: higher; neither: the 95 % interval includes 0\n"


def test_a_difference_that_is_not_shown_has_no_best(tmp_path: Path, runs: list[Path]) -> None:
    others = [written(tmp_path, "lct", seed, wait_s) for seed, wait_s in ((1, 20), (2, 10))]
    result = invoke(compare, *runs[:2], *others)
    # Ratios 2 and 1/3: the geometric mean is 0.8165.
    line, change = waits(result.stdout)
    assert "*" not in line
    assert change.startswith("change against easy, % -18.4 (-100.0 to ")
    assert not change.endswith(("yes", "no"))
    assert "note: no best is marked where the 95 % interval of a paired difference includes 0" in result.stderr


def test_one_policy_alone_has_intervals_and_nothing_to_compare(runs: list[Path]) -> None:
    result = invoke(compare, *runs[:2])
    assert waits(result.stdout)[0] == f"wait, mean s {OF_20}"
    assert (result.stderr, "change" in result.stdout, "*" in result.stdout) == ("", False, False)


def test_columns_with_different_seeds_are_not_compared(runs: list[Path]) -> None:
    for some in (runs[:3], [*runs[:2], runs[3]]):
        result = invoke(compare, *some)
        assert "note: the columns have different seeds: no change and no best are shown\n" in result.stderr
        assert ("change" in result.stdout, "*" in result.stdout) == (False, False)
    refused = invoke(compare, *runs[:3], "--common")
    assert str(refused.exception) == "--common: expected columns with the same seeds, got columns with different seeds"


def test_policies_are_comparable_if_each_seed_has_one_workload(tmp_path: Path) -> None:
    # The demand of a mix is drawn with the seed; other jobs under seed 2 are another workload, but for both policies alike.
    jobs = {1: six_jobs(), 2: six_jobs()[:5]}
    runs = [
        written(tmp_path, policy, seed, 10 * seed + index, jobs[seed], mix="high")
        for index, policy in enumerate(("easy", "rua"))
        for seed in (1, 2)
    ]
    assert "different workloads" not in invoke(compare, *runs).stderr
    other = written(tmp_path / "other", "rua", 2, 17, jobs[1], mix="high")
    result = invoke(compare, *runs[:3], other)
    assert "note: the runs are of different workloads: no best is marked\n" in result.stderr
    assert ("change" in result.stdout, "*" in result.stdout) == (False, False)
    refused = invoke(compare, *runs[:3], other, "--common")
    assert str(refused.exception) == "--common: expected runs of the same workload, got runs of different workloads"


def test_common_jobs_are_those_of_each_seed(tmp_path: Path) -> None:
    # Jobs 1, 2 and 4 complete, with responses of 100, 50 and 76 s. Under seed 1, rua kills job 2; under seed 2, easy kills job 4.
    records = {("easy", 1): six_jobs(), ("rua", 1): killed(2), ("easy", 2): killed(4), ("rua", 2): six_jobs()}
    runs = [written(tmp_path, *key, records=its) for key, its in records.items()]
    plain = invoke(compare, *runs)
    assert "note: not the same jobs completed, or count, in all runs" in plain.stderr
    assert "change" not in plain.stdout
    result = invoke(compare, *runs, "--common", "--json")
    found = json.loads(result.stdout)
    responses = [run["summary"]["common"]["response_s"]["mean"] for run in found["runs"]]
    assert responses == [88, 88, 75, 75]  # of jobs 1 and 4, and of jobs 1 and 2
    figure = next(each for each in found["intervals"]["figures"] if each["label"] == "response, mean")
    assert figure["path"] == ["common", "response_s", "mean"]
    assert [each["mean"] for each in figure["intervals"]] == [81.5, 81.5]
    assert figure["change_percent"][1] == {"mean": 0, "low": 0, "high": 0, "seeds": 2, "lower": None}


def test_seeds_that_give_the_same_run_are_noted(tmp_path: Path, runs: list[Path]) -> None:
    same = [written(tmp_path, "fcfs", seed, 40) for seed in (1, 2)]
    result = invoke(compare, *same, *runs[:2])
    assert (
        "note: every seed gave the same figures for fcfs: nothing it depends on is drawn, so there is no"
        in result.stderr
    )
    assert waits(result.stdout)[0].startswith(f"wait, mean s 40.00 {OF_20}")


def one_wait(wait_s: float) -> list[JobRecord]:
    """Return a job that starts at once, and one that waits."""
    first = stay(0, wait_s, run_on(0, 1, 0b1111, 4))
    second = stay(wait_s, wait_s + 5, run_on(0, 1, 0b1111, 4))
    return [record(1, 0, stays=(first,), work_s=wait_s), record(2, 0, stays=(second,), work_s=5)]


def test_the_distribution_over_seeds_has_one_line_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        written(tmp_path, policy, seed, records=one_wait(wait_s))
        for policy, seed, wait_s in (("easy", 1, 10), ("easy", 2, 30), ("fcfs", 1, 40), ("fcfs", 2, 40), ("rua", 1, 5))
    ]
    drawn: list[Any] = []
    monkeypatch.setattr(pictures, "plot_distribution", lambda _, series, *__: drawn.extend(series))
    result = invoke(plot, *runs, "--kind", "ecdf", "--quantity", "wait", "--out", tmp_path / "x.png")
    assert result.exit_code == 0, result.exception
    assert [series.name for series in drawn] == ["easy (2 seeds)", "fcfs (2 seeds)", "rua-1"]
    assert [sample.tolist() for sample in drawn[0].samples] == [[0, 10], [0, 30]]
    assert drawn[2].values.tolist() == [0, 5]
    assert result.stderr.startswith("note: every seed gave the same figures for fcfs: ")


def test_intervals_are_drawn(tmp_path: Path, runs: list[Path]) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    file = tmp_path / "x.svg"
    assert invoke(compare, *runs, "--plot", file).exit_code == 0
    assert file.read_bytes().startswith(b"<?xml")
