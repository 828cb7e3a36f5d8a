"""How long the processes of each skeleton must compute so that a job alone takes the time of the paper's Table 1.

And how much of that time messages take whatever their size: what a job alone takes longer with a grain of 1/8, over seven.

    .venv/bin/python -m scripts.papers.coscheduling.calibrate [--only CG.C.16 ...]

Each kind of job runs alone on exact nodes, as the paper measured it: processes poll. A few whole iterations are enough, and
all where a program has few. What is found is written to ``compute_shares.csv`` beside the skeletons; it takes some minutes.
It must be repeated when messages cost something else.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from cosched_emulator.nodeos import skeletons
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import Compute
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.nas_programs import iterations_of, program_of_work
from cosched_emulator.workload.nas import NasKind, kinds
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

# Nodes of the paper: 10 us one way with the CPU time of both ends, and what it does not say (docs/skeletons.md).
NODES: Final = NodeSettings(
    local="linux-epochs",
    coscheduling="nls",
    message_cpu_us=2,
    receive_cpu_us=2,
    latency_us=6,
    network_mb_s=80,
    rendezvous_bytes=16_384,
    interrupt_us=0,
    refill_us=300,
    daemon_us=2_000,
)
FILE: Final = Path(skeletons.__file__).with_name("compute_shares.csv")
COLUMNS: Final = ("program", "class", "processes", "computing_ppm", "alone_s", "messages_ppm")
LEAST_S: Final = 5.0  # of a run alone, if the program is that long, and
LEAST_ITERATIONS: Final = 4
LEAST_BURSTS: Final = 400  # of a process, on which jitter is drawn
ROUNDS: Final = 3
FINE: Final = 1 / 8  # grain with which the time of messages is measured
_FIRST_GUESS: Final = 0.9


class Found(NamedTuple):
    """What was found for a kind of job."""

    kind: NasKind
    computing_ppm: int  # share of the time alone in which a process computes
    alone_s: float  # that time, in seconds
    messages_ppm: int  # share of it that messages take whatever their size


def alone_s(
    kind: NasKind,
    share: float,
    nodes: NodeSettings = NODES,
    seed: int = 1,
    least_s: float = LEAST_S,
    grain: float = 1.0,
) -> float:
    """Return how long a job takes alone if a process computes for this share of the time that it should take."""
    work_us = kind.seconds * SECOND_US * share
    (main, *_) = program_of_work(*kind, work_us, None, grain=grain).loops
    bursts = sum(isinstance(operation, Compute) for operation in main.body_of(0))
    iterations = max(LEAST_ITERATIONS, math.ceil(LEAST_BURSTS / bursts), math.ceil(least_s / kind.seconds * main.times))
    iterations = min(main.times, iterations)
    program = program_of_work(*kind, work_us, iterations, grain=grain)
    cluster = ExactCluster(nodes, kind.processes, seed)
    cluster.start(0, program, range(kind.processes))
    cluster.allow(0, {node: [0] for node in range(kind.processes)})
    reached = cluster.advance(round(100 * kind.seconds * SECOND_US))
    assert reached.ended == (0,), f"{kind.name} does not end"
    return reached.now_us / SECOND_US * main.times / iterations


def calibrate(kind: NasKind) -> Found:
    """Return the share with which a job takes its time alone."""
    share = _FIRST_GUESS
    for _ in range(ROUNDS):
        took_s = alone_s(kind, share)
        share += (kind.seconds - took_s) / kind.seconds
    computing_ppm = round(share * WHOLE_PPM)
    took_s = alone_s(kind, computing_ppm / WHOLE_PPM)
    return Found(kind, computing_ppm, took_s, messages_ppm(kind, computing_ppm, took_s))


def messages_ppm(kind: NasKind, computing_ppm: int, took_s: float) -> int:
    """Return what share of a job's time alone messages take whatever their size: with finer programs there are more of them."""
    usual, finer = (iterations_of(*kind, grain=grain) for grain in (1.0, FINE))
    fine_s = alone_s(kind, computing_ppm / WHOLE_PPM, grain=FINE)
    return max(1, round((fine_s - took_s) / kind.seconds / (finer / usual - 1) * WHOLE_PPM))


def main() -> None:
    """Calibrate all kinds, or some; print how far each is from its time, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", metavar="KIND", help="such as CG.C.16; the others keep what they have")
    only = parser.parse_args().only
    chosen = [kind for kind in kinds() if only is None or kind.name in only]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(calibrate, chosen))
    for kind, computing_ppm, took_s, each_ppm in found:
        error = took_s / kind.seconds - 1
        shares = f"computes {computing_ppm / WHOLE_PPM:.3f}, messages {each_ppm / WHOLE_PPM:.4f}"
        print(f"{kind.name:18} {shares}, alone {took_s:9.2f} s ({100 * error:+.2f} %)")
    write(found)


def write(found: Sequence[Found]) -> None:
    """Write what was found; rows of other kinds stay."""
    rows: dict[tuple[str, ...], tuple[str, ...]] = {}
    if FILE.exists():
        with FILE.open(encoding="utf-8", newline="") as stream:
            rows = {tuple(row[:3]): tuple(row) for row in list(csv.reader(stream))[1:]}
    for kind, computing_ppm, took_s, each_ppm in found:
        rows[kind.program, kind.size_class, str(kind.processes)] = (
            *(kind.program, kind.size_class, str(kind.processes)),
            *(str(computing_ppm), f"{took_s:.3f}", str(each_ppm)),
        )
    order = [(kind.program, kind.size_class, str(kind.processes)) for kind in kinds()]
    with FILE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows[key] for key in order if key in rows)


if __name__ == "__main__":
    main()
