"""How time and memory of a run grow with a burst of jobs, with jobs in overload, and with a machine's nodes and threads; exponents.

An exponent of 1 is growth in proportion; 2 is its square. It is that of the last step that was measured, as queues are long there.
Each run has a process of its own, and a small run of its kind goes before it: what interpreter, libraries and modules take is not
counted.
"""

from __future__ import annotations

import math
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scripts.bench.process import Figures, in_process, memory_mb
from scripts.bench.runs import IN_ROWS, model, prepare_at
from scripts.tables import NOTHING, aligned_table

import cosched_emulator
from cosched_emulator import prepare

NODES: Final = 128
OVERLOAD: Final = 1.3
BUSY: Final = 0.95
FAT: Final = 500  # nodes of more and more threads
INSTANT: Final = 1e-9  # factor on the gaps between submissions
OVERSTATED: Final[Mapping[str, Any]] = {"estimates": "f-model", "estimate_factor": 5.0}
IN_TURNS: Final = 4  # divisor of the number of jobs that take turns
STEEP: Final = 1.5  # a larger exponent has a reason on the page
WARM_UP: Final = (20, 16)  # jobs and nodes of the small run before each
REPEATS: Final = 3  # of short runs, the fastest of which counts
SHORT_S: Final = 2.0  # no further one begins after these seconds
BUSY_MACHINE: Final = 10.0  # factor on the CPU time of a run that may pass meanwhile
LEAST_MB: Final = 2.0  # less says nothing about growth: memory comes in blocks

KINDS: Final = {
    "burst": f"Jobs at one instant, {NODES} nodes:",
    "overload": f"Jobs at an offered load of {OVERLOAD}, {NODES} nodes:",
    "nodes": f"A machine of that many nodes, jobs for {BUSY:.0%} of them:",
    "threads": f"{FAT:,} nodes of that many hardware threads, jobs for {BUSY:.0%} of the machine:",
}
EACH_START: Final = "each start examines all pending jobs for the next one (`policies/backfilling/easy.py`)"
PARTNERS: Final = f"{EACH_START}, and compares them as partners"
PLACES: Final = f"{EACH_START}; each is tried at every later end"
HALVES: Final = "each start searches places on halves of nodes for all pending jobs (`policies/coexecution/halves.py`)"
EACH_MOVE: Final = "each early end moves most promises, and each move lets others follow"
PLANS: Final = "{}; the fairness of a group takes a plan of all pending jobs (`policies/slack.py`)"
REASONS: Final[Mapping[str, str]] = {
    "sjbf": "each end sorts all jobs that fit by their estimates",
    **dict.fromkeys(("conservative", "ssp"), EACH_MOVE),
    **dict.fromkeys(("glts", "cst", "cstws", "glts-fbo", "glts-ns", "glts-nh"), PLANS.format(EACH_MOVE)),
    **dict.fromkeys(("lc", "lct", "rua"), PLACES),
    "pss": EACH_START,
    **dict.fromkeys(IN_ROWS, "a burst runs at once, in turns, and a quantum costs as much as there are rows and jobs"),
    **dict.fromkeys(("co-execution", "co-execution-easy", "spread"), HALVES),
    **dict.fromkeys(("ac", "am", "lomarc-fm", "lomarc-u1", "lomarc-u2", "lomarc-r", "lomarc-n"), PARTNERS),
}


class Sizes(NamedTuple):
    """The sizes of the runs: what is doubled, from the smallest on."""

    burst: Sequence[int] = (600, 1_250, 2_500, 5_000, 10_000)
    overload: Sequence[int] = (2_000, 4_000, 8_000, 16_000)
    nodes: Sequence[int] = (128, 512, 2_048, 8_192, 20_000)
    threads: Sequence[int] = (4, 16, 64, 256)
    jobs: int = 1_000  # on machines of these sizes


