"""The small resource manager that `cosched_plugin.testing.check` plays against a policy: books, with run times and slots."""

from __future__ import annotations

from typing import Final

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.allocation import Counts, bits_of, room_on
from cosched_plugin.core.running import REQUEUED, Ended, running_job
from cosched_plugin.protocol.messages import (
    FEATURES,
    PROTOCOL_VERSION,
    Amounts,
    Belief,
    Capabilities,
    Event,
    JobEnded,
    JobRequeued,
    JobSpec,
    NodeClass,
    QuantumEnded,
    Run,
    SetRotation,
    Welcome,
)
from cosched_plugin.site.books import Books
from cosched_plugin.testing.site_slots import SiteJob, TimeSharing, pairing_problem

ALL_IT_SAYS: Final = Capabilities()


class Site(Books[SiteJob]):
    """A manager whose jobs run for as long as was drawn; with a ``quantum_us``, its machine has slots."""

    def __init__(
        self,
        nodes: tuple[NodeClass, ...],
        belief: Belief,
        resume_us: int = 0,
        quantum_us: int | None = None,
        licences: Amounts = (),
        capabilities: Capabilities = ALL_IT_SAYS,
        features: tuple[str, ...] = FEATURES,
    ) -> None:
        machine = Welcome(PROTOCOL_VERSION, features, 0, 0, nodes, (), belief, (), (), (), (), resume_us)
        super().__init__(machine._replace(capabilities=capabilities, licences=licences), SiteJob)
        self.slots = None if quantum_us is None else TimeSharing(quantum_us)

    def inventory(self) -> Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch."""
        told = super().inventory()
        return told if self.slots is None else told._replace(slots=self.slots.told())

    def on_node(self, node: int) -> list[SiteJob]:
        """Return the running jobs that hold threads of ``node``, or have their image on its disk."""
        return [job for job in self.in_state("running") if node in job.nodes]

    def sharing(self) -> list[SiteJob]:
        """Return the jobs that make progress beside others that do, by id."""
        active = [job for job in self.in_state("running") if job.suspended_us is None]
        return [job for job in active if any(other is not job and other.nodes & job.nodes for other in active)]

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

    def could_run(self, spec: JobSpec) -> bool:
        """Return whether the nodes in service could hold such a job if they were empty."""
        machine = self.machine
        nodes = Counts(machine.resources, machine.licences).open_to(spec, machine.eligible(spec))
        threads, memory_mb = machine.threads_of, machine.memory_mb
        up = [node for node in bits_of(nodes) if node not in self.down]
        rooms = [(1, room_on(spec, threads[node], threads[node], memory_mb[node])) for node in up]
        return spec.processes <= machine.held_by(rooms)

    def ended_by(self, event: Event) -> list[Ended]:
        """Return the entry of a running job among the ended ones after ``event``, which has not happened yet."""
        if not isinstance(event, JobEnded | JobRequeued) or self.jobs[event.job_id].state != "running":
            return []
        job = self.jobs[event.job_id]
        running = running_job(job.told(), self.machine)._replace(measured_ppm=job.measured_ppm)
        return [
            Ended(
                running,
                event.state if isinstance(event, JobEnded) else REQUEUED,
                self.now_us,
                job.progressed_us(self.now_us),
            )
        ]

    def place_for(self, spec: JobSpec, slot: int = 0) -> tuple[Run, ...] | None:
        """Return free threads on which a job can start, on nodes drawn by their numbers; None if there are too few."""
        pools = self.pools
        pool = pools.pool(slot)
        nodes = pool.counts.open_to(spec._replace(licences=()), self.machine.eligible(spec))
        runs: list[Run] = []
        left = spec.processes
        for node in bits_of(nodes):
            free = [thread for thread, layer in enumerate(pool.free) if layer >> node & 1]
            width, memory_mb = self.machine.threads_of[node], pool.free_memory_mb[node]
            count = 0 if node in self.down else min(left, room_on(spec, len(free), width, memory_mb))
            if count:
                taken = free if spec.exclusive else free[: count * spec.threads_per_process]
                runs.append(Run(node, 1, ThreadMask(sum(1 << thread for thread in taken)), count))
                left -= count
        placed = left == 0 and not isinstance(pool.place(spec, runs), str)
        pools.drop(slot)
        return tuple(runs) if placed else None

    def _end_quantum(self, event: QuantumEnded) -> None:
        assert self.slots is not None
        self.slots.end(event, self.in_state("running"))

    def _set_rotation(self, action: SetRotation) -> str | None:
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
