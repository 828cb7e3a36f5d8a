"""A live manager whose jobs share time, with a scheduler that answers late, or not at all; without sockets, in emulated time."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.views import answer_query
from cosched_emulator.manager.record import JobFinished, QuantumPassed, QuantumRecord
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.users.requests import Done, Request, Requester, decode_answer, encode_answer
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode

SECOND = 1_000_000
OPERATOR = Requester("root", operator=True)
Decision = TypeVar("Decision", bound=m.Action)
JobLine = tuple[float, int, float, float]  # submission in seconds, nodes, run time alone in seconds, CPU share


def scenario_of(folder: Path, jobs: Sequence[JobLine], *, nodes: int = 16, **sharing: Any) -> dict[str, Any]:
    """Return a scenario of the paper's fine-grain jobs; the files for it are written to ``folder``."""
    log, programs = folder / "jobs.swf", folder / "programs.csv"
    rows = [f"{number} {submit:g} -1 {run:g} {size} -1 -1 {size} {run:g} -1 1 1 1 1 1 -1 -1 -1"
            for number, (submit, size, run, _) in enumerate(jobs, 1)]  # fmt: skip
    log.write_text(f"; MaxProcs: {nodes}\n" + "\n".join(rows) + "\n")
    shares = [f"{number},fine,{share}" for number, (*_, share) in enumerate(jobs, 1)]
    programs.write_text("job,program,cpu_share\n" + "\n".join(shares) + "\n")
    workload = {"swf": str(log), "programs": str(programs), "limits": "none"}
    return {
        "cluster": {"nodes": nodes},
        "workload": workload,
        "time_sharing": {"local": "rr", "slice_ms": 5.0, **sharing},
    }


class Site:
    """A live manager with the jobs of its scenario, and a scheduler core in place of a process."""

    def __init__(self, table: Mapping[str, Any], policy: str = "paired-gang", delay_us: int = 2_000) -> None:
        """``delay_us``: how long the scheduler takes to answer."""
        self.prepared = prepare(table)
        manager = build_manager(self.prepared, live=True)
        agenda = build_agenda(self.prepared, manager, live=True)
        self.books = Accounting.create(None, {})
        jobs = len(self.prepared.workload.jobs)
        self.live = LiveManager(manager, agenda, jobs + 1, self.books.ended_state, self.books.tasks)
        weakref.finalize(self.books, self.books._connection.close)
        self.quanta: list[QuantumRecord] = []
        self.finished: list[JobFinished] = []
        self.frozen = False
        self.policy = policy
        self.delay_us = delay_us
        self._late: tuple[int, int, m.Actions] | None = None  # an answer under way: when it arrives, and to what
        self.scheduler_comes()

    @property
    def processes(self) -> Rotating:
        processes = self.live.manager.processes
        assert processes is not None
        return processes

    @property
    def quantum(self) -> int:
        """Return the number of the last quantum that has ended."""
        return self.processes.quantum

    def scheduler_comes(self) -> None:
        """Begin with a new scheduler, from the present state."""
        welcome = decode(encode(self.live.inventory()))
        assert isinstance(welcome, m.Welcome)
        self.core = SchedulerCore(choose(self.policy).make(), welcome)
        self._late = None

    def under_way(self, kind: type[Decision]) -> list[Decision]:
        """Return the actions of that kind in the answer that is under way."""
        return [] if self._late is None else [item for item in self._late[2].actions if isinstance(item, kind)]

    def run_until(self, at_s: float) -> None:
        """Let time pass; the scheduler answers each batch unless it is frozen."""
        until_us = round(at_s * SECOND)
        while True:
            self._hear()
            times = [until_us]
            if self._late is not None and not self.frozen:
                times.append(self._late[0])
            due_us = self.live.due_by(min(times))
            now_us = max(self.live.now_us, min([*times, *([] if due_us is None else [due_us])]))
            if self._late is not None and not self.frozen and self._late[0] <= now_us:
                _, _, reply = self._late
                self._late = None
                self.live.answer(now_us, reply.seq, reply.actions)
            else:
                self.live.advance(now_us)
                if now_us >= until_us:
                    self._keep()
                    return
            self._keep()

    def run_to_quantum(self, number: int) -> None:
        """Let time pass until that many quanta have ended, and a little more."""
        while self.quantum < number:
            self.run_until(self.live.now_us / SECOND + 0.05)

    def _hear(self) -> None:
        """Let the scheduler read a batch and decide; the answer comes later."""
        if self.frozen or self._late is not None:
            return
        batch = self.live.batch()
        if batch is None:
            return
        seq, now_us, events = batch
        heard = decode(encode(m.Events(seq, now_us, events)))
        assert isinstance(heard, m.Events)
        actions = self.core.handle(now_us, heard.events)
        self.core.check()
        self._late = (self.live.now_us + self.delay_us, seq, m.Actions(seq, now_us, tuple(actions)))

    def _keep(self) -> None:
        changes = self.live.drain()
        self.quanta += [change.record for change in changes if isinstance(change, QuantumPassed)]
        self.finished += [change for change in changes if isinstance(change, JobFinished)]
        self.live.check()

    def progress_us(self) -> dict[int, int]:
        """Return the work that each running job has done, in run time alone."""
        running = self.live.manager.running
        return {job_id: self.processes.work_us(job, self.live.now_us) for job_id, job in sorted(running.items())}

    def ask(self, request: Request) -> dict[str, Any]:
        """Return the answer to a user's question, after encoding and decoding."""
        answer = answer_query(self.live, self.books, lambda: {"policy": self.policy}, request)
        assert isinstance(answer, Done), answer
        _, received = decode_answer(encode_answer(answer, 7))
        assert isinstance(received, Done)
        return dict(received.result)

    def do(self, request: Request) -> dict[str, Any]:
        """Carry out a user's command now."""
        answer = self.live.command(self.live.now_us, OPERATOR, request)
        assert isinstance(answer, Done), answer
        self._keep()
        return dict(answer.result)

    def assert_agreement(self) -> None:
        """Compare the scheduler's state with one made from the manager's inventory; all batches must have been read."""
        told = SchedulerCore(choose(self.policy).make(), self.live.manager.inventory()).view
        seen = self.core.view
        assert (seen.rotation, seen.quantum) == (told.rotation, told.quantum)
        assert seen.queue == told.queue
        facts = [
            {job_id: (job.runs, job.slot, job.quanta, job.shares) for job_id, job in view.running.items()}
            for view in (seen, told)
        ]
        assert facts[0] == facts[1]
        assert [seen.free_in(slot) for slot in range(9)] == [told.free_in(slot) for slot in range(9)]
