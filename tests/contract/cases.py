"""The runs of the contract: small scenarios with every kind of event, busy ones with long queues, and policies."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.policies.composition.resolved import resolve

BUSY = ("plain", "mixed", "pairs", "groups")  # scenarios with long queues


def lublin(**more: Any) -> dict[str, Any]:
    """Return an overloaded machine of 4-thread nodes, with demand, wrong estimates and enforced limits."""
    return {
        "seed": 5,
        "requeue": True,
        "cluster": {"nodes": 6, "preset": "rua-4way"},
        "workload": {"lublin": 60, "aarr": 9.0, "mix": "60:20:20", "limits": "estimate", "estimates": "f-model", "run_factor": 0.3},
        **more,
    }  # fmt: skip


def write_swf(file: Path) -> str:
    """Write a log with coinciding submissions and ends, runs beyond their estimates, and a job too large for the machine."""
    random = Random(11)
    rows = []
    at = 0
    for number in range(1, 61):
        at += random.choice((0, 0, 30, 60, 600))
        run = random.choice((60, 300, 300, 900, 3600))
        size = random.choice((1, 2, 4, 4, 7, 16)) if number != 30 else 999
        estimate = random.choice((300, 600, 900, 3600))
        rows.append(f"{number} {at} -1 {run} {size} -1 -1 {size} {estimate} -1 1 {number % 5} 1 1 1 -1 -1 -1\n")
    file.write_text("; MaxProcs: 24\n" + "".join(rows))
    return str(file)


def swf(file: Path) -> dict[str, Any]:
    return {
        "requeue": True,
        "cluster": {"processors": 23, "preset": "rua-4way"},
        "truth": {"composition": "paper"},
        "workload": {"swf": write_swf(file), "cap_runs": False, "mix": "high"},
        "script": [
            {"at_s": 3200.0, "do": "fail-node", "node": 1},
            {"at_s": 3300.0, "do": "hold", "job": 16},
            {"at_s": 3400.0, "do": "cancel", "job": 18},
            {"at_s": 4000.0, "do": "return-node", "node": 1},
            {"at_s": 4000.0, "do": "cancel", "job": 21},
            {"at_s": 5000.5, "do": "release", "job": 16},
        ],
    }


def lomarc() -> dict[str, Any]:
    """Return a machine on which pairs are slower than believed, which is measured, and on which nodes fail."""
    return {
        "seed": 5,
        "requeue": True,
        "cluster": {"nodes": 16, "preset": "lomarc-ht"},
        "truth": {"contention": "lomarc", "remainder": True},
        "belief": {"remainder": False, "usage_noise": 0.3, "usage_missing": 0.1},
        "monitoring": {"after_s": 200.0, "above": 1.2},
        "workload": {
            "lublin": 110, "aarr": 8.5, "gap_factor": 0.15, "run_factor": 0.3, "characteristics": "M1", "limits": "estimate",
            "estimates": "f-model",
        },
        "script": [
            {"at_s": 4000.0, "do": "fail-node", "node": 1},
            {"at_s": 7000.0, "do": "hold", "job": 51},
            {"at_s": 8000.0, "do": "cancel", "job": 106},
            {"at_s": 9000.0, "do": "fail-node", "node": 0},
            {"at_s": 9000.0, "do": "return-node", "node": 1},
            {"at_s": 9500.0, "do": "release", "job": 51},
            {"at_s": 20000.0, "do": "return-node", "node": 0},
        ],
    }  # fmt: skip


def statistical() -> dict[str, Any]:
    """Return a machine for groups of jobs, over many intervals of time slices; failing nodes lose their disks."""
    return {
        "seed": 3,
        "requeue": True,
        "cluster": {"nodes": 16, "preset": "g-lomarc-2x2"},
        "truth": {"contention": "statistical"},
        "belief": {"self_noise": 0.1},
        "preemption": {"resume_s": 60.0},
        "monitoring": {"after_s": 300.0, "above": 1.1},
        "workload": {
            "lublin": 160, "aarr": 8.83, "gap_factor": 0.4, "run_factor": 0.6, "self_slowdowns": "table4", "lublin_size": "nodes",
            "limits": "estimate", "estimates": "f-model", "estimate_factor": 0.5,
        },
        "script": [
            {"at_s": 18000.0, "do": "fail-node", "node": 1},
            {"at_s": 20000.0, "do": "hold", "job": 133},
            {"at_s": 21000.0, "do": "cancel", "job": 136},
            {"at_s": 30000.0, "do": "fail-node", "node": 0},
            {"at_s": 30000.0, "do": "return-node", "node": 1},
            {"at_s": 40500.0, "do": "release", "job": 133},
            {"at_s": 45000.0, "do": "return-node", "node": 0},
        ],
    }  # fmt: skip


def time_shared(folder: Path) -> dict[str, Any]:
    """Return a machine whose nodes run processes: with several CPU shares, a job that is never paired, and a node that fails."""
    programs = folder / "programs.csv"
    shares = {number: (0.1, 0.8)[number % 2] for number in range(1, 31)}
    rows = [f"{number},fine,{share},{'yes' if number == 9 else 'no'}" for number, share in shares.items()]
    programs.write_text("\n".join(["job,program,cpu_share,unpaired", *rows]) + "\n")
    return {
        "seed": 4,
        "requeue": True,
        "cluster": {"nodes": 4, "preset": "single"},
        "workload": {
            "lublin": 30, "run_factor": 0.01, "gap_factor": 0.008, "programs": str(programs), "limits": "estimate",
        },
        "time_sharing": {"nodes": "fluid"},
        "script": [
            {"at_s": 60.3, "do": "fail-node", "node": 1},
            {"at_s": 61.0, "do": "cancel", "job": 12},
            {"at_s": 80.3, "do": "return-node", "node": 1},
        ],
    }  # fmt: skip


def contexts(folder: Path) -> dict[str, Any]:
    """Return a machine whose nodes may be shared by three jobs, with 900 MB each, and jobs on 4, 8, 9 or 16 of 16 nodes."""
    random = Random(17)
    rows = []
    at = 0
    for number in range(1, 81):
        at += random.choice((0, 20, 60, 60, 120))
        run_s = random.choice((30, 120, 600, 1200))
        size = random.choice((4, 8, 9, 16))
        memory_kb = random.choice((-1, 60, 176, 354, 428))
        memory_kb *= 1024 if memory_kb > 0 else 1
        estimate = run_s * random.choice((1, 1, 3))
        rows.append(f"{number} {at} -1 {run_s} {size} -1 -1 {size} {estimate} {memory_kb} 1 1 1 1 1 -1 -1 -1\n")
    file = folder / "contexts.swf"
    file.write_text("; MaxProcs: 16\n" + "".join(rows))
    return {
        "requeue": True,
        "cluster": {"nodes": 16, "preset": "1x1x3", "memory_mb": 900},
        "workload": {"swf": str(file)},
        "script": [
            {"at_s": 1000.0, "do": "fail-node", "node": 6},
            {"at_s": 2500.0, "do": "return-node", "node": 6},
            {"at_s": 3030.0, "do": "hold", "job": 45},
            {"at_s": 3040.0, "do": "cancel", "job": 48},
            {"at_s": 4500.0, "do": "release", "job": 45},
        ],
    }


def long_queue(folder: Path, *, seed: int, nodes: int, mixed: bool) -> dict[str, Any]:
    """Return a busy machine, made of integers alone: a queue of a hundred jobs and more, whose estimates err by far.

    ``mixed``: on nodes of four threads, with demand; the memory that the log names is ignored.
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
        table["workload"] |= {"mix": "med", "log_memory": False}
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


