"""A scenario's offered load and shaken run times, with the other settings of its workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.prepare import prepare as prepare_scenario
from cosched_emulator.run.run import run
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

WEEK_S = 7 * 86_400
ROW = "{} {} -1 {} {} -1 -1 {} {} -1 1 {} 1 {} -1 -1 -1 -1\n"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return a log of four weeks and eight processors, with four users; one job in five is longer than its estimate."""
    file = tmp_path / "log.swf"
    rows = [
        ROW.format(
            number,
            number * WEEK_S // 12,
            36_000,
            1 + number % 4,
            1 + number % 4,
            estimate_s,
            number % 4,
            50 + number % 3,
        )
        for number in range(48)
        for estimate_s in (30_000 if number % 5 == 0 else 40_000,)
    ]
    file.write_text("; MaxProcs: 8\n" + "".join(rows) + ROW.format(48, 4 * WEEK_S, 60, 1, 1, 60, 1, 50))
    return str(file)


def prepare(log: str, **workload: object) -> Prepared:
    return prepared_of({"workload": {"swf": log, **workload}})


def prepared_of(table: dict[str, Any]) -> Prepared:
    return prepare_scenario(read_scenario(None, table))


def summary_of(prepared: Prepared) -> dict[str, Any]:
    return run(prepared, DirectLink(choose("easy").scheduler)).summary


@pytest.mark.parametrize("method", ["gaps", "users"])
@pytest.mark.parametrize("cluster", [{}, {"nodes": 3, "preset": "2x2x2"}, {"processors": 10, "preset": "rua-4way"}])
def test_a_run_has_the_load(log: str, method: str, cluster: dict[str, object]) -> None:
    for load in (0.1, 0.5):
        table = {"workload": {"swf": log, "load": load, "load_method": method}, "cluster": cluster}
        summary = summary_of(prepared_of(table))
        assert summary["machine"]["offered_load"] == load
        cut = summary["cut_runs"]
        assert cut["offered_load_logged"] == pytest.approx(load / (1 - cut["work_lost"]), abs=2e-6)
        assert cut["work_lost"] > 0


def test_a_model_has_the_load_also_where_its_jobs_grow() -> None:
    plain = {"workload": {"lublin": 60, "load": 0.7}, "cluster": {"nodes": 16}}
    assert summary_of(prepared_of(plain))["machine"]["offered_load"] == 0.7
    grown = {
        "workload": {"lublin": 60, "load": 0.7, "grow": True, "self_slowdowns": "table4"},
        "cluster": {"nodes": 16, "preset": "g-lomarc-2x2"},
    }
    prepared = prepared_of(grown)
    assert any(note.startswith("sizes grown") for note in prepared.workload.notes)
    assert summary_of(prepared)["machine"]["offered_load"] == 0.7


def test_a_window_is_cut_first(log: str) -> None:
    before = {job.source_id for job in prepare(log, first=10, jobs=20).workload.jobs}
    gaps = prepare(log, first=10, jobs=20, load=0.5).workload.jobs
    assert [job.source_id for job in gaps] == list(range(10, 30))
    users = prepare(log, first=10, jobs=30, load=0.2, load_method="users").workload.jobs
    assert {job.source_id for job in users} < before | set(range(30, 40))
    assert len(users) < 30
    assert (users[0].spec.submit_us, users[0].id) == (0, 1)


def test_copies_have_what_their_user_has(log: str, tmp_path: Path) -> None:
    usage = tmp_path / "usage.csv"
    usage.write_text("user,cpu,network,memory\n2,0.9,0.05,0.4\n")
    settings: dict[str, object] = {
        "mix": "med", "annotations": str(usage), "characteristics": "M1", "estimates": "f-model", "self_slowdowns": "table4",
    }  # fmt: skip
    belief = {"usage_noise": 0.2}
    plain = prepared_of({"workload": {"swf": log, **settings}, "belief": belief}).workload.jobs
    more = {"load": 0.5, "load_method": "users"}
    twice = prepared_of({"workload": {"swf": log, **settings, **more}, "belief": belief, "seed": 1}).workload.jobs
    of_log = {job.source_id: job for job in plain}
    assert len(twice) > 2 * len(plain)
    assert {job.user for job in twice} > {"0", "1", "2", "3", "10", "11", "12", "13"}
    for job in twice:
        was = of_log[job.source_id]
        spec = job.spec._replace(id=was.id, submit_us=was.spec.submit_us, user=was.user)
        assert job._replace(spec=spec) == was
        assert int(job.user) % 10 == int(was.user)
        assert (job.user[-1] != "2") or job.usage == ("cpu", 900_000, 50_000, 50_000, 400_000)


