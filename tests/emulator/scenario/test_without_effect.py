"""Settings without effect are refused or give a warning; a log without a machine size is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.ended_jobs import ended_jobs
from cosched_emulator.results.files.run_files import schedule_rows
from cosched_emulator.run.policy_warnings import settings_without_use, sums_of_pairs
from cosched_emulator.run.policy_warnings import warnings_of as policy_warnings
from cosched_emulator.run.prepare import prepare
from cosched_emulator.run.run import run
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

ROW = "{} 0 -1 {} 2 -1 -1 2 100 {} 1 1 1 1 -1 -1 -1 -1\n"


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "log.swf"
    file.write_text("; MaxProcs: 8\n" + ROW.format(1, 300, -1) + ROW.format(2, 100, 4096 * 1024))
    return str(file)


def warnings_of(table: dict[str, Any]) -> list[str]:
    return [note for note in prepare(read_scenario(None, table)).workload.notes if note.startswith("warning: ")]


@pytest.mark.parametrize(
    ("key", "value"), [("gap_factor", 0.5), ("run_factor", 2.0), ("aarr", 9.0), ("lublin_size", "nodes")]
)
def test_settings_of_the_model_are_refused_with_a_log(log: str, key: str, value: object) -> None:
    with pytest.raises(
        ConfigurationError, match=f"^workload.{key}: expected nothing: it has no effect without jobs of workload.lublin"
    ):
        prepare(read_scenario(None, {"workload": {"swf": log, key: value}}))


def test_the_floor_of_estimates_is_a_setting(log: str, tmp_path: Path) -> None:
    short = tmp_path / "short.swf"
    short.write_text("; MaxProcs: 8\n1 0 -1 2 2 -1 -1 2 5 -1 1 1 1 1 -1 -1 -1 -1\n")
    for table, estimate_us in (({}, 60_000_000), ({"minimum_estimate_s": 0}, 5_000_000)):
        (job,) = prepare(read_scenario(None, {"workload": {"swf": str(short), **table}})).workload.jobs
        assert (job.spec.estimate_us, job.spec.limit_us) == (estimate_us, estimate_us)
    assert "minimum_estimate_s" not in read_scenario(None, {"workload": {"swf": log}}).as_dict()["workload"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("cap_runs", False), ("skip_bad_rows", True), ("log_memory", False), ("minimum_estimate_s", 0.0)],
)
def test_settings_of_a_log_are_refused_with_the_model(key: str, value: object) -> None:
    with pytest.raises(
        ConfigurationError, match=f"^workload.{key}: expected nothing: it has no effect without jobs of workload.swf"
    ):
        prepare(read_scenario(None, {"workload": {"lublin": 3, key: value}}))


def test_an_estimate_factor_without_its_model_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^workload.estimate_factor: expected nothing.*estimates = \"f-model\""
    ):
        prepare(read_scenario(None, {"workload": {"lublin": 3, "estimates": "exact", "estimate_factor": 2.0}}))


def test_a_warmup_of_all_jobs_is_refused() -> None:
    table = {"workload": {"lublin": 3}, "results": {"warmup": 2}}
    assert prepare(read_scenario(None, table)).selection.warmup == 2
    with pytest.raises(ConfigurationError, match=r"^results.warmup: expected fewer jobs .* than there are, 3, got 3$"):
        prepare(read_scenario(None, {"workload": {"lublin": 3}, "results": {"warmup": 2, "cooldown": 1}}))


def test_settings_without_effect_give_warnings() -> None:
    found = warnings_of(
        {
            "workload": {"lublin": 3, "demand_low": [1, 0, 0], "grow_max_slowdown": 2.0},
            "belief": {"demand": "unknown", "usage_noise": 0.1, "self_slowdowns": "unknown"},
            "monitoring": {"above": 1.5},
        }
    )
    assert found == [
        "warning: belief.demand has no effect without workload.mix",
        "warning: belief.usage_noise has no effect without workload.characteristics or workload.annotations",
        "warning: belief.self_slowdowns has no effect without workload.self_slowdowns or workload.annotations",
        "warning: workload.demand_low has no effect without workload.mix",
        "warning: workload.grow_max_slowdown has no effect without workload.grow",
        "warning: monitoring.above has no effect without monitoring.after_s",
    ]
    assert warnings_of({"workload": {"lublin": 3, "mix": "high"}, "belief": {"demand": "unknown"}}) == []


def test_a_log_without_a_machine_size_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    file.write_text(ROW.format(1, 50, -1))
    with pytest.raises(ConfigurationError, match=r"^cluster.nodes: expected a number of nodes \(--nodes\).*MaxProcs"):
        prepare(read_scenario(None, {"workload": {"swf": str(file)}}))
    assert prepare(read_scenario(None, {"workload": {"swf": str(file)}, "cluster": {"nodes": 4}})).nodes[0].nodes == 4


def test_memory_of_a_log_beyond_all_nodes_gives_a_warning(log: str) -> None:
    def told(**settings: object) -> bool:
        table = {"cluster": {"nodes": 8, "memory_mb": 1024}, "workload": {"swf": log, **settings}}
        return any("1 jobs request more memory a process than any node has" in text for text in warnings_of(table))

    assert told()
    assert not told(log_memory=False)
    assert not told(memory_mb=5)


def test_the_summary_has_the_work_that_was_cut(log: str) -> None:
    prepared = prepare(read_scenario(None, {"workload": {"swf": log}}))
    summary = run(prepared, DirectLink(choose("easy").scheduler)).summary
    assert summary["cut_runs"] == {"jobs": 1, "work_lost": 0.5, "offered_load_logged": None, "offered_load": None}
    prepared = prepare(read_scenario(None, {"workload": {"swf": log, "cap_runs": False}}))
    assert "cut_runs" not in run(prepared, DirectLink(choose("easy").scheduler)).summary


@pytest.mark.parametrize(
    ("policy", "preset", "warns"),
    [("easy", "lomarc-ht", False), ("easy", "rua-4way", True), ("lomarc-r", "rua-4way", False)],
)
def test_a_truth_of_pairs_on_nodes_of_more_jobs_gives_a_warning(policy: str, preset: str, warns: bool) -> None:
    table = {
        "cluster": {"nodes": 4, "preset": preset},
        "workload": {"lublin": 3, "characteristics": "M1"},
        "truth": {"contention": "lomarc"},
    }
    found = sums_of_pairs(choose(policy), prepare(read_scenario(None, table)))
    assert (found is not None) == warns
    if found is not None:
        assert "is a model of two jobs on a node, and up to 4 may share one here" in found


def test_queue_and_partition_are_in_the_schedule(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    file.write_text("; MaxProcs: 8\n1 0 -1 50 2 -1 -1 2 100 -1 1 1 1 1 3 4 -1 -1\n")
    prepared = prepare(read_scenario(None, {"workload": {"swf": str(file)}}))
    finished = run(prepared, DirectLink(choose("easy").scheduler))
    assert schedule_rows(ended_jobs(finished.records))[0].split()[14:16] == ["3", "4"]


@pytest.mark.parametrize(("key", "value"), [("nas_memory_mb", 1), ("nas_sizes", [8]), ("nas_sizes", [9])])
def test_a_message_names_the_key_that_was_given(key: str, value: object) -> None:
    """A program of the usual list had no size left, and the list was blamed, which nobody had written."""
    table = {"cluster": {"nodes": 16}, "workload": {"nas": 3, key: value}, "time_sharing": {"nodes": "windows"}}
    with pytest.raises(ConfigurationError, match=rf"^workload.{key}: expected room for a kind of each program"):
        prepare(read_scenario(None, table))


OTHER_MODEL = {
    "truth": {"remainder": True, "c_scope": "cpu_cpu", "cpu": "standard", "pair_seed": 5, "good_share": 0.5, "paging": 2.0,
              "cos_shares": [100], "resources": ["network"]},
    "belief": {"remainder": True, "c_scope": "cpu_cpu", "pairs": "unknown", "resources": ["network"]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("contention", "used"),
    [
        ("none", set()),
        ("bandwidth", {"resources"}),
        ("lomarc", {"remainder", "c_scope", "cpu", "pair_seed", "good_share", "paging", "pairs"}),
        ("statistical", {"pair_seed", "cos_shares", "pairs"}),
    ],
)
def test_each_setting_of_contention_is_used_or_told(contention: str, used: set[str]) -> None:
    """Walks the keys of [truth] and [belief] that belong to models: of another model they were accepted without a word."""
    table = {"workload": {"lublin": 3}, **OTHER_MODEL, "truth": {**OTHER_MODEL["truth"], "contention": contention}}
    told = " ".join(warnings_of(table))
    for section, keys in OTHER_MODEL.items():
        for key in keys:
            assert (f"{section}.{key} has no effect without contention" in told) == (key not in used), key


def test_watts_of_polling_need_processes_that_poll() -> None:
    def told(sharing: dict[str, Any]) -> bool:
        watts = {"nodes": 4, "idle_w": 10.0, "busy_w": 5.0, "spin_w": 3.0}
        nas = {"nas": 2} if sharing.get("nodes") else {"lublin": 2}
        return "cluster.spin_w has no effect with processes that never poll" in " ".join(
            warnings_of({"cluster": watts | {"nodes": 16}, "workload": nas, "time_sharing": sharing})
        )

    assert told({})
    assert told({"nodes": "exact"})
    assert not told({"nodes": "windows"})
    assert not told({"nodes": "exact", "coscheduling": "sb"})


def test_a_log_of_cpu_time_that_nobody_reads_is_told() -> None:
    prepared = prepare(
        read_scenario(None, {"cluster": {"nodes": 4}, "workload": {"lublin": 2}, "time_sharing": {"tick_ms": 3.0}})
    )
    told = ["time_sharing.tick_ms has no effect under a policy without turns of slots"]
    assert settings_without_use(choose("easy"), prepared) == told
    assert settings_without_use(choose("gang"), prepared) == []


SHARED = {
    "cluster": {"nodes": 8, "preset": "lomarc-ht"},
    "workload": {"lublin": 3, "characteristics": "M1"},
    "truth": {"contention": "lomarc"},
}
PROCESSES = {"cluster": {"nodes": 8}, "workload": {"lublin": 3}}
SUSPENDED = "has no effect where no job is suspended so"


@pytest.mark.parametrize(
    ("policy", "table", "told", "other"),
    [
        ("easy", {**SHARED, "belief": {"usage": "unknown"}}, "belief.usage has no effect under a policy that", "lomarc-r"),
        ("easy", {**SHARED, "monitoring": {"after_s": 5}}, "monitoring.after_s has no effect under a policy that", "lomarc-r"),
        ("lomarc-r", {**SHARED, "preemption": {"resume_s": 5}}, f"preemption.resume_s {SUSPENDED}", "symbiosis-express"),
        ("lomarc-r", {**SHARED, "preemption": {"switch_s": 5}}, f"preemption.switch_s {SUSPENDED}", "symbiosis-express"),
        ("coscheduling", {**PROCESSES, "time_sharing": {"quantum_s": 2}}, "time_sharing.quantum_s has no effect under", "gang"),
        ("gang", {**PROCESSES, "time_sharing": {"local": "rr"}}, "time_sharing.local has no effect where", "paired-gang"),
    ],
)  # fmt: skip
def test_settings_that_no_part_of_the_policy_asks_for_are_named(
    policy: str, table: dict[str, Any], told: str, other: str
) -> None:
    prepared = prepare(read_scenario(None, table))
    assert [text for text in policy_warnings(choose(policy), prepared) if text.startswith(told)]
    assert not [text for text in policy_warnings(choose(other), prepared) if text.startswith(told)]


NODE = "[[nodes]]\ncount = 4\nsockets = 1\ncores_per_socket = 2\nthreads_per_core = 2\nmemory_mb = 1000\n"
SIDE = {
    "nodes.toml": NODE + "network_mbs = 100\ninteger_slots_ppm = 1000000\n",
    "lags.csv": "job,start_s\n99,5\n",
    "use.csv": "job,cpu,network,memory\n1,.5,.5,.1\n",
    "profiles.csv": "job,network_ppm,network_mbs,disk_ppm\n1,500000,60,9\n",
}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            {"cluster": {"file": "nodes.toml"}},
            "cluster.file: network_mbs has no effect where no job slows another one down",
        ),
        ({"cluster": {"file": "nodes.toml"}}, "cluster.file: integer_slots_ppm: no effect without contention"),
        ({"manager": {"lags": "lags.csv"}}, "manager.lags: the file names none of the 3 jobs"),
        ({"workload": {"lublin": 3, "mix": "med"}}, "workload.mix has no effect under this contention"),
        (
            {"workload": {"lublin": 3, "mix": "med"}, "belief": {"contention": "lomarc", "demand": "unknown"}},
            'belief.demand has no effect without contention = "bandwidth"',
        ),
        (
            {"workload": {"lublin": 3, "characteristics": "M1"}, "belief": {"usage_noise": 0.1}},
            'belief.usage_noise has no effect without contention = "lomarc"',
        ),
        ({"workload": {"lublin": 3, "characteristics": "M1"}}, "workload.characteristics has no effect under"),
        (
            {"workload": {"lublin": 3, "annotations": "use.csv"}},
            "workload.annotations (bound, cpu, network, disk, memory) has no",
        ),
        (
            {
                "cluster": {"file": "nodes.toml"},
                "truth": {"contention": "composite"},
                "workload": {"lublin": 3, "profiles": "profiles.csv"},
            },
            "workload.profiles (disk_ppm): no effect where no node has a limit of that",
        ),
    ],
)
def test_facts_that_nobody_uses_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], told: str
) -> None:
    """A file's columns and keys, too: they were accepted without a word, as the record of a job has what is told of it."""
    monkeypatch.chdir(tmp_path)
    for name, text in SIDE.items():
        (tmp_path / name).write_text(text)
    prepared = prepare(read_scenario(None, {"workload": {"lublin": 3}, **table}))
    assert [text for text in policy_warnings(choose("easy"), prepared) if told in text]