def scenario_of(name: str, folder: Path) -> dict[str, Any]:
    """Return a scenario by name; its input files are written to ``folder``."""
    small = {"lublin": lublin, "lomarc": lomarc, "statistical": statistical}
    if name in small:
        return small[name]()
    in_folder = {
        "swf": lambda: swf(folder / "jobs.swf"),
        "time-shared": lambda: time_shared(folder),
        "contexts": lambda: contexts(folder),
    }
    return in_folder[name]() if name in in_folder else busy(name, folder)


def quiet(table: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario in which the manager measures nothing."""
    return {**table, "monitoring": {}}


# Policies that take whole nodes on the machine made for them, and two of these policies where the site has no belief about pairs.
WHOLE_NODES = [name for name in PRESETS if resolve({"preset": name})["shape"]["name"] == "nodes" and name != "batch"]
SLICED = [name for name in WHOLE_NODES if resolve({"preset": name})["slices"]["name"] != "none"]
IN_ROWS = [name for name in PRESETS if resolve({"preset": name})["backfill"]["name"] == "gang"]
PER_NODE = ("coscheduling", "coscheduling-scattered", "batch-contiguous")  # one process of a job on each node
BY_HALVES = [name for name in PRESETS if resolve({"preset": name})["placement"]["name"] == "halves"]  # nodes alike
ELSEWHERE = {*WHOLE_NODES, *IN_ROWS, *PER_NODE, *BY_HALVES, "batch"}
CASES = [
    *[(name, scenario) for name in PRESETS if name not in ELSEWHERE for scenario in ("lublin", "swf")],
    *[(name, "time-shared") for name in (*IN_ROWS, "batch")],
    *[(name, "contexts") for name in PER_NODE],
    *[(name, "statistical") for name in BY_HALVES],
    *[(name, "statistical" if name in SLICED else "lomarc") for name in WHOLE_NODES],
    ("ac", "swf"),
    ("lomarc-r", "swf"),
    ("glts", "lomarc"),
]


def cases() -> list[tuple[str, str]]:
    """Return (preset, scenario): the cases of the couplings, and each preset also with a long queue on its own machine."""
    others = {"lomarc": "pairs", "statistical": "groups"}
    long = [(preset, others[scenario]) for preset, scenario in CASES if scenario in others and preset != "glts"]
    plain = dict.fromkeys(preset for preset, scenario in CASES if scenario == "lublin")
    return [*CASES, *[(preset, kind) for preset in plain for kind in ("plain", "mixed")], *long, ("glts", "groups")]