def test_the_same_seed_draws_the_same_users(log: str) -> None:
    def jobs_of(seed: int, load: float) -> object:
        table = {"workload": {"swf": log, "load": load, "load_method": "users"}, "seed": seed}
        return prepared_of(table).workload.jobs

    for load in (0.2, 0.8):
        assert jobs_of(1, load) == jobs_of(1, load)
        assert len({tuple(job.source_id for job in jobs_of(seed, load)) for seed in range(1, 7)}) > 1  # type: ignore[attr-defined]


def test_warmup_and_script_count_the_jobs_of_the_run(log: str) -> None:
    more = {"swf": log, "load": 0.5, "load_method": "users"}
    jobs = len(prepared_of({"workload": more}).workload.jobs)
    table = {"workload": more, "results": {"warmup": jobs - 1}, "script": [{"at_s": 1, "do": "cancel", "job": jobs}]}
    assert prepared_of(table).selection.warmup == jobs - 1
    with pytest.raises(ConfigurationError, match=r"^results.warmup"):
        prepared_of({**table, "results": {"warmup": jobs}})


def test_shaking_changes_no_submission(log: str) -> None:
    settings = {"load": 0.6, "limits": "estimate", "mix": "high"}
    plain = prepare(log, **settings)
    first, second = (prepare(log, **settings, shake=0.02, shake_seed=seed).workload.jobs for seed in (1, 2))
    for job, one, other in zip(plain.workload.jobs, first, second, strict=True):
        for shaken in (one, other):
            exact = job.run_us == job.spec.estimate_us
            estimate_us = shaken.run_us if exact else job.spec.estimate_us
            assert shaken.spec == job.spec._replace(estimate_us=estimate_us, limit_us=estimate_us)
            assert shaken == job._replace(spec=shaken.spec, run_us=shaken.run_us)
            assert 0.98 <= shaken.run_us / job.run_us <= 1.02
        assert len({job.run_us, one.run_us, other.run_us}) == 3
    states = [summary_of(prepare(log, **settings, cap_runs=False, shake=shake))["states"] for shake in (0.0, 0.1)]
    assert states[0] == states[1]
    assert states[0]["TIMEOUT"] == 10


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"load": 0.0}, "workload.load: expected a number above 0, at most 1000, got 0.0"),
        ({"load": float("nan")}, "workload.load: expected a number above 0, at most 1000, got nan"),
        ({"load": 0.9, "load_method": "user"}, "workload.load_method: .*did you mean 'users'"),
        (
            {"load": 0.9, "load_method": "users"},
            'workload.load_method: expected "gaps": only jobs of workload.swf have users',
        ),
        (
            {"load": 0.9, "gap_factor": 2.0},
            "workload.gap_factor: expected nothing: it has no effect with workload.load, got 2",
        ),
        ({"shake": 1.0}, "workload.shake: expected a number from 0 to below 1, got 1.0"),
        ({"shake": 0.1, "shake_seed": 0.5}, "workload.shake_seed: expected a whole number, got 0.5"),
    ],
)
def test_what_cannot_be(workload: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        prepared_of({"workload": {"lublin": 30, **workload}})


def test_a_log_without_a_machine(log: str) -> None:
    Path(log).write_text(Path(log).read_text().replace("; MaxProcs: 8\n", ""))
    with pytest.raises(ConfigurationError, match=r"^workload.load: expected a size of the cluster"):
        prepare(log, load=0.5)
    table = {"workload": {"swf": log, "load": 0.5}, "cluster": {"nodes": 8}}
    assert summary_of(prepared_of(table))["machine"]["offered_load"] == 0.5


def test_settings_without_effect_are_told_of(log: str) -> None:
    notes = prepare(log, load_method="users", shake_seed=3).workload.notes
    assert "warning: workload.load_method has no effect without workload.load" in notes
    assert "warning: workload.shake_seed has no effect without workload.shake" in notes
