"""How time and memory of a run grow with a burst of jobs, with jobs in overload, and with the machine; as exponents.

An exponent of 1 is time in proportion; 2 is its square. It is that of the last step that was measured, as queues are long there. Each
run has a process of its own; what it takes before the first job (interpreter, libraries) is in its memory, not in its time.
"""

from __future__ import annotations

import math
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
INSTANT: Final = 1e-9  # factor on the gaps between submissions
OVERSTATED: Final[Mapping[str, Any]] = {"estimates": "f-model", "estimate_factor": 5.0}
STEEP: Final = 1.5  # a larger exponent has a reason on the page


class Sizes(NamedTuple):
    """The sizes of the runs: what is doubled, from the smallest on."""

    burst: Sequence[int] = (600, 1_250, 2_500, 5_000, 10_000)
    overload: Sequence[int] = (2_000, 4_000, 8_000, 16_000)
    nodes: Sequence[int] = (128, 512, 2_048, 8_192, 20_000)
    jobs: int = 1_000  # on machines of these numbers of nodes


def run_one(policy: str, kind: str, size: int, jobs: int) -> Figures:
    """Return CPU seconds and peak memory of one run; ``jobs``: their number where ``size`` is one of nodes."""
    table = model(policy, jobs if kind == "nodes" else size, size if kind == "nodes" else NODES)
    estimates = {} if policy in IN_ROWS else OVERSTATED  # jobs that take turns have no limits
    if kind == "burst":
        prepared = prepare({**table, "workload": {**table["workload"], **estimates, "gap_factor": INSTANT}})
    else:
        table = {**table, "workload": {**table["workload"], **estimates}}
        prepared = prepare_at(table, OVERLOAD if kind == "overload" else BUSY)
    began_s = time.process_time()
    finished = cosched_emulator.simulate(prepared, policy)
    assert finished.records
    return {"cpu_s": round(time.process_time() - began_s, 4), "peak_mb": round(memory_mb("VmHWM"), 1)}


def measure(
    policies: Sequence[str], sizes: Sizes, most_s: float, tell: Callable[[str], None], patience: float = 4.0
) -> Iterator[Figures]:
    """Yield a row for each preset and kind of growth: the runs from the smallest on, none after one that took ``most_s``.

    A run ends without figures after ``patience`` times ``most_s``.
    """
    for policy in policies:
        for kind in ("burst", "overload", "nodes"):
            runs: list[Figures] = []
            reason = ""
            for size in getattr(sizes, kind):
                tell(f"{policy}, {kind}: {size:,}")
                found = in_process(run_one, policy, kind, size, sizes.jobs, timeout_s=patience * most_s)
                reason = found.get("reason", "")
                if reason:
                    break
                runs.append({"size": size, **found})
                if found["cpu_s"] > most_s:
                    break
            yield {"policy": policy, "kind": kind, "runs": runs, "reason": reason, "exponent": exponent(runs)}


def exponent(runs: Sequence[Figures]) -> float | None:
    """Return the growth of time in the last step; None with fewer than two runs."""
    if len(runs) < 2:
        return None
    before, last = runs[-2:]
    return round(math.log(last["cpu_s"] / before["cpu_s"]) / math.log(last["size"] / before["size"]), 2)


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return a row for each preset: the largest run of each kind, its time and memory, and the exponent."""
    header = ("preset", "burst", "s", "exponent", "overload", "s", "exponent", "nodes", "s", "exponent", "MB")
    found: dict[str, list[str]] = {}
    most_mb: dict[str, float] = {}
    for row in rows:
        cells = found.setdefault(row["policy"], [row["policy"]])
        if not row["runs"]:
            cells += [NOTHING, row["reason"], NOTHING]
            continue
        last, steep = row["runs"][-1], row["exponent"]
        shown = NOTHING if steep is None else f"**{steep:.2f}**" if steep > STEEP else f"{steep:.2f}"
        cells += [f"{last['size']:,}", f"{last['cpu_s']:.2f}", shown]
        most_mb[row["policy"]] = max(most_mb.get(row["policy"], 0.0), *[run["peak_mb"] for run in row["runs"]])
    table = [[*cells, f"{most_mb.get(policy, math.nan):.0f}"] for policy, cells in found.items()]
    about = (
        "CPU seconds of the largest run: jobs at one instant, jobs at an offered load of"
        f" {OVERLOAD}, and nodes with jobs for {BUSY:.0%} of them; MB: the largest of all. No larger run follows one that took long."
    )
    return [*aligned_table(header, table, 1), about, ""]
