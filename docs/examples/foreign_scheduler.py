"""A scheduler written from plugin/PROTOCOL.md alone: first come, first served, on the lowest free threads.

Usage: python foreign_scheduler.py ENDPOINT
"""

import os
import sys
import time
from typing import Any

import msgpack  # type: ignore[import-untyped]
import zmq

Map = dict[str, Any]
FEATURES = ("started", "modified", "unknown", "resync")
HELLO_S, WAIT_S, SILENCE_S = 0.5, 60.0, 30.0  # between hellos; until a welcome; until a ping, and again until the end


class Cluster:
    """The manager's state, as a welcome tells it and events change it."""

    def __init__(self, welcome: Map) -> None:
        self.threads: list[int] = []
        self.memory_mb: list[int] = []
        for kind in welcome["nodes"]:
            width = kind["sockets"] * kind["cores_per_socket"] * kind["threads_per_core"]
            self.threads += [width] * kind["nodes"]
            self.memory_mb += [kind["memory_mb"]] * kind["nodes"]
        self.down = set(welcome.get("down", ()))
        self.pending = {job["spec"]["id"]: job["spec"] for job in welcome["pending"]}
        self.held = {job["spec"]["id"] for job in welcome["pending"] if job.get("held")}
        self.running = {job["spec"]["id"]: (job["spec"], job["runs"]) for job in welcome["running"]}

    def apply(self, event: Map) -> None:
        """Change the state; LookupError where the event does not fit it."""
        job_id: int = event.get("job_id", -1)
        match event["type"]:
            case "job_submitted":
                self.pending[event["job"]["id"]] = event["job"]
            case "job_ended":
                self.pending.pop(job_id, None)
                self.running.pop(job_id, None)
            case "job_requeued":
                self.pending[job_id] = self.running.pop(job_id)[0]
            case "job_held":
                self.held.add(job_id)
            case "job_released":
                self.held.discard(job_id)
            case "job_started":
                waiting = self.pending.pop(job_id, None)
                self.running[job_id] = (event.get("job") or waiting or self.running[job_id][0], event["runs"])
                self.held.discard(job_id)
            case "job_modified":
                job = event["job"]
                if job["id"] in self.pending:
                    self.pending[job["id"]] = job
                else:
                    self.running[job["id"]] = (job, self.running[job["id"]][1])
            case "node_failed":
                self.down.add(event["node"])
            case "node_returned":
                self.down.discard(event["node"])
            case "action_refused":
                for refused in self.running.keys() & set(event.get("job_ids", ())):
                    self.pending[refused] = self.running.pop(refused)[0]
            case "job_revised" | "progress_measured":
                pass  # they change nothing that first come, first served goes by
            case other:
                raise LookupError(f"unknown event {other}")

    def decide(self) -> list[Map]:
        """Start jobs in order of submission until one does not fit."""
        actions: list[Map] = []
        for job in sorted(self.pending.values(), key=lambda job: (job["submit_us"], job["id"])):
            if job["id"] in self.held:
                continue
            runs = self.place(job)
            if runs is None:
                break
            start = {"type": "start_job", "job_id": job["id"], "runs": runs, "estimate_us": job["estimate_us"]}
            actions.append({**start, "limit_us": job.get("limit_us")})
            self.running[job["id"]] = (self.pending.pop(job["id"]), runs)
        return actions

    def place(self, job: Map) -> list[list[Any]] | None:
        """Return where the job can run now, on the lowest nodes and threads; None: nowhere."""
        free, memory_mb = self.room()
        width, each_mb = job.get("threads_per_process", 1), job.get("memory_mb", 0)
        runs: list[list[Any]] = []
        left = job["processes"]
        for node, threads in enumerate(free):
            room = min(threads.bit_count() // width, job.get("ppn_max", 0) or left)
            room = min(room, memory_mb[node] // each_mb) if each_mb else room
            whole = threads == (1 << self.threads[node]) - 1
            if not room or room < min(job.get("ppn_min", 1), job["processes"]) or (job.get("exclusive") and not whole):
                continue
            count = min(room, left)
            bits = [1 << bit for bit in range(self.threads[node]) if threads >> bit & 1]
            mask = sum(bits if job.get("exclusive") else bits[: count * width])
            told = mask if mask < 1 << 63 else f"{mask:x}"
            if runs and whole and [sum(runs[-1][:2]), *runs[-1][2:]] == [node, told, count]:
                runs[-1][1] += 1  # whole nodes in a row are one run
            else:
                runs.append([node, 1, told, count])
            left -= count
            if not left:
                return runs
        return None

    def room(self) -> tuple[list[int], list[int]]:
        """Return the free threads of each node, as a mask, and its free memory."""
        free = [0 if node in self.down else (1 << width) - 1 for node, width in enumerate(self.threads)]
        memory_mb = list(self.memory_mb)
        for job, runs in self.running.values():
            for first, count, mask, processes in runs:
                for node in range(first, first + count):
                    free[node] &= ~(int(mask, 16) if isinstance(mask, str) else mask)
                    memory_mb[node] -= processes * job.get("memory_mb", 0)
        return free, memory_mb


class Conversation:
    """The scheduler's end: what was said last, and the answer to each message."""

    def __init__(self, endpoint: str) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 500
        self.lost: zmq.Socket[bytes] = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self.socket.connect(endpoint)
        self.cluster: Cluster | None = None  # None: not served
        self.welcome, self.reply = Map(), Map()
        self.greeting = self.seq = 0

    def say(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        self.socket.send_multipart([b"cosched/1", msgpack.packb({"type": kind, **fields})])

    def greet(self) -> None:
        """Say hello; what answers an older one is ignored from now on."""
        self.greeting += 1
        self.say("hello", versions=[1], features=FEATURES, instance=f"foreign-{os.getpid()}", greeting=self.greeting)

    def hear(self, message: Map) -> int | None:
        """Answer a message; return the exit code if it is the last one."""
        kind, timely = message["type"], message.get("greeting", 0) == self.greeting
        if kind == "ping":
            self.say("pong", token=message["token"])
        elif kind == "bye":
            return 0
        elif kind == "error" and message["code"] not in ("state", "busy"):
            print(message, file=sys.stderr)
            return 3
        elif (kind == "error" and message["code"] == "state") or (kind == "resync" and timely):
            self.cluster = None
        elif kind == "welcome" and timely:
            if message != self.welcome:
                self.welcome, self.reply, self.seq = message, {}, message["seq"]
                self.cluster = Cluster(message)
            if self.cluster is not None and self.seq == message["seq"]:
                self.say("ready", seq=self.seq, greeting=self.greeting)
        elif kind == "events" and timely and self.cluster is not None:
            if message["seq"] > self.seq:
                for event in message["events"]:
                    self.cluster.apply(event)
                self.seq = message["seq"]
                self.reply = {"seq": self.seq, "now_us": message["now_us"], "actions": self.cluster.decide()}
            if message["seq"] == self.seq and self.reply:  # the same batch again gets the same answer
                self.say("actions", **self.reply, greeting=self.greeting)
        return None


def serve(endpoint: str) -> int:
    """Answer the manager's batches until it says bye; return the exit code."""
    manager = Conversation(endpoint)
    hello_s, pinged_s, heard_s = 0.0, 0.0, time.monotonic()
    while True:
        if manager.lost.poll(0):
            manager.lost.recv_multipart()
            manager.cluster = None
        now_s, served = time.monotonic(), manager.cluster is not None
        if not served and now_s >= hello_s:
            hello_s = now_s + HELLO_S
            manager.greet()
        if now_s - heard_s > (2 * SILENCE_S if served else WAIT_S):
            print(f"no manager at {endpoint}", file=sys.stderr)
            return 3
        if served and now_s - max(heard_s, pinged_s) > SILENCE_S:
            pinged_s = now_s
            manager.say("ping", token=1)
        if manager.socket.poll(200):
            code = manager.hear(msgpack.unpackb(manager.socket.recv_multipart()[1]))
            heard_s = time.monotonic()
            if code is not None:
                return code


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
