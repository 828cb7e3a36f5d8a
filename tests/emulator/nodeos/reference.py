"""A literal simulator of nodes in small fixed steps: the independent reference of the exact cluster.

It looks at everything at every step and keeps no events. All times must be multiples of the step. Within one instant:
ticks, ends of bursts, devices, messages, barriers, ends of turns; each by node, then by process.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cosched_emulator.nodeos.programs import Barrier, Compute, Operation, Program, Receive, Send, Wait, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings

STEP_US = 100
TICK_US = 10_000


@dataclass(eq=False)
class Task:
    index: int
    job: int
    rank: int
    node: int
    todo: list[Operation]
    state: str = "ready"  # ready (has to look at its program), run (has a burst), wait, barrier, receive, done
    rest: int = 0
    until: int = 0
    purpose: str = ""
    consumed: int = 0
    io: int = 0
    allowed: bool = False
    counter: int = 6
    sender: int = -1
    message: Send | None = None


@dataclass
class Node:
    queue: list[Task] = field(default_factory=list)  # runnable, in the order of the local scheduler
    current: Task | None = None
    last: Task | None = None
    switching: int = 0
    used: int = 0  # of the slice
    way_out_free: int = 0
    disk_free: int = 0
    ran: bool = False  # the current task worked in the step before


class Reference:
    def __init__(self, settings: NodeSettings, nodes: int, phases: list[int]) -> None:
        self.settings = settings
        self.nodes = [Node() for _ in range(nodes)]
        self.phases = phases
        self.tasks: list[Task] = []
        self.jobs: dict[int, list[Task]] = {}
        self.releases: dict[int, int] = {}  # job -> when its barrier opens
        self.flying: list[tuple[int, int, int, int]] = []  # arrival, node, task, rank of the sender
        self.inbox: Counter[tuple[int, int]] = Counter()
        self.server_free = 0
        self.ends: dict[int, int] = {}
        self.now = 0

    def start(self, job: int, program: Program, places: list[int]) -> None:
        self.jobs[job] = []
        for rank, node in enumerate(places):
            task = Task(len(self.tasks), job, rank, node, list(program.operations(rank)))
            self.tasks.append(task)
            self.jobs[job].append(task)

    def allow(self, runnable: dict[int, list[int]]) -> None:
        chosen = {
            node: [t for job in jobs for t in self.jobs[job] if t.node == node] for node, jobs in runnable.items()
        }
        before = {task.index for task in self.tasks if task.allowed}
        for task in self.tasks:
            if task.allowed and task not in chosen.get(task.node, []):
                task.allowed = False
                self.unqueue(task)
        for node in sorted(chosen):
            for task in chosen[node]:
                if task.state != "done" and task.index not in before:
                    task.allowed = True
                    self.look(task)
                    if task.state == "run":
                        self.enqueue(task, woken=False)
        self.end_turns()

    def unqueue(self, task: Task) -> None:
        node = self.nodes[task.node]
        if task in node.queue:
            node.queue.remove(task)
        if node.current is task:
            node.current = None
            self.choose(task.node)

    def enqueue(self, task: Task, woken: bool) -> None:
        node = self.nodes[task.node]
        local = self.settings.local
        front = local == "linux-epochs" or (local == "wake-first" and woken)
        node.queue.insert(0 if front else len(node.queue), task)
        current = node.current
        if current is None:
            self.choose(task.node)
        elif woken and (
            local == "wake-first"
            or (local == "linux-epochs" and self.goodness(task, current) - self.goodness(current, current) > 1)
        ):
            node.current = None
            self.choose(task.node)

    def goodness(self, task: Task, last: Task | None) -> int:
        return 0 if task.counter == 0 else 20 + task.counter + (1 if task is last else 0)

    def renew(self, number: int) -> None:
        for task in self.tasks:
            if task.node == number and task.state != "done":
                task.counter = task.counter // 2 + 6

    def choose(self, number: int) -> None:
        node = self.nodes[number]
        if not node.queue:
            return
        best = node.queue[0]
        if self.settings.local == "linux-epochs":
            if all(task.counter == 0 for task in node.queue):
                self.renew(number)
            for task in node.queue:
                if self.goodness(task, node.last) > self.goodness(best, node.last):
                    best = task
        node.switching = 0 if best is node.last else self.settings.switch_us
        node.current = node.last = best
        node.used = 0
        node.ran = False

    def look(self, task: Task) -> None:
        """Let a task go through its program until it has a burst or waits."""
        while task.state == "ready":
            if not task.todo:
                task.state = "done"
                if all(other.state == "done" for other in self.jobs[task.job]):
                    self.ends[task.job] = self.now
                return
            operation = task.todo.pop(0)
            if isinstance(operation, Compute):
                task.rest, task.purpose = operation.us, "compute"
            elif isinstance(operation, WriteFiles):
                if operation.files:
                    task.todo.insert(0, WriteFiles(operation.files - 1, operation.shared))
                    task.rest, task.purpose = self.settings.io_cpu_us, "shared" if operation.shared else "local"
                    if not task.rest:
                        self.purpose(task)
            elif isinstance(operation, Wait):
                task.until, task.state = self.now + operation.us, "wait"
            elif isinstance(operation, Barrier):
                task.state = "barrier"
                if all(other.state == "barrier" for other in self.jobs[task.job]):
                    self.releases[task.job] = self.now + self.settings.barrier_time_us(len(self.jobs[task.job]))
            elif isinstance(operation, Send):
                task.rest, task.purpose, task.message = self.settings.message_cpu_us, "send", operation
                if not task.rest:
                    self.purpose(task)
            elif isinstance(operation, Receive):
                if self.inbox[task.index, operation.rank]:
                    self.inbox[task.index, operation.rank] -= 1
                else:
                    task.state, task.sender = "receive", operation.rank
            if task.rest:
                task.state = "run"

    def purpose(self, task: Task) -> None:
        """Do what the burst that is over was for."""
        purpose, task.purpose = task.purpose, ""
        node = self.nodes[task.node]
        if purpose == "shared":
            self.server_free = task.until = max(self.now, self.server_free) + self.settings.io_service_us
            task.state = "wait"
        elif purpose == "local":
            node.disk_free = task.until = max(self.now, node.disk_free) + self.settings.io_service_us
            task.state = "wait"
        elif purpose == "send":
            assert task.message is not None
            node.way_out_free = max(self.now, node.way_out_free) + task.message.size_bytes // self.settings.network_mb_s
            to = self.jobs[task.job][task.message.rank]
            self.flying.append((node.way_out_free + self.settings.latency_us, to.node, to.index, task.rank))

    def complete(self, task: Task) -> None:
        task.state = "ready"
        if task.allowed:
            self.look(task)
            if task.state == "run":
                self.enqueue(task, woken=True)

    def instant(self) -> None:
        """Do all that is due now."""
        linux = self.settings.local == "linux-epochs"
        for number, node in enumerate(self.nodes):
            if linux and node.current and node.ran and (self.now - self.phases[number]) % TICK_US == 0:
                node.current.counter -= 1
                if node.current.counter == 0 and len(node.queue) == 1:
                    self.renew(number)
        for number, node in enumerate(self.nodes):
            task = node.current
            if task and task.rest == 0:
                task.state = "ready"
                self.purpose(task)
                self.look(task)
                if task.state != "run":
                    node.current = None
                    node.queue.remove(task)
                    self.choose(number)
        for task in sorted(self.tasks, key=lambda task: (task.node, task.index)):
            if task.state == "wait" and task.until == self.now:
                self.complete(task)
        for message in sorted(message for message in self.flying if message[0] == self.now):
            self.flying.remove(message)
            task = self.tasks[message[2]]
            if task.state == "receive" and task.sender == message[3]:
                self.complete(task)
            else:
                self.inbox[task.index, message[3]] += 1
        for job in sorted(job for job, time in self.releases.items() if time == self.now):
            del self.releases[job]
            for task in self.jobs[job]:
                task.state = "ready"
            for task in self.jobs[job]:
                self.complete(task)
        self.end_turns()

    def end_turns(self) -> None:
        linux = self.settings.local == "linux-epochs"
        for number, node in enumerate(self.nodes):
            task = node.current
            over = task is not None and task.counter == 0 if linux else node.used == self.settings.slice_us
            if over and task and len(node.queue) > 1:
                if not linux:
                    node.queue.remove(task)
                    node.queue.append(task)
                node.current = None
                self.choose(number)

    def step(self) -> None:
        """Let one step pass."""
        for node in self.nodes:
            node.ran = False
            task = node.current
            if task and node.switching:
                node.switching -= STEP_US
            elif task:
                node.ran = True
                task.rest -= STEP_US
                task.consumed += STEP_US
                node.used = node.used % self.settings.slice_us + STEP_US
                if task.purpose in ("shared", "local"):
                    task.io += STEP_US
        self.now += STEP_US

    def advance(self, until: int) -> None:
        while self.now < until:
            self.step()
            self.instant()
