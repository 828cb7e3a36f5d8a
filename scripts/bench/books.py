"""The time that the books of an adapter take for a start, with the check of its place, and for an end, on machines of wide nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from scripts.bench.process import Figures
from scripts.tables import aligned_table

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.protocol.messages import (
    COMPLETED,
    FEATURES,
    PROTOCOL_VERSION,
    Belief,
    JobEnded,
    JobSpec,
    JobSubmitted,
    NodeClass,
    Run,
    StartJob,
    Welcome,
)  # fmt: skip
from cosched_plugin.site.books import Books

THREADS: Final = 128
ESTIMATE_US: Final = 1_000_000_000
# A start on 1,000 nodes when books held sets of nodes and threads, built anew for each start, and how much faster it is to be.
LITERAL_MS: Final = 145.0
GOAL: Final = 100


def measure(nodes: Sequence[int], starts: int, tell: Callable[[str], None]) -> list[Figures]:
    """Return a row for each size of machine, half of whose nodes have a job; the least time of each of ``starts``."""
    rows = []
    for count in nodes:
        tell(f"books of {count:,} nodes of {THREADS} threads")
        rows.append(_row(count, starts))
    return rows


def _row(nodes: int, starts: int) -> Figures:
    machine = (NodeClass(nodes, 2, THREADS // 4, 2, 0, 0, 0, 0),)
    belief = Belief("none", "bulk-synchronous", ())
    books = Books(Welcome(PROTOCOL_VERSION, FEATURES, 0, 0, machine, (), belief, (), (), (), ()))
    books.happen([JobSubmitted(JobSpec(number, 0, THREADS, ESTIMATE_US)) for number in range(nodes)])
    whole = ThreadMask((1 << THREADS) - 1)
    spans_us: dict[str, list[float]] = {"start_us": [], "end_us": []}
    for number in range(nodes // 2 + starts):
        began = time.perf_counter()
        reason = books.act(StartJob(number, (Run(number, 1, whole, THREADS),), ESTIMATE_US))
        spans_us["start_us"].append((time.perf_counter() - began) * 1e6)
        assert reason is None, reason
    for number in range(nodes // 2, nodes // 2 + starts):
        began = time.perf_counter()
        books.happen([JobEnded(number, COMPLETED)])
        spans_us["end_us"].append((time.perf_counter() - began) * 1e6)
    least: dict[str, Any] = {name: round(min(spans[-starts:]), 1) for name, spans in spans_us.items()}
    return {"nodes": nodes, **least}


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the table."""
    header = ("nodes", "a start us", "an end us")
    cells = [(f"{row['nodes']:,}", f"{row['start_us']:g}", f"{row['end_us']:g}") for row in rows]
    about = (
        f"Goal: a start on 1,000 nodes of {THREADS} threads in {LITERAL_MS / GOAL:g} ms, with the check of its place."
    )
    return [*aligned_table(header, cells, 1), about, ""]
