"""The simulator in Batsim's place: it tells a scheduler what happens, and carries out what the scheduler decides, in virtual time.

`Simulator.next_message` advances time until there is something to say to a scheduler that is free, `Simulator.take` reads the reply.

The scheduler is busy until the time ``now`` of its reply. Its decisions are carried out at their own times; what happens meanwhile
waits, with the time at which it happened, for the next message. At one instant, ends come before decisions, then external events,
submissions and calls.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from cosched_emulator.batsim.platform import Host
from cosched_emulator.batsim.power import HostStates
from cosched_emulator.batsim.workload import (
    OUTCOME,
    BatsimJob,
    Ended,
    ExternalEvent,
    JobNumbers,
    Profiles,
    Progress,
    check_profile,
    computing_us,
    hidden,
    is_total,
    progress_of,
    read_job,
    run_us,
)
from cosched_emulator.errors import LinkError
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.manager.timeline import END
from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.batsim import messages as b
from cosched_plugin.batsim.messages import BatsimEvent
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import RemoteProtocolError

# States of a job. One that is done is still to be told of; of one that was told Batsim knows nothing more.
PENDING, RUNNING, DONE, TOLD, GONE = "pending", "running", "done", "told", "rejected"


@dataclass(frozen=True, slots=True)
class Options:
    """What a simulation allows, with Batsim's names of options in mind."""

    sharing: bool = False  # several jobs on a host
    dynamic: bool = False  # the scheduler registers jobs
    acknowledged: bool = False  # and hears of them as if they were submitted
    forward_profiles: bool = False  # profiles with each submission
    forward_unknown: bool = False  # external events of unknown types
    energy: bool = False  # states of hosts
    tell_run_times: bool = False  # profiles with all that is in them, and how jobs of a log ended there
    config: str = ""  # for the scheduler
    workloads: Mapping[str, str] = field(default_factory=dict)  # files, by name


_FIRST: Final = ThreadMask(1)
# Entries of the simulator's own agenda, in the order of one instant; ends are the manager's.
DECISION, EXTERNAL, SWITCHED, SUBMISSION, CALL, FREE = range(6)


