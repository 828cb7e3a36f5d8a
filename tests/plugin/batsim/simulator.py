"""A small Batsim for tests, written from the protocol's description alone: delays on a platform without latency.

It carries out decisions strictly, and raises `Aborted` where Batsim aborts. `Reply` is how it asks: a socket, or a function.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

Reply = Callable[[bytes], bytes]
SUBMITTED, COMPLETED, CALLED, MACHINES = range(4)


class Aborted(Exception):
    """Batsim would end with SIGABRT."""


class BatsimJob(NamedTuple):
    """A job with a delay."""

    name: str  # with its workload: w0!1
    subtime: float
    res: int
    delay: float
    walltime: float | None = None
    fields: Mapping[str, Any] = {}  # further ones of the job


def begins(hosts: Sequence[str], *, sharing: bool = False, dynamic: bool = False, **more: Any) -> dict[str, Any]:
    """Return the data of SIMULATION_BEGINS; host numbers follow the plain order of names, as Batsim's do."""
    resources = [
        {"id": number, "name": name, "state": "idle", "properties": {"role": ""}, "zone_properties": {}}
        for number, name in enumerate(sorted(hosts))
    ]
    data: dict[str, Any] = {
        "nb_resources": len(hosts), "nb_compute_resources": len(hosts), "nb_storage_resources": 0,
        "allow_compute_sharing": sharing, "allow_storage_sharing": True,
        "config": {"dynamic-jobs-enabled": dynamic, "profiles-forwarded-on-submission": False, "sched-config": ""},
        "compute_resources": resources, "storage_resources": [], "workloads": {"w0": "/w.json"}, "profiles": {"w0": {}},
    }  # fmt: skip
    return data | more


class Batsim:
    """One simulation."""

    def __init__(self, jobs: Sequence[BatsimJob], data: Mapping[str, Any], reply: Reply) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.data = data
        self.reply = reply
        self.now = 0.0
        self.starts: dict[str, tuple[float, str]] = {}
        self.ends: dict[str, tuple[float, str]] = {}
        self.rejected: set[str] = set()
        self.killed: set[str] = set()
        self.holders: dict[int, set[str]] = {number: set() for number in range(data["nb_compute_resources"])}
        self.down: set[int] = set()
        self.most = 0  # jobs on one host at once
        self._due: list[tuple[float, int, int, Any]] = []
        self._order = count()
        for job in jobs:
            self.at(job.subtime, SUBMITTED, job.name)

    def at(self, when: float, kind: int, what: Any) -> None:
        """Let something happen at some time."""
        heapq.heappush(self._due, (when, kind, next(self._order), what))

    def run(self) -> None:
        """Simulate to the end."""
        self.say([("SIMULATION_BEGINS", dict(self.data))])
        while self._due:
            self.now = self._due[0][0]
            happened: list[tuple[str, dict[str, Any]]] = []
            arrived: list[str] = []
            while self._due and self._due[0][0] == self.now:
                _, kind, _, what = heapq.heappop(self._due)
                if kind == SUBMITTED:
                    arrived.append(what)
                elif kind == COMPLETED:
                    happened += self.complete(what)
                elif kind == CALLED:
                    happened.append(("REQUESTED_CALL", {}))
                else:
                    happened.append(("NOTIFY", self.change_machines(*what)))
            happened += [self.submit(name) for name in sorted(arrived)]
            if happened:
                self.say(happened)
        self.say([("SIMULATION_ENDS", {})])

    def say(self, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Send a message and carry out the reply."""
        listed = [{"timestamp": self.now, "type": kind, "data": data} for kind, data in events]
        answer = json.loads(self.reply(json.dumps({"now": self.now, "events": listed}).encode()))
        last = self.now
        for event in answer["events"]:
            assert set(event) == {"timestamp", "type", "data"}
            assert self.now <= last <= event["timestamp"] <= answer["now"], answer
            last = event["timestamp"]
            if events[0][0] == "SIMULATION_ENDS":
                raise Aborted("a reply to the end")
            self.carry_out(event["type"], event["data"], last)

    def carry_out(self, kind: str, data: Mapping[str, Any], at: float) -> None:
        """Do what the scheduler has decided."""
        if kind == "EXECUTE_JOB":
            self.execute(data["job_id"], data["alloc"], at)
        elif kind == "REJECT_JOB":
            assert data["job_id"] not in self.starts
            self.rejected.add(data["job_id"])
        elif kind == "CALL_ME_LATER":
            if data["timestamp"] <= at:
                raise Aborted("a call that is not in the future")
            self.at(data["timestamp"], CALLED, None)
        elif kind == "KILL_JOB":
            for name in data["job_ids"]:
                if name not in self.starts or name in self.ends:
                    raise Aborted(f"kill of {name}")
                self.killed.add(name)
                self.at(at, COMPLETED, name)
        else:
            assert (kind, data) == ("NOTIFY", {"type": "registration_finished"})
            assert self.data["config"]["dynamic-jobs-enabled"]

    def execute(self, name: str, alloc: str, at: float) -> None:
        """Start a job."""
        hosts = [host for part in alloc.split(" ") for host in _interval(part)]
        if name not in self.jobs or name in self.starts or name in self.rejected:
            raise Aborted(f"{name} cannot start")
        if len(hosts) != self.jobs[name].res or self.down & set(hosts):
            raise Aborted(f"{name} on {alloc}")
        for host in hosts:
            if self.holders[host] and not self.data["allow_compute_sharing"]:
                raise Aborted(f"host {host} is not free")
            self.holders[host].add(name)
            self.most = max(self.most, len(self.holders[host]))
        self.starts[name] = (at, alloc)
        job = self.jobs[name]
        runs = job.delay if job.walltime is None else min(job.delay, job.walltime)
        self.at(round(at + runs, 6), COMPLETED, name)

    def complete(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """End a job, unless it has been killed before."""
        if name in self.ends:
            return []
        job = self.jobs[name]
        state = "COMPLETED_SUCCESSFULLY"
        if name in self.killed:
            state = "COMPLETED_KILLED"
        elif job.walltime is not None and job.delay >= job.walltime:
            state = "COMPLETED_WALLTIME_REACHED"
        self.ends[name] = (self.now, state)
        for holders in self.holders.values():
            holders.discard(name)
        code = 0 if state == "COMPLETED_SUCCESSFULLY" else -1
        done = {"job_id": name, "job_state": state, "return_code": code, "alloc": self.starts[name][1]}
        acknowledged = [("JOB_KILLED", {"job_ids": [name], "job_progress": {}})] if name in self.killed else []
        return [("JOB_COMPLETED", done), *acknowledged]

    def submit(self, name: str) -> tuple[str, dict[str, Any]]:
        job = self.jobs[name]
        told = {"id": name, "subtime": job.subtime, "res": job.res, "profile": "p", **job.fields}
        if job.walltime is not None:
            told["walltime"] = job.walltime
        return ("JOB_SUBMITTED", {"job_id": name, "job": told})

    def change_machines(self, fails: bool, resources: str) -> dict[str, Any]:
        hosts = {host for part in resources.split(" ") for host in _interval(part)}
        self.down = self.down | hosts if fails else self.down - hosts
        return {"type": f"event_machine_{'unavailable' if fails else 'available'}", "resources": resources}


def _interval(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)
