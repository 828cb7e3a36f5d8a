"""Slurm's jobs and nodes as the protocol's: which are cosched's, how they are described, and the snapshot that a poll gives.

A job is *ours* if the site file says so and the driver understands all that it asks for. It waits for us while Slurm shows it as held
by its user (JobHeldUser). An operator's hold (JobHeldAdmin), a time before which it must not start, a dependency and a back-off of ours
make it a held one for the scheduler, too. A job that is not held waits for Slurm, not for us; once it runs, that is a fact to tell. All
other jobs are Slurm's, and their nodes are out of service for the scheduler while they have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from math import inf
from typing import Any, Final, NamedTuple

from cosched_hwmodel.units import SECOND_US, NodeSet
from cosched_plugin.api import COUNTABLE, ELIGIBLE_NODES
from cosched_plugin.common.allocation import room_on
from cosched_plugin.common.limits import Limited
from cosched_plugin.common.slurm_notation import ENDED, ON_NODES, STOPPED, WAITING, swf_status, tasks_in
from cosched_plugin.common.threads import bits_of, each_node, layers_of, ranges_in
from cosched_plugin.parts.needs import FILLED_LAYOUTS
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.books import Books
from cosched_plugin.site.poll_loop import LoggedJob, Manager
from cosched_plugin.site.snapshots import PENDING, RUNNING, SUSPENDED, PolledJob, Rules, Snapshot, is_another
from cosched_plugin.slurm.layouts import Layout, laid_out, needs_sockets, runs_of, with_layout
from cosched_plugin.slurm.limits import Facts, Limits, Room, counts_of, counts_to_be, hold_beyond_arrays, in_words
from cosched_plugin.slurm.places import Place, Places, chosen, classes_of, nodes_of
from cosched_plugin.slurm.records import Dependencies, SlurmJob, SlurmNode
from cosched_plugin.slurm.rest import Polls
from cosched_plugin.slurm.site_file import Site

MINUTE_US: Final = 60 * SECOND_US
TICK: Final = "tick"  # the name of the jobs whose only use is to wake Slurm's scheduler, and of their partition
HALF_MINUTE_US: Final = 30 * SECOND_US
CAPABILITIES: Final = m.Capabilities(
    limit_grain_us=MINUTE_US,
    limit_late_us=30 * SECOND_US,  # slurmctld looks at limits every 30 s
    atomic_groups=False,
    picks_threads=True,
    layout=m.FILLED,
)
REVOKED_US: Final = 1_200_000  # a job that starts within the second of its requeue is killed for good
_MOST_TASKS: Final = 1_000  # of an array that the scheduler is told of; the others follow as these leave
FEATURES_HERE: Final = tuple(name for name in m.FEATURES if name not in ("disk", "slots", "submit"))


class Placed(NamedTuple):
    """What a placement has changed of a job, as its user had asked for it, and the list that it was given."""

    partition: str
    required: tuple[str, ...]
    pinned: tuple[str, ...]


class Cluster(Manager):
    """The nodes of our partitions, numbered by their names, and the jobs of the last poll."""

    rules = Rules(grain_us=2 * SECOND_US, limit_grain_us=MINUTE_US)  # whole seconds, and a start may take up to 2 s

    def __init__(
        self, polls: Polls, site: Site, share: int, ignored: frozenset[str] = frozenset(), *, observed: bool = False,
        counts_memory: bool = False,
    ) -> None:  # fmt: skip
        """``share``: how many jobs may be on a core; ``ignored``: what the policy does not honour, so that such jobs are Slurm's.

        Where Slurm ``counts_memory``, a job that asks for none gets all that its nodes have.
        Of a cluster that is ``observed`` the jobs that Slurm may start are those that wait. ``polls`` have been answered once.
        UsageError for no nodes, or different numbers of threads a core.
        """
        self.source = self.polls = polls
        self.site = site
        self.share = share
        self._waits_for_us = "" if observed else "user"  # how a job is held that may be started
        # Where it is told of jobs with the same number of processes on all nodes alone, there is one layout, and no filling.
        self._even = FILLED_LAYOUTS in ignored
        self._counts_memory = counts_memory
        self._counts, self._chooses = COUNTABLE not in ignored, ELIGIBLE_NODES not in ignored
        ours = nodes_of(polls.nodes, site.partitions, share)
        self.names = tuple(node.name for node in ours)
        self.machine = m.Welcome(
            m.PROTOCOL_VERSION, FEATURES_HERE, 0, 0, classes_of(ours, site, share), (), site.belief, (), (), (), (),
            licences=tuple(sorted(polls.licences)) if self._counts else (),
            capabilities=CAPABILITIES._replace(layout=m.ANY_LAYOUT if self._even else m.FILLED),
        )  # fmt: skip
        self._places = Places(ours, site.partitions, self.machine.licences, even=self._even, chooses=self._chooses)
        self._found: dict[int, tuple[SlurmJob, object, list[Place] | str]] = {}  # places of jobs, by Slurm's number
        self._limits = Limits()
        self._placed: dict[int, Placed] = {}
        self._own: dict[int, tuple[str, ...]] = {}  # the lists of nodes of jobs that were taken back: their users'
        self.records: dict[int, SlurmJob] = {}  # by the protocol's number
        self.left, self.limited, self.changed, self.comments, self.not_before_us, self.failures = {}, {}, {}, {}, {}, {}
        self.rejected: dict[int, str] = {}  # jobs that the policy can never place, and why
        self.to_hold: list[int] = []  # jobs that Slurm has requeued, and would start itself
        self.placed_in: dict[int, str] = {}  # the partitions of jobs that were placed since the last poll
        self.suspended_us: dict[int, int] = {}  # when we last suspended a job
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._cores_of = [node.sockets * node.cores_per_socket for node in ours]
        self.down = frozenset(range(len(ours)))  # nodes that take no jobs, at the last poll
        self._restarts: dict[int, int] = {}  # of jobs, at the last poll
        # Jobs that run where they are known to: their record, what was known of them, and what followed. A cache.
        self._settled: dict[int, tuple[SlurmJob, PolledJob, PolledJob]] = {}
        self._dependencies = Dependencies(())
        self._books: Books | None = None  # of the driver
        self._looked_us = 0  # when the last snapshot was made

    def label(self, job_id: int) -> str:
        """Return the name by which Slurm's commands know a job."""
        # Not Slurm's own number of a task: that of the last one is the array's, which means all.
        return f"{job_id >> 32}_{(job_id & 0xFFFFFFFF) - 1}" if job_id >> 32 else str(job_id)

    def find(self, job_id: int, jobs: Iterable[SlurmJob]) -> SlurmJob | None:
        """Return the record of a job, or of the tasks that wait together with it, among those of Slurm."""
        return next((job for job in jobs if job_id in _numbers_of(job, 0)), None)

    def names_of(self, start: m.StartJob) -> list[str]:
        """Return the names of a start's nodes."""
        return [self.names[node] for node, _ in sorted(each_node(start.runs))]

    def partition_for(self, start: m.StartJob) -> str | None:
        """Return the partition for a start: one with its nodes, or that of its guests, with no job on them; None if both have some."""
        (nodes,), asked = layers_of(start.runs, 1), self.asked(start.job_id).partition
        found = self._found.get(self.records[start.job_id].job_id)
        places = [] if found is None or isinstance(found[2], str) else found[2]
        home = next((self.site.home_of(place.partition) for place in places if not nodes & ~place.nodes), asked)
        guest = self.site.guests.get(home)
        if guest is None or self._books is None:
            return home
        taken = {
            self.partition_of(job_id)
            for job_id, running in self._books.ledger.running.items()
            if job_id != start.job_id and nodes & layers_of(running.runs, 1)[0]
        }
        return next((name for name in (home, guest) if name not in taken), None)

    def partition_of(self, job_id: int) -> str:
        """Return the partition of a job on nodes; empty for one that is still to be placed."""
        job = self.records.get(job_id)
        placed = self.placed_in.get(job_id)
        return placed or ("" if job is None or (job.held and job.state in WAITING) else job.partition)

    def pins(self, start: m.StartJob) -> None:
        """Keep what a placement changes of a job."""
        asked = self.asked(start.job_id)
        self._placed[start.job_id] = asked._replace(pinned=tuple(self.names_of(start)))

    def asked(self, job_id: int) -> Placed:
        """Return what a job's user had asked for before it was placed."""
        job = self.records[job_id]
        partition = self.site.home_of(job.partition)
        return self._placed.get(job_id) or Placed(partition, self._own_list(job_id, job), ())

    def back_off(self, job_ids: Iterable[int], now_us: int) -> None:
        """Let jobs wait whose start has failed: for a limit of Slurm until it may be met, else a while."""
        for job_id in job_ids:
            if not self._limits.set_aside(job_id, self.pending_reason(job_id), now_us):
                super().back_off([job_id], now_us)

    def due_us(self) -> int | None:
        """Return when a snapshot may differ from the last one although no poll has."""
        # Of a reservation that is to begin: from some moment on, longer jobs would meet it.
        soon = [self._looked_us + HALF_MINUTE_US] if self._places.reservations else []
        return min([*self.not_before_us.values(), *self._limits.due_us(), *soon], default=None)

    def pending_reason(self, job_id: int) -> str:
        """Return why a job is pending, in Slurm's words."""
        return self.records[job_id].reason if job_id in self.records else ""

    def own_limit_us(self, job_id: int) -> int | None:
        """Return the limit that a job has by its own description, whatever it was granted."""
        job = None if self._books is None else self._books.ledger.description(job_id)
        return None if job is None else job.limit_us

    def history(self, done: Container[int]) -> Iterator[LoggedJob]:
        """Yield the jobs of our partitions but those ``done``; by Slurm's numbers."""
        for job in self.polls.jobs:
            if not self.site.partitions_of(job) or job.job_id in done:
                continue
            if job.state not in ENDED:
                yield LoggedJob(job.job_id, job.submit_s, bool(job.nodes))
                continue
            traits, _ = self.site.traits_of(job)
            limit_s = 60 * job.limit_min if job.limit_min is not None else self.site.default_us // SECOND_US
            yield LoggedJob(
                job.job_id,
                job.submit_s,
                status=swf_status(job.state),
                start_s=job.start_s,
                # what it had run when it was last suspended or resumed, and what it has run since
                run_s=job.ran_s + job.end_s - job.suspend_s if job.suspend_s else job.end_s - job.start_s,
                nodes=len(job.nodes) if job.start_s and job.end_s >= job.start_s else 0,
                processors=job.tasks * job.cpus_per_task or job.cpus,
                estimate_s=traits.estimate_us / SECOND_US if traits.estimate_us else limit_s,
                usage=traits.usage,
                user=job.user,
                name=job.name,
                queue=job.partition,
            )

    # ------------------------------------------------------------ snapshots

    def snapshot(self, now_us: int, books: Books) -> Snapshot:
        """Return what the last poll has shown; ``books`` are what the scheduler knows."""
        self._books, self._looked_us, jobs = books, now_us, self.polls.jobs
        self._places.update(self.polls.nodes, self.polls.partitions, self.polls.reservations, self.polls.licences)
        self.changed = self._places.changed
        self.not_before_us = {job_id: at_us for job_id, at_us in self.not_before_us.items() if at_us > now_us}
        self._dependencies = Dependencies(jobs)
        own = Counter(job.array_id for job in jobs if job.task is not None and job.state not in ENDED and not job.held)
        self.records = {number: job for job in jobs for number in _numbers_of(job, own[job.array_id])}
        on_nodes = {job.job_id: job for job in jobs if job.state in ON_NODES and job.name != TICK}
        self._limits.look(on_nodes, self.records, now_us)
        self.to_hold.clear()
        self.placed_in.clear()
        self.left, self.limited = {}, {}
        polled: dict[int, PolledJob] = {}
        moved: list[tuple[int, SlurmJob, PolledJob | None]] = []  # jobs that Slurm has put on nodes itself
        room = [cores * self.share for cores in self._cores_of]
        for number, job in self.records.items():
            known = books.polled(number)
            if known is not None and is_another(known, job.submit_s * SECOND_US, job.restarts):
                known = None
            # One that completes is still there, with all of its nodes; it may be on its way back to the queue.
            completes = job.state == "COMPLETING"
            was_there = known is not None and known.state != PENDING and (completes or known.restarts == job.restarts)
            if job.state in ENDED:
                if known is not None:
                    polled[number] = PolledJob(known.spec, ENDED[job.state])
            elif job.state in WAITING:
                waiting = self._waiting(number, job, known, now_us)
                if waiting is not None:
                    polled[number] = waiting
                if known is not None and was_there:  # it was placed, and has not started yet
                    self._occupy(known.spec, known.runs, room)
            elif known is not None and was_there and (there := self._where_known(number, job, known)) is not None:
                polled[number] = there
                self._occupy(known.spec, known.runs, room)
            elif job.state in ON_NODES or job.nodes:
                moved.append((number, job, known))
        taken = self._add_moved(moved, polled, room)
        if self._waits_for_us:
            hold_beyond_arrays(polled, self.records, own)
        self._restarts = {number: job.restarts for number, job in self.records.items() if job.restarts}
        self._forget()
        self.down = self._out_of_service(self.polls.nodes, now_us // SECOND_US)
        if self.polls.database is not None and self.polls.database.known is not None:
            self._keep_limits(Room(self.polls.database.known), polled, books)
        return Snapshot(polled, self.down | taken)

    def _forget(self) -> None:
        # Until a job has run its failed starts count.
        _keep_those(self.failures, [number for number, job in self.records.items() if job.state in WAITING])
        for by_number in (self.rejected, self.suspended_us, self._placed, self._own, self._settled):
            _keep_those(by_number, self.records)
        for by_slurms in (self.comments, self._found):
            _keep_those(by_slurms, self._dependencies.jobs)

    def _out_of_service(self, nodes: Sequence[SlurmNode], now_s: int) -> frozenset[int]:
        """Return the nodes that take no jobs; one of which Slurm does not know is as it was."""
        takes = {node.name: node.takes_jobs for node in nodes}
        reserved = self._places.reserved(now_s)
        # A policy that does not choose nodes cannot keep jobs off those that are reserved; and a reservation may not be known yet.
        down = {
            number
            for number, node in enumerate(self._places.nodes)
            if (reserved >> number & 1 and not self._chooses) or (node.reserved and not reserved >> number & 1)
        }
        for number, name in enumerate(self.names):
            state = takes.get(name, self._places.nodes[number].cloud)
            if (number in self.down) if state is None else not state:
                down.add(number)
        return frozenset(down)

    def _waiting(self, number: int, job: SlurmJob, known: PolledJob | None, now_us: int) -> PolledJob | None:
        """Return a pending job as the scheduler is to see it; None: it is not ours."""
        requeued = job.restarts > (known.restarts if known is not None else self._restarts.get(number, 0))
        pinned, job = job.required, self._as_asked(number, job, known)
        places = self._places_of(job, now_us)
        why = self.rejected.get(number) or self._not_ours(job, known, places)
        if known is None and why is None and not job.held and self._waits_for_us and not (job.restarts and pinned):
            why = "it is not held: Slurm starts it"
        if (known is None and why is not None) or number in self.rejected:
            if why:
                self.left[job.job_id] = _line(why)
            return None
        if requeued:
            self.not_before_us[number] = max(self.not_before_us.get(number, 0), now_us + REVOKED_US)
        if self._waits_for_us and not job.held and (requeued or known is None):
            self.to_hold.append(number)
        spec = known.spec if known is not None and (why is not None or known.state != PENDING) else None
        if spec is None:
            spec = self._spec(number, job, known, places if isinstance(places, list) else [])
        task = (number & 0xFFFFFFFF) - 1 if number >> 32 else None
        fulfilled_s = self._dependencies.opens_s(job, task)
        moments = 0 if job.restarts else job.eligible_s, self._places.opens_s(job), fulfilled_s
        begins_us = round(max(each for each in moments if each < inf)) * SECOND_US
        set_aside = self._limits.words(number)
        held = (
            why is not None
            or set_aside != ""
            or job.held != self._waits_for_us
            or fulfilled_s == inf
            or max(begins_us, self.not_before_us.get(number, 0)) > now_us
        )
        if begins_us > now_us:
            self.not_before_us[number] = max(self.not_before_us.get(number, 0), begins_us)
        if why is not None:
            self.left[job.job_id] = _line(why or "it no longer belongs to cosched")
        elif set_aside:
            self.limited[job.job_id] = set_aside
        return PolledJob(spec, PENDING, held, restarts=job.restarts)

    def _keep_limits(self, room: Room, polled: dict[int, PolledJob], books: Books) -> None:
        """Hold those pending jobs for which limits leave no room now: what is on nodes counts, what was placed, then what waits."""
        for job in self.polls.jobs:
            if job.state in ON_NODES and job.state != "COMPLETING":  # Slurm does not count it any more
                room.count(self._facts(job), counts_of(job), job.nodes)
        waiting: list[tuple[int, int, int]] = []
        for number, each in polled.items():
            job, known = self.records[number], books.polled(number)
            if job.state in WAITING and known is not None and known.state != PENDING and known.restarts == job.restarts:
                room.count(self._facts(self._as_asked(number, job)), self._counts_of(job, known.spec))
            elif job.state in WAITING and not each.held and self._may_start(each.spec):
                waiting.append((-each.spec.priority, each.spec.submit_us, number))
        for _, _, number in sorted(waiting):
            job = self.records[number]
            if reason := room.take(self._facts(job), self._counts_of(job, polled[number].spec)):
                polled[number] = polled[number]._replace(held=True)
                self.limited.setdefault(job.job_id, in_words(reason))

    def _may_start(self, spec: m.JobSpec) -> bool:
        """Return whether enough of its nodes are in service: a job that waits for others takes no room from those of its user."""
        spans = spec.eligible or ((0, len(self.names)),)
        there = {node for first, count in spans for node in range(first, first + count)} - self.down
        return len(there) * spec.ppn_max >= spec.processes

    def _facts(self, job: SlurmJob) -> Facts:
        """Return what says which limits bind a job."""
        partition = job.partition if len(job.partitions) == 1 else ""
        # For a pair it may be in the partition of the guests, and which it is is known once it is placed.
        guests = job.state in WAITING and partition in self.site.guests
        known = None if guests else self._places.partitions.get(partition)
        return Facts(job.user, job.account, job.qos, partition, "" if known is None else known.qos)

    def _counts_of(self, job: SlurmJob, spec: m.JobSpec) -> Limited:
        """Return what a job will have that is to start, or less."""
        alone = job.exclusive or any(self._places.alone(name) for name in job.partitions)
        return counts_to_be(job, spec, self._places.nodes[0].threads_per_core, min(self._cores_of) if alone else 0)

    def _where_known(self, number: int, job: SlurmJob, known: PolledJob) -> PolledJob | None:
        """Return a job that runs where it is known to; None if it is not there."""
        kept = self._settled.get(number)
        if kept is None or kept[0] is not job or kept[1] is not known:
            if job.state != "COMPLETING" and not self._is_there(job, known):
                return None
            there = self._polled_job(known.spec, job, known.runs)._replace(restarts=known.restarts)
            self._settled[number] = kept = job, known, there
        return kept[2]

    def _is_there(self, job: SlurmJob, known: PolledJob) -> bool:
        """Return whether a job has the nodes that it is known to have, with the processes that it is known to have there."""
        if not self._are_its(job.nodes, known):
            return False
        runs = self._runs(job, known.spec)
        return runs is None or dict(each_node(runs)) == dict(each_node(known.runs))

    def _polled_job(self, spec: m.JobSpec, job: SlurmJob, runs: tuple[m.Run, ...]) -> PolledJob:
        stopped = job.state == STOPPED
        return PolledJob(
            spec,
            SUSPENDED if stopped else RUNNING,
            start_us=job.start_s * SECOND_US,
            runs=runs,
            limit_us=None if job.limit_min is None else job.limit_min * MINUTE_US,
            since_us=job.suspend_s * SECOND_US,
            restarts=job.restarts,
        )

    # A job that Slurm has started is told of where it fits beside those that the scheduler knows. Where it does not, as in a partition
    # that lets jobs share nodes, the nodes are out of service until there is room; if it waited for us, it is held until then.
    def _add_moved(
        self, moved: Sequence[tuple[int, SlurmJob, PolledJob | None]], polled: dict[int, PolledJob], room: list[int]
    ) -> set[int]:
        """Add the jobs that are where nobody expected them; return the nodes that are taken."""
        taken: set[int] = set()
        for number, job, known in moved:
            why = None if known is not None else self._not_ours(job, None)
            spec = known.spec if known is not None and known.state != PENDING else self._spec(number, job, known, [])
            runs = self._runs(job, spec) if why is None and job.state != "COMPLETING" else None
            if runs is not None and self._fits(spec, runs, room):
                self._occupy(spec, runs, room)
                polled[number] = self._polled_job(spec, job, runs)
                continue
            taken.update(self._numbers[name] for name in job.nodes if name in self._numbers)
            if known is not None:
                polled[number] = PolledJob(known.spec, PENDING, held=True, restarts=job.restarts)
            if self.site.partitions_of(job) and (why or (why is None and self._waits_for_us)):
                self.left[job.job_id] = _line(why or "it runs on nodes of other jobs")
        return taken

    def _threads(self, spec: m.JobSpec, node: int, processes: int) -> int:
        return self._cores_of[node] * self.share if spec.exclusive else processes * spec.threads_per_process

    def _occupy(self, spec: m.JobSpec, runs: Sequence[m.Run], room: list[int]) -> None:
        for node, processes in each_node(runs):
            room[node] -= self._threads(spec, node, processes)

    def _fits(self, spec: m.JobSpec, runs: Sequence[m.Run], room: Sequence[int]) -> bool:
        shares = list(each_node(runs))
        placed = sum(processes for _, processes in shares)
        return placed == spec.processes and all(
            self._threads(spec, node, count) <= room[node] for node, count in shares
        )

    # ------------------------------------------------------------ descriptions

    def _not_ours(self, job: SlurmJob, known: PolledJob | None, places: list[Place] | str = "") -> str | None:
        """Return why a job is Slurm's: empty if nobody waits for us; None if it is ours. ``places`` are those of one that waits."""
        if why := self.site.foreign(job):
            # Whoever holds it may count on us: it is named, and not held in silence.
            return why if known is None and self._waits_for_us and job.held == self._waits_for_us else ""
        if job.het_id:
            return "it is heterogeneous"
        if job.wishes:
            return f"it asks for {', '.join(job.wishes)}"
        wanted = [name for name, _ in (*self._wanted(job), *(job.licences or ()))]
        if wanted and not self._counts:
            return f"it requests {', '.join(wanted)}, which the policy does not count"
        if job.state not in WAITING or (known is not None and known.state != PENDING):
            return None
        return places if isinstance(places, str) else None

    def _wanted(self, job: SlurmJob) -> m.Amounts:
        return tuple(
            chain.from_iterable(each or () for each in (job.per_node, job.per_socket, job.per_task, job.per_job))
        )

    def _are_its(self, names: Iterable[str], known: PolledJob) -> bool:
        """Return whether these are the nodes that a job is known to have."""
        return sorted(names) == sorted(self.names[node] for node, _ in each_node(known.runs))

    def _as_asked(self, number: int, job: SlurmJob, known: PolledJob | None = None) -> SlurmJob:
        """Return a pending job as its user asked for it, whatever a placement has changed."""
        placed, own, shown = self._placed.get(number), self._own.get(number), job.required
        if placed is None and known is not None and shown not in ((), own) and self._are_its(shown, known):
            # A process before this one has placed it, maybe in vain: the list is its user's if it could have no other nodes.
            if own is None and known.spec.eligible == ranges_in(self._places.bits(shown)):
                own = shown
            placed = self._placed[number] = Placed(self.site.home_of(job.partition), own or (), shown)
        elif placed is not None and job.held and (shown != placed.pinned or placed.pinned == placed.required):
            del self._placed[number]  # it has been taken back: what Slurm shows is what its user asks for now
            placed, self._own[number] = None, shown
        elif placed is None and own is not None and job.held:
            self._own[number] = shown
        if placed is not None:
            return job._replace(partition=placed.partition, required=placed.required)
        asked = self._own_list(number, job)
        return job if asked == shown else job._replace(required=asked)

    def _own_list(self, number: int, job: SlurmJob) -> tuple[str, ...]:
        """Return the list of nodes of a job that is not placed: when it is requeued it still has the one of its last placement."""
        return () if job.restarts and job.required != self._own.get(number) else job.required

    def _places_of(self, job: SlurmJob, now_us: int) -> list[Place] | str:
        """Return the places that a pending job may have; in words why there are none."""
        key = self._places.version, now_us // HALF_MINUTE_US if self._places.reservations else 0
        found = self._found.get(job.job_id)
        if found is None or found[1] != key or found[0] != job:
            places = self._places.of(job, self.site.partitions_of(job), now_us // SECOND_US)
            found = self._found[job.job_id] = job, key, places
        return found[2]

    def is_range(self, job: SlurmJob) -> bool:
        """Return whether a pending job may get more nodes than it takes at least: Slurm would add some to a list."""
        if job.most_nodes not in (0, job.tasks) and job.most_nodes > job.node_count:
            return True
        if job.least_nodes == job.node_count:
            return False
        # Once Slurm has looked at it, it shows the most as if it were a fixed number; and after a restart no most.
        plain = job._replace(most_nodes=0) if job.least_nodes else job
        places = self._places.of(plain, self.site.partitions_of(job), self._looked_us // SECOND_US)
        return isinstance(places, str) or min(place.layout.nodes for place in places) < job.node_count

    def _spec(self, number: int, job: SlurmJob, known: PolledJob | None, places: Sequence[Place]) -> m.JobSpec:
        """Return a job's description; what a known one asks of its nodes stays what it was said to be. ``places``: if it waits."""
        traits, problem = self.site.traits_of(job)
        if problem:
            self.comments.setdefault(job.job_id, problem)
        if known is not None:
            traits = traits._replace(demand=known.spec.demand, usage=known.spec.usage, profile=known.spec.profile)
        limit_us = None if job.limit_min is None else job.limit_min * MINUTE_US
        alone = self.site.unknown_alone
        if alone is None:
            # A table of pairs knows jobs by their names: it is asked of each, and a job that is not in it has no partner.
            alone = self.site.belief.contention not in ("pairs", "none") or (
                self.share > 1 and self.site.belief.contention == "none"
            )
        spec = m.JobSpec(
            number,
            job.submit_s * SECOND_US,
            1,
            traits.estimate_us or limit_us or self.site.default_us,
            limit_us,
            job.user,
            traits.application or job.name,
            exclusive=job.exclusive or job.choosy or (alone and not traits.known) or self._takes_all_memory(job),
            demand=traits.demand,
            usage=traits.usage,
            profile=traits.profile,
            licences=job.licences or (),
            priority=(max([place.tier for place in places], default=0) << 33) + (job.priority or -job.nice),
        )
        if not places:
            return with_layout(spec, self._layout_there(job))
        like = with_layout(spec, places[0].layout)
        layout, nodes = chosen(places, cache(lambda node: self._has_room(like, node)))
        exclusive = (
            spec.exclusive
            # Beside a job whose tasks use all threads of their cores there is room for nobody.
            or (self.share > 1 and not layout.own_cores)
            or needs_sockets(job, self._places.nodes[next(bits_of(NodeSet(nodes)))])
            or any(self._places.alone(place.partition) for place in places)
        )
        # A process has several tasks: it is a core, or a node.
        if known is None and spec.demand is not None and layout.total < job.tasks:
            memory_mbs, network_mbs, disk_mbs = [-(-each * job.tasks // layout.total) for each in spec.demand]
            spec = spec._replace(demand=(memory_mbs, network_mbs, disk_mbs))
        every = nodes == (1 << len(self.names)) - 1
        return with_layout(spec, layout)._replace(exclusive=exclusive, eligible=() if every else ranges_in(nodes))

    def _takes_all_memory(self, job: SlurmJob) -> bool:
        return self._counts_memory and not (job.memory_per_cpu or job.memory_per_node or job.memory_per)

    def _has_room(self, spec: m.JobSpec, node: int) -> bool:
        """Return whether a node has room now for the processes that a job has on each node."""
        assert self._books is not None
        pool, machine = self._books.ledger.pool, self._books.ledger.machine
        free = sum(layer >> node & 1 for layer in pool.free)
        return room_on(spec, free, machine.threads_of[node], pool.free_memory_mb[node]) > 0

    def _layout_there(self, job: SlurmJob) -> Layout:
        """Return the layout of a job where it runs."""
        node = next((self._places.nodes[self._numbers[name]] for name in job.nodes if name in self._numbers), None)
        fixed = job._replace(node_count=len(job.nodes), most_nodes=len(job.nodes))
        layout = "nowhere" if node is None else laid_out(fixed, node, even=self._even)
        there = 0 if job.exclusive else sum((job.cores or {}).values())
        if isinstance(layout, Layout) and layout.nodes == len(job.nodes) and there <= layout.total * layout.cores:
            return layout
        cores = max((job.cores or {}).values(), default=0) or max(self._cores_of)
        return Layout(1, max(1, len(job.nodes)), max(1, len(job.nodes)), cores)

    def _runs(self, job: SlurmJob, spec: m.JobSpec) -> tuple[m.Run, ...] | None:
        """Return where a job runs, without threads; None where that cannot be told."""
        nodes = [self._numbers.get(name, -1) for name in job.nodes]
        if not nodes or min(nodes) < 0:
            return None
        counts = [1] * len(nodes)
        if spec.processes != len(nodes):
            counts = [(job.cores or {}).get(name, 0) // spec.threads_per_process for name in job.nodes]
            if job.exclusive or sum(counts) != spec.processes or min(counts) < 1:
                counts = [spec.ppn_max] * (len(nodes) - 1)
                counts.append(spec.processes - sum(counts))
                if not 1 <= counts[-1] <= spec.ppn_max:
                    return None
        return runs_of(dict(zip(nodes, counts, strict=True)))


def _line(why: str) -> str:
    """Return a reason as a line of the log may have it: it may quote what a user wrote."""
    return "".join(letter if letter.isprintable() else "?" for letter in why[:300])


def _keep_those(kept: dict[int, Any], present: Collection[int]) -> None:
    for number in set(kept).difference(present):
        del kept[number]


def _numbers_of(job: SlurmJob, running: int) -> Iterable[int]:
    """Return the protocol's numbers of the jobs in a record: Slurm's own, and for tasks of arrays one that no job of Slurm has.

    ``running``: so many tasks of its array run, or are jobs of their own and may; there may be a limit of them.
    """
    if not job.array_id:
        return (job.job_id,)
    if job.task is not None:
        return (task_number(job.array_id, job.task),)
    if job.state not in WAITING:
        return ()  # tasks that were cancelled together
    tasks, most = tasks_in(job.waiting_tasks)
    room = max(0, most - running) if most else _MOST_TASKS
    shown = islice(chain.from_iterable(tasks), min(room, _MOST_TASKS))
    return [task_number(job.array_id, task) for task in shown]


def task_number(array_id: int, task: int) -> int:
    """Return the number that the protocol calls a task of an array by; it is that before and after Slurm gives it one of its own."""
    return array_id << 32 | task + 1
