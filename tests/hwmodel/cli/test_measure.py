"""The command ``measure`` on this machine: what it writes, what it leaves, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.commands import Commands, assert_one_line
from tests.processes import ended, environment, is_alive, run_python, wait_until

from cosched_hwmodel.cli.measuring import kernels as worker_module
from cosched_hwmodel.cli.measuring.host import HostSeat
from cosched_hwmodel.cli.measuring.kernels import (
    NUMPY,
    Kernel,
    KernelError,
    Toolchain,
    Worker,
    command_of,
    prepare,
    run_together,
    toolchain,
    workers,
)
from cosched_hwmodel.cli.measuring.measuring_session import MeasuringSession
from cosched_hwmodel.cli.node_choice import seats_of_node
from cosched_hwmodel.measured.co_run_table import read_table
from cosched_hwmodel.topology import load_nodes

CPU = min(os.sched_getaffinity(0))
COMPILER = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
KINDS = ("integer 0", "float 0", "chase 256", "stream 1024", "disk .", "network 0")
needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a pair needs two CPUs")


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("compilers", [("cc", "gcc", "clang"), ()], ids=["compiler", NUMPY])
def test_every_kernel_works(compilers: tuple[str, ...]) -> None:
    with toolchain([], compilers) as tools, workers() as started:
        assert tools.made_by == (COMPILER if compilers and COMPILER else NUMPY)
        for kind in KINDS:
            name, argument = kind.split()
            started.append(Worker(command_of(tools, Kernel(name, name, argument, ""), 20), CPU))
        for worker in started:
            prepare(worker)
        for worker, kind in zip(started, KINDS, strict=True):
            (did,) = run_together([worker], 1000, 10_000)
            assert did.units > 0, kind
            assert 0 < did.ns < 5e9, kind


def test_a_kernel_that_cannot_work_says_why(tmp_path: Path) -> None:
    with toolchain([]) as tools, workers() as started:
        started.append(Worker(command_of(tools, Kernel("disk", "disk", str(tmp_path / "none"), ""), 20), CPU))
        with pytest.raises(KernelError, match="No such file or directory"):
            prepare(started[0])


def test_a_kernel_that_hangs_or_dies_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "START_S", 0.1)
    with workers() as started:
        started.append(Worker([sys.executable, "-c", "import time; time.sleep(60)"], CPU))
        started.append(Worker(["true"], CPU))
        pids = [worker._process.pid for worker in started]
        began = time.monotonic()
        with pytest.raises(KernelError, match="did not answer in time"):
            prepare(started[0])
        monkeypatch.setattr(worker_module, "START_S", 10.0)
        with pytest.raises(KernelError, match="ended unexpectedly"):
            prepare(started[1])
        assert time.monotonic() - began < 5
    assert not any(map(is_alive, pids))


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="cannot be started"):
        Worker([str(tmp_path / "none")], CPU)
    with pytest.raises(KernelError, match="cannot be pinned to CPU 1000000"):
        Worker(["true"], 1_000_000)


def test_a_compiler_that_fails_leaves_the_work_to_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'kernels.c:1: error: no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    notes: list[str] = []
    with toolchain(notes) as tools:
        assert tools.made_by == NUMPY
    assert len(notes) == 1
    assert "cc failed: kernels.c:1: error: no such header; numpy" in notes[0]


# A program in place of the kernels: it does 1000 units in each window, at once.
STEADY = """
import sys
for number, line in enumerate(sys.stdin):
    if sys.argv[1] == "broken":
        print("failed broken", flush=True)
    else:
        print("ready" if number == 0 else "did 1000 1000", flush=True)
