"""Tables of measured co-runs in a scenario: as truth and belief with noise and gaps, and jobs that are their applications."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.commands import commands_in

from cosched_emulator import prepare, simulate
from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.run.policy_warnings import idle_matching, warnings_of
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_hwmodel.models.measured_pairs import MeasuredPairs, MeasuredRatios
from cosched_plugin.config import choose

TEXT = """row,column,ratio,procs,compact_s
a,a,1.0,8,100
a,b,0.8,8,100
b,a,1.5,8,200
b,b,1.2,8,200
"""
LARGE = "who,compact_s," + ",".join(f"p{j}" for j in range(6)) + "\n" + "".join(
    f"p{i},100," + ",".join(f"{0.7 + 0.1 * i + (0.02 + 0.01 * i) * j:.4f}" for j in range(6)) + "\n" for i in range(6)
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "co-runs.csv"
    file.write_text(TEXT)
    return file


def prepared_of(table: Path, belief: dict[str, Any] | None = None, **workload: Any) -> Prepared:
    return prepare(
        {
            "cluster": {"nodes": 4, "preset": "2x4x1"},
            "truth": {"contention": "pairs", "pairs": str(table)},
            "belief": belief or {},
            "workload": {"applications": str(table), "gap_s": 0.0, **workload},
        }
    )


def believed(prepared: Prepared) -> MeasuredRatios:
    return MeasuredPairs.from_parameters(prepared.belief.parameters).table


# ---------------------------------------------------------------- truth and belief


@pytest.mark.parametrize("link", ["loopback", pytest.param("zmq", marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["lomarc-r", "glts"])
def test_the_belief_arrives_over_every_coupling(policy: str, link: str, tmp_path: Path) -> None:
    file = tmp_path / "friends.csv"
    file.write_text(TEXT.replace("1.5", "0.9").replace("1.2", "0.85"))
    prepared = prepared_of(file, jobs=12)
    assert idle_matching(choose(policy), prepared) is None
    ended = []
    for kind in ("direct", link):
        records = simulate(prepared, policy, link=kind).records  # type: ignore[call-overload,arg-type,unused-ignore] # a parameter
        ended.append([(record.intervals[0].start_us, record.end_us) for record in records])
    assert ended[0] == ended[1]


def test_noise_and_gaps_are_the_scheduler_s_alone(tmp_path: Path) -> None:
    file = tmp_path / "large.csv"
    file.write_text(LARGE)
    given: dict[str, Any] = {"application_processes": [8]}
    exact, noisy, gaps = (
        prepared_of(file, belief, **given) for belief in ({}, {"pair_noise": 0.1}, {"pair_missing": 0.5})
    )
    assert exact.hardware.pairs == noisy.hardware.pairs == gaps.hardware.pairs == believed(exact)
    truth = believed(exact).ratios
    shaken = [told / true for told, true in zip(believed(noisy).ratios, truth, strict=True)]
    assert all(0.9 <= each <= 1.1 for each in shaken)
    assert len(set(shaken)) > 30
    told = believed(gaps).ratios
    pairs = [
        (told[6 * i + j] == truth[6 * i + j], told[6 * j + i] == truth[6 * j + i]) for i in range(6) for j in range(6)
    ]
    assert all(one == other for one, other in pairs)  # both directions are missing, or none
    assert 8 <= sum(not one for one, _ in pairs) <= 28
    errors = [abs(one - other) for one, other in zip(told, truth, strict=True)]
    assert 0 < sum(errors) / 36 < 0.05  # predicted, as the table is bilinear
    form = believed(prepared_of(file, {"pair_missing": 0.5, "pair_method": "bilinear"}, **given)).ratios
    assert form != told  # the other method
    assert all(
        one == other for one, other, true in zip(form, told, truth, strict=True) if other == true
    )  # the same gaps
    assert believed(prepared_of(file, {"pair_missing": 1.0}, **given)) == MeasuredRatios()


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"truth": {"contention": "pairs"}}, "truth.pairs: expected a CSV file with a table of measured co-runs (--pairs FILE)"),
        ({"truth": {"contention": "pairs", "pairs": ""}}, "truth.pairs: expected a CSV file, got ''"),
        ({"belief": {"contention": "pairs"}}, "truth.pairs: expected a CSV file with a table"),
        ({"belief": {"pair_noise": 1.0}}, "belief.pair_noise: expected a number from 0 to below 1"),
        ({"belief": {"pair_method": "mean"}}, "belief.pair_method: expected one of bilinear, components, got 'mean'"),
        ({"belief": {"pair_missing": 2.0}}, "belief.pair_missing: expected a number from 0 to 1"),
        ({"workload": {"application_names": ["a"]}}, "workload.application_names: remove it: it has no effect"),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(sections: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        prepare({**sections, "workload": {"lublin": 2, **sections.get("workload", {})}})
    assert str(raised.value).startswith(text)


def test_invalid_tables_are_refused_with_their_line(table: Path) -> None:
    table.write_text(TEXT + "b,c,0\n")
    with pytest.raises(InputError, match=r"co-runs\.csv:6: expected 5 cells, as in the header, got 3$"):
        prepared_of(table)


def test_settings_without_effect_and_strangers_give_warnings(table: Path) -> None:
    prepared = prepare({"truth": {"pairs": str(table)}, "belief": {"pair_noise": 0.5}, "workload": {"lublin": 2}})
    assert {
        'truth.pairs has no effect without contention = "pairs"',
        'belief.pair_noise has no effect without contention = "pairs"',
    } <= set(warnings_of(choose("easy"), prepared))
    truth = {"contention": "pairs", "pairs": str(table)}
    strangers = prepare({"truth": truth, "workload": {"lublin": 2}})
    expected = "2 of 2 jobs are no application of the table in truth.pairs: nothing slows them down"
    assert expected in strangers.workload.warnings


def test_the_command_takes_tables(table: Path, tmp_path: Path) -> None:
    options = ("--applications", table.name, "--jobs", "4", "--contention", "pairs", "--pairs", table.name)
    with commands_in(tmp_path) as commands:
        ran = commands.emulator(
            "simulate", *options, "--nodes", "4", "--node", "2x4x1", "--policy", "lomarc-r", "--json"
        )
    assert ran.code == 0, ran.err
    assert overrides({"pairs": "x.csv", "applications": "y.csv"}) == {
        "truth": {"pairs": "x.csv"},
        "workload": {"applications": "y.csv"},
    }


# ---------------------------------------------------------------- jobs of applications


def test_jobs_are_drawn_by_seed_and_shuffled(table: Path) -> None:
    def names(seed: int = 1, **workload: Any) -> list[str]:
        base = {"seed": seed, "cluster": {"nodes": 4, "preset": "2x4x1"}}
        scenario = scenario_of_table({**base, "workload": {"applications": str(table), "jobs": 200, **workload}}, {})
        return [job.name for job in prepare(scenario).workload.jobs]

    drawn = names()
    assert 70 < Counter(drawn)["a"] < 130
    assert names() == drawn != names(2)
    assert names(gap_s=0.0) == drawn
    shuffled = names(shuffle_seed=1)
    assert shuffled != drawn != names(shuffle_seed=2) != shuffled
    assert Counter(shuffled) == Counter(drawn)


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ({}, "workload.applications: expected a table with the run time (compact_s) of z, or jobs of a log or a model, whose"),
        ({"application_names": ["v"]}, "workload.application_processes: expected one number of processes: the table has none of v"),
        ({"application_processes": [5]}, "workload.applications: expected a table with the run time (compact_s) of "),
        ({"application_names": ["x"], "application_processes": [5]}, "workload.application_processes: expected numbers of "),
        ({"application_names": ["w"]}, "workload.application_names[0]: expected one of v, x, y, z, got 'w'"),
        ({"application_names": ["x"], "jobs": 0}, "workload.jobs: expected 1 or more, got 0"),
        ({"application_names": ["x"], "first": 2}, "workload.first: remove it: it has no effect without jobs of workload.swf"),
        ({"application_processes": [0]}, "workload.application_processes: expected 1 or more, got 0"),
    ],
)  # fmt: skip
def test_applications_that_cannot_be_drawn_are_refused(workload: dict[str, Any], text: str, tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text("who,procs,compact_s,x\nx,4,10,1\ny,8,20,1\nz,,,1\nv,,9,1\n")
    with pytest.raises(ConfigurationError) as raised:
        prepared_of(file, **workload)
    assert str(raised.value).startswith(text)