def sizes_for(policy: str, sizes: Sizes) -> Sizes:
    """Return the sizes for a preset: a quarter of the jobs where jobs take turns, as each quantum of each job costs something."""
    if policy not in IN_ROWS:
        return sizes
    burst, overload = ([size // IN_TURNS for size in each] for each in (sizes.burst, sizes.overload))
    return Sizes(burst, overload, sizes.nodes, (), sizes.jobs // IN_TURNS)


def run_one(policy: str, kind: str, size: int, jobs: int, most_s: float) -> Figures:
    """Return CPU seconds and peak memory of one run; ``jobs``: their number where ``size`` is one of nodes or of threads.

    ``mb`` is what the run and its jobs took besides the process, which ends after ``most_s`` of CPU time.
    """
    limit_s = math.ceil(time.process_time() + most_s)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
    few, small = WARM_UP
    cosched_emulator.simulate(prepare(model(policy, few, small)), policy)
    before_mb = memory_mb("VmHWM")
    by_machine = kind in ("nodes", "threads")
    table = model(policy, jobs if by_machine else size, {"nodes": size, "threads": FAT}.get(kind, NODES))
    if kind == "threads":
        table["cluster"] = {"nodes": FAT, "preset": f"2x{size // 4}x2"}
    estimates = {} if policy in IN_ROWS else OVERSTATED  # jobs that take turns have no limits
    if kind == "burst":
        prepared = prepare({**table, "workload": {**table["workload"], **estimates, "gap_factor": INSTANT}})
    else:
        table = {**table, "workload": {**table["workload"], **estimates}}
        prepared = prepare_at(table, OVERLOAD if kind == "overload" else BUSY)
    times_s: list[float] = []
    peak_mb = 0.0
    while len(times_s) < REPEATS and sum(times_s) < SHORT_S:
        began_s = time.process_time()
        finished = cosched_emulator.simulate(prepared, policy)
        assert finished.records
        times_s.append(time.process_time() - began_s)
        peak_mb = peak_mb or memory_mb("VmHWM")
    return {"cpu_s": round(min(times_s), 4), "peak_mb": round(peak_mb, 1), "mb": round(peak_mb - before_mb, 1)}


def measure(
    policies: Sequence[str], sizes: Sizes, most_s: float, tell: Callable[[str], None], patience: float = 4.0
) -> Iterator[Figures]:
    """Yield a row for each preset and kind of growth: the runs from the smallest on, none after one that took ``most_s``.

    A run ends without figures after ``patience`` times ``most_s`` of CPU time.
    """
    for policy in policies:
        own = sizes_for(policy, sizes)
        for kind in [kind for kind in KINDS if getattr(own, kind)]:
            runs: list[Figures] = []
            reason = ""
            for size in getattr(own, kind):
                tell(f"{policy}, {kind}: {size:,}")
                limit_s = patience * most_s
                found = in_process(run_one, policy, kind, size, own.jobs, limit_s, timeout_s=BUSY_MACHINE * limit_s)
                reason = found.get("reason", "").replace(
                    f"ended with exit code -{signal.SIGXCPU}", f"more than {limit_s:g} s"
                )
                if reason:
                    break
                runs.append({"size": size, **found})
                if found["cpu_s"] > most_s:
                    break
            steep = {"exponent": exponent(runs, "cpu_s"), "mb_exponent": exponent(runs, "mb", LEAST_MB)}
            yield {"policy": policy, "kind": kind, "runs": runs, "reason": reason, **steep}


def exponent(runs: Sequence[Figures], figure: str, least: float = 0.0) -> float | None:
    """Return the growth of a figure in the last step; None with fewer than two runs, or where one of them is under ``least``."""
    if len(runs) < 2 or min(runs[-2][figure], runs[-1][figure]) <= least:
        return None
    before, last = runs[-2:]
    return round(math.log(last[figure] / before[figure]) / math.log(last["size"] / before["size"]), 2)


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return a table for each kind of growth, a row for each preset, and why some grow steeply."""
    found: list[str] = []
    for kind, about in KINDS.items():
        header = ("preset", kind, "s", "exponent", "MB", "exponent")
        own = [row for row in rows if row["kind"] == kind]
        found += [about, "", *aligned_table(header, [_row(row) for row in own], 1)]
        found += _reasons([row["policy"] for row in own if _is_steep(row)])
    about = (
        "CPU seconds of the largest run, and MB that it took besides the process; exponents of the last step. No larger run follows one"
        " that took long."
    )
    return [*found, about, ""]


def _reasons(policies: Sequence[str]) -> list[str]:
    """Return a line for each reason why some presets grow steeply."""
    by_reason: dict[str, list[str]] = {}
    for policy in policies:
        by_reason.setdefault(REASONS.get(policy, "no reason is known"), []).append(f"`{policy}`")
    listed = [f"- {' '.join(names)}: {reason}" for reason, names in by_reason.items()]
    return ["Why above 1.5:", "", *listed, ""] if listed else []


def _is_steep(row: Figures) -> bool:
    return any(step is not None and step > STEEP for step in (row["exponent"], row["mb_exponent"]))


def _row(row: Figures) -> list[str]:
    policy = row["policy"]
    if not row["runs"]:
        return [policy, NOTHING, row["reason"], *[NOTHING] * 3]
    last, steps = row["runs"][-1], (row["exponent"], row["mb_exponent"])
    time_step, memory_step = (
        NOTHING if step is None else f"**{step:.2f}**" if step > STEEP else f"{step:.2f}" for step in steps
    )
    return [policy, f"{last['size']:,}", f"{last['cpu_s']:.2f}", time_step, f"{last['mb']:.0f}", memory_step]
