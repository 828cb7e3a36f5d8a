"""The simulator in Batsim's place: it tells a scheduler what happens, and carries out what the scheduler decides, in virtual time.

`Simulator.next_message` advances time until there is something to say to a scheduler that is free, `Simulator.take` reads the reply.

The scheduler is busy until the time ``now`` of its reply. Its decisions are carried out at their own times; what happens meanwhile
waits, with the time at which it happened, for the next message. At one instant, ends come before decisions, then external events,
submissions and calls.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from cosched_emulator.batsim.happenings import DONE, GONE, PENDING, RUNNING, TOLD, Ended, Happenings, Options
from cosched_emulator.batsim.platform import Host
from cosched_emulator.batsim.workload import (
    BatsimJob,
    ExternalEvent,
    Profiles,
    check_profile,
    computing_us,
    is_total,
    read_job,
    run_us,
)
from cosched_emulator.errors import LinkError
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.timeline import END
from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.batsim import messages as b
from cosched_plugin.batsim.messages import BatsimEvent
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import (
    CANCELLED,
    REJECTED,
    ActionRefused,
    JobEnded,
    Run,
    StartJob,
)

_FIRST: Final = ThreadMask(1)
# Entries of the simulator's own agenda, in the order of one instant; ends are the manager's.
DECISION, EXTERNAL, SWITCHED, SUBMISSION, CALL, FREE = range(6)


class Simulator(Happenings):
    """One simulation; ``told`` are the callbacks of `Happenings`."""

    def __init__(
        self,
        manager: Manager,
        hosts: Sequence[Host],
        jobs: Sequence[BatsimJob],
        profiles: dict[str, Profiles],
        options: Options,
        events: Sequence[ExternalEvent] = (),
        **told: Any,
    ) -> None:
        """``events`` are external ones with their times."""
        super().__init__(manager, hosts, jobs, profiles, options, len(events), **told)
        self.messages = self.decisions = 0
        self._agenda: list[tuple[int, int, int, Any]] = []
        self._order = count()
        self._busy_us = 0  # the scheduler is busy until then
        self._registering = options.dynamic
        self._begun = self._over = False
        classes = manager.machine.classes
        self._cores = [item.sockets * item.cores_per_socket for item in classes for _ in range(item.nodes)]
        for job in jobs:
            self._at(job.work.spec.submit_us, SUBMISSION, job)
        for at_us, event, _ in events:
            self._at(at_us, EXTERNAL, event)

    # ------------------------------------------------------------ time

    def next_message(self) -> bytes | None:
        """Return what to tell the scheduler next; None once the end has been told.

        LinkError where nothing happens any more, and jobs are left that the scheduler has not started.
        """
        if self._over:
            return None
        if not self._begun:
            self._begun = True
            return self._message([self._event("SIMULATION_BEGINS", b.write_json(self._begins()))])
        while True:
            self._pass(self.now_us)
            if self.now_us >= self._busy_us and self._outbox:
                outbox, self._outbox = self._outbox, []
                for name in self._completed:
                    self.state[name] = TOLD
                self._completed.clear()
                frame = self._message(outbox)
                self._tell_byes()
                return frame
            self._tell_byes()
            if self._outbox and self.now_us >= self._busy_us:
                continue
            if self._dirty:
                self._manager.settle(self.now_us)
                self._dirty = False
            due_us = self._next_us()
            if due_us is None:
                return self._end()
            self.now_us = max(self.now_us, due_us)

    def _next_us(self) -> int | None:
        """Return when something is due next; ends that no longer hold are dropped."""
        heap, manager = self._manager.timeline.heap, self._manager
        while heap and (heap[0][1] != END or manager.end_event(heap[0][2], heap[0][3]) is None):
            heapq.heappop(heap)
        due = [queue[0][0] for queue in (self._agenda, heap) if queue]
        return min(due, default=None)

    def _message(self, events: list[str]) -> bytes:
        self.messages += 1
        return b.write_message(self.now_us, events)

    def _tell_byes(self) -> None:
        """Put into the outbox what is over: Batsim's submitters say so only after their last submission was passed on."""
        for kind in self._byes:
            self._tell("NOTIFY", f'{{"type":"{kind}"}}')
        self._byes.clear()

    def _end(self) -> bytes:
        """Return the last message, if all is done."""
        if self._left:
            waiting = [name for name, state in self.state.items() if state == PENDING]
            named = ", ".join(waiting[:5]) + (", ..." if len(waiting) > 5 else "")
            raise LinkError(
                f"nothing happens any more after {b.seconds(self.now_us)} s, and {len(waiting)} jobs wait for the scheduler, which has "
                f"asked for no later call: {named}"
            )
        if self._registering:
            raise LinkError("nothing happens any more, and the scheduler has not said registration_finished")
        self._over = True
        return self._message([self._event("SIMULATION_ENDS", "{}")])

    def _at(self, at_us: int, kind: int, what: Any) -> None:
        heapq.heappush(self._agenda, (at_us, kind, next(self._order), what))

    def _pass(self, now_us: int) -> None:
        """Let happen all that is due."""
        manager, agenda, timeline = self._manager, self._agenda, self._manager.timeline
        ends: list[JobEnded] = []
        for _, rank, ident, version in timeline.pop_due(now_us):
            if rank == END:
                end = manager.end_event(ident, version)
                if end is not None:
                    ends.append(end)
        for each in ends:
            self._finish(each)
        while agenda and agenda[0][0] <= now_us:
            _, kind, _, what = heapq.heappop(agenda)
            if kind == SUBMISSION:
                self._submit(what)
            elif kind == DECISION:
                self._decide(what)
            elif kind == CALL:
                self._tell("REQUESTED_CALL", "{}")
            elif kind == EXTERNAL:
                self._happen(what)
            elif kind == SWITCHED:
                resources, state = what
                self.states.arrive(b.read_hosts({"": resources}, "", "", len(self._hosts)), state, now_us)
                self._move()
                self._tell("RESOURCE_STATE_CHANGED", f'{{"resources":"{resources}","state":"{state}"}}')

    # ------------------------------------------------------------ what the scheduler decides

    def take(self, frame: bytes) -> None:
        """Read a reply: its decisions are carried out at their times. LinkError for one that cannot be, with event and field."""
        try:
            reply = b.read_message(frame, b.FROM_SCHEDULER)
            if reply.now_us < self.now_us:
                reply = reply._replace(now_us=self.now_us)  # Batsim takes a time in the past for the present
            if self._over and reply.events:
                raise RemoteProtocolError("state", "events", "expected none after SIMULATION_ENDS")
            last_us = self.now_us
            for event in reply.events:
                last_us = max(
                    last_us, event.at_us
                )  # Batsim is late for one whose time is before that of the one before it
                self._at(last_us, DECISION, event)
        except RemoteProtocolError as error:
            raise self._wrong(str(error)) from error
        self._busy_us = reply.now_us
        if reply.now_us > self.now_us:
            self._at(reply.now_us, FREE, None)

    def _wrong(self, text: str) -> LinkError:
        return LinkError(f"the scheduler's reply {self.messages}, at {b.seconds(self.now_us)} s: {text}")

    def _decide(self, event: BatsimEvent) -> None:
        """Carry out a decision now."""
        self.decisions += 1
        try:
            match event.type:
                case "EXECUTE_JOB":
                    self._execute(event.data, f"{event.path}.data")
                case "REJECT_JOB":
                    self._reject(event.data, f"{event.path}.data")
                case "CALL_ME_LATER":
                    at_us = b.microseconds(event.data, "timestamp", f"{event.path}.data")
                    if at_us <= self.now_us:
                        text = f"expected a time after {b.seconds(self.now_us)}, got {b.seconds(at_us)}"
                        raise RemoteProtocolError("clock", f"{event.path}.data.timestamp", text)
                    self._at(at_us, CALL, None)
                case "KILL_JOB":
                    self._kill(event.data, f"{event.path}.data")
                case "NOTIFY":
                    kind = b.text(event.data, "type", f"{event.path}.data")
                    if kind not in ("registration_finished", "continue_registration"):
                        b.refuse(f"{event.path}.data.type", "registration_finished or continue_registration", kind)
                    self._registering = kind == "continue_registration"
                case "REGISTER_PROFILE" | "REGISTER_JOB":
                    self._register(event)
                case "SET_RESOURCE_STATE" | "QUERY":
                    self._ask_power(event)
                case "SET_JOB_METADATA":
                    job = self._job(event.data, f"{event.path}.data")
                    told = event.data.get("metadata")
                    if type(told) is not str or '"' in told:
                        b.refuse(f"{event.path}.data.metadata", 'a string without "', told)
                    job.metadata = told
                case "ANSWER":
                    pass  # to questions that nobody asks
                case _:
                    raise RemoteProtocolError("unknown", f"{event.path}.type", f"the emulator has no {event.type}")
        except RemoteProtocolError as error:
            raise self._wrong(f"{event.type}: {error}") from error

    def _job(self, data: Mapping[str, Any], path: str) -> BatsimJob:
        name = b.text(data, "job_id", path)
        job = self.jobs.get(name)
        if job is None or job.name not in self.state:
            raise RemoteProtocolError("state", f"{path}.job_id", f"there is no job {name} yet")
        return job

    def _pending(self, data: Mapping[str, Any], path: str) -> BatsimJob:
        job = self._job(data, path)
        if self.state[job.name] != PENDING:
            text = f"job {job.name} does not wait to be started: it is {self.state[job.name]}"
            raise RemoteProtocolError("state", f"{path}.job_id", text)
        return job

    def _execute(self, data: Mapping[str, Any], path: str) -> None:
        """Start a job."""
        job = self._pending(data, path)
        hosts = b.read_hosts(data, "alloc", path, len(self._hosts))
        for key in ("storage_mapping", "additional_io_job"):
            if key in data:
                b.refuse(f"{path}.{key}", "none: the emulator has no storage hosts", data[key])
        counts = self._counts(job, hosts, data, path)
        used, sharing = self.states.jobs, self.options.sharing
        unfit = self.states.down or self.states.off
        for host in hosts:
            if (used[host] and not sharing) or (unfit and (host in self.states.down or host in self.states.off)):
                raise RemoteProtocolError("state", f"{path}.alloc", self._unfit(host))
        runs = self._runs(hosts, counts, path)
        spec = job.work.spec
        speed = self.states.slowest(hosts)
        takes_us = max(1, run_us(self._profiles[job.workload], job.profile, len(hosts), speed))
        if self.now_us + takes_us > b.LATEST_S * SECOND_US:
            text = f"the job would end later than {b.LATEST_S:g} s after the beginning"
            raise RemoteProtocolError("limit", f"{path}.job_id", text)
        managed = self._manager.jobs[spec.id]
        if takes_us != managed.job.run_us or spec.processes != sum(counts):
            spec = spec._replace(processes=sum(counts))
            managed.job = managed.job._replace(run_us=takes_us, spec=spec)
        start = StartJob(spec.id, runs, spec.estimate_us, spec.limit_us)
        for follows in self._manager.carry_out(self._manager.seq + 1, self.now_us, [start]):
            assert isinstance(follows, ActionRefused)
            raise RemoteProtocolError("state", f"{path}.alloc", follows.reason)
        self._dirty = True
        job.hosts = hosts
        self.state[job.name] = RUNNING
        if self.options.energy:
            computing = (
                takes_us if job.of_log else computing_us(self._profiles[job.workload], job.profile, len(hosts), speed)
            )
            job.computes = computing / takes_us * spec.processes / sum([self._cores[host] for host in hosts])
        self.states.take_job(hosts, job.computes, self.now_us)
        self._move()

    def _unfit(self, host: int) -> str:
        """Return why a host takes no job."""
        if host in self.states.down:
            return f"host {host} is unavailable"
        if host in self.states.off:
            return f"host {host} is switched off, or on its way"
        return f"host {host} has a job, and hosts are not shared"

    def _counts(self, job: BatsimJob, hosts: Sequence[int], data: Mapping[str, Any], path: str) -> list[int]:
        """Return the processes of a job on each of its hosts."""
        processes = job.work.spec.processes
        if "mapping" in data:
            counts = [0] * len(hosts)
            mapping = b.obj(data, "mapping", path)
            if set(mapping) != {str(each) for each in range(job.res)}:
                b.refuse(f"{path}.mapping", f"executors 0 to {job.res - 1}, each once", mapping)
            for executor, place in mapping.items():
                told = {executor: int(place) if type(place) is str and place.isascii() and place.isdigit() else place}
                counts[b.whole(told, executor, f"{path}.mapping", 0, len(hosts) - 1)] += 1
            if 0 in counts:
                b.refuse(f"{path}.mapping", "an executor on each host of alloc", "none on some")
            return counts
        if len(hosts) != job.res and not is_total(self._profiles[job.workload], job.profile):
            b.refuse(f"{path}.alloc", f"{job.res} hosts, as the job asks for", f"{len(hosts)} hosts", "state")
        if processes == len(hosts) or len(hosts) != job.res:
            return [1] * len(hosts)
        counts = []
        for host in hosts:  # full hosts, and the rest on the last one
            counts.append(min(self._cores[host], processes - sum(counts)) if processes > job.res else 1)
        return counts

    def _runs(self, hosts: Sequence[int], counts: Sequence[int], path: str) -> tuple[Run, ...]:
        """Return the place of a job: on each host the lowest threads that are free."""
        free = self._manager.pool.free
        found: list[Run] = []
        if len(free) == 1 and max(counts) == 1:  # a place a host, and which are taken has been checked
            first = last = hosts[0]
            for host in (*hosts[1:], -1):
                if host != last + 1:
                    found.append(Run(first, last - first + 1, _FIRST, 1))
                    first = host
                last = host
            return tuple(found)
        first = last = mask = processes = -1
        for host, wanted in zip((*hosts, -1), (*counts, -1), strict=True):
            chosen = 0
            left = wanted
            for thread, layer in enumerate(free if host >= 0 else ()):
                if left and layer >> host & 1:
                    chosen |= 1 << thread
                    left -= 1
            if left > 0:
                text = f"host {host} has {wanted - left} free places for processes, {wanted} wanted (places: its hardware threads)"
                raise RemoteProtocolError("state", f"{path}.alloc", text)
            if host == last + 1 and host > 0 and chosen == mask and wanted == processes:
                last = host
                continue
            if first >= 0:
                found.append(Run(first, last - first + 1, ThreadMask(mask), processes))
            first = last = host
            mask, processes = chosen, wanted
        return tuple(found)

    def _reject(self, data: Mapping[str, Any], path: str) -> None:
        job = self._pending(data, path)
        self._manager.apply(self.now_us, [JobEnded(job.work.spec.id, REJECTED)])
        self.state[job.name] = GONE
        self._left -= 1
        if self._ended is not None:
            self._ended(Ended(job, REJECTED))

    def _kill(self, data: Mapping[str, Any], path: str) -> None:
        """Kill jobs; those that have just ended by themselves have no progress."""
        progress: dict[str, Any] = {}
        names = b.names(data, "job_ids", path)
        for name in names:
            state = self.state.get(name)
            if state not in (RUNNING, DONE):
                text = f"job {name} does not run: it is {state or 'unknown'}" + (
                    ", and was told to be" if state == TOLD else ""
                )
                raise RemoteProtocolError("state", f"{path}.job_ids", text)
            if state == RUNNING:
                job = self.jobs[name]
                record = self._finish(JobEnded(job.work.spec.id, CANCELLED))
                progress[name] = self._progress(job, record).told
        self._tell("JOB_KILLED", b.write_json({"job_ids": names, "job_progress": progress}))

    def _register(self, event: BatsimEvent) -> None:
        """Take a profile or a job of the scheduler's own."""
        data, path = event.data, f"{event.path}.data"
        if not self.options.dynamic:
            raise RemoteProtocolError("state", f"{event.path}.type", "expected none without --enable-dynamic-jobs")
        if not self._registering:
            raise RemoteProtocolError("state", f"{event.path}.type", "expected none after registration_finished")
        if event.type == "REGISTER_PROFILE":
            profiles = self._profiles.setdefault(b.text(data, "workload_name", path), {})
            name = b.text(data, "profile_name", path)
            if name in profiles:
                b.refuse(f"{path}.profile_name", "a new name", name, "state")
            profiles[name] = b.obj(data, "profile", path)
            try:
                check_profile(profiles, name, f"{path}.profile", {})
            except RemoteProtocolError:
                del profiles[name]
                raise
            return
        name = b.text(data, "job_id", path)
        workload, separator, own = name.partition("!")
        if not separator or not own or name in self.jobs:
            b.refuse(f"{path}.job_id", "a new name such as dyn!1", name, "state")
        raw = {**b.obj(data, "job", path), "id": own}
        job = read_job(raw, workload, f"{path}.job", self._profiles.get(workload, {}), self._numbers, static=False)
        if job.work.spec.submit_us > self.now_us:
            submit_us = self.now_us
            job.work = job.work._replace(spec=job.work.spec._replace(submit_us=submit_us))
        self.jobs[name] = job
        self._names[job.work.spec.id] = name
        self._left += 1
        if self.options.acknowledged:
            self._submit(job)
        else:
            self._accept(job)

    def _ask_power(self, event: BatsimEvent) -> None:
        """Begin to change the state of hosts, or tell what they have consumed."""
        data, path = event.data, f"{event.path}.data"
        if not self.options.energy:
            raise RemoteProtocolError("state", f"{event.path}.type", "expected none without --energy")
        if event.type == "QUERY":
            requests = b.obj(data, "requests", path)
            if set(requests) != {"consumed_energy"}:
                b.refuse(f"{path}.requests", "consumed_energy", next(iter(requests), None))
            joules = self.states.count(self.now_us)
            self._tell("ANSWER", f'{{"consumed_energy":{joules:.6f}}}')
            return
        hosts = b.read_hosts(data, "resources", path, len(self._hosts))
        told = b.text(data, "state", path)
        state = int(told) if told.isascii() and told.isdigit() and len(told) < 6 else -1
        for host in hosts:
            reason = self.states.refusal(host, state)
            if reason is not None:
                raise RemoteProtocolError("state", f"{path}.state", f"host {host}: {reason}")
        ready_us = max([self.states.leave(host, state, self.now_us) for host in hosts])
        self._move()
        self._at(ready_us, SWITCHED, (b.write_hosts(hosts), state))
