"""The site of the conformance check, written from PROTOCOL.md alone: literal books, with run times, slots, a rotation and quanta."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Final

from tests.reference.literal_books import Job, LiteralBooks

from cosched_plugin.protocol import messages as m

ALL_IT_SAYS: Final = m.Capabilities()
_SHARES_PPM: Final = (0, 10_000, 450_000, 970_000, 1_000_000)


class SiteJob(Job):
    """The manager's state of a job, and how long it really runs."""

    __slots__ = ("run_us", "waited_us", "waiting_us")

    def __init__(self, spec: m.JobSpec, run_us: int = 0) -> None:
        super().__init__(spec)
        self.run_us = run_us
        self.waited_us = 0  # time from its start in which it was not suspended, and its slot did not run
        self.waiting_us: int | None = None  # since when that is so; None: it may run, or is suspended

    def start(self, start: m.StartJob | m.JobStarted, now_us: int) -> None:
        """Start it."""
        super().start(start, now_us)
        self.waited_us, self.waiting_us = 0, None

    def ran_us(self, now_us: int) -> int:
        """Return the time for which it could run since its start."""
        return self.progressed_us(now_us) - self.waited_us - self._waits_us(now_us)

    def let_run(self, now_us: int, *, may_run: bool) -> None:
        """Let it run from now on, or wait for its slot."""
        if may_run or self.suspended_us is not None:
            self.waited_us += self._waits_us(now_us)
            self.waiting_us = None
        elif self.waiting_us is None:
            self.waiting_us = now_us

    def _waits_us(self, now_us: int) -> int:
        """Return for how long it has waited for its slot by now, without its way back from disk."""
        return 0 if self.waiting_us is None else max(0, now_us - max(self.waiting_us, self.ready_us))

    @property
    def is_killed(self) -> bool:
        """Return whether its limit ends it."""
        return self.limit_us is not None and self.limit_us < self.run_us + self.idle_us

    @property
    def end_us(self) -> int | None:
        """Return when it will end or be killed at its limit; None while it is suspended or waits for its slot."""
        if self.suspended_us is not None or self.waiting_us is not None:
            return None
        lasts_us = self.run_us + self.idle_us
        lasts_us = lasts_us if self.limit_us is None else min(self.limit_us, lasts_us)
        return self.start_us + lasts_us + self.waited_us


