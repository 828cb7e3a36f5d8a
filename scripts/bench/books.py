"""The time that the books of an adapter take for a start, with the check of its place, and for an end, on machines of wide nodes.

Likewise a turn of the driver at a Slurm that answers at once: what it shows of all jobs is read, what has changed is told and saved,
one start is decided, and carried out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from scripts.bench.process import Figures
from scripts.tables import aligned_table

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.config import choose
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
from cosched_plugin.site.driver import Driver, Outcome
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.site.store import Store
from cosched_plugin.slurm.actuator import SlurmActuator, Tools
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.dialect import MET, Change
from cosched_plugin.slurm.records import SlurmJob, SlurmNode, job_of
from cosched_plugin.slurm.rest import Polls
from cosched_plugin.slurm.site_file import Site
from cosched_terminal.console import Log

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
    turn = _turn(nodes, min(starts, nodes // 4))
    return {"nodes": nodes, **least, **{f"{name}_ms": round(spent * 1e3, 2) for name, spent in turn.items()}}


class _Slurm:
    """A Slurm that starts at once what is placed: each node has a job, half as many wait, and each turn one has ended."""

    dialect = MET["v0.0.42"]

    def __init__(self, nodes: int) -> None:
        self.now_s = 1_000_000
        self.nodes = [SlurmNode(f"n{number}", True, 2, THREADS // 2, 1, 0, (), ("co",)) for number in range(nodes)]
        self.rest = self
        self.partitions = self.reservations = self.licences = ()
        self.records: dict[int, SlurmJob] = {}
        for job in range(1, nodes * 3 // 2 + 1):
            plain = {
                "job_id": job,
                "job_state": "PENDING",
                "state_reason": "JobHeldUser",
                "partition": "co",
                "user_name": "ann",
            }
            size = {
                "node_count": 1,
                "max_nodes": 1,
                "tasks": THREADS,
                "cpus": THREADS,
                "time_limit": 600,
                "submit_time": job,
            }
            self.records[job] = job_of({**plain, **size})
        for job in range(1, nodes + 1):
            self._begin(job, self.nodes[job - 1].name)

    @property
    def jobs(self) -> Sequence[SlurmJob]:
        """Return the records, as a poll would."""
        return list(self.records.values())

    def change(self, label: str, change: Change) -> Outcome:
        """Start a job."""
        self.dialect.body(change)
        assert change.nodes is not None
        self._begin(int(label), change.nodes[0])
        return None

    def _begin(self, job: int, node: str) -> None:
        known = self.records[job]
        self.records[job] = known._replace(state="RUNNING", reason="None", held="", nodes=(node,), start_s=self.now_s)


def _turn(nodes: int, turns: int) -> dict[str, float]:
    """Return the least time of each step of a turn with one start, in seconds."""
    slurm = _Slurm(nodes)
    clock, log = Clock(lambda: slurm.now_s), Log("bench", quiet=True)
    cluster = Cluster(cast("Polls", slurm), Site(("co",)), 1)
    least: dict[str, float] = {}
    turn = 0

    def timed(name: str, step: Callable[..., Any], *given: Any) -> Any:
        began = time.perf_counter()
        result = step(*given)
        if turn:  # the first one has no start
            least[name] = min(least.get(name, 1e9), time.perf_counter() - began)
        return result

    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(Path(folder) / "store"))
        driver = Driver(cluster.machine, store, SlurmActuator(cluster, cast("Tools", SimpleNamespace()), clock, log))
        driver.begin(clock.now_us(), cluster.snapshot(clock.now_us(), driver.books))
        scheduler = choose("fcfs").scheduler(driver.inventory())
        for turn in range(turns + 1):
            slurm.now_s += 1
            if turn:
                del slurm.records[turn]
            driver.update(clock.now_us(), timed("snapshot", cluster.snapshot, clock.now_us(), driver.books))
            batch = timed("changes", driver.next_batch)
            actions = timed("decision", scheduler.handle, batch.now_us, batch.events)
            assert len(actions) == bool(turn), actions
            timed("order", driver.answer, clock.now_us(), actions)
        store.close()
    return least


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the table."""
    steps = ("snapshot", "changes", "decision", "order")
    header = ("nodes", "a start us", "an end us", *[f"{step} ms" for step in steps])
    cells = [
        (
            f"{row['nodes']:,}",
            f"{row['start_us']:g}",
            f"{row['end_us']:g}",
            *[f"{row[f'{step}_ms']:g}" for step in steps],
        )
        for row in rows
    ]
    about = (
        f"Goal: a start on 1,000 nodes of {THREADS} threads in {LITERAL_MS / GOAL:g} ms, with the check of its place."
    )
    return [*aligned_table(header, cells, 1), about, ""]
