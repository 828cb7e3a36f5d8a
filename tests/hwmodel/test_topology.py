"""Nodes, machines, presets, and errors of wrong descriptions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.processes import run_python

from cosched_hwmodel.errors import HardwareModelError, TopologyError
from cosched_hwmodel.topology import (
    Cache,
    MachineShape,
    NodeShape,
    from_table,
    load_machine,
    load_preset,
    preset_names,
    shape_from_table,
)
from cosched_hwmodel.usage import Demand

TWO_SOCKETS = NodeShape(
    "test",
    sockets=2,
    cores_per_socket=4,
    memory_mb=1024,
    threads_per_core=2,
    caches=(Cache(2, 512, 1), Cache(3, 8192, 2), Cache(4, 65536, 4)),
)


def test_threads_are_numbered_in_layers_over_cores() -> None:
    shape = TWO_SOCKETS
    assert (shape.cores, shape.threads) == (8, 16)
    assert [shape.core_of(thread) for thread in range(16)] == [*range(8), *range(8)]
    assert [shape.socket_of(thread) for thread in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [shape.socket_of(thread) for thread in range(8, 16)] == [0, 0, 0, 0, 1, 1, 1, 1]
    # Taking the lowest threads first uses every core once before any twice.
    assert len({shape.core_of(thread) for thread in range(shape.cores)}) == shape.cores
    for thread in (-1, 16):
        with pytest.raises(IndexError, match="of a node with 16"):
            shape.core_of(thread)


def test_presets_are_the_published_nodes() -> None:
    rua = load_preset("rua-4way")
    assert (rua.threads, rua.memory_mb, rua.capacity) == (4, 16384, Demand(6000, 256, 0))
    lomarc = load_preset("lomarc-ht")
    assert (lomarc.sockets, lomarc.cores, lomarc.threads, lomarc.memory_mb) == (1, 1, 2, 512)
    assert lomarc.caches == (Cache(2, 512, 1),)
    standard = load_preset("lomarc-standard")
    assert replace(standard, name="lomarc-ht") == lomarc  # the contention model states that its contexts take turns
    group = load_preset("g-lomarc-2x2")
    assert (group.sockets, group.cores_per_socket, group.threads) == (2, 2, 4)
    single = load_preset("single")
    assert (single.threads, single.capacity) == (1, Demand(0, 0, 0))
    modern = load_preset("two-socket-2x32")
    assert (modern.cores, modern.threads) == (64, 128)


def test_every_preset_loads() -> None:
    assert preset_names()
    for name in preset_names():
        assert load_preset(name).name == name


def test_machine_of_ctc(tmp_path: Path) -> None:
    path = tmp_path / "ctc.toml"
    path.write_text(
        '[[nodes]]\ncount = 84\npreset = "rua-4way"\n\n[[nodes]]\npreset = "rua-4way"\nname = "half"\nsockets = 2\n'
    )
    machine = load_machine(path)
    assert (machine.nodes, machine.threads) == (85, 338)
    rua = load_preset("rua-4way")
    assert machine.classes == ((84, rua), (1, replace(rua, name="half", sockets=2)))


def test_shape_without_preset() -> None:
    shape = shape_from_table(
        {"sockets": 1, "cores_per_socket": 8, "memory_mb": 64, "caches": [{"level": 3, "size_kb": 9, "cores": 8}]}
    )
    assert shape == NodeShape("node", 1, 8, 64, caches=(Cache(3, 9, 8),))


def test_swap_space_of_a_node() -> None:
    assert all(load_preset(name).swap_mb == 0 for name in preset_names())
    machine = from_table({"nodes": [{"preset": "single", "swap_mb": 4096}, {**PLAIN, "swap_mb": 7}, PLAIN]})
    assert [shape.swap_mb for _, shape in machine.classes] == [4096, 7, 0]


PLAIN: dict[str, Any] = {"sockets": 1, "cores_per_socket": 4, "memory_mb": 1}


@pytest.mark.parametrize(
    ("table", "where", "text"),
    [
        ({}, "nodes", "must be a list of at least one table"),
        ({"nodes": []}, "nodes", "must be a list"),
        ({"nodes": {"count": 1}}, "nodes", "must be a list"),
        ({"nodes": [3]}, "nodes[0]", "must be a table, not int 3"),
        ({"node": [PLAIN]}, "node", 'did you mean "nodes"?'),
        ({"nodes": [PLAIN, {**PLAIN, "sokets": 2}]}, "nodes[1].sokets", 'did you mean "sockets"?'),
        ({"nodes": [{**PLAIN, "qqq": 2}]}, "nodes[0].qqq", "known: busy_w, caches, cores_per_socket, count,"),
        ({"nodes": [{**PLAIN, "count": 0}]}, "nodes[0].count", "must be at least 1, not 0"),
        ({"nodes": [{**PLAIN, "count": "3"}]}, "nodes[0].count", "must be an integer, not str '3'"),
        ({"nodes": [{**PLAIN, "sockets": True}]}, "nodes[0].sockets", "must be an integer, not bool True"),
        ({"nodes": [{**PLAIN, "memory_mb": 4.0}]}, "nodes[0].memory_mb", "must be an integer, not float 4.0"),
        ({"nodes": [{**PLAIN, "name": 4}]}, "nodes[0].name", "must be a string, not int 4"),
        ({"nodes": [{**PLAIN, "sockets": 0}]}, "nodes[0].sockets", "must be at least 1, not 0"),
        ({"nodes": [{**PLAIN, "threads_per_core": -1}]}, "nodes[0].threads_per_core", "must be at least 1"),
        ({"nodes": [{**PLAIN, "network_mbs": -1}]}, "nodes[0].network_mbs", "0: unlimited"),
        ({"nodes": [{**PLAIN, "swap_mb": -1}]}, "nodes[0].swap_mb", "must be at least 0, not -1"),
        ({"nodes": [{**PLAIN, "swap_mb": 0.5}]}, "nodes[0].swap_mb", "must be an integer, not float 0.5"),
        ({"nodes": [{"sockets": 1, "cores_per_socket": 1}]}, "nodes[0].memory_mb", "is missing"),
        ({"nodes": [{"preset": "rua-4wya"}]}, "nodes[0].preset", 'did you mean "rua-4way"?'),
        ({"nodes": [{"preset": 4}]}, "nodes[0].preset", "must be a string"),
        ({"nodes": [{"preset": "single", "sockets": 0}]}, "nodes[0].sockets", "must be at least 1"),
        ({"nodes": [{**PLAIN, "caches": 3}]}, "nodes[0].caches", "must be a list of tables"),
        ({"nodes": [{**PLAIN, "caches": [{"level": 2}]}]}, "nodes[0].caches[0].size_kb", "is missing"),
        (
            {"nodes": [{**PLAIN, "caches": [{"level": 2, "size_kb": 1, "core": 1}]}]},
            "nodes[0].caches[0].core",
            'did you mean "cores"?',
        ),
        (
            {"nodes": [{**PLAIN, "caches": [{"level": 2, "size_kb": 1, "cores": 3}]}]},
            "nodes[0].caches[0].cores",
            "must divide the 4 cores of a socket, not 3",
        ),
        (
            {"nodes": [{**PLAIN, "caches": [{"level": 2, "size_kb": 0, "cores": 4}]}]},
            "nodes[0].caches[0].size_kb",
            "must be at least 1",
        ),
        (
            {"nodes": [{**PLAIN, "caches": [{"level": n, "size_kb": 1, "cores": 4} for n in (3, 2)]}]},
            "nodes[0].caches[1].level",
            "must be above 3, not 2",
        ),
        (
            {"nodes": [{**PLAIN, "caches": [{"level": n, "size_kb": 1, "cores": 8 // n} for n in (2, 4)]}]},
            "nodes[0].caches[1].cores",
            "must be a multiple of the 4 of the level before, not 2",
        ),
    ],
)
def test_errors_name_source_key_and_remedy(table: dict[str, Any], where: str, text: str) -> None:
    with pytest.raises(TopologyError) as caught:
        from_table(table, where="site.toml")
    assert caught.value.where == f"site.toml: {where}"
    assert text in caught.value.text
    assert str(caught.value) == f"site.toml: {where}: {caught.value.text}"
    with pytest.raises(TopologyError) as nameless:
        from_table(table)
    assert nameless.value.where == where


def test_unknown_preset_suggests_the_closest() -> None:
    with pytest.raises(TopologyError, match='no preset "g-lomarc"; did you mean "g-lomarc-2x2"'):
        load_preset("g-lomarc")
    with pytest.raises(TopologyError, match=r"known: .*rua-4way"):
        load_preset("../../etc/passwd")


def test_values_are_checked_however_a_shape_is_made() -> None:
    with pytest.raises(TopologyError, match="cores_per_socket: must be at least 1, not 0"):
        NodeShape("none", 1, 0, 1)
    with pytest.raises(TopologyError, match=r"same_nodes: needs nodes of one core .* not 1 with 4 each"):
        NodeShape("gpu", 1, 1, 1, threads_per_core=4, same_nodes=True)
    with pytest.raises(TopologyError, match="at least one class"):
        MachineShape(())
    with pytest.raises(TopologyError, match=r"nodes\[1\].count: must be at least 1, not -2"):
        MachineShape(((1, TWO_SOCKETS), (-2, TWO_SOCKETS)))
    assert issubclass(TopologyError, HardwareModelError)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    for name, content, text in (
        ("absent.toml", None, "cannot be read: No such file"),
        ("broken.toml", b"[[nodes]\n", "is not TOML: .*line 1"),
        ("latin.toml", b'name = "\xe9"\n', "is not TOML"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(TopologyError, match=text) as caught:
            load_machine(str(path))
        assert caught.value.where == str(path)


def test_machine_descriptions_are_loaded_without_numpy() -> None:
    modules = ("topology", "bandwidth", "composition", "usage", "draws", "contention", "units")
    program = (
        f"import sys; from cosched_hwmodel import {', '.join(modules)}; draws.uniform(1, 'x'); "
        "topology.load_preset('single'); print('numpy' in sys.modules)"
    )
    assert run_python("-c", program) == (0, "False\n", "")


def test_issue_slots_and_the_cost_of_misses_are_optional() -> None:
    table = {
        "preset": "lomarc-ht",
        "integer_slots_ppm": 1_000_000,
        "caches": [{"level": 2, "size_kb": 512, "cores": 1, "miss_ns": 120}],
    }
    shape = shape_from_table(table)
    assert (shape.integer_slots_ppm, shape.floating_slots_ppm) == (1_000_000, 0)
    assert shape.caches == (Cache(2, 512, 1, 120, 0),)
    with pytest.raises(TopologyError, match=r"integer_slots_ppm: must be at least 0 \(0: unlimited\), not -1"):
        shape_from_table({**table, "integer_slots_ppm": -1})
    with pytest.raises(TopologyError, match=r"caches\[0\]\.miss_ns: must be from 0 to 100000, not -2"):
        shape_from_table({**table, "caches": [{"level": 2, "size_kb": 512, "cores": 1, "miss_ns": -2}]})