class TimeSharing:
    """The rotation, and the quantum that runs. Jobs make full progress whenever they may run."""

    def __init__(self, quantum_us: int) -> None:
        self.quantum_us = quantum_us
        self.quantum = 0  # last one that has ended
        self.turns: tuple[m.Turn, ...] = ()  # the next one first
        self.left = 0  # quanta of the first turn that are still to come; 0: all of them
        self.ends_us: int | None = None  # end of the quantum that runs; None: none runs
        self._turn = m.Turn((0,))  # of that quantum
        self._left_after = 0  # quanta of that turn that are still to come after it
        self._members: set[int] = set()  # jobs that run in it
        self._before_us: dict[int, int] = {}  # of each job that has run in it: how long it had run before
        self._left: set[int] = set()  # jobs that have left it; one that starts again has no share

    def told(self) -> m.SlotState:
        """Return its entry in a welcome."""
        return m.SlotState(self.quantum_us, self.quantum, self.turns, self.left)

    def due_us(self, now_us: int, running: Sequence[SiteJob]) -> list[int]:
        """Return when the quantum ends, or jobs come back from disk so that one can begin."""
        if self.ends_us is not None:
            return [self.ends_us]
        return [job.ready_us for job in running if job.suspended_us is None and job.ready_us > now_us]

    def due(
        self, random: Random, now_us: int, running: Sequence[SiteJob], gone: Collection[int]
    ) -> list[m.QuantumEnded]:
        """Return the end of the quantum if it is due; none follows if the jobs that are ``gone`` leave none that can run."""
        running = [job for job in running if job.spec.id not in gone]
        if self.ends_us is None or self.ends_us > now_us or self._nothing_can_run(now_us, running):
            return []
        shares = []
        for job in running:
            before_us = self._before_us.get(job.spec.id)
            if before_us is None or job.spec.id in self._left:
                continue
            if 2 * (job.ran_us(now_us) - before_us) >= self.quantum_us:
                shares.append((job.spec.id, random.choice((*_SHARES_PPM, random.randint(0, 1_000_000)))))
        return [m.QuantumEnded(self.quantum + 1, self._turn.slots[0], self._left_after, tuple(shares))]

    def end(self, event: m.QuantumEnded, running: Sequence[SiteJob]) -> None:
        """End the quantum that runs."""
        self.quantum = event.quantum
        self.ends_us = None
        for place, turn in enumerate(self.turns):
            if turn.slots[0] == event.slot:
                next_place = place if event.left else place + 1
                self.turns = self.turns[next_place:] + self.turns[:next_place]
                self.left = event.left
                break
        shares = dict(event.shares)
        for job in running:
            if job.spec.id in shares:
                job.quanta += 1
                job.shares = (shares[job.spec.id], *job.shares)[: m.MOST_SHARES]

    def left_by(self, job: SiteJob) -> None:
        """Let a job that ends or is requeued run no more in the present quantum."""
        self._members.discard(job.spec.id)
        if job.spec.id in self._before_us:
            self._left.add(job.spec.id)

    def stop(self, job: SiteJob) -> None:
        """Let a job that is suspended run no more in the present quantum."""
        self._members.discard(job.spec.id)

    def set_rotation(self, action: m.SetRotation, now_us: int, running: Sequence[SiteJob]) -> str | None:
        """Set the rotation, from the next quantum on or from the one that runs; or return why it is impossible."""
        if action.quantum != self.quantum + 1:
            return f"a rotation from quantum {action.quantum} on, after quantum {self.quantum}"
        slots, ids = {job.slot for job in running}, {job.spec.id for job in running}
        firsts = [turn.slots[0] for turn in action.turns]
        if len(set(firsts)) < len(firsts):
            return f"several turns with the same first slot: {action.turns}"
        for turn in action.turns:
            own = {job.spec.id for job in running if job.slot in turn.slots}
            if (
                turn.quanta < 1
                or len(set(turn.slots)) < len(turn.slots)
                or len(set(turn.guests)) < len(turn.guests)
                or not set(turn.slots) <= slots
                or not set(turn.guests) <= ids - own
            ):
                return f"{turn} beside running jobs {sorted(ids)} in slots {sorted(slots)}"
        reason = pairing_problem(action.turns, running)
        if reason is not None:
            return reason
        self.turns, self.left = action.turns, 0
        if self.ends_us is not None:
            self._choose(now_us, running)  # it is the quantum that runs
        return None

    def settle(self, now_us: int, running: Sequence[SiteJob]) -> None:
        """Begin a quantum if none runs and a job can run; let exactly its jobs run from now on."""
        if not self.turns or self._nothing_can_run(now_us, running):
            self.ends_us = None
            self._members.clear()
        elif self.ends_us is None:
            self._members.clear()
            self._before_us.clear()
            self._left.clear()
            self._choose(now_us, running)
            self.ends_us = now_us + self.quantum_us
        for job in running:
            job.let_run(now_us, may_run=job.spec.id in self._members if self.turns else job.slot == 0)

    def _nothing_can_run(self, now_us: int, running: Sequence[SiteJob]) -> bool:
        """Tell whether no job can run: none of the quantum that runs, and none of any turn."""
        if self.ends_us is not None and any(job.spec.id in self._members for job in running):
            return False
        return not any(_members_of(turn, running, now_us) for turn in self.turns)

    def _choose(self, now_us: int, running: Sequence[SiteJob]) -> None:
        """Choose the turn of the present quantum, with its jobs: the first one in which a job can run."""
        self._members.clear()
        for place, turn in enumerate(self.turns):
            members = _members_of(turn, running, now_us)
            if members:
                self._turn = turn
                self._left_after = (self.left if place == 0 and self.left else turn.quanta) - 1
                for job in members:
                    self._members.add(job.spec.id)
                    self._before_us.setdefault(job.spec.id, job.ran_us(now_us))
                return


