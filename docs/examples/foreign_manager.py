"""A resource manager written from plugin/PROTOCOL.md alone: it plays a log's jobs to a scheduler in virtual time.

Usage: python foreign_manager.py ENDPOINT NODES CORES LOG.swf
"""

import heapq
import sys
import time
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import zmq

Map = dict[str, Any]
WAIT_S, MOST_ROUNDS, S = 60.0, 100, 1_000_000
ENDS, COMES = 0, 1  # the order at one instant
TOLD = ("spec", "start_us", "runs", "estimate_us", "limit_us")  # of a running job


class Site:
    """Jobs and nodes as of the last answered batch. A job is a map: `spec`, `run_us`, `state`, and what a start adds."""

    def __init__(self, nodes: int, cores: int, log: str) -> None:
        self.free = [(1 << cores) - 1] * nodes  # a mask of threads for each node
        self.nodes = {"nodes": nodes, "sockets": 1, "cores_per_socket": cores, "threads_per_core": 1}
        self.nodes |= dict.fromkeys(("memory_mb", "memory_bandwidth_mbs", "network_mbs", "disk_mbs"), 0)
        self.jobs: dict[int, Map] = {}
        self.now_us, self.due = 0, list[tuple[int, int, int]]()  # (time, rank, job), a heap
        for fields in [line.split() for line in Path(log).read_text("ascii").splitlines() if line[0] != ";"]:
            job_id, submit_s, run_s, processes, limit_s = (int(fields[place]) for place in (0, 1, 3, 4, 8))
            if processes <= nodes * cores:  # a manager rejects what the empty machine cannot hold
                spec = {"id": job_id, "submit_us": submit_s * S, "processes": processes}
                spec |= dict.fromkeys(("estimate_us", "limit_us"), limit_s * S)
                self.jobs[job_id] = {"spec": spec, "run_us": run_s * S, "state": "COMING"}
                heapq.heappush(self.due, (submit_s * S, COMES, job_id))

    def inventory(self) -> Map:
        """Return what a welcome says of jobs and nodes."""
        return {
            "now_us": self.now_us,
            "nodes": [self.nodes],
            "belief": {"contention": "none", "composition": "bulk-synchronous"},
            "running": [{key: job[key] for key in TOLD} for job in self.in_state("RUNNING")],
            "pending": [{"spec": job["spec"]} for job in self.in_state("PENDING")],  # in the order of the log
        }

    def in_state(self, state: str) -> list[Map]:
        """Return the jobs in a state."""
        return [job for job in self.jobs.values() if job["state"] == state]

    def next_events(self) -> tuple[int, list[Map]]:
        """Return the next instant and what happens then; nothing of it has happened yet."""
        at_us, events = self.now_us, list[Map]()
        while self.due and (not events or self.due[0][0] == at_us):
            at_us, rank, job_id = heapq.heappop(self.due)
            if rank == COMES:
                events.append({"type": "job_submitted", "job": self.jobs[job_id]["spec"]})
            else:
                state = "COMPLETED" if self.jobs[job_id]["run_us"] <= self.jobs[job_id]["limit_us"] else "TIMEOUT"
                events.append({"type": "job_ended", "job_id": job_id, "state": state})
        return at_us, events

    def commit(self, now_us: int, events: list[Map]) -> None:
        """Let the events of an answered batch happen."""
        self.now_us = now_us
        for event in events:
            if event["type"] == "job_submitted":
                self.jobs[event["job"]["id"]]["state"] = "PENDING"
            elif event["type"] == "job_ended":
                job = self.jobs[event["job_id"]]
                job["state"] = event["state"]
                for node, mask in job["taken"]:
                    self.free[node] |= mask

    def act(self, action: Map) -> str | None:
        """Carry out an action, or return why that is impossible."""
        job = self.jobs.get(action.get("job_id", -1), {"state": "unknown"})
        if job["state"] != "PENDING" or action["type"] not in ("start_job", "reject_job"):
            return f"{action['type']} is impossible; the job is {job['state']}"
        if action["type"] == "reject_job":
            job["state"] = "REJECTED"
        return self.start(job, action) if action["type"] == "start_job" else None

    def start(self, job: Map, start: Map) -> str | None:
        """Start a pending job, if it fits, and put its end on the heap."""
        free, taken, placed, spec = list(self.free), [], 0, job["spec"]
        for first, count, told, processes in start["runs"]:
            mask = int(told, 16) if isinstance(told, str) else told
            for node in range(first, first + count):
                if node >= len(free) or mask & ~free[node] or mask.bit_count() != processes:
                    return f"node {node} has no {processes} free threads at {mask:x}"
                free[node] ^= mask
                taken.append((node, mask))
                placed += processes
        if placed != spec["processes"] or (start.get("limit_us") or 0) < spec["limit_us"]:
            return f"{placed} processes with limit {start.get('limit_us')} are not what job {spec['id']} is"
        self.free = free
        job |= {key: start[key] for key in TOLD[2:]}
        job |= {"state": "RUNNING", "start_us": self.now_us, "taken": taken}
        job["end_us"] = self.now_us + min(job["run_us"], job["limit_us"])
        heapq.heappush(self.due, (job["end_us"], ENDS, spec["id"]))
        return None


