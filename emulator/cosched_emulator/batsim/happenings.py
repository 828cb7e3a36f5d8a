"""What happens to jobs and hosts, and what a scheduler of Batsim's is told of it; the simulator adds time and decisions.

The jobs run on the emulator's own manager, so who shares a host slows whom down as in any other run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cosched_emulator.batsim.platform import Host
from cosched_emulator.batsim.power import HostStates
from cosched_emulator.batsim.workload import OUTCOME, BatsimJob, JobNumbers, Profiles, Progress, hidden, progress_of
from cosched_emulator.errors import LinkError
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_plugin.batsim import messages as b
from cosched_plugin.protocol.messages import (
    CANCELLED,
    FAILED,
    TIMEOUT,
    JobEnded,
    JobSubmitted,
    NodeFailed,
    NodeReturned,
)

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


@dataclass(slots=True)
class Ended:
    """A job at its end; times in microseconds."""

    job: BatsimJob
    state: str
    start_us: int | None = None
    end_us: int | None = None
    joules: float | None = None


class Happenings:
    """Jobs, hosts, and an outbox with what the scheduler has not been told.

    ``ended`` is called with each job at its end, ``moved`` with the time and the states of hosts whenever these change.
    """

    def __init__(
        self,
        manager: Manager,
        hosts: Sequence[Host],
        jobs: Sequence[BatsimJob],
        profiles: dict[str, Profiles],
        options: Options,
        external: int,
        *,
        ended: Callable[[Ended], None] | None = None,
        moved: Callable[[int, dict[str, int]], None] | None = None,
        numbers: JobNumbers | None = None,
    ) -> None:
        """``external`` is how many external events there will be."""
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
        self._external = external
        self._left = len(jobs)  # jobs that have not ended
        self._byes: list[str] = (
            [] if jobs else ["no_more_static_job_to_submit"]
        )  # what is over, and to be told next time
        self._dirty = False  # the manager has to settle
        self._last: JobRecord | None = None
        manager.ended_jobs = self._record

    def _tell(self, kind: str, data: str) -> None:
        self._outbox.append(self._event(kind, data))

    def _event(self, kind: str, data: str) -> str:
        return b.write_event(self.now_us, kind, data)

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
        self._manager.apply(self.now_us, [JobSubmitted(job.work.spec)])

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
                assert [type(change) for change in changes] == [NodeFailed if fails else NodeReturned]
                self._manager.apply(self.now_us, changes)
        self._tell("NOTIFY", b.write_json({"type": f"event_{kind}", "resources": event["resources"]}))

    def _move(self) -> None:
        if self._moved is not None:
            self._moved(self.now_us, self.states.counts)

    def _record(self, record: JobRecord) -> None:
        self._last = record

    def _finish(self, end: JobEnded) -> JobRecord:
        """Take a job off its hosts, tell the scheduler, and return its record."""
        self._manager.apply(self.now_us, [end])
        self._dirty = True
        record = self._last
        assert record is not None
        job = self.jobs[self._names[end.job_id]]
        start_us = record.intervals[-1].start_us
        state, code = b.SUCCESS, 0
        if end.state == CANCELLED:
            state, code = b.KILLED, -2 if self._progress(job, record).parallel else -1
        elif end.state == TIMEOUT or record.limit_us == self.now_us - start_us:
            state, code = b.WALLTIME, -1
        elif end.state == FAILED:
            state, code = b.FAILED, record.job.exit_code
        self.state[job.name] = DONE
        self._completed.append(job.name)
        self._left -= 1
        joules = self.states.leave_job(job.hosts, job.computes, self.now_us - start_us, self.now_us)
        self._move()
        told = f'"job_state":"{state}","return_code":{code},"alloc":"{b.write_hosts(job.hosts)}"'
        self._tell("JOB_COMPLETED", f'{{"job_id":{b.write_text(job.name)},{told}}}')
        if self._ended is not None:
            self._ended(Ended(job, state, start_us, self.now_us, joules if self.options.energy else None))
        return record

    def _progress(self, job: BatsimJob, record: JobRecord) -> Progress:
        speed = self.states.slowest(job.hosts)
        return progress_of(self._profiles[job.workload], job.profile, record.work_us, len(job.hosts), speed)
