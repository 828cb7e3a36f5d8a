"""What the program reads of a machine, and the node that describes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hwmodel.cli.machines import make_machine, write

from cosched_hwmodel.cli.measuring.host import disk_obstacle, layout_of, read_host, seats_of
from cosched_hwmodel.cli.measuring.kernels import kernels_of
from cosched_hwmodel.cli.node_choice import seats_of_node, threads_of_seat
from cosched_hwmodel.cli.output import CommandError
from cosched_hwmodel.topology import Cache, load_preset, load_shape

CACHES = {1: ("32K", 1), 2: ("1M", 1), 3: ("16M", 2)}
EVERYTHING = frozenset(range(1024))


def test_a_regular_machine_is_a_node_of_the_same_parts(tmp_path: Path) -> None:
    host = read_host(*make_machine(tmp_path, 2, 4, 2, CACHES))
    layout = layout_of(host)
    assert (layout.sockets, layout.cores_per_socket, layout.threads_per_core) == (2, 4, 2)
    assert layout.caches == (Cache(1, 32, 1), Cache(2, 1024, 1), Cache(3, 16384, 2))
    assert layout.cpus == tuple(range(16))
    assert (host.memory_mb, host.available_mb) == (8192, 4096)
    assert [cpu.numa for cpu in host.cpus] == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert [*host.notes, *layout.notes] == []


def test_seats_are_every_way_of_sharing_the_closest_first(tmp_path: Path) -> None:
    host = read_host(*make_machine(tmp_path, 2, 4, 2, CACHES))
    seats = seats_of(host, EVERYTHING)
    assert [(seat.name, seat.row, seat.column) for seat in seats] == [
        ("core", 0, 8),
        ("L3", 0, 1),
        ("socket", 0, 2),
        ("node", 0, 4),
    ]
    assert [seat.name for seat in seats_of(host, frozenset({0, 2, 5}))] == ["socket", "node"]
    assert seats_of(host, frozenset({3})) == []


def test_threads_are_numbered_by_place_not_as_linux_does(tmp_path: Path) -> None:
    """On this machine neighbours of Linux lie on different sockets."""
    sys, proc = make_machine(tmp_path, 2, 2, 1, CACHES)
    for cpu in range(4):
        here = f"sys/devices/system/cpu/cpu{cpu}"
        write(tmp_path, {f"{here}/topology/physical_package_id": cpu % 2, f"{here}/topology/core_id": cpu // 2})
        write(tmp_path, {f"{here}/cache/index2/shared_cpu_list": f"{cpu % 2},{cpu % 2 + 2}"})
    layout = layout_of(read_host(sys, proc))
    assert layout.cpus == (0, 2, 1, 3)
    assert layout.caches[-1] == Cache(3, 16384, 2)


def test_irregular_machines_are_described_by_their_smallest_parts(tmp_path: Path) -> None:
    sys, proc = make_machine(tmp_path, 1, 3, 2, {2: ("2048K", 1), 3: ("9M", 3)})
    write(tmp_path, {"sys/devices/system/cpu/online": "0-4"})  # the last core has one thread in service
    write(
        tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list": "0-1,3-4" for cpu in (0, 1, 3, 4)}
    )
    layout = layout_of(read_host(sys, proc))
    assert (layout.cores_per_socket, layout.threads_per_core) == (3, 1)
    assert layout.caches == (Cache(3, 9216, 3),)
    assert layout.notes == (
        "cores: some have more threads than others; all are described with 1",
        "L2: not shared by equal groups of cores; left out",
    )


def test_without_sys_each_cpu_is_a_core(tmp_path: Path) -> None:
    host = read_host(tmp_path / "sys", tmp_path / "proc")
    assert layout_of(host).cores_per_socket == len(host.allowed) >= 1
    assert [note.partition(":")[0] for note in host.notes] == ["sockets and cores", "caches", "memory"]
    assert {kernel.kind for kernel in kernels_of(host, None, [])} == {"integer", "float", "chase", "stream", "network"}


def test_control_groups_limit_time_and_memory(tmp_path: Path) -> None:
    sys, proc = make_machine(tmp_path, 1, 4, 1)
    write(tmp_path, {"proc/self/cgroup": "0::/site/job"})
    write(tmp_path, {"sys/fs/cgroup/site/cpu.max": "150000 100000", "sys/fs/cgroup/site/job/cpu.max": "max 100000"})
    write(tmp_path, {"sys/fs/cgroup/site/job/memory.max": 1 << 30})
    host = read_host(sys, proc)
    assert (host.cpu_limit, host.usable, host.memory_mb) == (1.5, 1, 1024)
    assert any("1024 of 8192 MiB" in note for note in host.notes)


def test_the_network_card_with_the_fastest_link_counts(tmp_path: Path) -> None:
    sys, proc = make_machine(tmp_path, 1, 1, 1)
    assert read_host(sys, proc).network_mbs == 0
    for card, mbits in (("eth0", 1000), ("eth1", 25000), ("down", -1)):
        write(tmp_path, {f"sys/class/net/{card}/speed": mbits, f"sys/class/net/{card}/device/x": ""})
    write(tmp_path, {"sys/class/net/bridge/speed": 400000})  # no device: not a card
    assert read_host(sys, proc).network_mbs == 3125


def test_a_disk_must_be_a_disk(tmp_path: Path) -> None:
    write(tmp_path, {"proc/mounts": f"d / ext4 rw 0 0\nt {tmp_path.resolve()}/ram tmpfs rw 0 0"})
    (tmp_path / "ram").mkdir()
    assert disk_obstacle(str(tmp_path), tmp_path / "proc") is None
    assert "lies in memory (tmpfs)" in str(disk_obstacle(str(tmp_path / "ram"), tmp_path / "proc"))
    assert "is no folder" in str(disk_obstacle(str(tmp_path / "none")))


def test_kernels_for_caches_fit_into_the_memory_that_is_there(tmp_path: Path) -> None:
    sys, proc = make_machine(tmp_path, 1, 2, 1, CACHES)
    write(tmp_path, {"proc/meminfo": "MemTotal: 65536 kB\nMemAvailable: 65536 kB"})
    notes: list[str] = []
    names = [kernel.name for kernel in kernels_of(read_host(sys, proc), str(tmp_path), notes)]
    assert names == ["integer", "float", "cache1", "cache2", "memory", "stream", "disk", "network"]
    assert [note.partition(":")[0] for note in notes] == ["L3", "memory, stream"]
    assert all("memory is short" in note for note in notes)


def test_little_time_is_for_small_arrays(tmp_path: Path) -> None:
    sys, proc = make_machine(tmp_path, 1, 2, 1, CACHES)
    notes: list[str] = []
    kernels = kernels_of(read_host(sys, proc), None, notes, seconds=0.2)
    assert max(kernel.working_set_kb for kernel in kernels) == round(0.2 * 32 * 1024)
    assert "memory, stream: arrays of 6 MiB, as time is short; caches may hold a part of them" in notes


def test_the_seats_of_a_node() -> None:
    node = load_preset("two-socket-2x32")
    assert seats_of_node(node) == {"core": (0, 64), "L3": (0, 1), "socket": (0, 8), "node": (0, 32)}
    assert threads_of_seat(node, "socket") == (0, 8)
    with pytest.raises(CommandError, match="seat core: 2x2x1 has socket, node"):
        threads_of_seat(load_shape("2x2x1"), "core")
