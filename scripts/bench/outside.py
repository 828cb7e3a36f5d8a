"""The cost of an external part: the worked example of a queue order, compared with the preset's own order, on the same jobs."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from scripts.bench.process import Figures
from scripts.doc_files import write_files
from scripts.tables import aligned_table

from cosched_emulator import prepare, simulate
from cosched_emulator.run.prepare import Prepared
from cosched_plugin.config import PolicyChoice, choose

PAGE: Final = "adding-a-part.md"
ORDERS: Final = {"fcfs": "fcfs", "shortest": "shortest", "fair share (outside)": "fair_share:FairShare"}
GOAL: Final = 1 / 3  # goal: share of easy's speed
USERS: Final = 40
NODES: Final = 256


def measure(jobs: int, pairs: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return the CPU time of ``easy`` with each order, in turns, and the relative speed with the external order (medians)."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        write_files(PAGE, Path(folder), ".py")
        sys.path.insert(0, folder)
        try:
            choices = {name: choose("easy", (f"order={order}",)) for name, order in ORDERS.items()}
            prepared = _with_users(jobs, Path(folder))
            used_s: dict[str, list[float]] = {name: [] for name in choices}
            for turn in range(pairs):
                for name, choice in choices.items():
                    tell(f"order {name}, turn {turn + 1} of {pairs}")
                    used_s[name].append(_cpu_s(choice, prepared))
        finally:
            sys.path.remove(folder)
    own_s = used_s["fcfs"]
    rows: list[Figures] = []
    for name, all_s in used_s.items():
        speed = statistics.median(own / each for own, each in zip(own_s, all_s, strict=True))
        reached = speed >= GOAL if "outside" in name else None
        rows.append(
            {"order": name, "jobs": jobs, "cpu_s": round(min(all_s), 3), "speed": round(speed, 3), "reached": reached}
        )
    return rows


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the figures as a table."""
    header = ("order of easy", "CPU s", "speed / fcfs", "reached")
    named = {True: "yes", False: "**no**", None: ""}
    body = [(row["order"], f"{row['cpu_s']:.2f}", f"{row['speed']:.2f}", named[row["reached"]]) for row in rows]
    about = f"{rows[0]['jobs']:,} Lublin jobs of {USERS} users on {NODES} nodes; the goal is a third of easy's speed."
    return [*aligned_table(header, body, 1), about, ""]


def _with_users(jobs: int, folder: Path) -> Prepared:
    """Return a scenario of the Lublin model whose users are drawn by Zipf's law: the k-th has 1/k times as many jobs as the first."""
    table = {"cluster": {"nodes": NODES}, "workload": {"lublin": jobs}}
    drawn = prepare(table)
    random = Random(1)
    weights = [1 / rank for rank in range(1, USERS + 1)]
    log = folder / "users.swf"
    with log.open("w", encoding="utf-8") as out:
        print(f"; MaxProcs: {NODES}", file=out)
        for job in drawn.workload.jobs:
            spec = job.spec
            run_s, asked_s = job.run_us // 10**6, max(1, spec.estimate_us // 10**6)
            user = random.choices(range(1, USERS + 1), weights)[0]
            print(
                spec.id, spec.submit_us // 10**6, 0, max(1, run_s), spec.processes, -1, -1, spec.processes, asked_s,
                -1, 1, user, 1, 1, 1, 1, -1, -1, file=out,
            )  # fmt: skip
    return prepare({"cluster": {"nodes": NODES}, "workload": {"swf": str(log)}})


def _cpu_s(choice: PolicyChoice, prepared: Prepared) -> float:
    began_s = time.process_time()
    simulate(prepared, choice)
    return time.process_time() - began_s
