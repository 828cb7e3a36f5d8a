"""A literal simulator of nodes in small fixed steps: the independent reference of the exact cluster.

It looks at everything at every step and keeps no events. All times must be multiples of the step. Within one instant:
ticks, ends of bursts, devices, what the network brings, barriers, policies, ends of turns; each by node, then by process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.coscheduling.policies import make_policy
from cosched_emulator.nodeos.coscheduling.protocol import ACKNOWLEDGEMENT, ANSWER, MESSAGE
from cosched_emulator.nodeos.settings import NodeSettings

STEP_US = 100
TICK_US = 10_000


@dataclass(eq=False)
class Task:
    index: int
    job: int
    rank: int
    node: int
    todo: list[programs.Operation]
    state: str = "ready"  # ready (has to look at its program), run (has a burst), poll, wait, barrier, receive, done
    rest: int = 0
    until: int = 0
    purpose: str = ""
    consumed: int = 0
    io: int = 0
    allowed: bool = False
    counter: int = 6
    sender: int = -1  # whose message it waits for
    waiting: int = -1  # in the message layer, and for what: MESSAGE, ANSWER or ACKNOWLEDGEMENT
    message: programs.Send | None = None
    inbox: dict[int, list[int]] = field(default_factory=dict)  # arrivals, by rank of the sender
    requests: list[Task] = field(default_factory=list)
    granted: bool = False
    acknowledged: int = -1
    spin: int = 0  # for how long it polls from when it gets the CPU
    poll_left: int = 0
    compute_left: int = 0
    useful: int = 0
    spun: int = 0

    def unread(self, now: int) -> int:
        return len(self.requests) + sum(arrival <= now for box in self.inbox.values() for arrival in box)


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
    pending: int = 0  # of interrupts at this instant
    delay: int = 0  # of the current task, by interrupts
    ports: list[Task] = field(default_factory=list)  # for the policy, as `unread` and `current` are
    now: int = 0

    def unread(self, task: Task) -> int:
        return task.unread(self.now)


class Reference:
    def __init__(
        self, settings: NodeSettings, nodes: int, phases: list[int], policy_phases: Sequence[int] = ()
    ) -> None:
        self.settings = settings
        self.nodes = [Node() for _ in range(nodes)]
        self.phases = phases
        self.tasks: list[Task] = []
        self.jobs: dict[int, list[Task]] = {}
        self.releases: dict[int, int] = {}  # job -> when its barrier opens
        self.flying: list[tuple[int, str, int, int, int]] = []  # arrival, kind, node, task, rank of the sender
        self.policies: list[Any] = [  # tasks stand for processes
            make_policy(settings.coscheduling, settings.coscheduling_parameters) for _ in range(nodes)
        ]
        self.policy_phases = policy_phases
        self.server_free = 0
        self.ends: dict[int, int] = {}
        self.now = 0

    def start(self, job: int, program: programs.Program, places: list[int]) -> None:
        self.jobs[job] = []
        for rank, node in enumerate(places):
            task = Task(len(self.tasks), job, rank, node, list(program.operations(rank)))
            self.tasks.append(task)
            self.jobs[job].append(task)
            self.nodes[node].ports.append(task)

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
                    if task.state == "receive" and (task.requests or task.granted):
                        task.state, task.spin = "poll", 0
                    self.look(task)
                    if task.state in ("run", "poll"):
                        self.enqueue(task, woken=False)
        self.go_on_all()
        self.end_turns()
        self.go_on_all()

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
        elif woken:
            advised = self.advised(task.node, current)
            better = local == "wake-first" or (
                local == "linux-epochs" and self.goodness(task, current) - self.goodness(current, current) > 1
            )
            if (advised is not current) if advised is not None else better:
                node.current = None
                self.choose(task.node)
        self.end_interrupts(node)

    def end_interrupts(self, node: Node) -> None:
        """Let interrupts delay the present task; this uses up its slice."""
        if node.current:
            node.delay += node.pending
        node.pending = 0

    def advised(self, number: int, current: Task | None) -> Task | None:
        node: Any = self.nodes[number]
        advised: Any = self.policies[number].advise(node.queue, current)
        if advised is None or advised not in node.queue:
            return None
        return advised if self.settings.local != "linux-epochs" or advised.counter > 0 else None

    def reconsider(self, number: int) -> None:
        current = self.nodes[number].current
        if current is not None:
            advised = self.advised(number, current)
            if advised is not None and advised is not current:
                self.nodes[number].current = None
                self.choose(number)

    def goodness(self, task: Task, last: Task | None) -> int:
        return 0 if task.counter == 0 else 20 + task.counter + (1 if task is last else 0)

    def renew(self, number: int) -> None:
        for task in self.tasks:
            if task.node == number and task.state != "done":
                task.counter = task.counter // 2 + self.settings.epoch_ticks

    def choose(self, number: int) -> None:
        node = self.nodes[number]
        if not node.queue:
            return
        best = node.queue[0]
        advised = self.advised(number, node.last)
        if advised is not None:
            best = advised
        elif self.settings.local == "linux-epochs":
            if all(task.counter == 0 for task in node.queue):
                self.renew(number)
            for task in node.queue:
                if self.goodness(task, node.last) > self.goodness(best, node.last):
                    best = task
        node.switching = (0 if best is node.last else self.settings.switch_us) + node.pending
        node.delay = node.pending = 0
        node.current = node.last = best
        best.poll_left = best.spin
        if self.policies[number].advises:
            self.policies[number].chosen(best)
        node.used = 0
        node.ran = False

    def look(self, task: Task) -> None:
        """Let a task go through its program until it has a burst or waits."""
        while task.state == "ready":
            if task.rest and not task.todo:
                task.state = "run"
                return
            if not task.todo:
                task.state = "done"
                self.nodes[task.node].ports.remove(task)
                if all(other.state == "done" for other in self.jobs[task.job]):
                    self.ends[task.job] = self.now
                return
            operation = task.todo[0]
            if isinstance(operation, programs.Receive):
                self.answer(task)
            if task.rest and not isinstance(operation, programs.Compute) and not self.is_there(task, operation):
                task.state = "run"
                return
            task.todo.pop(0)
            if isinstance(operation, programs.Compute):
                task.rest, task.purpose = task.rest + operation.us, "compute"
                task.compute_left = operation.us
            elif isinstance(operation, programs.WriteFiles):
                if operation.files:
                    task.todo.insert(0, programs.WriteFiles(operation.files - 1, operation.shared))
                    task.rest, task.purpose = self.settings.io_cpu_us, "shared" if operation.shared else "local"
                    if not task.rest:
                        self.purpose(task)
            elif isinstance(operation, programs.Wait):
                task.until, task.state = self.now + operation.us, "wait"
            elif isinstance(operation, programs.Barrier):
                task.state = "barrier"
                if all(other.state == "barrier" for other in self.jobs[task.job]):
                    self.releases[task.job] = self.now + self.settings.barrier_us
            elif isinstance(operation, programs.Send):
                task.rest, task.purpose, task.message = self.settings.message_cpu_us, "send", operation
                if not task.rest:
                    self.purpose(task)
            elif isinstance(operation, programs.Receive):
                if self.is_there(task, operation):  # it takes at once what has come
                    task.inbox[operation.rank].pop(0)
                    task.rest, task.purpose = task.rest + self.settings.receive_cpu_us, "receive"
                    continue
                task.sender = operation.rank
                self.wait(task, MESSAGE)
            elif isinstance(operation, programs.CollectiveBegins | programs.CollectiveEnds):
                begins = isinstance(operation, programs.CollectiveBegins)
                self.policies[task.node].collective(task, begins)
            if task.rest and task.state == "ready":
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
            if self.settings.rendezvous_bytes and task.message.size_bytes > self.settings.rendezvous_bytes:
                self.fly("request", task, task.message.rank, 0)
                self.wait(task, ANSWER)
            else:
                self.transmit(task)

    def fly(self, kind: str, task: Task, rank: int, size_bytes: int) -> int:
        """Let something leave for a task of the same job; return when it arrives."""
        node = self.nodes[task.node]
        leaves = self.now  # requests and answers pass the data
        if kind == "message":
            leaves = node.way_out_free = max(leaves, node.way_out_free) + size_bytes // self.settings.network_mb_s
        to = self.jobs[task.job][rank]
        arrival = leaves + self.settings.latency_us
        self.flying.append((arrival, kind, to.node, to.index, task.rank))
        return arrival

    def transmit(self, task: Task) -> None:
        assert task.message is not None
        rank, size_bytes = task.message
        arrival = self.fly("message", task, rank, size_bytes)
        self.jobs[task.job][rank].inbox.setdefault(task.rank, []).append(arrival)
        policy = self.policies[task.node]
        if policy.acknowledged:
            us = 2 * self.settings.latency_us
            if policy.waits(task, ACKNOWLEDGEMENT) >= us:
                task.rest, task.purpose = us, "acknowledgement"
                task.spun += us
            else:
                task.acknowledged = self.now + us
                self.wait(task, ACKNOWLEDGEMENT)

    def is_there(self, task: Task, operation: programs.Operation) -> bool:
        """Tell whether the operation is a receive whose message has arrived."""
        return isinstance(operation, programs.Receive) and any(
            time <= self.now for time in task.inbox.get(operation.rank, ())
        )

    def has_cpu(self, task: Task) -> bool:
        node = self.nodes[task.node]
        return node.current is task and not node.switching and not node.delay

    def answer(self, task: Task) -> None:
        if self.has_cpu(task):
            for sender in task.requests:
                self.fly("answer", task, sender.rank, 0)
            task.requests.clear()

    def wait(self, task: Task, waiting: int) -> None:
        """Let a task wait in the message layer: poll, or block."""
        self.answer(task)
        task.waiting = waiting
        task.spin = task.poll_left = self.policies[task.node].waits(task, waiting)
        task.state = "poll" if task.spin or task.requests else "receive"

    def poll(self, task: Task) -> None:
        """Let a task that polls and has the CPU look whether something is there, and whether its time is over."""
        waiting, requested = task.waiting, bool(task.requests)
        self.answer(task)
        if waiting == MESSAGE and self.is_there(task, programs.Receive(task.sender)):
            task.inbox[task.sender].pop(0)
            task.rest, task.purpose = self.settings.receive_cpu_us, "receive"
        elif waiting == ACKNOWLEDGEMENT and task.acknowledged <= self.now:
            pass
        elif waiting == ANSWER and task.granted:
            task.granted = False
            task.state, task.waiting = "ready", -1
            self.transmit(task)
            if task.waiting < 0:
                self.look(task)
            return
        elif requested:
            self.wait(task, waiting)
            return
        elif task.poll_left == 0:
            task.state = "receive"
            return
        else:
            return
        task.state, task.waiting = "ready", -1
        self.look(task)

    def arrive(self, kind: str, task: Task, rank: int) -> None:
        """Do what something that arrives causes."""
        if kind == "request":
            task.requests.append(self.jobs[task.job][rank])
        elif kind == "answer":
            task.granted = True
        mine = {"message": MESSAGE, "answer": ANSWER, "acknowledgement": ACKNOWLEDGEMENT}.get(kind, task.waiting)
        if task.waiting >= 0 and mine == task.waiting and (kind != "message" or task.sender == rank):
            if task.state == "poll":
                if self.has_cpu(task):
                    self.poll(task)
                    self.settle(task)
            elif kind in ("message", "acknowledgement"):
                task.waiting = -1
                if kind == "message":
                    task.inbox[rank].pop(0)
                    task.rest, task.purpose = self.settings.receive_cpu_us, "receive"
                self.nodes[task.node].pending += self.settings.interrupt_us if task.allowed else 0
                self.complete(task)
            elif task.allowed:
                task.state, task.spin = "poll", 0
                self.nodes[task.node].pending += self.settings.interrupt_us
                self.enqueue(task, woken=True)
        node = self.nodes[task.node]
        if self.policies[task.node].wants_arrivals and kind in ("message", "request") and node.current is not task:
            node.pending += self.settings.interrupt_us
            self.policies[task.node].arrived(task)
            self.reconsider(task.node)
            self.end_interrupts(node)

    def settle(self, task: Task) -> None:
        """Take the CPU from the present task if it needs it no more."""
        if task.state not in ("run", "poll"):
            node = self.nodes[task.node]
            node.current = None
            node.queue.remove(task)
            self.choose(task.node)

    def complete(self, task: Task) -> None:
        task.state = "ready"
        if task.allowed:
            self.look(task)
            if task.state in ("run", "poll"):
                self.enqueue(task, woken=True)
        self.end_interrupts(self.nodes[task.node])

    def instant(self) -> None:
        """Do all that is due now."""
        linux = self.settings.local == "linux-epochs"
        for number, node in enumerate(self.nodes):
            if linux and node.current and node.ran and (self.now - self.phases[number]) % TICK_US == 0:
                node.current.counter -= 1
                if node.current.counter == 0 and len(node.queue) == 1:
                    self.renew(number)
        self.go_on_all()
        for task in sorted(self.tasks, key=lambda task: (task.node, task.index)):
            if task.state == "wait" and task.until == self.now:
                self.complete(task)
                self.go_on_all()
        for kind in ("message", "request", "answer"):
            for item in sorted(item for item in self.flying if item[:2] == (self.now, kind)):
                self.flying.remove(item)
                self.arrive(kind, self.tasks[item[3]], item[4])
                self.go_on_all()
        for task in sorted(self.tasks, key=lambda task: (task.node, task.index)):
            if task.waiting == ACKNOWLEDGEMENT and task.state == "receive" and task.acknowledged <= self.now:
                self.arrive("acknowledgement", task, 0)
                self.go_on_all()
        for job in sorted(job for job, time in self.releases.items() if time == self.now):
            del self.releases[job]
            for task in self.jobs[job]:
                task.state = "ready"
            for task in self.jobs[job]:
                self.complete(task)
            self.go_on_all()
        for number, (policy, node) in enumerate(zip(self.policies, self.nodes, strict=True)):
            if policy.interval_us and (self.now - self.policy_phases[number]) % policy.interval_us == 0:
                node.now = self.now
                policy.tick(node)
                self.reconsider(number)
                self.go_on_all()
        self.end_turns()
        self.go_on_all()

    def go_on_all(self) -> None:
        for node in self.nodes:
            self.go_on(node)

    def go_on(self, node: Node) -> None:
        """Let the present task of a node do what follows its burst, if that is over, or look into its port."""
        while (task := node.current) and not node.switching and not node.delay:
            if task.state == "poll":
                before = task.requests[:], task.granted, task.todo[:1], task.waiting
                self.poll(task)
                self.settle(task)
                if task.state == "poll" and before == ([], False, task.todo[:1], task.waiting):
                    return
            elif task.rest == 0:
                task.state = "ready"
                self.purpose(task)
                if task.state == "ready":
                    self.look(task)
                self.settle(task)
            else:
                return

    def end_turns(self) -> None:
        linux = self.settings.local == "linux-epochs"
        for number, node in enumerate(self.nodes):
            task = node.current
            over = task is not None and task.counter == 0 if linux else node.used == self.settings.slice_us
            if over and task and len(node.queue) > 1:
                if not linux:
                    node.queue.remove(task)
                    node.queue.append(task)
                if self.advised(number, task) is task:
                    continue
                before = task.poll_left, node.delay
                node.current = None
                self.choose(number)
                if self.nodes[number].current is task:  # its next turn
                    task.poll_left, node.delay = before

    def step(self) -> None:
        """Let one step pass."""
        for node in self.nodes:
            node.ran = False
            task = node.current
            if task and node.switching:
                node.switching -= STEP_US
            elif task and node.delay:
                node.delay -= STEP_US
                node.used = node.used % self.settings.slice_us + STEP_US
            elif task and task.state == "poll":
                node.ran = True
                task.poll_left -= STEP_US
                task.consumed += STEP_US
                task.spun += STEP_US
                node.used = node.used % self.settings.slice_us + STEP_US
            elif task:
                node.ran = True
                task.rest -= STEP_US
                task.consumed += STEP_US
                if task.rest < task.compute_left:
                    task.compute_left = task.rest
                    task.useful += STEP_US
                node.used = node.used % self.settings.slice_us + STEP_US
                if task.purpose in ("shared", "local"):
                    task.io += STEP_US
        self.now += STEP_US

    def advance(self, until: int) -> None:
        while self.now < until:
            self.step()
            self.instant()
