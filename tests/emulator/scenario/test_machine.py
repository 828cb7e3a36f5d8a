"""Machines on a command line and in a scenario: presets, layouts, files of node classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.emulator.parts import VERBATIM

from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.cli.workload import workload
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.machine import build_machine, cores_of
from cosched_emulator.scenario.reader import read_scenario, scenario_of_table
from cosched_emulator.scenario.rules import check_cluster
from cosched_emulator.workload.swf.swf_reader import read_swf
from cosched_hwmodel.errors import TopologyError
from cosched_hwmodel.topology import load_preset, load_shape, parse_layout
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


def test_a_layout_is_sockets_cores_and_threads() -> None:
    (node,) = machine_of(nodes=3, node="2x16x2", memory_gb=256.0, bandwidth_gbs=204.8)
    assert node == NodeClass(3, 2, 16, 2, 256 * 1024, 204_800, 0, 0, 0)
    assert (node.threads, cores_of([node])) == (64, 96)
    plain = load_preset("single")
    (bare,) = machine_of(nodes=1, node="1x1x1")
    assert (bare.memory_mb, bare.memory_bandwidth_mbs) == (plain.memory_mb, 0)
    (changed,) = machine_of(node="rua-4way", bandwidth_gbs=0.0, memory_gb=0.5)
    assert (changed.memory_mb, changed.memory_bandwidth_mbs, changed.network_mbs) == (512, 0, 256)


def test_remaining_processors_make_a_smaller_node() -> None:
    classes = machine_of(processors=70, node="2x16x2")
    assert [(item.nodes, item.threads, item.threads_per_core) for item in classes] == [(2, 64, 2), (1, 12, 2)]
    assert cores_of(classes) == 70


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


def test_a_machine_file_may_have_layouts(tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    file.write_text(MACHINE)
    large, small = machine_of(machine=str(file))
    assert (large.nodes, large.threads, large.memory_mb, small.nodes, small.threads) == (3, 32, 65536, 1, 4)
    with pytest.raises(ConfigurationError, match="either a file or other keys, got file and nodes, memory_mb"):
        check_cluster(read_scenario(None, overrides({"machine": str(file), "nodes": 2, "memory_gb": 1.0})).cluster)


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


def test_a_model_draws_jobs_for_the_machine_of_the_command_line(tmp_path: Path) -> None:
    file, out = tmp_path / "machine.toml", tmp_path / "w.swf"
    file.write_text(MACHINE)

    def drawn(*options: str) -> int | None:
        arguments = ["lublin", "--jobs", "3", "--out", str(out), "--force", *options]
        assert CliRunner().invoke(workload, arguments).exit_code == 0
        return read_swf(str(out), VERBATIM).processors

    assert [drawn(), drawn("--processors", "7"), drawn("--nodes", "4", "--node", "2x3x2")] == [128, 7, 24]
    assert drawn("--machine", str(file)) == 3 * 16 + 4
    grown = ("--self-slowdowns", "table4", "--grow", "--usage-out")
    assert drawn("--nodes", "4", "--node", "g-lomarc-2x2", *grown, str(tmp_path / "a")) == 16
    assert drawn("--processors", "4", *grown, str(tmp_path / "b")) == 16
    both = CliRunner().invoke(workload, ["describe", "--lublin", "3", "--processors", "4", "--machine", str(file)])
    assert (both.exit_code, "--processors does not go with --nodes, --node or --machine" in both.output) == (2, True)
    described = CliRunner().invoke(workload, ["describe", str(out), "--node", "1x4x1", "--nodes", "5"])
    assert "20 processors" in described.output
