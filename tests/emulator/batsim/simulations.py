"""A simulation of a few jobs for tests, with a scheduler that says what the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched_emulator.batsim.platform import Host, PowerState, SleepState
from cosched_emulator.batsim.simulator import Options, Simulator
from cosched_emulator.batsim.workload import Ended, ExternalEvent, JobNumbers, read_workloads
from cosched_emulator.manager.manager import Manager
from cosched_plugin.protocol.messages import Belief, NodeClass

Events = list[dict[str, Any]]
PLAIN = (PowerState(1e9, 0.0, 0.0),)
WITH_SLEEP = (
    PowerState(1e9, 95.0, 150.0),
    PowerState(1e9, 10.0, 10.0),
    PowerState(0.5, 98.0, 98.0),
    PowerState(0.25, 125.0, 125.0),
)
PROFILES: Mapping[str, Any] = {
    "d10": {"type": "delay", "delay": 10},
    "d5": {"type": "delay", "delay": 5},
    "fails": {"type": "delay", "delay": 10, "ret": 3},
    "flops": {"type": "parallel_homogeneous", "cpu": 10e9, "com": 5},
    "total": {"type": "parallel_homogeneous_total", "cpu": 40e9, "com": 0},
    "uneven": {"type": "parallel", "cpu": [10e9, 30e9], "com": [0, 0, 0, 0]},
    "two": {"type": "composed", "repeat": 2, "seq": ["d5", "flops"]},
}


def job(name: str | int, profile: str = "d10", *, at: float = 0.0, res: int = 1, **fields: Any) -> dict[str, Any]:
    return {"id": name, "subtime": at, "res": res, "profile": profile, **fields}


class Talk:
    """A simulation of some jobs on four hosts, and what is said in it."""

    def __init__(
        self,
        folder: Path,
        jobs: Sequence[Mapping[str, Any]],
        *,
        events: Sequence[tuple[float, dict[str, Any]]] = (),
        sleep: bool = False,
        **options: Any,
    ) -> None:
        file = folder / "w.json"
        file.write_text(json.dumps({"jobs": jobs, "profiles": PROFILES}))
        numbers = JobNumbers()
        read, profiles, _ = read_workloads([str(file)], numbers)
        sleeps = {1: SleepState(1, 2, 3)} if sleep else {}
        hosts = [Host(f"h{number}", {}, WITH_SLEEP if sleep else PLAIN, sleeps) for number in range(4)]
        places = 2 if options.get("sharing") else 1
        manager = Manager([NodeClass(4, 1, 1, places, 0, 0, 0, 0)], Belief("none", "bulk-synchronous", ()), None)
        self.ended: list[Ended] = []
        self.said: Events = []
        external = [
            ExternalEvent(round(at * 1e6), {"timestamp": at, **event}, line)
            for line, (at, event) in enumerate(events, 1)
        ]
        self.simulator = Simulator(
            manager, hosts, read, profiles, Options(**options), external, ended=self.ended.append, numbers=numbers
        )

    def hear(self) -> dict[str, Any] | None:
        """Return the next message."""
        frame = self.simulator.next_message()
        if frame is None:
            return None
        message: dict[str, Any] = json.loads(frame)
        self.said += message["events"]
        return message

    def say(self, *events: tuple[str, dict[str, Any]], now: float | None = None, at: float | None = None) -> None:
        """Reply with events at a time, or now."""
        present = self.simulator.now_us / 1e6
        listed = [{"timestamp": present if at is None else at, "type": kind, "data": data} for kind, data in events]
        self.simulator.take(json.dumps({"now": now or at or present, "events": listed}).encode())

    def run(self, decide: Callable[[dict[str, Any]], Sequence[tuple[str, dict[str, Any]]]]) -> None:
        """Run to the end; ``decide`` gets each event."""
        while (message := self.hear()) is not None:
            self.say(*[each for event in message["events"] for each in decide(event)])

    def told(self, kind: str) -> list[tuple[float, dict[str, Any]]]:
        """Return the times and data of the events of one type so far."""
        return [(event["timestamp"], event["data"]) for event in self.said if event["type"] == kind]


def at_once(event: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Start a job on the lowest hosts as it is submitted."""
    if event["type"] != "JOB_SUBMITTED":
        return []
    return [
        execute(
            event["data"]["job_id"], f"0-{event['data']['job']['res'] - 1}" if event["data"]["job"]["res"] > 1 else "0"
        )
    ]


def execute(name: str, alloc: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("EXECUTE_JOB", {"job_id": name, "alloc": alloc, **more})


def kill(*names: str) -> tuple[str, dict[str, Any]]:
    return ("KILL_JOB", {"job_ids": list(names)})
