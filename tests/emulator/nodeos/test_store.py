"""Rates kept in a folder: the same numbers cold and warm, with several writers at once, and with damaged lines."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.processes import environment, start_python

from cosched_emulator.errors import InputError
from cosched_emulator.nodeos.fluid.fluid_cluster import FluidCluster
from cosched_emulator.nodeos.fluid.patterns import BRIEF, Placed, pattern_of
from cosched_emulator.nodeos.fluid.situations import NUMBERS, RateStore, Windows
from cosched_emulator.nodeos.programs import Barrier, Compute, Wait, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.paired_gang import fine_program

QUANTUM_US = 100_000


def run(windows: Windows) -> str:
    """Return what a cluster says of jobs that come and go."""
    chance = random.Random(4)
    cluster = FluidCluster(windows.settings, 4, 7, windows)
    told: list[object] = []
    places: dict[int, list[int]] = {}
    for quantum in range(40):
        if quantum % 4 == 0:
            places[quantum] = chance.sample(range(4), chance.randrange(1, 4))
            cluster.start(quantum, fine_program(0.3, chance.choice((300_000, 500_000))), places[quantum])
        able = [job for job in places if chance.random() < 0.7]
        cluster.allow(cluster.now_us, {node: [job for job in able if node in places[job]][-2:] for node in range(4)})
        while (reached := cluster.advance((quantum + 1) * QUANTUM_US)).ended:
            told.append(reached)
            for job in reached.ended:
                del places[job]
        told.append(cluster.collect())
        told.append([cluster.progress(job) for job in places])
    return repr(told)


def test_cold_and_warm_runs_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    alone = Windows(NodeSettings(), QUANTUM_US)
    expected = run(alone)
    cold = Windows(NodeSettings(), QUANTUM_US, tmp_path)
    assert run(cold) == expected
    assert cold.measured == alone.measured > 5
    assert run(cold) == expected
    warm = Windows(NodeSettings(tick_us=10_000, memory_mb=0), QUANTUM_US, tmp_path)
    assert run(warm) == expected
    assert warm.measured == warm.events == warm.damaged == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_rates_of_other_settings_are_not_taken(tmp_path: Path) -> None:
    for settings, quantum_us in (
        (NodeSettings(), QUANTUM_US),
        (NodeSettings(barrier_us=900), QUANTUM_US),
        (NodeSettings(local="rr"), QUANTUM_US),
        (NodeSettings(), 2 * QUANTUM_US),
    ):
        assert Windows(settings, quantum_us, tmp_path)._store is not None
    assert len(list(tmp_path.iterdir())) == 4
    Windows(NodeSettings(tick_us=1, io_logged_ppm=5, memory_mb=9), QUANTUM_US, tmp_path)  # these change no rate
    assert len(list(tmp_path.iterdir())) == 4


def test_damaged_lines_are_measured_again(tmp_path: Path) -> None:
    first = Windows(NodeSettings(), QUANTUM_US, tmp_path)
    expected = run(first)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    chance = random.Random(3)
    head = whole.index(b"\n") + 1
    for _ in range(20):
        damaged = bytearray(whole)
        if chance.random() < 0.5:
            damaged[chance.randrange(head, len(whole))] ^= 1 << chance.randrange(8)
        else:
            del damaged[chance.randrange(head, len(whole)) :]
        file.write_bytes(damaged)
        again = Windows(NodeSettings(), QUANTUM_US, tmp_path)
        assert run(again) == expected
        assert again.damaged <= 2  # a line, or two whose line end is gone
        final = Windows(NodeSettings(), QUANTUM_US, tmp_path)
        assert run(final) == expected
        assert final.measured == 0


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    Windows(NodeSettings(), QUANTUM_US, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text("something\nelse\n")
    with pytest.raises(InputError, match="rates measured with these settings, got another file"):
        Windows(NodeSettings(), QUANTUM_US, tmp_path)
    with pytest.raises(InputError, match="a file that can be written"):
        Windows(NodeSettings(), QUANTUM_US, file / "below")


WRITER = """
import sys
from pathlib import Path
from cosched_emulator.nodeos.fluid.situations import RateStore
store = RateStore(Path(sys.argv[1]), "test")
for number in range(int(sys.argv[2]), 10**9):
    if number == int(sys.argv[3]):
        break
    store.add(f"key {number}", (number / 7, 1 / (number + 1)))
"""


def test_processes_write_at_once_and_are_killed(tmp_path: Path) -> None:
    writers = [
        start_python("-c", WRITER, str(tmp_path), str(first), str(first + 400), env=environment())
        for first in (0, 400, 800)
    ]
    victim = start_python("-c", WRITER, str(tmp_path), "5000", "-1", env=environment())
    store = RateStore(tmp_path, "test")
    give_up_s = time.monotonic() + 30
    while store.find("key 5050", 2) is None and time.monotonic() < give_up_s:
        time.sleep(0.01)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate(timeout=10)
    for writer in writers:
        writer.communicate(timeout=30)
        assert writer.returncode == 0
    seen = RateStore(tmp_path, "test")
    for number in (*range(1_200), *range(5_000, 5_051)):
        assert seen.find(f"key {number}", 2) == (number / 7, 1 / (number + 1))
        assert store.find(f"key {number}", 2) == (number / 7, 1 / (number + 1))
    assert seen.damaged <= 1


# Rates in iterations a second. Where they change, `NUMBERS` must be raised, so that stored rates are measured again.
GOLDEN = {
    (2, "wake-first"): [403.533, 418.778, 84.867, 589.247],
    (2, "rr"): [314.246, 314.814, 100.548, 589.247],
    (2, "linux-epochs"): [399.234, 437.417, 86.063, 589.247],
}


@pytest.mark.parametrize("local", ["wake-first", "rr", "linux-epochs"])
def test_other_numbers_have_another_version(local: str) -> None:
    windows = Windows(NodeSettings(local=local, slice_us=10_000))
    fine, coarse = (Compute(753, 100_000), Barrier()), (Compute(5_000, 20_000), Wait(3_000), WriteFiles(1), Barrier())
    jobs = [Placed(fine, (0, 1)), Placed(coarse, (1, 2)), Placed(fine, (2,))]
    rates = [
        *windows.rates(pattern_of(jobs, [0] * 3, effort=BRIEF)[0]),
        *windows.rates(pattern_of(jobs[:1], [0] * 3)[0]),
    ]
    assert [round(rate * 1e6, 3) for rate in rates] == GOLDEN[NUMBERS, local]


def test_the_version_is_in_the_file(tmp_path: Path) -> None:
    Windows(NodeSettings(), QUANTUM_US, tmp_path)
    (file,) = tmp_path.iterdir()
    assert f'"numbers": {NUMBERS}'.encode() in file.read_bytes()