class Simulator:
    """One simulation.

    ``ended`` is called with each job at its end, ``moved`` with the time and the states of hosts whenever these change.
    """

    def __init__(
        self,
        manager: Manager,
        hosts: Sequence[Host],
        jobs: Sequence[BatsimJob],
        profiles: dict[str, Profiles],
        options: Options,
        events: Sequence[ExternalEvent] = (),
        *,
        ended: Callable[[Ended], object] = lambda _: None,
        moved: Callable[[int, dict[str, int]], object] = lambda *_: None,
        numbers: JobNumbers | None = None,
    ) -> None:
        """``events`` are external ones with their times."""
        self.now_us = 0
        self.jobs: dict[str, BatsimJob] = {job.name: job for job in jobs}
        self.state: dict[str, str] = {}  # of the jobs that were submitted or registered
        self.options = options
        self.states = HostStates(hosts)
        self.first_j: float | None = None  # energy up to the first submission
        self._manager = manager
        self._hosts = hosts
        self._profiles = profiles
        self._told = profiles if options.tell_run_times else {name: hidden(each) for name, each in profiles.items()}
        self._ended = ended
        self._moved = moved
        self._numbers = numbers or JobNumbers()
        self._names: dict[int, str] = {job.work.spec.id: job.name for job in jobs}
        self._outbox: list[str] = []
        self._completed: list[str] = []  # jobs whose completion is in the outbox
        self._static = len(jobs)  # submissions to come
        self._external = len(events)  # external events to come
        self._left = len(jobs)  # jobs that have not ended
        self._byes = [] if jobs else ["no_more_static_job_to_submit"]  # what is over, and to be told next time
        self._dirty = False  # the manager has to settle
        self._last: JobRecord | None = None
        manager.ended_jobs = self._record
        self.messages = self.decisions = 0
        self._agenda: list[tuple[int, int, int, Any]] = []
        self._order = count()
        self._busy_us = 0  # the scheduler is busy until then
        self._registering = options.dynamic
        self._begun = self._over = False
        classes = manager.machine.classes
        self._cores = [item.cores for item in classes for _ in range(item.nodes)]
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
            return self._message([b.write_event(self.now_us, "SIMULATION_BEGINS", b.write_json(self._begins()))])
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
                f"no further event after {b.seconds(self.now_us)} s: {len(waiting)} jobs are pending, and the scheduler requested no "
                f"later call: {named}"
            )
        if self._registering:
            raise LinkError("no further event, and the scheduler has not sent registration_finished")
        self._over = True
        return self._message([b.write_event(self.now_us, "SIMULATION_ENDS", "{}")])

    def _at(self, at_us: int, kind: int, what: Any) -> None:
        heapq.heappush(self._agenda, (at_us, kind, next(self._order), what))

    def _pass(self, now_us: int) -> None:
        """Let happen all that is due."""
        manager, agenda, timeline = self._manager, self._agenda, self._manager.timeline
        ends: list[m.JobEnded] = []
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
                self._moved(self.now_us, self.states.counts)
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
                # Batsim is late for one whose time is before that of the one before it
                last_us = max(last_us, event.at_us)
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
            text = f"the job would end later than {b.LATEST_S:g} s after the start of the simulation"
            raise RemoteProtocolError("limit", f"{path}.job_id", text)
        managed = self._manager.jobs[spec.id]
        if takes_us != managed.job.run_us or spec.processes != sum(counts):
            spec = spec._replace(processes=sum(counts))
            managed.job = managed.job._replace(run_us=takes_us, spec=spec)
        start = m.StartJob(spec.id, runs, spec.estimate_us, spec.limit_us)
        for follows in self._manager.carry_out(self._manager.seq + 1, self.now_us, [start]):
            assert isinstance(follows, m.ActionRefused)
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
        self._moved(self.now_us, self.states.counts)

    def _unfit(self, host: int) -> str:
        """Return why a host takes no job."""
        if host in self.states.down:
            return f"host {host} is unavailable"
        if host in self.states.off:
            return f"host {host} is switched off, or changes its state"
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
            b.refuse(f"{path}.alloc", f"the {job.res} hosts that the job requests", f"{len(hosts)} hosts", "state")
        if processes == len(hosts) or len(hosts) != job.res:
            return [1] * len(hosts)
        counts = []
        for host in hosts:  # full hosts, and the rest on the last one
            counts.append(min(self._cores[host], processes - sum(counts)) if processes > job.res else 1)
        return counts

    def _runs(self, hosts: Sequence[int], counts: Sequence[int], path: str) -> tuple[m.Run, ...]:
        """Return the place of a job: on each host the lowest threads that are free."""
        free = self._manager.pool.free
        found: list[m.Run] = []
        if len(free) == 1 and max(counts) == 1:  # a place a host, and which are taken has been checked
            first = last = hosts[0]
            for host in (*hosts[1:], -1):
                if host != last + 1:
                    found.append(m.Run(first, last - first + 1, _FIRST, 1))
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
                found.append(m.Run(first, last - first + 1, ThreadMask(mask), processes))
            first = last = host
            mask, processes = chosen, wanted
        return tuple(found)

    def _reject(self, data: Mapping[str, Any], path: str) -> None:
        job = self._pending(data, path)
        self._manager.apply(self.now_us, [m.JobEnded(job.work.spec.id, m.REJECTED)])
        self.state[job.name] = GONE
        self._left -= 1
        self._ended(Ended(job, m.REJECTED))

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
                record = self._finish(m.JobEnded(job.work.spec.id, m.CANCELLED))
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
        self._moved(self.now_us, self.states.counts)
        self._at(ready_us, SWITCHED, (b.write_hosts(hosts), state))

    # ------------------------------------------------------------ what happens

    def _tell(self, kind: str, data: str) -> None:
        self._outbox.append(b.write_event(self.now_us, kind, data))

    def _begins(self) -> dict[str, Any]:
        options = self.options
        resources = [
            {
                "id": number,
                "name": host.name,
                "state": "idle",
                "properties": {"role": "", **host.properties},
                "zone_properties": {},
            }
            for number, host in enumerate(self._hosts)
        ]
        return {
            "nb_resources": len(resources), "nb_compute_resources": len(resources), "nb_storage_resources": 0,
            "allow_compute_sharing": options.sharing, "allow_storage_sharing": True,
            "config": {
                "redis-enabled": False, "redis-hostname": "127.0.0.1", "redis-port": 6379, "redis-prefix": "default",
                "profiles-forwarded-on-submission": options.forward_profiles, "dynamic-jobs-enabled": options.dynamic,
                "dynamic-jobs-acknowledged": options.acknowledged, "profile-reuse-enabled": True, "sched-config": options.config,
                "forward-unknown-events": options.forward_unknown,
            },
            "compute_resources": resources, "storage_resources": [],
            "workloads": dict(options.workloads), "profiles": {} if options.forward_profiles else self._told,
        }  # fmt: skip

    def _submit(self, job: BatsimJob) -> None:
        """Let a job wait for the scheduler, which is told of it."""
        if job.static:
            self._static -= 1
            if not self._static:
                self._byes.insert(0, "no_more_static_job_to_submit")
        if job.name not in self.state:
            self._accept(job)
        profile = ""
        if self.options.forward_profiles:
            profile = f',"profile":{b.write_json(self._told[job.workload].get(job.profile, {}))}'
        told = dict(job.object)
        if not self.options.tell_run_times:
            told.pop(OUTCOME, None)
        self._tell("JOB_SUBMITTED", f'{{"job_id":{b.write_text(job.name)},"job":{b.write_json(told)}{profile}}}')

    def _accept(self, job: BatsimJob) -> None:
        self.state[job.name] = PENDING
        if self.first_j is None and self.options.energy:
            self.first_j = self.states.count(self.now_us)
        self._manager.accept(job.work)
        self._manager.apply(self.now_us, [m.JobSubmitted(job.work.spec)])

    def _happen(self, event: Mapping[str, Any]) -> None:
        """Carry out an external event: machines that go take no more jobs, and what runs there goes on."""
        self._external -= 1
        if not self._external:
            self._byes.append("no_more_external_event_to_occur")
        kind = event["type"]
        if kind not in ("machine_unavailable", "machine_available"):
            if not self.options.forward_unknown:
                raise LinkError(f"an external event of the unknown type {kind}: expected --forward-unknown-events")
            self._tell("NOTIFY", b.write_json(event))
            return
        fails = kind == "machine_unavailable"
        nodes = self._manager.nodes
        for host in b.read_hosts(event, "resources", "", len(self._hosts)):
            if self.states.change_service(host, self.now_us, fails=fails):
                changes = nodes.fail(host, self.now_us) if fails else nodes.mend(host, self.now_us)
                assert [type(change) for change in changes] == [m.NodeFailed if fails else m.NodeReturned]
                self._manager.apply(self.now_us, changes)
        self._tell("NOTIFY", b.write_json({"type": f"event_{kind}", "resources": event["resources"]}))

    def _record(self, record: JobRecord) -> None:
        self._last = record

    def _finish(self, end: m.JobEnded) -> JobRecord:
        """Take a job off its hosts, tell the scheduler, and return its record."""
        self._manager.apply(self.now_us, [end])
        self._dirty = True
        record = self._last
        assert record is not None
        job = self.jobs[self._names[end.job_id]]
        start_us = record.intervals[-1].start_us
        state, code = b.SUCCESS, 0
        if end.state == m.CANCELLED:
            state, code = b.KILLED, -2 if self._progress(job, record).parallel else -1
        elif end.state == m.TIMEOUT or record.limit_us == self.now_us - start_us:
            state, code = b.WALLTIME, -1
        elif end.state == m.FAILED:
            state, code = b.FAILED, record.job.exit_code
        self.state[job.name] = DONE
        self._completed.append(job.name)
        self._left -= 1
        joules = self.states.leave_job(job.hosts, job.computes, self.now_us - start_us, self.now_us)
        self._moved(self.now_us, self.states.counts)
        told = f'"job_state":"{state}","return_code":{code},"alloc":"{b.write_hosts(job.hosts)}"'
        self._tell("JOB_COMPLETED", f'{{"job_id":{b.write_text(job.name)},{told}}}')
        self._ended(Ended(job, state, start_us, self.now_us, joules if self.options.energy else None))
        return record

    def _progress(self, job: BatsimJob, record: JobRecord) -> Progress:
        speed = self.states.slowest(job.hosts)
        return progress_of(self._profiles[job.workload], job.profile, record.work_us, len(job.hosts), speed)
