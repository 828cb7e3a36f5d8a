"""The small resource manager that `cosched_plugin.testing.check` plays against a policy: books, with run times and slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.allocation import Counts, room_on
from cosched_plugin.common.threads import any_layer, bits_of
from cosched_plugin.ledger.running import Ended, Running, progress_us
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.books import Books
from cosched_plugin.testing.site_slots import SiteJob, TimeSharing

ALL_IT_SAYS: Final = m.Capabilities()


class Site(Books):
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
        slots = None if quantum_us is None else m.SlotState(quantum_us, 0, ())
        told = m.Welcome(m.PROTOCOL_VERSION, features, 0, 0, nodes, (), belief, (), (), (), (), resume_us, slots=slots)
        super().__init__(told._replace(capabilities=capabilities, licences=licences))
        self.machine, self.belief = self.ledger.machine, belief
        self.jobs: dict[int, SiteJob] = {}  # all that ever were
        self.slots = None if self.ledger.slots is None else TimeSharing(self.ledger.slots, self.jobs)
        self.number = 0  # of the action that is carried out
        self.left: list[m.JobEnded | m.JobRequeued] = []  # what follows from the actions: jobs that were to leave do
        self.asked: list[m.JobSpec] = []  # jobs that the scheduler has submitted
        self.keeps: set[int] = set()  # nodes out of service that return when it was announced
        self.ended: list[Ended] = []  # jobs that have left their nodes with the last batch
        self._noted: set[tuple[int | None, str]] = set()  # what has ever been noted

    @property
    def running(self) -> list[Running]:
        """Return the running jobs, by id."""
        return [running for _, running in sorted(self.ledger.running.items())]

    @property
    def pending(self) -> list[m.JobSpec]:
        """Return the pending jobs, by id, held ones too."""
        return sorted([*self.ledger.queue.values(), *self.ledger.held.values()], key=lambda job: job.id)

    @property
    def down(self) -> set[int]:
        """Return the nodes out of service."""
        return {node for node in range(self.machine.nodes) if not self.ledger.pool.up >> node & 1}

    @property
    def notes(self) -> dict[tuple[int | None, str], m.NoteValue]:
        """Return all notes, None for one that was removed."""
        notes = self.ledger.notes
        return {(job_id, key): notes.get(job_id, {}).get(key) for job_id, key in self._noted}

    def on_node(self, node: int) -> list[Running]:
        """Return the running jobs that hold threads of ``node``, or have their image on its disk."""
        return [job for job in self.running if any_layer(job.layers) >> node & 1]

    def sharing(self) -> list[Running]:
        """Return the jobs that make progress beside others that do, by id."""
        active = [(job, any_layer(job.layers)) for job in self.running if job.suspended_us is None]
        return [job for job, nodes in active if any(other is not job and nodes & theirs for other, theirs in active)]

    def end_us(self, job: Running) -> int | None:
        """Return when a running job will end or be killed at its limit; None while it makes no progress."""
        return self.jobs[job.job.id].end_us(job)

    def ends(self) -> list[int]:
        """Return the times at which jobs will end or be killed at their limits."""
        return [end_us for job in self.running if (end_us := self.end_us(job)) is not None]

    def due_us(self) -> int | None:
        """Return the instant of the next due event, or at which a quantum begins; None if there is none."""
        quantum = [] if self.slots is None else self.slots.due_us(self.ledger.now_us, self.running)
        returns = [at_us for node, at_us in self.ledger.returns.items() if node in self.keeps]
        return min(self.ends() + quantum + list(self.ledger.wakes) + returns, default=None)

    def settle(self) -> None:
        """Let the jobs run whose turn it is; after a batch has been answered."""
        if self.slots is not None:
            self.slots.settle(self.ledger.now_us, self.running)

    def could_run(self, spec: m.JobSpec) -> bool:
        """Return whether the nodes in service could hold such a job if they were empty."""
        machine, down = self.machine, self.down
        nodes = Counts(machine).open_to(spec, machine.eligible(spec))
        threads, memory_mb = machine.threads_of, machine.memory_mb
        up = [node for node in bits_of(nodes) if node not in down]
        rooms = [(1, room_on(spec, threads[node], threads[node], memory_mb[node])) for node in up]
        return spec.processes <= machine.held_by(rooms)

    def place_for(self, spec: m.JobSpec, slot: int = 0) -> tuple[m.Run, ...] | None:
        """Return free threads on which a job can start, on nodes drawn by their numbers; None if there are too few."""
        pool, down = self.ledger.pool_of(slot), self.down
        nodes = pool.counts.open_to(spec._replace(licences=()), self.machine.eligible(spec))
        runs: list[m.Run] = []
        left = spec.processes
        for node in bits_of(nodes):
            free = [thread for thread, layer in enumerate(pool.free) if layer >> node & 1]
            width, memory_mb = self.machine.threads_of[node], pool.free_memory_mb[node]
            count = 0 if node in down else min(left, room_on(spec, len(free), width, memory_mb))
            if count:
                taken = free if spec.exclusive else free[: count * spec.threads_per_process]
                runs.append(m.Run(node, 1, ThreadMask(sum(1 << thread for thread in taken)), count))
                left -= count
        placed = left == 0 and not isinstance(pool.place(spec, runs), str)
        self.ledger.pools.drop(slot)
        return tuple(runs) if placed else None

    def happen(self, events: Sequence[m.Event]) -> None:
        """Apply all events of one instant."""
        ledger = self.ledger
        for event in events:
            for job_id in [job_id for job_id in _leaving(event) if job_id in ledger.running]:
                if self.slots is not None:
                    self.slots.left_by(job_id)
            if isinstance(event, m.JobStarted):
                self.jobs[event.job_id].start(None)
            elif isinstance(event, m.JobSuspended):
                self._stop(event.job_id)
        super().happen(events)
        now_us = ledger.now_us
        self.ended = [Ended(running, how, now_us, progress_us(running, now_us)) for running, how in ledger.ended]
        if self.slots is not None and ledger.slots is not None and ledger.slots.quantum_ended:
            self.slots.ends_us = None

    def act(self, action: m.Action) -> str | None:
        """Carry out an action, or return why it is impossible."""
        reason = super().act(action)
        if reason is not None:
            return reason
        for start in m.starts_of(action):
            self.jobs[start.job_id].start((self.seq, self.number))
        match action:
            case m.SuspendJob():
                self._stop(action.job_id)
            case m.SetRotation() if self.slots is not None:
                self.slots.follow(self.ledger.now_us, self.running)
            case m.SetNote():
                self._noted.add((action.job_id, action.key))
            case m.RequeueJob():
                self.left.append(m.JobRequeued(action.job_id))
            case m.KillJob():
                self.left.append(m.JobEnded(action.job_id, m.CANCELLED))
            case m.SubmitJob():
                self.asked.append(action.job)
            case _:
                pass
        return None

    def _stop(self, job_id: int) -> None:
        """Let a job that is suspended wait no more for its slot, and run no more in the present quantum."""
        self.jobs[job_id].let_run(self.ledger.running[job_id], self.ledger.now_us, may_run=True)
        if self.slots is not None:
            self.slots.stop(job_id)


def _leaving(event: m.Event) -> Iterator[int]:
    """Yield the jobs that leave their nodes with an event, if they have any."""
    if isinstance(event, m.JobEnded | m.JobRequeued | m.JobStarted):
        yield event.job_id
    elif isinstance(event, m.ActionRefused):
        yield from event.job_ids