class Conversation:
    """The manager's end, in lockstep: time stands still until a batch is answered."""

    def __init__(self, endpoint: str, site: Site) -> None:
        self.router: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 500)
        self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # tells that a scheduler is gone
        self.router.bind(endpoint)
        self.site, self.peer, self.hello, self.served = site, b"", {"greeting": 0}, False
        self.seq, self.rounds = 0, 0  # the last answered batch; batches in a row of refusals alone
        self.batch, self.refused = Map(), list[Map]()  # the open batch; what the next one says of the last answer

    def say(self, to: bytes, kind: str, **fields: Any) -> bool:
        """Send a message; return whether the peer is still there."""
        try:
            self.router.send_multipart([to, b"cosched/1", msgpack.packb({"type": kind, **fields})])
        except zmq.ZMQError:
            return False
        return True

    def send_batch(self) -> int | None:
        """Send the open batch, or the next one; return the exit code where nothing happens any more."""
        if not self.batch:
            now_us, events = (self.site.now_us, self.refused) if self.refused else self.site.next_events()
            self.rounds = self.rounds + 1 if self.refused else 0
            if not events or self.rounds > MOST_ROUNDS:
                self.say(self.peer, "bye", reason="too many rounds" if events else "nothing more happens")
                return 3 if events or self.site.in_state("PENDING") else 0
            self.batch = {"seq": self.seq + 1, "now_us": now_us, "events": events}
        self.say(self.peer, "events", **self.batch, greeting=self.hello["greeting"])
        return None

    def hear(self, sender: bytes, message: Map) -> int | None:
        """Answer a message; return the exit code if it is the last one."""
        kind, timely = message["type"], message.get("greeting", 0) == self.hello["greeting"]
        if kind == "ping":
            self.say(sender, "pong", token=message["token"])
        elif kind == "hello":
            self.greet(sender, message)
        elif kind in ("bye", "error") and sender == self.peer:
            self.served = False
            return 3 if kind == "error" else None
        elif not self.served or sender != self.peer:
            self.say(sender, "error", code="state", text="say hello first")
        elif kind == "ready" and timely and message["seq"] == self.seq:
            return self.send_batch()
        elif kind == "actions" and timely and self.batch and message["seq"] == self.batch["seq"]:
            self.site.commit(self.batch["now_us"], self.batch["events"])
            self.seq, self.batch, self.refused = message["seq"], Map(), []
            for number, action in enumerate(message["actions"]):
                reason = self.site.act(action)
                if reason is not None:
                    refusal = {"type": "action_refused", "seq": self.seq, "action": number, "reason": reason}
                    self.refused.append(refusal | {"job_ids": [action["job_id"]] if "runs" in action else []})
            return self.send_batch()
        return None

    def greet(self, sender: bytes, hello: Map) -> None:
        """Answer a hello: one scheduler is served, for as long as its connection stands."""
        same = hello["instance"] == self.hello.get("instance")
        if self.served and not same and self.say(self.peer, "ping", token=0):
            self.say(sender, "error", code="busy", text=f"{self.hello['instance']} is being served")
        elif 1 not in hello["versions"]:
            self.say(sender, "error", code="version", text="this manager speaks version 1")
        elif not same or not 0 < hello.get("greeting", 0) <= self.hello["greeting"]:
            self.peer, self.hello, self.served = sender, {"greeting": 0} | hello, True
            numbers = {"version": 1, "seq": self.seq, "greeting": self.hello["greeting"]}
            self.say(sender, "welcome", **numbers, **self.site.inventory())


def serve(endpoint: str, site: Site) -> int:
    """Play the log to the end; return the exit code."""
    manager = Conversation(endpoint, site)
    heard_s, resend_s = time.monotonic(), 1.0
    while time.monotonic() - heard_s < WAIT_S:
        if manager.router.poll(200):
            sender, _, message = manager.router.recv_multipart()
            code = manager.hear(sender, msgpack.unpackb(message))
            heard_s, resend_s = time.monotonic(), 1.0
            if code is not None:
                return code
        if manager.served and manager.batch and time.monotonic() - heard_s > resend_s:
            resend_s *= 2
            manager.send_batch()
    return 3


if __name__ == "__main__":
    played = Site(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    code = serve(sys.argv[1], played)
    print("job_id,starting_time,finish_time")
    for job in sorted((job for job in played.jobs.values() if "end_us" in job), key=lambda job: job["end_us"]):
        print(f"{job['spec']['id']},{job['start_us'] // S},{job['end_us'] // S}")
    sys.exit(code)
