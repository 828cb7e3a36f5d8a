"""Why pending jobs do not run: one sentence each, of what one pass of the core over a state has told, and of the state itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from cosched_emulator.expected_starts.estimates import Estimate
from cosched_emulator.explain.gang_facts import count_text, span_text
from cosched_hwmodel.units import MARK, NodeSet, amounts_text
from cosched_plugin.common.allocation import Counts, Machine, room_on
from cosched_plugin.common.threads import each_node
from cosched_plugin.protocol.messages import JobSpec, RunningJob, Welcome

# Kinds of reasons, for counts.
NODES: Final = "nodes"  # too few are free
RESERVATION: Final = "reservation"  # enough are free, and it would delay a job with a reservation, or it has one itself
ORDER: Final = "order"  # enough are free, and the policy takes other jobs first, or has not decided yet
KINDS: Final = (NODES, RESERVATION, ORDER)


class Reason(NamedTuple):
    """Why a job is pending."""

    kind: str
    text: str


class Reasons:
    """The reasons of one state."""

    def __init__(
        self, welcome: Welcome, records: Iterable[Mapping[str, Any]], settings: Mapping[str, Any] | None = None
    ) -> None:
        """``records`` are those of a decision trace of one pass; ``settings`` the composition's, None: not one of ours."""
        self._machine = Machine(welcome.nodes, welcome.licences, welcome.capabilities.layout)
        self._whole = _part(settings, "shape") == "nodes"
        self._matches = _part(settings, "matching") not in ("", "none")
        # By node that is in use, of each job there: its expected end, threads and memory.
        self._ends: dict[int, list[tuple[int, int, int]]] = {}
        self._threads: dict[int, int] = {}  # by node: in use
        self._memory_mb: dict[int, int] = {}  # likewise
        self._counts = Counts(self._machine)
        for job in welcome.running:
            if not job.on_disk:
                self._occupy(job)
                self._counts.count(job.spec, job.runs, -1)
        self._down = sum([1 << node for node in set(welcome.down)])
        self._in_use = sum([1 << node for node in self._ends])
        self._reserved: tuple[int, int] | None = None  # job, expected start
        self._promised: dict[int, int] = {}
        self._reasons: dict[int, str] = {}
        for record in records:
            match record["kind"]:
                case "reserve":
                    self._reserved = (record["job"], record["shadow_us"])
                case "promise" if record["start_us"] is not None:
                    self._promised[record["job"]] = record["start_us"]
                case "wait":
                    self._reasons[record["job"]] = str(record["reason"])

    def _occupy(self, job: RunningJob) -> None:
        end_us, spec = job.start_us + job.estimate_us, job.spec
        for node, processes in each_node(job.runs):
            threads = self._machine.threads_of[node] if spec.exclusive else processes * spec.threads_per_process
            memory_mb = processes * spec.memory_mb
            self._ends.setdefault(node, []).append((end_us, threads, memory_mb))
            self._threads[node] = self._threads.get(node, 0) + threads
            self._memory_mb[node] = self._memory_mb.get(node, 0) + memory_mb

    def of(self, spec: JobSpec, estimate: Estimate | None) -> Reason:
        """Return the reason of one pending job."""
        if spec.id in self._reasons:
            return Reason(ORDER, self._reasons[spec.id])
        need, fits = self._need(spec)
        parts = [need]
        first_us = self._first_free(spec, estimate)
        if not fits and first_us is not None:
            parts.append(f"the next is free at {span_text(first_us)}, by the estimates of running jobs")
        reserved = self._reserved
        if reserved is not None and reserved[0] == spec.id:
            parts.append(f"it has the reservation, for {span_text(reserved[1])} at the latest")
        elif spec.id in self._promised:
            parts.append(f"it is promised a start at {span_text(self._promised[spec.id])}")
        elif reserved is not None:
            delays = f", for {span_text(reserved[1])}, and would be delayed" if fits else ""
            parts.append(f"job {reserved[0]} has the reservation{delays}")
        elif fits:
            parts.append("other jobs come first, or the scheduler has not decided yet")
        kind = NODES if not fits else RESERVATION if reserved is not None else ORDER
        return Reason(kind, "; ".join(parts))

    def _need(self, spec: JobSpec) -> tuple[str, bool]:
        """Return what a job needs, with what is free of it, and whether that is enough."""
        its = self._machine.eligible(spec)
        there = self._counts.open_to(spec, its) & ~self._down
        amounts = [text for amount in (*spec.resources, *spec.licences) if (text := amounts_text((amount,)))]
        memory = [f"{spec.memory_mb} MiB a process"] if spec.memory_mb else []
        asked = f" with {', '.join([*amounts, *memory])}" if amounts or memory else ""
        asked += self._apart(spec, its)
        if self._whole or spec.exclusive:
            nodes, idle = self._nodes_for(spec, its), (there & ~self._in_use).bit_count()
            why = self._why_alone(spec)
            alone = f" of its own{asked}{why}" if why else f"{asked}, empty or beside a partner"
            among = f" of the {its.bit_count()} that it may have" if spec.eligible else ""
            return (
                f"needs {count_text(nodes, 'node')}{alone}, and {idle}{among} {'is' if idle == 1 else 'are'} empty",
                idle >= nodes,
            )
        threads = spec.processes * spec.threads_per_process
        free, room, of = 0, 0, 0
        for node, all_threads in enumerate(self._machine.threads_of):
            of += all_threads * (its >> node & 1)
            if there >> node & 1:
                left = all_threads - self._threads.get(node, 0)
                free += left
                memory_mb = self._machine.memory_mb[node] - self._memory_mb.get(node, 0)
                room += room_on(spec, left, all_threads, memory_mb)
        least = f", at least {spec.ppn_min} processes a node" if spec.ppn_min > 1 else ""
        among = " that it may have" if spec.eligible else ""
        few = (
            f", with room for {room} of its {spec.processes} processes"
            if free >= threads and room < spec.processes
            else ""
        )
        return (
            f"needs {count_text(threads, 'thread')}{least}{asked}, and {free} of {of}{among} are free{few}",
            room >= spec.processes,
        )

    def _apart(self, spec: JobSpec, its: NodeSet) -> str:
        """Return beside which jobs a job is never placed, and on how many of its nodes some are."""
        others, closed = [], 0
        for name, _ in spec.resources:
            for other, there in self._counts.beside(name):
                others.append(other.removeprefix(MARK))
                closed |= there & its
            if name.startswith(MARK) and 1 in self._machine.resources.get(name, ()):
                others.append(name.removeprefix(MARK))
                closed |= its & ~self._counts.open_to(spec._replace(resources=((name, 1),)), its)
        if not others:
            return ""
        return f", never beside {', '.join(others)} (on {count_text(closed.bit_count(), 'of its node', 'of its nodes')} now)"

    def _why_alone(self, spec: JobSpec) -> str:
        """Return why a job gets nodes of its own; empty where it may share them."""
        if spec.exclusive:
            return ", as it asked for them"
        if not self._matches:
            return ", as every job here does"
        return ", because its usage is unknown" if spec.usage is None and spec.profile is None else ""

    def _nodes_for(self, spec: JobSpec, its: NodeSet) -> int:
        """Return how many empty nodes a job needs: one process a core where whole nodes are given, else one a thread."""
        most, first = 1, 0
        for node_class in self._machine.classes:
            threads = node_class.cores if self._whole else node_class.threads
            if its >> first & ((1 << node_class.nodes) - 1):
                most = max(most, room_on(spec, threads, threads, node_class.memory_mb))
            first += node_class.nodes
        return -(-spec.processes // most)

    def _first_free(self, spec: JobSpec, estimate: Estimate | None) -> int | None:
        """Return when the first of its nodes is expected to have room for it; None: its nodes are not known, or have room."""
        runs = () if estimate is None else estimate.runs
        at_us = (self._room_at(spec, node, processes) for node, processes in each_node(runs) if node in self._ends)
        return min((each for each in at_us if each is not None), default=None)

    def _room_at(self, spec: JobSpec, node: int, processes: int) -> int | None:
        """Return when so many processes fit on a node in use, as its jobs end; None: now. A node of its own is empty then."""
        ends = sorted(self._ends[node])
        if self._whole or spec.exclusive:
            return ends[-1][0]
        threads = self._machine.threads_of[node]
        left, memory_mb = threads - self._threads[node], self._machine.memory_mb[node] - self._memory_mb[node]
        at_us = None
        for end_us, freed, freed_mb in ends:
            if room_on(spec, left, threads, memory_mb) >= processes:
                break
            at_us, left, memory_mb = end_us, left + freed, memory_mb + freed_mb
        return at_us


def _part(settings: Mapping[str, Any] | None, kind: str) -> str:
    part = (settings or {}).get(kind, "")
    return str(part.get("name", "")) if isinstance(part, Mapping) else str(part)
