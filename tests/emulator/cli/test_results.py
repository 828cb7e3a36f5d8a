"""The commands ``compare``, ``classes`` and ``plot``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.emulator.results.samples import TWO_NODES, six_jobs, workload_of, write_run

from cosched_emulator.cli.results import classes, compare, plot
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.compared_runs import run_names, workload_key
from cosched_emulator.results.figures.classes import PAPER_RULES, ClassRules, class_figures, class_tables
from cosched_emulator.results.figures.metrics import Selection, summarise
from cosched_emulator.workload.job import Terms
from cosched_plugin.protocol.messages import TIMEOUT


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with two runs: in ``easy`` job 3 is killed, in ``rua`` it is part of the warm-up."""
    for name, selection in (("easy", Selection()), ("rua", Selection(3))):
        summary: dict[str, Any] = summarise(six_jobs(), TWO_NODES, selection)
        out = tmp_path / name
        workload = workload_of(six_jobs())
        write_run(out, six_jobs(), TWO_NODES, summary=summary, resolved_config={}, workload=workload, timing={})
    return tmp_path


def invoke(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def output_of(command: Any, *arguments: object) -> str:
    result = invoke(command, *arguments)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def test_compare_prints_a_table(runs: Path) -> None:
    output = invoke(compare, runs / "easy", runs / "rua").stdout
    assert output.splitlines()[0].split() == ["easy", "rua"]
    killed = next(line for line in output.splitlines() if line.startswith("killed at limit"))
    assert killed.split() == ["killed", "at", "limit", "1", "0*"]


def test_runs_of_different_workloads_have_no_best(runs: Path) -> None:
    summary: dict[str, Any] = summarise(six_jobs()[:5], TWO_NODES)
    workload = workload_of(six_jobs()[:5])
    write_run(
        runs / "other", six_jobs()[:5], TWO_NODES, summary=summary, resolved_config={}, workload=workload, timing={}
    )
    for command in (compare, classes):
        output = output_of(command, runs / "easy", runs / "other")
        assert "the runs are of different workloads: no best is marked" in output
        assert "*" not in output


def written(folder: Path, records: list[JobRecord], policy: dict[str, Any] | None = None, **settings: Any) -> Path:
    """Write a run of the worked example's jobs."""
    config = {"policy": {"name": folder.name, **(policy or {})}, "workload": settings}
    arguments: Any = {"summary": summarise(records, TWO_NODES), "resolved_config": config, "timing": {}}
    return write_run(folder, records, TWO_NODES, workload=workload_of(six_jobs()), **arguments)


def killed(job_id: int) -> list[JobRecord]:
    """Return the records of the worked example, with another job killed at its limit."""
    return [one._replace(state=TIMEOUT) if one.job.spec.id == job_id else one for one in six_jobs()]


def test_runs_that_completed_different_jobs(tmp_path: Path) -> None:
    # Jobs 1, 2 and 4 completed; here 2 was killed, there 4: as many, but others.
    folders = [written(tmp_path / "a", killed(2)), written(tmp_path / "b", killed(4))]
    for command, hint in ((compare, "; --common compares the jobs that completed in all runs"), (classes, "")):
        output = output_of(command, *folders)
        note = "note: not the same jobs completed, or count, in all runs: the best is marked for numbers of jobs only"
        assert f"{note}{hint}\n" in output
        assert not [line for line in output.splitlines() if "*" in line and "mean" in line]
    assert "not the same jobs" not in output_of(compare, folders[0], written(tmp_path / "c", killed(2)))


def test_compare_only_what_completed_in_all_runs(tmp_path: Path) -> None:
    folders = [
        written(tmp_path / "a", killed(2)),
        written(tmp_path / "b", killed(4)),
        written(tmp_path / "c", six_jobs()),
    ]
    lines = {line[:28].strip(): line.split() for line in output_of(compare, *folders, "--common").splitlines()}
    assert lines["completed in all runs"][-3:] == ["1", "1", "1"]
    # Job 1 starts at once and takes 100 s.
    assert lines["wait, mean"][-3:] == ["0.00", "0.00", "0.00"]
    assert lines["response, mean"][-3:] == ["100.0", "100.0", "100.0"]
    assert lines["completed"][-3:] == ["2", "2", "3*"]
    found = json.loads(output_of(compare, *folders, "--common", "--json"))["runs"]
    assert [run["summary"]["common"]["response_s"]["count"] for run in found] == [1, 1, 1]
    assert found[2]["summary"]["finished"]["response_s"]["count"] == 3
    result = invoke(compare, *folders, "--common", "--jobs", "all")
    assert (result.exit_code, "exclude each other" in result.output) == (2, True)
    other = invoke(compare, folders[0], written(tmp_path / "d", six_jobs(), mix="high"), "--common")
    assert str(other.exception) == "--common: expected runs of the same workload, got runs of different workloads"


def test_policies_that_may_share_nodes_are_named(tmp_path: Path) -> None:
    threads, nodes = ({"shape": {"name": name}, "placement": {"name": "first-fit"}} for name in ("threads", "nodes"))
    folders = [written(tmp_path / "easy", six_jobs(), threads), written(tmp_path / "pss", six_jobs(), nodes)]
    output = output_of(compare, *folders)
    assert "note: easy may place several jobs on one node; --set shape=nodes for whole nodes\n" in output
    rows = [line.split()[2:4] for line in output.splitlines() if line.startswith("efficiency")]
    assert rows == [["threads", "%"], ["nodes", "%"]]
    alone = [folders[1], written(tmp_path / "serve", six_jobs())]
    assert "may place" not in output_of(compare, *alone)
    exclusive = written(tmp_path / "exclusive", six_jobs(), threads, exclusive=True)
    assert "may place" not in output_of(compare, exclusive)


def test_what_a_log_says_of_the_outcome_makes_no_other_workload(tmp_path: Path) -> None:
    """Nor does the run folder of an earlier version, which did not write it."""
    arguments: Any = {"summary": summarise(six_jobs(), TWO_NODES), "resolved_config": {}, "timing": {}}
    cases: list[tuple[str, dict[str, Any]]] = [("a", {}), ("b", {"group": 4, "status": 5}), ("c", {"queue": 4})]
    for name, of_log in cases:
        jobs = [job._replace(**of_log) for job in workload_of(six_jobs()).jobs]
        workload = workload_of(six_jobs())._replace(jobs=jobs)
        write_run(tmp_path / name, six_jobs(), TWO_NODES, workload=workload, **arguments)
    keys = [workload_key(tmp_path / name) for name in "abc"]
    assert keys[0] == keys[1] != keys[2]


def test_classes_prints_a_table_for_each_group(runs: Path) -> None:
    # Estimates are 200, 64, 64, 8, 20 and 20 s; the jobs of 64 s are a completed and a killed one.
    rules = ("--short-s", "63", "--medium-s", "64", "--bound-s", "4", "--high-load", "1")
    tables = output_of(classes, runs / "easy", runs / "rua", *rules).split("\n\n")
    assert [table.splitlines()[0] for table in tables] == list(class_tables(ClassRules(63, 64, 4, 1)))
    assert all(table.splitlines()[1].split() == ["easy", "rua"] for table in tables)
    jobs, relative, response, high_load, run = ([line.split() for line in table.splitlines()[3:]] for table in tables)
    assert [row[-2:] for row in jobs[:5]] == [["3", "3"], ["2", "2"], ["1", "1"], ["6", "6"], ["1", "1"]]
    # Job 2 was submitted at 10 s, ended at 60 s, and takes 32 s alone; job 4 took 76 s for its 4 s.
    assert relative[0] == ["short,", "mean", "19.00", "19.00"]
    assert response[1] == ["medium,", "mean", "s", "50.00", "50.00"]
    # Jobs 2 and 3 wait from 10 s to 30 s. Meanwhile job 1 uses four cores, and job 2 two from 20 s on.
    assert high_load[:2] == [
        ["medium,", "length", "s", "20.00", "20.00"],
        ["medium,", "cores", "used", "%", "62.50", "62.50"],
    ]
    assert run[1] == ["makespan", "s", "106.0", "106.0"]


def test_classes_as_json_use_the_papers_rules_by_default(runs: Path) -> None:
    found = json.loads(output_of(classes, runs / "easy", runs / "rua", "--json"))
    assert [run["name"] for run in found] == ["easy", "rua"]
    assert found[1]["folder"] == str(runs / "rua")
    assert found[0]["rules"] == PAPER_RULES._asdict()
    assert found[0]["figures"] == class_figures(six_jobs(), TWO_NODES).as_dict()
    options = ("--short-s", "9", "--medium-s", "99", "--bound-s", "1", "--high-load", "2")
    (other,) = json.loads(output_of(classes, runs / "easy", *options, "--json"))
    assert other["rules"] == ClassRules(9, 99, 1, 2)._asdict()
    assert other["figures"] == class_figures(six_jobs(), TWO_NODES, ClassRules(9, 99, 1, 2)).as_dict()


def test_class_bounds_out_of_order_are_refused(runs: Path) -> None:
    result = invoke(classes, runs / "easy", "--short-s", "10801")
    assert isinstance(result.exception, ConfigurationError)
    assert str(result.exception) == "--short-s: expected at most --medium-s, 10800, got 10801"
    output_of(classes, runs / "easy", "--short-s", "10800")


def test_a_missing_or_damaged_run_folder_is_named(runs: Path) -> None:
    result = invoke(compare, runs / "easy", runs / "nowhere")
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == f"{runs / 'nowhere'}: expected a run folder, got nothing of that name"
    (runs / "easy" / "summary.json").write_text('{\n"format": }')
    broken = invoke(classes, runs / "easy")
    assert isinstance(broken.exception, InputError)
    assert str(broken.exception).startswith(f"{runs / 'easy' / 'summary.json'}:2: expected JSON")


def test_plot_draws_distributions(runs: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    said = output_of(plot, runs / "easy", "--kind", "ecdf", "--out", runs / "x.svg", "--title", "Title")
    assert said == f"picture: {runs / 'x.svg'}\n"
    assert (runs / "x.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["easy", "rua", "--kind", "quanta"], "quanta shows one run, not 2"),
        (["easy", "--kind", "ecdf", "--to-h", "3"], "are for --kind quanta only"),
        (["easy", "--kind", "pie"], "is not one of 'ecdf', 'quanta'"),
        (["--kind", "ecdf"], "Missing argument 'RUN_DIR...'"),
    ],
)
def test_wrong_arguments_of_plot_are_refused(
    runs: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(runs)
    result = invoke(plot, *arguments, "--out", "x.png")
    assert result.exit_code == 2
    assert message in result.output
    assert not (runs / "x.png").exists()


def test_runs_are_named_by_the_shortest_distinct_ends_of_paths() -> None:
    assert run_names([Path("/a/easy"), Path("/a/rua")]) == ["easy", "rua"]
    assert run_names([Path("/a/x/easy"), Path("/a/y/easy")]) == ["x/easy", "y/easy"]
    with pytest.raises(ConfigurationError, match="every run once"):
        run_names([Path("/a/easy"), Path("/a/./easy")])


def test_classes_by_a_fact_of_jobs_count_its_values(runs: Path) -> None:
    records = [
        record._replace(job=record.job._replace(terms=Terms(("gpu",) if number % 2 else (), "high")))
        for number, record in enumerate(six_jobs())
    ]
    summary: dict[str, Any] = summarise(records, TWO_NODES)
    workload = workload_of(records)
    write_run(runs / "bound", records, TWO_NODES, summary=summary, resolved_config={}, workload=workload, timing={})
    (told,) = json.loads(output_of(classes, runs / "bound", "--by", "partition", "--json"))
    found = told["figures"]
    assert list(found) == ["none", "gpu", "all"]
    assert found["none"]["jobs"] + found["gpu"]["jobs"] == found["all"]["jobs"] == 6
    (by_class,) = json.loads(output_of(classes, runs / "bound", "--json"))
    assert found["all"]["response_mean_s"] == by_class["figures"]["jobs"]["all"]["response_mean_s"]
    started = [record for record in records if record.intervals]
    waits_s = [(record.last_stays[0].start_us - record.job.spec.submit_us) / 1e6 for record in started]
    assert found["all"]["wait_mean_s"] == pytest.approx(sum(waits_s) / len(waits_s))
    table = output_of(classes, runs / "bound", runs / "easy", "--by", "qos")
    assert "Mean wait of jobs that started, by qos" in table
