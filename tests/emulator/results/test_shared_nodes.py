"""Which policies may place several jobs on one node unasked, and what `simulate` says of them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cosched_emulator.cli.main import cli
from cosched_emulator.results.files.run_folder import may_share_nodes
from cosched_emulator.scenario.machine import build_machine
from cosched_emulator.scenario.sections import ClusterSection
from cosched_plugin.config import choose


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