def _members_of(turn: m.Turn, running: Sequence[SiteJob], now_us: int) -> list[SiteJob]:
    """Return the jobs that can run in a turn: neither suspended nor on their way back from disk."""
    return [
        job
        for job in running
        if (job.slot in turn.slots or job.spec.id in turn.guests)
        and job.suspended_us is None
        and job.ready_us <= now_us
    ]


def pairing_problem(turns: Sequence[m.Turn], running: Sequence[SiteJob]) -> str | None:
    """Return which job of a turn would run beside one of another slot, although it must not; None: no such turn."""
    for turn in turns:
        members = [job for job in running if job.slot in turn.slots or job.spec.id in turn.guests]
        for job in members:
            for other in members:
                if job.spec.unpaired and other.slot != job.slot and other.nodes & job.nodes:
                    return f"unpaired job {job.spec.id} runs beside job {other.spec.id} in {turn}"
    return None


class LiteralSite(LiteralBooks[SiteJob]):
    """A manager whose jobs run for as long as was drawn; with a ``quantum_us``, its machine has slots."""

    def __init__(
        self,
        nodes: tuple[m.NodeClass, ...],
        belief: m.Belief,
        resume_us: int = 0,
        quantum_us: int | None = None,
        licences: m.Amounts = (),
        capabilities: m.Capabilities = ALL_IT_SAYS,
        features: tuple[str, ...] = m.FEATURES,
    ) -> None:
        machine = m.Welcome(m.PROTOCOL_VERSION, features, 0, 0, nodes, (), belief, (), (), (), (), resume_us)
        super().__init__(machine._replace(capabilities=capabilities, licences=licences), SiteJob)
        self.slots = None if quantum_us is None else TimeSharing(quantum_us)

    def inventory(self) -> m.Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch."""
        told = super().inventory()
        return told if self.slots is None else told._replace(slots=self.slots.told())

    def on_node(self, node: int) -> list[SiteJob]:
        """Return the running jobs that hold threads of ``node``, or have their image on its disk."""
        return [job for job in self.in_state("running") if node in job.nodes]

    def ends(self) -> list[int]:
        """Return the times at which jobs will end or be killed at their limits."""
        return [job.end_us for job in self.in_state("running") if job.end_us is not None]

    def due_us(self) -> int | None:
        """Return the instant of the next due event, or at which a quantum begins; None if there is none."""
        quantum = [] if self.slots is None else self.slots.due_us(self.now_us, self.in_state("running"))
        return min(self.ends() + quantum + list(self.wakes), default=None)

    def settle(self) -> None:
        """Let the jobs run whose turn it is; after a batch has been answered."""
        if self.slots is not None:
            self.slots.settle(self.now_us, self.in_state("running"))

    def _end_quantum(self, event: m.QuantumEnded) -> None:
        assert self.slots is not None
        self.slots.end(event, self.in_state("running"))

    def _set_rotation(self, action: m.SetRotation) -> str | None:
        if self.slots is None:
            return super()._set_rotation(action)
        return self.slots.set_rotation(action, self.now_us, self.in_state("running"))

    def _slot_problem(self, job: SiteJob) -> str | None:
        if self.slots is None:
            return super()._slot_problem(job)
        return pairing_problem(self.slots.turns, self.in_state("running"))

    def _stops(self, job: SiteJob) -> None:
        job.let_run(self.now_us, may_run=True)  # it waits no more: it is suspended
        if self.slots is not None:
            self.slots.stop(job)

    def _leaves(self, job: SiteJob) -> None:
        if self.slots is not None:
            self.slots.left_by(job)


def due_events(random: Random, site: LiteralSite) -> list[m.Event]:
    """Return the events that are due at the present instant; what jobs have consumed in a quantum is random."""
    now_us = site.now_us
    ends = [
        m.JobEnded(job.spec.id, m.TIMEOUT if job.is_killed else m.COMPLETED)
        for job in site.in_state("running")
        if job.end_us is not None and job.end_us <= now_us
    ]
    ended = {event.job_id for event in ends}
    quantum = [] if site.slots is None else site.slots.due(random, now_us, site.in_state("running"), ended)
    return [*ends, *quantum, *(m.Woken(at_us) for at_us in sorted(site.wakes) if at_us <= now_us)]
