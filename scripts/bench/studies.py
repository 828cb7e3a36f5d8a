"""What a study gains: its runs in one worker process and in two, compared with a shell's loop over the command ``simulate``."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from scripts.bench.process import Figures
from scripts.tables import aligned_table

NODES: Final = 128
MOST_S: Final = 600.0  # longest time of one way
GOALS: Final = {"study --jobs 1": 1.8, "xargs -P 2": 1.3}  # how many times as fast `study --jobs 2` is


def measure(runs: int, jobs: int, turns: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return the wall times of all ways, in turns, and how many times as fast two workers are (medians of the turns)."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        experiment = Path(folder) / "easy.toml"
        experiment.write_text(
            f'seeds = "1-{runs}"\npolicies = ["easy"]\n[scenario]\n'
            f"cluster = {{nodes = {NODES}}}\nworkload = {{lublin = {jobs}}}\n"
        )
        emulator = f"{sys.executable} -m cosched_emulator"
        study = f"{emulator} study run {experiment} --out {folder}/study --jobs"
        simulate = f"{emulator} simulate --lublin {jobs} --nodes {NODES} --policy easy --json --seed"
        ways = {
            "study --jobs 2": f"{study} 2",
            "study --jobs 1": f"{study} 1",
            "xargs -P 2": f"seq {runs} | xargs -P 2 -n 1 {simulate} > {folder}/summaries",
        }
        walls_s: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(turns):
            for name, command in ways.items():
                tell(f"{name}, turn {turn + 1} of {turns}")
                shutil.rmtree(f"{folder}/study", ignore_errors=True)
                began = time.perf_counter()
                subprocess.run(["bash", "-c", command], check=True, capture_output=True, timeout=MOST_S)
                walls_s[name].append(time.perf_counter() - began)
    two_s = walls_s["study --jobs 2"]
    rows: list[Figures] = []
    for name, all_s in walls_s.items():
        faster = statistics.median(each / two for each, two in zip(all_s, two_s, strict=True))
        goal = GOALS.get(name)
        rows.append(
            {
                "way": name,
                "runs": runs,
                "jobs": jobs,
                "wall_s": round(statistics.median(all_s), 2),
                "two_workers_faster": round(faster, 2),
                "goal": goal,
                "reached": None if goal is None else faster >= goal,
            }
        )
    return rows


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the figures as a table."""
    header = ("way", "wall s", "study --jobs 2 is faster by", "goal", "reached")
    named = {True: "yes", False: "**no**", None: ""}
    body = [
        (
            row["way"],
            f"{row['wall_s']:.2f}",
            f"{row['two_workers_faster']:.2f} x",
            "" if row["goal"] is None else f"{row['goal']} x",
            named[row["reached"]],
        )
        for row in rows
    ]
    about = (
        f"{rows[0]['runs']} runs of {rows[0]['jobs']:,} jobs under easy on {NODES} nodes, start-up included (medians)."
    )
    return [*aligned_table(header, body, 1), about, ""]
