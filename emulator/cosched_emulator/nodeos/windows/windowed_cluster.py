"""The windowed cluster: exact for a while after each change, then at the rates that were measured meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.kernel.cpu import TickLog
from cosched_emulator.nodeos.process_cluster import Counters, ProcessUse, Reached
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings, WindowPlan
from cosched_emulator.nodeos.windows.window_groups import ConnectedJobs, LonePaces, WindowGroup, parts_of
from cosched_emulator.nodeos.windows.windowed_job import Extent, Use, WindowJob
from cosched_hwmodel.units import WHOLE_PPM

_NEVER_US: Final = 1 << 62
_MOST_CHOICES: Final = 1_000

_Chosen = tuple[tuple[int, ...], ...]  # jobs that may run, by node


class WindowedCluster:
    """Nodes of one CPU around one exact cluster; a `ProcessCluster`.

    Jobs that influence each other are a *group*. After each change a group is simulated exactly, until the rate of each of
    its jobs is known (`Window`). Then its nodes are frozen as they are, and the jobs progress at these rates; at the next
    change the processes leave out the iterations done meanwhile, and go on. A job that is alone on its nodes progresses at
    the rate that it has alone (`LonePaces`).

    ``turn_us`` is how long nothing runs when some jobs are stopped and others resumed at one instant. Raises
    `ConfigurationError` for a plan that is impossible.
    """

    def __init__(
        self,
        settings: NodeSettings,
        nodes: int,
        seed: int,
        plan: WindowPlan | None = None,
        turn_us: int = 0,
        alone: LonePaces | None = None,
    ) -> None:
        self.settings = settings
        self.now_us = 0
        self.jobs: dict[int, WindowJob] = {}
        self.exact = ExactCluster(replace(settings, tick_us=0), nodes, seed)
        self.alone = LonePaces(settings) if alone is None else alone
        if self.alone.settings != settings:
            raise ConfigurationError("alone", f"measured with {settings}", str(self.alone.settings))
        self.exact_node_us = 0  # of nodes that were simulated exactly
        self.node_us = 0  # of nodes on which jobs could run
        self._plan = (WindowPlan() if plan is None else plan).check()
        self._turn_us = turn_us
        self._turn_end_us: int | None = None  # until then nothing runs, as turns change
        self._ticks = TickLog(seed, settings.tick_us)
        self._live: set[int] = set()  # nodes that are not frozen
        self._chosen: _Chosen = ((),) * nodes
        self._groups: dict[ConnectedJobs, WindowGroup] = {}
        self._stale = False  # groups are missing
        self._due_us = _NEVER_US  # the first instant at which a group is due
        self._parts: dict[_Chosen, list[ConnectedJobs]] = {}
        self._used: dict[int, WindowJob] = {}  # could run since the last `collect`
        self._left: dict[int, WindowJob] = {}  # have ended or were removed since then
        self.exact.freeze(range(nodes))

    # ------------------------------------------------------------ jobs

    def start(self, job: int, program: Program, places: Sequence[int], memory_mb: int = 0) -> None:
        """Put the processes of a job on nodes, stopped (see `ProcessCluster.start`)."""
        self.exact.start(job, program, places, memory_mb)
        extent = Extent(program, len(places), self.settings)
        record = self.exact.jobs[job]
        self.jobs[job] = WindowJob(record, extent, self.exact.useful_by_rank, places, memory_mb, self.now_us)

    def allow(self, now_us: int, runnable: Mapping[int, Sequence[int]]) -> None:
        """Let the jobs listed for each node run there and stop all others (see `ProcessCluster.allow`)."""
        if now_us != self.now_us and (now_us < self.now_us or self.advance(now_us) != (now_us, ())):
            raise InvariantError(f"time {now_us} us is not {self.now_us} us, up to which the cluster has advanced")
        chosen = tuple([tuple(runnable.get(node, ())) for node in range(len(self._chosen))])
        if chosen == self._chosen:
            return
        nodes_of: dict[int, list[int]] = {}
        for node, there in enumerate(chosen):
            for number in there:
                if number not in self.jobs or node not in self.jobs[number].nodes:
                    raise InvariantError(f"job {number} has no process on node {node}")
                nodes_of.setdefault(number, []).append(node)
        before = {number for there in self._chosen for number in there}
        for number in before - nodes_of.keys():
            self.jobs[number].permit((), now_us)
        for number, nodes in sorted(nodes_of.items()):
            self.jobs[number].permit(tuple(nodes), now_us)
            self._used[number] = self.jobs[number]
        self._chosen = chosen
        if self._turn_us and self._turn_end_us is None and before - nodes_of.keys() and nodes_of.keys() - before:
            self._turn_end_us = now_us + self._turn_us
        self._regroup()

    def remove(self, job: int) -> None:
        """Take away a job that has not ended (see `ProcessCluster.remove`)."""
        nodes = set(self.jobs[job].nodes)
        self._dissolve([part for part in self._groups if not nodes.isdisjoint(part.nodes)])
        self.exact.remove(job)
        self._take_away([job])

    def advance(self, until_us: int) -> Reached:
        """Go on to ``until_us`` or to the first instant at which a job ends (see `ProcessCluster.advance`)."""
        while True:
            if self._stale:
                self._regroup()
            ended = self._go_on(min(until_us, self._due_us))
            if not ended and self._due_us <= self.now_us:
                ended = self._do_what_is_due()
            if ended:
                return Reached(self.now_us, ended)
            if self.now_us >= until_us and not self._stale and self._due_us > until_us:
                return Reached(self.now_us, ())

    # ------------------------------------------------------------ what was done and used

    def consumed_us(self, job: int) -> int:
        """Return the CPU time of a job's processes (see `ProcessCluster.consumed_us`)."""
        return sum(use.consumed_us for use in self._uses(job))

    def spun_us(self, job: int) -> int:
        """Return the CPU time that a job's processes have spent polling for messages."""
        return sum(use.spun_us for use in self._uses(job))

    def counters(self) -> Counters:
        """Return what has happened on the nodes while they were simulated exactly (see `ProcessCluster.counters`)."""
        return self.exact.counters()._replace(node_us=self.exact_node_us)

    def progress(self, job: int) -> float:
        """Return the share of its work that a job has done; that of all its processes counts (see `ProcessCluster.progress`)."""
        record = self.jobs.get(job)
        if record is None:
            raise InvariantError(f"job {job} is not on its nodes")
        self._charge(record.nodes)
        return min(1.0, record.done_us(self.now_us) / record.extent.work_us)

    def collect(self) -> list[ProcessUse]:
        """Return what was used since the last call (see `ProcessCluster.collect`)."""
        self._charge(self._live)
        hidden_ppm = WHOLE_PPM - self.settings.io_logged_ppm
        rows: list[tuple[int, int, int, int]] = []
        loggable: list[int] = []
        for number, job in sorted(self._used.items()):
            job.permit(job.allowed, self.now_us)
            uses = job.uses(self.now_us)
            for node, there, use, before in zip(job.nodes, job.processes, uses, job.collected, strict=True):
                if job.allowed_us[node]:
                    more = use.minus(before)
                    rows.append((number, node, more.consumed_us, len(there) * job.allowed_us[node]))
                    loggable.append(more.consumed_us - more.io_us * hidden_ppm // WHOLE_PPM)
                    job.allowed_us[node] = 0
            job.collected = uses
        logged = self._ticks.log_us([row[0] for row in rows], [row[1] for row in rows], loggable)
        self._used = {number: self.jobs[number] for there in self._chosen for number in there}
        self._left.clear()
        self.exact.collect()
        return [
            ProcessUse(job, node, used, log, allowed)
            for (job, node, used, allowed), log in zip(rows, logged, strict=True)
        ]

    @property
    def simulated(self) -> float:
        """Return the share of the time of nodes with jobs for which they were simulated exactly."""
        return self.exact_node_us / self.node_us if self.node_us else 0.0

    def _uses(self, job: int) -> list[Use]:
        """Return what a job has used up to now on each of its nodes."""
        record = self.jobs.get(job) or self._left[job]
        self._charge(record.nodes)
        return record.uses(self.now_us)

    def _charge(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.exact.cpus[node].charge(self.now_us)

    # ------------------------------------------------------------ time

    def _go_on(self, until_us: int) -> tuple[int, ...]:
        """Let time pass while no group is due, or until jobs end by themselves; return those."""
        before_us = self.now_us
        reached = self.exact.advance(max(until_us, before_us))
        self.now_us = reached.now_us
        for group in self._groups.values():
            weight_us = (self.now_us - before_us) * len(group.part.nodes)
            self.node_us += weight_us
            if group.window is not None:
                self.exact_node_us += weight_us
        if reached.ended:
            self._dissolve([part for part in self._groups if not set(part.jobs).isdisjoint(reached.ended)])
            self._take_away(reached.ended)
        return reached.ended

    def _do_what_is_due(self) -> tuple[int, ...]:
        """End jobs that have done all their work, and let groups go over to what comes next; return the jobs."""
        now_us = self.now_us
        if self._turn_end_us is not None and self._turn_end_us <= now_us:
            self._turn_end_us = None
            self._stale = True
        due = [group for group in self._groups.values() if group.due_us <= now_us]
        ended: list[int] = []
        for group in due:
            self._charge(group.part.nodes)
            done = [job.number for job in group.jobs if job.paced and job.done_us(now_us) >= job.extent.work_us]
            if done:
                self._dissolve([group.part])
                ended += done
            else:
                self._go_over(group)
        for number in ended:
            self.exact.remove(number)
        self._take_away(ended)
        self._set_due()
        return tuple(sorted(ended))

    def _go_over(self, group: WindowGroup) -> None:
        """Let a group go over to its paces, if they are known now, or to the next phase."""
        now_us = self.now_us
        if group.window is not None:
            if group.window.sample_us <= now_us and group.window.sample(now_us):
                group.take_paces(now_us)
                self._freeze(group)
            else:
                group.look_ahead(now_us)
        elif group.alone:
            for job in group.jobs:
                job.settle(now_us)
            group.go_alone(self.alone, now_us)
        else:
            self._dissolve([group.part])

    # ------------------------------------------------------------ groups

    # Must be called after who may run has changed, and before time goes on (``_stale``): a group that is no longer the same has to
    # be settled and dissolved, as its rates hold for its jobs together.
    def _regroup(self) -> None:
        """Make the groups of what may run now; those that are as before go on."""
        self._stale = False
        chosen = self._chosen if self._turn_end_us is None else ((),) * len(self._chosen)
        parts = self._parts.get(chosen)
        if parts is None:
            if len(self._parts) >= _MOST_CHOICES:
                self._parts.clear()
            parts = self._parts[chosen] = parts_of(chosen, self.jobs)
        wanted = set(parts)
        self._dissolve([part for part in self._groups if part not in wanted])
        fresh = [
            WindowGroup(part, [self.jobs[number] for number in part.jobs]) for part in parts if part not in self._groups
        ]
        self._groups.update((group.part, group) for group in fresh)
        shared = [group for group in fresh if not group.alone]
        if shared or self._live:
            self._prepare_exact(shared)
        for group in fresh:
            if group.alone:
                group.page(self._missing_ppm(group), self.settings)
                group.go_alone(self.alone, self.now_us + group.first_us)
            else:
                group.open_window(self._plan, self.now_us)
        self._set_due()

    def _prepare_exact(self, fresh: Sequence[WindowGroup]) -> None:
        """Let the exact cluster run the jobs of groups that share, and no others."""
        frozen = sorted({node for group in fresh for node in group.part.nodes} - self._live)
        self.exact.thaw(frozen)
        self._live.update(frozen)
        for group in fresh:
            for job in group.jobs:
                job.catch_up()
        shared = [group for group in self._groups.values() if not group.alone]
        self.exact.allow(self.now_us, {node: there for group in shared for node, there in group.part.where})
        idle = self._live.difference(*[group.part.nodes for group in shared])
        if idle:
            self.exact.freeze(sorted(idle))
            self._live -= idle

    def _freeze(self, group: WindowGroup) -> None:
        self.exact.freeze(group.part.nodes, server=any(job.extent.writes_shared for job in group.jobs))
        self._live.difference_update(group.part.nodes)

    def _dissolve(self, parts: Iterable[ConnectedJobs]) -> None:
        """Count what groups have done, and forget them; the nodes of those that share are not frozen then."""
        for part in parts:
            group = self._groups.pop(part)
            for job in group.jobs:
                job.settle(self.now_us)
            frozen = [] if group.alone else [node for node in part.nodes if node not in self._live]
            self.exact.thaw(frozen)
            self._live.update(frozen)
            self._stale = True

    def _take_away(self, numbers: Iterable[int]) -> None:
        """Forget jobs that the exact cluster has no more."""
        gone = set(numbers)
        for number in gone:
            job = self._left[number] = self.jobs.pop(number)
            job.permit((), self.now_us)
            self._chosen = tuple([tuple([other for other in there if other != number]) for there in self._chosen])
            self._parts.clear()
            self._stale = True

    def _missing_ppm(self, group: WindowGroup) -> int:
        """Return what does not fit of the memory of all jobs that hold a node, where that is most; they take turns there."""
        capacity_mb = self.settings.memory_mb
        if not capacity_mb:
            return 0
        most_mb = 0
        for node in group.part.nodes:
            there = [job for job in self.jobs.values() if node in job.nodes]
            most_mb = max(most_mb, sum(job.memory_mb * len(job.processes[job.nodes.index(node)]) for job in there))
        return max(0, (most_mb - capacity_mb) * WHOLE_PPM // most_mb) if most_mb else 0

    def _set_due(self) -> None:
        dues = [group.due_us for group in self._groups.values()]
        self._due_us = min(dues, default=_NEVER_US)
        if self._turn_end_us is not None:
            self._due_us = min(self._due_us, self._turn_end_us)
