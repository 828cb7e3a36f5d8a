"""What is said before a run: policies that lack what they need to know, and policies that may share nodes unasked."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from cosched_emulator import prepare
from cosched_emulator.cli.main import cli
from cosched_emulator.results.files.run_folder import may_share_nodes
from cosched_emulator.run.policy_warnings import idle_matching, idle_placement, idle_slices
from cosched_emulator.scenario.machine import build_machine
from cosched_emulator.scenario.sections import ClusterSection
from cosched_hwmodel.models.by_name import OF_PAIRS
from cosched_plugin.config import choose

UNTOLD = f'of pairs (truth.contention = "bandwidth"; give --contention {", ".join(OF_PAIRS[:-1])} or {OF_PAIRS[-1]})'
USAGE = {"characteristics": "M1"}
LOMARC = {"contention": "lomarc"}
STATISTICAL = {"contention": "statistical"}


@pytest.mark.parametrize(
    ("policy", "sections", "told"),
    [
        ("lomarc-r", {"workload": USAGE}, UNTOLD),
        ("lomarc-r", {"workload": USAGE, "truth": LOMARC, "belief": {"contention": "none"}}, 'of pairs (belief.contention = "none")'),
        ("lomarc-r", {"truth": LOMARC}, "of how jobs use their nodes (give --characteristics or --annotations)"),
        ("lomarc-r", {"workload": USAGE, "truth": LOMARC, "belief": {"usage": "unknown"}},
         "of how jobs use their nodes (belief.usage, belief.usage_missing)"),
        ("lomarc-r", {"workload": USAGE, "truth": LOMARC}, None),
        ("lomarc-r", {"workload": USAGE, "belief": LOMARC}, None),
        ("lomarc-r", {"truth": STATISTICAL}, None),
        ("glts", {"workload": USAGE}, UNTOLD),
        ("glts", {"truth": STATISTICAL, "belief": {"contention": "none"}}, 'of pairs (belief.contention = "none")'),
        ("glts", {"truth": STATISTICAL}, None),
        ("glts", {"truth": LOMARC}, "of how jobs use their nodes (give --characteristics or --annotations)"),
        ("glts", {"workload": USAGE, "truth": LOMARC}, None),
        ("ssp", {}, None),
        ("ac", {}, None),
        ("easy", {}, None),
    ],
)  # fmt: skip
def test_a_matching_without_knowledge_of_pairs_gives_a_warning(
    policy: str, sections: dict[str, Any], told: str | None
) -> None:
    table = {"cluster": {"nodes": 4}, **sections, "workload": {"lublin": 3, **sections.get("workload", {})}}
    choice = choose(policy)
    found = idle_matching(choice, prepare(table))
    expected = f"matching {choice.settings['matching']['name']} will pair no jobs: the scheduler knows nothing {told}"
    assert found == (None if told is None else expected)


RUA_NODES: dict[str, Any] = {"nodes": 4, "preset": "rua-4way"}


@pytest.mark.parametrize(
    ("policy", "sections", "told"),
    [
        ("rua", {"cluster": RUA_NODES, "workload": {"mix": "med"}}, None),
        ("lct", {"cluster": RUA_NODES}, "lessconsume-threshold finds all nodes equally good: it knows no job's demand (--mix)"),
        ("rua", {"cluster": {"nodes": 4}, "workload": {"mix": "med"}}, "lessconsume finds all nodes equally good: no node has a limit"),
        ("rua", {"cluster": RUA_NODES, "workload": {"mix": "med"}, "belief": {"contention": "none"}}, "the scheduler believes in no"),
        ("rua", {"cluster": RUA_NODES, "workload": {"mix": "med"}, "belief": {"demand": "unknown"}}, "it knows no job's demand"),
        ("easy", {"cluster": {"nodes": 4}}, None),
    ],
)  # fmt: skip
def test_a_placement_without_differences_between_nodes(policy: str, sections: dict[str, Any], told: str | None) -> None:
    table = {**sections, "workload": {"lublin": 3, **sections.get("workload", {})}}
    found = idle_placement(choose(policy), prepare(table))
    assert (found is None) == (told is None)
    assert told is None or (found is not None and told in found)


def test_limits_that_are_not_extended_are_named() -> None:
    prepared = prepare({"cluster": RUA_NODES, "workload": {"lublin": 3}})
    told = "placement first-fit extends no limit (extend_limit): it knows no job's demand (--mix)"
    assert idle_placement(choose("easy", ["placement.extend_limit=true"]), prepared) == told


@pytest.mark.parametrize(
    ("policy", "memory_mb", "swap_mb", "warns"),
    [("glts", 100, 0, True), ("glts", 100, 1 << 20, False), ("glts", 0, 0, False), ("lomarc-r", 100, 0, False)],
)
def test_slices_without_swap_space_give_a_warning(policy: str, memory_mb: int, swap_mb: int, *, warns: bool) -> None:
    table = {
        "cluster": {"nodes": 4, "preset": "g-lomarc-2x2", "swap_mb": swap_mb},
        "workload": {"lublin": 3, "memory_mb": memory_mb},
    }
    found = idle_slices(choose(policy), prepare(table))
    assert (found is not None) == warns
    if found is not None:
        assert "nodes with 0 MiB of swap space" in found


@pytest.mark.parametrize(
    ("policy", "changes", "node", "exclusive", "expected"),
    [
        ("easy", (), "lomarc-ht", False, True),
        ("conservative", ("placement=packed",), "2x4x1", False, True),
        ("easy", (), "single", False, False),
        ("easy", (), "lomarc-ht", True, False),
        ("easy", ("shape=nodes",), "lomarc-ht", False, False),
        ("pss", (), "lomarc-ht", False, False),
        ("rua", (), "rua-4way", False, False),
        ("lct", (), "rua-4way", False, False),
        ("coscheduling", (), "1x1x3", False, False),
        ("batch-contiguous", (), "1x1x3", False, False),
    ],
)
def test_policies(policy: str, changes: tuple[str, ...], node: str, exclusive: bool, expected: bool) -> None:
    settings = choose(policy, changes).settings
    assert (
        may_share_nodes(settings, build_machine(ClusterSection(nodes=4, preset=node)), exclusive=exclusive) is expected
    )


def test_what_is_not_known_is_not_told() -> None:
    machine = build_machine(ClusterSection(nodes=4, preset="lomarc-ht"))
    assert not may_share_nodes({"name": "mine"}, machine, exclusive=False)
    assert not may_share_nodes({"shape": "threads"}, machine, exclusive=False)


def test_simulate_says_it() -> None:
    note = "note: easy may place several jobs on one node; --set shape=nodes for whole nodes"
    simulate = ["simulate", "--lublin", "5", "--nodes", "8", "--node", "lomarc-ht", "--policy", "easy"]
    said = CliRunner().invoke(cli, simulate)
    assert note in said.stderr.splitlines()
    assert "efficiency, shape threads" in said.stdout
    assert "note: " not in CliRunner().invoke(cli, [*simulate, "--json"]).stderr
    whole = CliRunner().invoke(cli, [*simulate, "--set", "shape=nodes"])
    assert note not in whole.stderr
    assert "efficiency, shape nodes" in whole.stdout