LOMARC = {"workload": {"lublin": 3, "characteristics": "M1"}}
UNLIMITED = {"preset": "rua-4way", "memory_bandwidth_mbs": 0}  # the preset's limit, taken away
MIXED = {"workload": {"lublin": 3, "mix": "med"}}


@pytest.mark.parametrize(
    ("policy", "table", "key"),
    [
        ("easy", {**LOMARC, "truth": {"contention": "lomarc"}}, "workload.characteristics"),
        ("lomarc-r", {**LOMARC, "belief": {"contention": "lomarc"}}, "workload.characteristics"),
        (
            "easy",
            {"workload": {"lublin": 3, "self_slowdowns": "table4", "grow": True}, "time_sharing": {}},
            "workload.self",
        ),
        ("rua", {**MIXED, "cluster": {"preset": "rua-4way"}}, "workload.mix"),
        ("easy", {**MIXED, "cluster": UNLIMITED, "belief": {"demand": "unknown"}}, "cluster.memory_bandwidth_mbs"),
    ],
)
def test_facts_and_limits_that_count_are_not_named(policy: str, table: dict[str, Any], key: str) -> None:
    """Each changes the run: a claim that it does not would be wrong."""
    prepared = prepare(read_scenario(None, table))
    assert not [text for text in policy_warnings(choose(policy), prepared) if key in text]
