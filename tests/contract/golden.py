"""Digests of schedules and of every message behind them: what an optimisation must leave as it is.

``python -m tests.contract.golden`` writes them anew; do that only where a rule has changed, and say which in the commit.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.contract.test_same_schedule import CASES, scenario_of

from cosched_emulator.couplings.in_process import DirectLink
from cosched_emulator.run.prepare import prepare
from cosched_emulator.run.run import run
from cosched_emulator.run.store import store
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.messages import Action, Event, Welcome

GOLDEN = Path(__file__).with_name("golden.json")
FILES = ("jobs.csv", "allocations.csv", "preemptions.csv")  # others say where the jobs came from, and derive from these


def long_queue(folder: Path, *, seed: int, nodes: int, mixed: bool) -> dict[str, Any]:
    """Return a busy machine, made of integers alone: a queue of a hundred jobs and more, whose estimates err by far.

    ``mixed``: on nodes of four threads with memory that jobs fill.
    """
    random = Random(seed)
    rows = []
    at = 0
    for number in range(1, 501):
        at += random.choice((0, 20, 20, 60, 120, 400, 900))
        run_s = random.choice((30, 60, 300, 900, 1800, 3600, 7200, 20_000))
        size = random.choice((1, 1, 2, 3, 4, 8, 8, 16, 17, 32, 64)) % nodes + 1
        estimate = run_s * random.choice((1, 1, 2, 3, 10))
        memory_kb = random.choice((0, 512, 2048)) * 1024 if mixed else -1
        rows.append(
            f"{number} {at} -1 {run_s} {size} -1 -1 {size} {estimate} {memory_kb} 1 {number % 7} 1 1 1 -1 -1 -1\n"
        )
    file = folder / f"queue-{seed}.swf"
    file.write_text(f"; MaxProcs: {nodes}\n" + "".join(rows))
    machine = {"processors": nodes, "preset": "rua-4way"} if mixed else {"nodes": nodes}
    table: dict[str, Any] = {"cluster": machine, "workload": {"swf": str(file)}}
    if mixed:
        table["workload"]["mix"] = "med"
        table["truth"] = {"contention": "bandwidth"}
    return table


def busy(name: str, folder: Path) -> dict[str, Any]:
    """Return a scenario with a long queue by name."""
    if name == "plain":
        return long_queue(folder, seed=3, nodes=64, mixed=False)
    if name == "mixed":
        return long_queue(folder, seed=4, nodes=48, mixed=True)
    if name == "pairs":
        return {
            "seed": 2,
            "cluster": {"nodes": 32, "preset": "lomarc-ht"},
            "truth": {"contention": "lomarc"},
            "workload": {"lublin": 400, "aarr": 8.83, "gap_factor": 0.5, "characteristics": "M1"},
        }
    return {
        "seed": 2,
        "cluster": {"nodes": 32, "preset": "g-lomarc-2x2"},
        "truth": {"contention": "statistical"},
        "preemption": {"resume_s": 60.0},
        "workload": {"lublin": 300, "aarr": 8.83, "gap_factor": 0.6, "self_slowdowns": "table4", "grow": True},
    }


def cases() -> list[tuple[str, str]]:
    """Return (preset, scenario): those of the couplings, and each preset once more with a long queue on its own machine."""
    others = {"lomarc": "pairs", "statistical": "groups"}
    long = [(preset, others[scenario]) for preset, scenario in CASES if scenario in others and preset != "glts"]
    plain = dict.fromkeys(preset for preset, scenario in CASES if scenario == "lublin")
    return [
        *CASES,
        *[(preset, kind) for preset in plain for kind in ("plain", "mixed")],
        *long,
        ("glts", "groups"),
    ]


class Listening(DirectLink):
    """A link that digests all that is said."""

    def __init__(self, factory: Callable[[Welcome], SchedulerCore]) -> None:
        super().__init__(factory)
        self.said = hashlib.sha256()

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass the batch on."""
        actions = super().exchange(seq, now_us, events)
        told = [[type(item).__name__, *item] for item in events]
        decided = [[type(item).__name__, *item] for item in actions]
        self.said.update(json.dumps([seq, now_us, told, decided]).encode())
        return actions


def digest(preset: str, scenario: str) -> dict[str, str]:
    """Run a case; return the digests of its files and of its messages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        busy_ones = ("plain", "mixed", "pairs", "groups")
        table = busy(scenario, folder) if scenario in busy_ones else scenario_of(scenario, folder)
        choice = choose(preset)
        link = Listening(choice.scheduler)
        finished = run(prepare(read_scenario(None, table)), link)
        store(finished, str(folder / "run"), policy={"name": preset}, link="direct", force=False)
        files = hashlib.sha256()
        for file in sorted((folder / "run").iterdir()):
            if file.name in FILES:
                files.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return {"files": files.hexdigest()[:24], "messages": link.said.hexdigest()[:24]}


def main() -> None:
    """Write the digests of this tree."""
    found = {f"{preset} {scenario}": digest(preset, scenario) for preset, scenario in cases()}
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