"""


def test_a_session_goes_on_without_a_broken_kernel() -> None:
    tools = Toolchain((sys.executable, "-c", STEADY), "a test")
    kernels = [Kernel(name, name, "0", "operations") for name in ("good", "broken", "fine")]
    notes: list[str] = []
    windows: list[tuple[int, int]] = []
    session = MeasuringSession(tools, 30.0, 1, notes, lambda done, total: windows.append((done, total)))
    session.measure_seat(HostSeat("L3", CPU, max(os.sched_getaffinity(0))), kernels)
    assert notes == ["broken: broken; not measured"]
    ratios = {(pair.row, pair.column): pair.ratio for pair in session.pairs()}
    if len(os.sched_getaffinity(0)) > 1:
        assert {pair: ratio.value for pair, ratio in ratios.items()} == {
            (row, column): 1.0 for row in ("good", "fine") for column in ("good", "fine")
        }
        assert all(ratio.spread == 0.0 and ratio.repeats > 1 for ratio in ratios.values())
    assert [each.kernel for each in session.alone()] == ["good", "fine"]
    assert [done for done, _ in windows] == list(range(1, len(windows) + 1))
    assert session.measure_capacity(kernels[1], [CPU]) is None
    assert notes[1:] == ["broken on all CPUs: broken"]


# ---------------------------------------------------------------- the command


def test_measure_writes_a_node_that_can_be_read(commands: Commands) -> None:
    ran = commands.hwmodel("measure", "--seconds", "0.2", "--out", "node.toml", "--json", "--name", 'a "node"')
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    ((count, node),) = load_nodes(str(commands.folder / "node.toml")).classes
    assert (count, node.name) == (1, 'a "node"')
    assert node.memory_bandwidth_mbs > 0
    assert node.disk_mbs > 0 or any(note.startswith("disk:") for note in found["notes"])
    assert len(found["cpus"]) == node.threads
    pairs = {(pair["row"], pair["column"]) for pair in found["pairs"]}
    names = [kernel["name"] for kernel in found["kernels"]]
    assert {"integer", "float", "memory", "stream", "network"} <= set(names)
    measured = {each["kernel"] for each in found["alone"]}
    assert measured == set(names)
    for seat in {pair["seat"] for pair in found["pairs"]}:
        table = read_table(commands.folder / f"node-pairs-{seat}.csv")
        assert set(table.ratios) == pairs == {(row, column) for row in names for column in names}
        assert seat in seats_of_node(node)
        # How large they are is said by a whole measurement on an idle machine; windows of 10 ms beside other tests say nothing.
        assert all(ratio > 0 for ratio in table.ratios.values())
    if len(os.sched_getaffinity(0)) == 1:
        assert any("a pair needs 2" in note for note in found["notes"])
    assert commands.left_over() == []
    assert found["files"][0] == "node.toml"
    assert sorted(found["files"]) == sorted(path.name for path in commands.folder.iterdir() if path.is_file())


def test_one_cpu_is_enough_for_all_but_pairs(commands: Commands) -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from cosched_hwmodel.cli.main import main; main()"
    ran = run_python(
        "-c", program, "measure", "--seconds", "0.2", "--no-disk", folder=commands.folder, env=commands.environment
    )
    assert ran.code == 0, ran.err
    assert "pairs: this process may use one CPU only, a pair needs 2" in ran.out
    assert "disk: not asked for; --disk FOLDER names a folder on a disk" in ran.out
    assert "stream" in ran.out
    assert commands.left_over() == []


@needs_two_cpus
def test_an_interrupt_leaves_no_process_and_no_file(commands: Commands) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        child = commands.start("cosched_hwmodel", "measure", "--seconds", "10", "--out", "node.toml")
        wait_until(lambda child=child: len(children(child.pid)) > 10)  # type: ignore[misc]
        kernels = children(child.pid)
        child.send_signal(number)
        ran = ended(child)
        assert (ran.code, ran.out) == (code, "")
        # The program waits two seconds for those that it has killed; a busy machine may take longer. They would run for ten.
        wait_until(lambda kernels=kernels: not any(map(is_alive, kernels)), 5)  # type: ignore[misc]
        assert commands.left_over() == []
        assert not list(commands.folder.glob("*node*"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--out", "there.toml"), "there.toml: expected a new file, and it exists (--force replaces it)"),
        (("--out", "none/node.toml"), "none/node.toml: expected a folder that can be written to, and none is none"),
        (("--disk", ".", "--no-disk"), "--disk and --no-disk: expected at most one of them"),
        (("--seconds", "0"), "Invalid value for '--seconds'"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(commands: Commands, arguments: tuple[str, ...], text: str) -> None:
    (commands.folder / "there.toml").write_text("x")
    assert text in assert_one_line(commands.hwmodel("measure", *arguments), 2, "cosched-hwmodel")


def test_help_loads_neither_numpy_nor_the_kernels() -> None:
    program = (
        "import sys; from cosched_hwmodel.cli.main import cli\n"
        "try: cli(['measure', '--help'])\n"
        "except SystemExit: print([name for name in ('numpy', 'cosched_hwmodel.topology') if name in sys.modules])"
    )
    ran = run_python("-c", program, env=environment())
    assert ran.code == 0, ran.err
    assert (
        ran.out.endswith("cosched-hwmodel measure --out node.toml\n  cosched-hwmodel show node.toml\n\n[]\n")
        or "[]" in ran.out
    )


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--numpy",)])
def test_a_whole_measurement_takes_less_than_two_minutes(commands: Commands, more: tuple[str, ...]) -> None:
    began = time.monotonic()
    child = commands.start("cosched_hwmodel", "measure", "--out", "node.toml", "--json", *more)
    try:
        ran = ended(child, 120)
    except subprocess.TimeoutExpired:
        pytest.fail("more than two minutes")
    assert ran.code == 0
    assert time.monotonic() - began < 120
    found = json.loads(ran.out)
    assert all(pair["repeats"] >= 5 for pair in found["pairs"])
    rates = {each["kernel"]: each["value"] for each in found["alone"]}
    caches = sorted(name for name in rates if name.startswith("cache"))
    if not more:  # a call of numpy costs more than loads from a small cache
        assert [rates[name] for name in caches] == sorted((rates[name] for name in caches), reverse=True)
    assert all(rates[name] > rates["memory"] for name in caches)
