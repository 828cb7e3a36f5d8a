"""How long jobs of the small manager in `cosched_plugin.testing.check` run, and its time sharing: which jobs run in a quantum.

PROTOCOL.md ("Slots") has the rules. The rotation is the ledger's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Final

from cosched_plugin.ledger.ledger import Slots
from cosched_plugin.ledger.running import Running, progress_us
from cosched_plugin.protocol.messages import QuantumEnded, Turn

_SHARES_PPM: Final = (0, 10_000, 450_000, 970_000, 1_000_000)


class SiteJob:
    """What no scheduler knows of a job: how long it really runs, and waits for its slot."""

    __slots__ = ("run_us", "started_by", "waited_us", "waiting_us")

    def __init__(self, run_us: int) -> None:
        self.run_us = run_us
        self.start(None)

    def start(self, started_by: tuple[int, int] | None) -> None:
        """Start it, by this action of this batch; None: the manager did."""
        self.started_by = started_by
        self.waited_us = 0  # time from its start in which it was not suspended, and its slot did not run
        self.waiting_us: int | None = None  # since when that is so; None: it may run, or is suspended

    def ran_us(self, running: Running, now_us: int) -> int:
        """Return the time for which it could run since its start."""
        return progress_us(running, now_us) - self.waited_us - self._waits_us(running, now_us)

    def let_run(self, running: Running, now_us: int, *, may_run: bool) -> None:
        """Let it run from now on, or wait for its slot."""
        if may_run or running.suspended_us is not None:
            self.waited_us += self._waits_us(running, now_us)
            self.waiting_us = None
        elif self.waiting_us is None:
            self.waiting_us = now_us

    def _waits_us(self, running: Running, now_us: int) -> int:
        """Return for how long it has waited for its slot by now, without its way back from disk."""
        return 0 if self.waiting_us is None else max(0, now_us - max(self.waiting_us, running.ready_us))

    def is_killed(self, running: Running) -> bool:
        """Return whether its limit ends it."""
        return running.limit_us is not None and running.limit_us < self.run_us + running.idle_us

    def end_us(self, running: Running) -> int | None:
        """Return when it will end or be killed at its limit; None while it is suspended or waits for its slot."""
        if running.suspended_us is not None or self.waiting_us is not None:
            return None
        lasts_us = self.run_us + running.idle_us
        lasts_us = lasts_us if running.limit_us is None else min(running.limit_us, lasts_us)
        return running.start_us + lasts_us + self.waited_us


class TimeSharing:
    """The quantum that runs. Jobs make full progress whenever they may run."""

    def __init__(self, slots: Slots, jobs: dict[int, SiteJob]) -> None:
        self._slots = slots
        self._jobs = jobs
        self.ends_us: int | None = None  # end of the quantum that runs; None: none runs
        self._turn = Turn((0,))  # of that quantum
        self._left_after = 0  # quanta of that turn that are still to come after it
        self._members: set[int] = set()  # jobs that run in it
        self._before_us: dict[int, int] = {}  # of each job that has run in it: how long it had run before
        self._left: set[int] = set()  # jobs that have left it; one that starts again has no share

    def due_us(self, now_us: int, running: Sequence[Running]) -> list[int]:
        """Return when the quantum ends, or jobs come back from disk so that one can begin."""
        if self.ends_us is not None:
            return [self.ends_us]
        return [job.ready_us for job in running if job.suspended_us is None and job.ready_us > now_us]

    def due(self, random: Random, now_us: int, running: Sequence[Running], gone: Collection[int]) -> list[QuantumEnded]:
        """Return the end of the quantum if it is due; none follows if the jobs that are ``gone`` leave none that can run."""
        running = [job for job in running if job.job.id not in gone]
        if self.ends_us is None or self.ends_us > now_us or self._nothing_can_run(now_us, running):
            return []
        shares = []
        for job in running:
            before_us = self._before_us.get(job.job.id)
            if before_us is None or job.job.id in self._left:
                continue
            if 2 * (self._jobs[job.job.id].ran_us(job, now_us) - before_us) >= self._slots.quantum_us:
                shares.append((job.job.id, random.choice((*_SHARES_PPM, random.randint(0, 1_000_000)))))
        return [QuantumEnded(self._slots.quantum + 1, self._turn.slots[0], self._left_after, tuple(shares))]

    def left_by(self, job_id: int) -> None:
        """Let a job that ends or is requeued run no more in the present quantum."""
        self._members.discard(job_id)
        if job_id in self._before_us:
            self._left.add(job_id)

    def stop(self, job_id: int) -> None:
        """Let a job that is suspended run no more in the present quantum."""
        self._members.discard(job_id)

    def follow(self, now_us: int, running: Sequence[Running]) -> None:
        """Let the quantum that runs be the first of the rotation that has just been set."""
        if self.ends_us is not None:
            self._choose(now_us, running)

    def settle(self, now_us: int, running: Sequence[Running]) -> None:
        """Begin a quantum if none runs and a job can run; let exactly its jobs run from now on."""
        turns = self._slots.rotation.turns
        if not turns or self._nothing_can_run(now_us, running):
            self.ends_us = None
            self._members.clear()
        elif self.ends_us is None:
            self._members.clear()
            self._before_us.clear()
            self._left.clear()
            self._choose(now_us, running)
            self.ends_us = now_us + self._slots.quantum_us
        for job in running:
            may_run = job.job.id in self._members if turns else job.slot == 0
            self._jobs[job.job.id].let_run(job, now_us, may_run=may_run)

    def _nothing_can_run(self, now_us: int, running: Sequence[Running]) -> bool:
        """Tell whether no job can run: none of the quantum that runs, and none of any turn."""
        if self.ends_us is not None and any(job.job.id in self._members for job in running):
            return False
        return not any(_members_of(turn, running, now_us) for turn in self._slots.rotation.turns)

    def _choose(self, now_us: int, running: Sequence[Running]) -> None:
        """Choose the turn of the present quantum, with its jobs: the first one in which a job can run."""
        self._members.clear()
        turns, left = self._slots.rotation
        for place, turn in enumerate(turns):
            members = _members_of(turn, running, now_us)
            if members:
                self._turn = turn
                self._left_after = (left if place == 0 and left else turn.quanta) - 1
                for job in members:
                    self._members.add(job.job.id)
                    self._before_us.setdefault(job.job.id, self._jobs[job.job.id].ran_us(job, now_us))
                return


def _members_of(turn: Turn, running: Sequence[Running], now_us: int) -> list[Running]:
    """Return the jobs that can run in a turn: neither suspended nor on their way back from disk."""
    return [
        job
        for job in running
        if (job.slot in turn.slots or job.job.id in turn.guests) and job.suspended_us is None and job.ready_us <= now_us
    ]
