"""EASY and conservative backfilling on named nodes with memory and what is counted, as plain as possible.

Nothing here is shared with the real scheduler. A thread is a pair (node, number), the place of a job is first fit's: nodes in order, on
each as many processes as its free threads, its memory and the job's own limit allow, on its lowest threads; a node without enough of a
countable resource has no room. Times are integers of any one unit. Everything is recomputed from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Thread: TypeAlias = tuple[int, int]


class Node(NamedTuple):
    """One node."""

    threads: int
    memory: int
    counted: Mapping[str, int]


class Job(NamedTuple):
    """A rigid job that ends at start + ``run``, never after start + ``estimate``, which is all that a scheduler knows."""

    id: int
    submit: int
    processes: int
    run: int
    estimate: int
    memory: int  # of each process
    most: int  # processes on a node; 0: any number
    nodes: frozenset[int]  # those that it may have
    counted: Mapping[str, int]  # taken of each of its nodes
    licences: Mapping[str, int]


class Held(NamedTuple):
    """A job on its threads during [start, end)."""

    start: int
    end: int
    job: Job
    threads: frozenset[Thread]

    def processes_on(self, node: int) -> int:
        """Return how many of its processes are on a node: each has one thread."""
        return sum(1 for where, _ in self.threads if where == node)


class Site(NamedTuple):
    """The nodes, and what is counted of the whole cluster."""

    nodes: Sequence[Node]
    licences: Mapping[str, int]


def place(
    site: Site, job: Job, start: int, end: int, held: Collection[Held], without: Collection[Thread] = ()
) -> frozenset[Thread] | None:
    """Return first fit's threads for a job during [start, end), on none of ``without``; None where it does not fit."""
    there = [one for one in held if one.start < end and one.end > start]
    instants = {start, *[one.start for one in there if one.start > start]}
    at = [[one for one in there if one.start <= instant < one.end] for instant in instants]
    for name, amount in job.licences.items():
        used = max(sum(one.job.licences.get(name, 0) for one in now) for now in at)
        if site.licences.get(name, 0) - used < amount:
            return None
    taken = {thread for one in there for thread in one.threads}.union(without)
    found: list[Thread] = []
    for number, node in enumerate(site.nodes):
        if number not in job.nodes:
            continue
        on = [[(one.job, one.processes_on(number)) for one in now] for now in at]
        if any(
            node.counted.get(name, 0) - max(sum(j.counted.get(name, 0) for j, many in now if many) for now in on)
            < amount
            for name, amount in job.counted.items()
        ):
            continue
        free = [(number, thread) for thread in range(node.threads) if (number, thread) not in taken]
        room = len(free)
        if job.memory:
            used = max(sum(j.memory * many for j, many in now) for now in on)
            room = min(room, (node.memory - used) // job.memory)
        if job.most:
            room = min(room, job.most)
        found += free[: min(room, job.processes - len(found))]
        if len(found) == job.processes:
            return frozenset(found)
    return None


class Machine:
    """The state that a scheduling pass reads and changes."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.now = 0
        self.waiting: list[Job] = []  # by (submission, id)
        self.running: list[Held] = []  # until their expected ends
        self.starts: dict[int, tuple[int, frozenset[Thread]]] = {}

    def fits_now(self, job: Job, without: Collection[Thread] = ()) -> frozenset[Thread] | None:
        """Return the job's threads for a start now beside the running jobs alone."""
        return place(self.site, job, self.now, self.now + 1, self.running, without)

    def start(self, job: Job, threads: frozenset[Thread]) -> None:
        """Start a waiting job now."""
        self.waiting.remove(job)
        self.running.append(Held(self.now, self.now + job.estimate, job, threads))
        self.starts[job.id] = (self.now, threads)


def simulate(
    jobs: Iterable[Job], site: Site, one_pass: Callable[[Machine], None]
) -> dict[int, tuple[int, frozenset[Thread]]]:
    """Run the jobs to the end and return the start and the threads of each; a pass at every end and submission."""
    machine = Machine(site)
    to_come = list(jobs)
    while to_come or machine.waiting or machine.running:
        instants = [job.submit for job in to_come] + [one.start + one.job.run for one in machine.running]
        machine.now = now = min(instants)
        machine.running = [one for one in machine.running if one.start + one.job.run > now]
        machine.waiting += [job for job in to_come if job.submit <= now]
        machine.waiting.sort(key=lambda job: (job.submit, job.id))
        to_come = [job for job in to_come if job.submit > now]
        one_pass(machine)
    return machine.starts


def easy(machine: Machine) -> None:
    """Start jobs in order, and before the first that does not fit those that leave it a place at its shadow time."""
    again = True
    while again:
        again = False
        while machine.waiting and (threads := machine.fits_now(machine.waiting[0])) is not None:
            machine.start(machine.waiting[0], threads)
        if not machine.waiting:
            return
        head, *behind = machine.waiting

        def at(shadow: int, more: Iterable[Held] = (), head: Job = head) -> frozenset[Thread] | None:
            return place(machine.site, head, shadow, shadow + 1, [*machine.running, *more])

        shadow = min(one.end for one in machine.running if at(one.end) is not None)
        for job in behind:
            reserved = at(shadow)
            assert reserved is not None
            for without in (frozenset[Thread](), reserved):
                threads = machine.fits_now(job, without)
                if threads is None:
                    break
                one = Held(machine.now, machine.now + job.estimate, job, threads)
                if one.end <= shadow or at(shadow, [one]) is not None:
                    machine.start(job, threads)
                    again = True
                    break


class Conservative:
    """Every job has a promised start and place; what comes free early moves promises, in order, sweep after sweep."""

    def __init__(self) -> None:
        self._promised: dict[int, Held] = {}

    def __call__(self, machine: Machine) -> None:
        """Do one pass."""
        self._start_due(machine)
        changed = True
        while changed:
            changed = False
            for job in [job for job in machine.waiting if job.id in self._promised]:
                found = self._earliest(job, machine)
                if found.start < self._promised[job.id].start:
                    self._promised[job.id] = found
                    changed = True
        for job in machine.waiting:
            if job.id not in self._promised:
                self._promised[job.id] = self._earliest(job, machine)
        self._start_due(machine)

    def _start_due(self, machine: Machine) -> None:
        for job in list(machine.waiting):
            if job.id in self._promised and self._promised[job.id].start == machine.now:
                machine.start(job, self._promised.pop(job.id).threads)

    def _earliest(self, job: Job, machine: Machine) -> Held:
        others = [*machine.running, *[one for job_id, one in self._promised.items() if job_id != job.id]]
        for start in sorted({machine.now, *[one.end for one in others if one.end > machine.now]}):
            threads = place(machine.site, job, start, start + job.estimate, others)
            if threads is not None:
                return Held(start, start + job.estimate, job, threads)
        raise AssertionError(f"job {job.id} never fits")
