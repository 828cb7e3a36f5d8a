from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cosched_emulator.cli.workload import workload as group
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.description import as_table, describe
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_plugin.protocol.messages import JobSpec

SECOND = 1_000_000


def job(job_id: int, submit_s: int, size: int, run_s: int, estimate_s: int, user: str = "") -> WorkloadJob:
    spec = JobSpec(job_id, submit_s * SECOND, size, estimate_s * SECOND, None, user)
    return WorkloadJob(spec, run_s * SECOND, None, job_id)


SMALL = Workload(
    (job(1, 0, 1, 100, 100, "ann"), job(2, 10, 3, 50, 100, "bob"), job(3, 50, 4, 200, 100, "ann")),
    8,
    "by hand",
    ("a note",),
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, arguments, catch_exceptions=True)


def test_figures_of_a_small_workload() -> None:
    found = describe(SMALL)
    assert found.jobs == 3
    assert found.span_s == 50
    assert found.work_processor_s == 100 + 150 + 800
    assert found.offered_load == pytest.approx(1050 / (8 * 50))
    assert found.size.mean == pytest.approx(8 / 3)
    assert (found.size.median, found.size.minimum, found.size.maximum) == (3, 1, 4)
    assert found.gap_s is not None
    assert (found.gap_s.mean, found.gap_s.median) == (25, 25)
    assert found.serial_share == pytest.approx(1 / 3)
    assert found.power_of_two_share == pytest.approx(2 / 3)
    assert found.largest_share == 0.5
    assert found.estimate_accuracy == pytest.approx(2.5 / 3)
    assert found.exact_estimate_share == pytest.approx(1 / 3)
    assert found.run_above_estimate_share == pytest.approx(1 / 3)
    assert found.limited_share == 0
    assert found.users == 2
    assert describe(SMALL, 4).offered_load == pytest.approx(1050 / (4 * 50))


def test_figures_without_meaning_are_none() -> None:
    single = describe(Workload(SMALL.jobs[:1], None, "one"))
    assert (single.offered_load, single.gap_s, single.largest_share) == (None, None, None)
    assert "unknown" in as_table(single)
    json.dumps(single.as_dict(), allow_nan=False)
    with pytest.raises(ConfigurationError):
        describe(Workload((), 4, "none"))
    with pytest.raises(ConfigurationError):
        describe(SMALL, 0)


def test_characteristics_are_described() -> None:
    usages = (("cpu", 600_000, 0, 400_000, 500_000), ("disk", 0, 0, 1_000_000, 500_001), None)
    jobs = tuple(one._replace(usage=usage) for one, usage in zip(SMALL.jobs, usages, strict=True))
    found = describe(SMALL._replace(jobs=jobs))
    assert found.usage_share == pytest.approx(2 / 3)
    assert found.bound_shares == (0.5, 0.0, 0.5)
    assert found.memory is not None
    assert (found.memory.minimum, found.memory.maximum) == (0.5, 0.500001)
    assert found.memory_conflict_share == 1
    text = (
        "known of 66.7% of jobs: 50.0% cpu, 0.0% network, 50.0% disk; 100.0% of pairs do not fit into a node's memory"
    )
    assert text in as_table(found)
    nothing = describe(SMALL)
    assert (nothing.usage_share, nothing.bound_shares, nothing.memory, nothing.memory_conflict_share) == (
        0,
        *(None,) * 3,
    )
    assert "known of" not in as_table(nothing)
    single = describe(SMALL._replace(jobs=jobs[:1]))
    assert single.memory_conflict_share is None
    assert "do not fit" not in as_table(single)


def test_classes_and_self_slowdowns_are_described() -> None:
    jobs = (
        job(1, 0, 1, 500, 600)._replace(self_slowdown=(900_000, 1_200_000)),
        job(2, 10, 3, 500, 601)._replace(self_slowdown=(1_100_000, 1_400_000)),
        job(3, 50, 4, 1000, 10_800),
        job(4, 60, 2, 2000, 10_801),
    )
    found = describe(SMALL._replace(jobs=jobs))
    assert found.class_shares == (0.25, 0.5, 0.25)
    assert found.class_work_shares == (0.05, 0.55, 0.4)
    assert found.self_share == 0.5
    assert found.self_node is not None
    assert found.self_core is not None
    assert (found.self_node.minimum, found.self_node.mean, found.self_node.maximum) == (0.9, 1.0, 1.1)
    assert (found.self_core.minimum, found.self_core.maximum) == (1.2, 1.4)
    table = as_table(found)
    assert "25.0% short (5.0% of the work), 50.0% medium (55.0% of the work), 25.0% long (40.0% of the work)" in table
    assert "self slowdown known of 50.0% of jobs" in table
    assert "slowed by cores  1.30  1.20" in table
    nothing = describe(SMALL)
    assert (nothing.self_share, nothing.self_node, nothing.self_core) == (0, None, None)
    assert "slowed by" not in as_table(nothing)
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("lublin", "--jobs", "5", "--out", "x", "--characteristics", "M1"),
        ("lublin", "--jobs", "5", "--out", "x", "--usage-out", "x"),
        ("lublin", "--jobs", "5", "--out", "x", "--self-slowdowns", "table4"),
        ("lublin", "--jobs", "5", "--out", "x", "--grow"),
        ("lublin", "--jobs", "5", "--out", "x", "--grow", "--characteristics", "M1", "--usage-out", "x"),
        ("describe",),
        ("describe", "x.swf", "--lublin", "5"),
        ("describe", "--lublin", "0"),
        ("lublin", "--jobs", "5"),
        ("lublin", "--jobs", "many", "--out", "x"),
    ],
)
def test_wrong_usage_is_an_error_in_one_line(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.output
    assert not Path("x").exists()


@pytest.mark.parametrize("command", ["describe", "lublin"])
def test_help_has_examples(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"  cosched-emulator workload {command} " in result.output
