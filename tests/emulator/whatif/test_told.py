"""What a site has told of itself: the name in the title, the facts that are missing, and whether its policy is assumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.emulator.whatif.made import write_log
from tests.emulator.workload.test_site_facts import CONFIG, FILES, JOBS, written

from cosched_emulator.whatif.question import Question
from cosched_emulator.whatif.site_sections import site_of
from cosched_emulator.whatif.told import baseline_name, missing_facts, site_name
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
from cosched_emulator.workload.sacct.site_facts import Facts

ALL = Facts._fields


def imported(folder: Path, dump: str, facts: dict[str, str], **options: Any) -> tuple[str, Question]:
    (folder / "jobs.txt").write_text(dump, encoding="utf-8")
    import_dump(str(folder / "jobs.txt"), folder / "out", ImportOptions(facts=written(folder, facts), **options))
    return str(folder / "out" / "trace.swf"), Question(*site_of(str(folder / "out" / "scenario.toml"), {}))


@pytest.mark.parametrize(
    ("config", "cluster", "anonymous", "name"),
    [
        (f"{CONFIG}ClusterName = alpha\n", "beta", False, "alpha"),
        (CONFIG, "beta", False, "beta"),
        (CONFIG, "", False, "out"),  # its folder's
        (f"{CONFIG}ClusterName = alpha\n", "beta", True, "out"),
    ],
)
def test_the_title_has_the_name_of_the_cluster(
    tmp_path: Path, config: str, cluster: str, anonymous: bool, name: str
) -> None:
    heading, *rows = JOBS.splitlines()
    dump = "\n".join([f"Cluster|{heading}", *(f"{cluster}|{row}" for row in rows)])
    log, _ = imported(tmp_path, dump, {"config": config}, anonymous=anonymous)
    assert site_name(log) == name
    assert ("alpha" in Path(log).read_text()) is (name == "alpha")


def test_a_log_has_the_name_of_its_file(tmp_path: Path) -> None:
    assert site_name("logs/CTC-SP2.swf.gz") == "CTC-SP2"
    assert site_name(str(tmp_path / "mine" / "log.swf")) == "mine"


@pytest.mark.parametrize(
    ("given", "missing", "baseline"),
    [
        ((), ALL, "assumed: EASY"),
        (("partitions", "qos", "assoc"), ("config", "nodes", "reservations", "outages"), "assumed: EASY"),
        (tuple(FILES), (), "slurm"),
    ],
)
def test_facts_that_an_import_lacks_are_missing_and_without_config_easy_is_assumed(
    tmp_path: Path, given: tuple[str, ...], missing: tuple[str, ...], baseline: str
) -> None:
    _, question = imported(tmp_path, JOBS, {name: FILES[name] for name in given})
    assert missing_facts(question) == missing
    assert baseline_name(question) == baseline


def test_a_scenario_may_say_facts_and_a_policy_that_was_asked_for_is_not_assumed(tmp_path: Path) -> None:
    log = str(write_log(tmp_path / "log.swf", 60))
    assert baseline_name(Question({"workload": {"swf": log}})) == "assumed: EASY"
    assert baseline_name(Question({"workload": {"swf": log}}, "easy", asked=True)) == "easy"
    assert baseline_name(Question({"workload": {"swf": log}}, {"preset": "easy"})) == "easy"  # of the site's file
    site = {
        "workload": {"swf": log},
        "cluster": {"nodes": 8, "preset": "2x4x1"},
        "limits": [{"qos": "a", "jobs": 1}],
        "script": [{"at_s": 1.0, "do": "reserve", "until_s": 2.0}],
    }
    assert missing_facts(Question(site, "conservative", asked=True)) == ("partitions", "associations", "outages")
