"""The cost of quanta: jobs that take turns, with the scheduler in the same process and in another, on fluid nodes and exact ones.

All figures are CPU time, that of the second process included: they hardly depend on what else the machine does.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from scripts.bench.process import Figures, in_process
from scripts.tables import NOTHING, aligned_table

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import Action, Event, QuantumEnded

NODES: Final = 16
LOAD: Final = 0.95
GOAL_S: Final = 15.0  # of a run of 1,000 jobs in one process
GOAL_JOBS: Final = 1_000
CROWD: Final = 8.0  # offered load where nodes are compared: there are several rows soon
POLICIES: Final = ("gang", "paired-gang", "paired-gang-bestfit", "blind")
KINDS: Final = ("fluid", "exact")
WHOLE, SOME = "preset", "nodes"  # what a row is about

T = TypeVar("T")


def scenario(jobs: int, load: float, nodes: str) -> dict[str, Any]:
    """Return the workload of the paired gang paper: the Lublin model on 16 nodes, 40 times as fast; 45 % of the time computed."""
    workload = {"lublin": jobs, "run_factor": 1 / 40, "load": load}
    return {"cluster": {"nodes": NODES}, "workload": workload, "time_sharing": {"nodes": nodes}}


def cpu_s() -> float:
    """Return the CPU time of this process, and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum([each.ru_utime + each.ru_stime for each in used])


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of some work, and the CPU time in seconds that it took."""
    began_s = cpu_s()
    done = work()
    return done, cpu_s() - began_s


def whole(policy: str, jobs: int) -> Figures:
    """Run a workload three times here: so that rates are measured; with these rates; and with these over zmq."""
    prepared = prepare(scenario(jobs, LOAD, "fluid"))
    _, first_s = timed(lambda: simulate(prepared, policy))
    direct, direct_s = timed(lambda: simulate(prepared, policy))
    other, zmq_s = timed(lambda: simulate(prepared, policy, link="zmq"))
    quanta = direct.summary["time_sharing"]["quanta"]
    assert other.summary == direct.summary
    return {
        "jobs": jobs,
        "quanta": quanta,
        "first_s": round(first_s, 3),
        "direct_s": round(direct_s, 3),
        "zmq_s": round(zmq_s, 3),
        "direct_us": round(direct_s / quanta * 1e6),
        "zmq_us": round(zmq_s / quanta * 1e6),
    }


class Enough(Exception):
    """As many quanta have ended as were asked for."""


class CountedLink(DirectLink):
    """A link that ends the run after some quanta, with `Enough`."""

    left = 0
    ran = 0

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass a batch on."""
        self.ran += sum([isinstance(event, QuantumEnded) for event in events])
        if self.ran >= self.left:
            raise Enough
        return super().exchange(seq, now_us, events)


def some(nodes: str, quanta: int) -> Figures:
    """Run the first quanta of a crowded machine, and once more: fluid nodes know the rates then."""
    prepared = prepare(scenario(quanta, CROWD, nodes))
    spent_s = []
    for _ in range(2):
        link = CountedLink(choose("paired-gang").scheduler)
        link.left = quanta
        began_s = cpu_s()
        with suppress(Enough):
            run(prepared, link)
        spent_s.append(cpu_s() - began_s)
    return {"quanta": link.ran, "first_ms": spent_s[0] / link.ran * 1e3, "again_ms": spent_s[1] / link.ran * 1e3}


def measure(jobs: int, quanta: int, most_s: float, tell: Callable[[str], None]) -> list[Figures]:
    """Return a row for each preset with a whole run of ``jobs``, and one for each kind of nodes with some ``quanta``."""
    return list(_rows(jobs, quanta, most_s, tell))


def _rows(jobs: int, quanta: int, most_s: float, tell: Callable[[str], None]) -> Iterator[Figures]:
    for policy in POLICIES:
        tell(f"{policy}: {jobs:,} jobs in turns, in one process and two")
        yield {WHOLE: policy, **in_process(whole, policy, jobs, timeout_s=3 * most_s)}
    for nodes in KINDS:
        tell(f"{nodes} nodes: {quanta} quanta")
        yield {SOME: nodes, **in_process(some, nodes, quanta, timeout_s=most_s)}


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the figures as two tables."""
    header = ("preset", "quanta", "first run s", "direct s", "us a quantum", "zmq s", "us a quantum", "zmq / direct")
    body = [(row[WHOLE], *_run_cells(row)) for row in rows if WHOLE in row]
    kinds = [(row[SOME], *_node_cells(row)) for row in rows if SOME in row]
    jobs = max([row.get("jobs", 0) for row in rows], default=0)
    about = (
        f"CPU time of {jobs:,} jobs at load {LOAD} on {NODES} fluid nodes, quanta of 1 s; zmq: of both processes, with the start of"
        f" the second. The first run measures the rates of jobs that share"
        f" CPUs; the others know them. Goal of a first run of {GOAL_JOBS:,} jobs: {GOAL_S:.0f} s."
    )
    more = "CPU time of the same quanta of a crowded machine on both kinds of nodes, under paired-gang."
    tables = (
        aligned_table(header, body, 1),
        aligned_table(("nodes", "quanta", "ms a quantum", "once more"), kinds, 1),
    )
    return [*tables[0], about, "", *tables[1], more, ""]


def _run_cells(row: Figures) -> list[str]:
    if "reason" in row:
        return [row["reason"], *[NOTHING] * 6]
    late = row["first_s"] > GOAL_S and row["jobs"] >= GOAL_JOBS
    first = f"{row['first_s']:.2f}"
    return [
        f"{row['quanta']:,}",
        f"**{first}**" if late else first,
        f"{row['direct_s']:.2f}",
        f"{row['direct_us']:,}",
        f"{row['zmq_s']:.2f}",
        f"{row['zmq_us']:,}",
        f"{row['zmq_s'] / row['direct_s']:.2f}",
    ]


def _node_cells(row: Figures) -> list[str]:
    if "reason" in row:
        return [row["reason"], NOTHING, NOTHING]
    return [f"{row['quanta']:,}", f"{row['first_ms']:.2f}", f"{row['again_ms']:.2f}"]
