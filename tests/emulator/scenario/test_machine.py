"""Machines on a command line and in a scenario: presets, layouts, files of node classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.machine import build_machine
from cosched_emulator.scenario.reader import read_scenario, scenario_of_table
from cosched_emulator.scenario.rules import check_cluster
from cosched_hwmodel.errors import TopologyError
from cosched_hwmodel.topology import load_shape, parse_layout
from cosched_plugin.protocol.messages import NodeClass

MACHINE = """
[[nodes]]
count = 3
preset = "2x8x2"
memory_mb = 65536
[[nodes]]
preset = "rua-4way"
"""


def machine_of(**options: object) -> tuple[NodeClass, ...]:
    return build_machine(read_scenario(None, overrides(options)).cluster)


@pytest.mark.parametrize(
    "text", ["2x16", "2x16x2x1", "x16x2", "2x-1x2", "2 x 16 x 2", "2X16X2", "٢x16x2", "1000000000x1x1"]
)
def test_malformed_layouts_are_refused(text: str) -> None:
    assert parse_layout(text) is None
    with pytest.raises(TopologyError, match="or sockets x cores x threads such as 2x16x2"):
        load_shape(text)
    with pytest.raises(
        ConfigurationError, match="expected sockets x cores x threads, such as 2x16x2, or one of"
    ) as caught:
        machine_of(node=text)
    assert caught.value.path == "cluster.preset"


def test_options_replace_the_other_way_to_name_a_machine(tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    file.write_text(MACHINE)
    by_file, by_shape = {"cluster": {"file": str(file)}}, {"cluster": {"nodes": 2, "preset": "1x4x1", "memory_mb": 8}}
    (shape,) = build_machine(scenario_of_table(by_file, overrides({"nodes": 5, "node": "1x8x1"})).cluster)
    assert (shape.nodes, shape.threads) == (5, 8)
    assert scenario_of_table(by_shape, overrides({"machine": str(file)})).cluster.file == str(file)
    kept = scenario_of_table(by_shape, overrides({"nodes": 3})).cluster
    assert (kept.nodes, kept.memory_mb) == (3, 8)
    with pytest.raises(ConfigurationError, match="either a file or other keys, got file and idle_w"):
        check_cluster(scenario_of_table(by_file, overrides({"idle_w": 90.0})).cluster)
