"""Record a short session of our own driver on a test bed: `python -m tests.plugin.slurm.record` writes recorded/easy.jsonl.gz.

The driver runs in this process, so that its clock is recorded with what it asks and is answered. `test_recorded.py` gives a driver of
today the same answers, and it must ask the same.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.plugin.slurm.bed import Bed, bed

from cosched_plugin.config import choose
from cosched_plugin.site.driver import Outcome
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.site.store import Store
from cosched_plugin.slurm.actuator import Commands, SlurmActuator
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import HttpTransport, Reply
from cosched_terminal.console import Log

FILE = Path(__file__).parent / "recorded" / "easy.jsonl.gz"
TURN_S = 0.25


class Recorded:
    """A transport and commands that write down what passes."""

    def __init__(self, one: Bed) -> None:
        self.rest = HttpTransport(one.rest)
        self.commands = Commands("tick")
        self.rows: list[dict[str, Any]] = []
        self.texts: dict[str, int] = {}

    def call(self, method: str, target: str, body: object = None) -> Reply:
        reply = self.rest.call(method, target, body)
        row: dict[str, Any] = {"ask": [method, target, body], "status": reply.status, "sent": reply.sent}
        if reply.text in self.texts:
            row["same_as"] = self.texts[reply.text]
        else:
            self.texts[reply.text] = len(self.rows)
            row["text"] = reply.text
        self.rows.append(row)
        return reply

    def scontrol(self, *arguments: str) -> Outcome:
        outcome = self.commands.scontrol(*arguments)
        self.rows.append({"scontrol": arguments, "outcome": outcome})
        return outcome

    def tick(self) -> None:
        self.commands.tick()


def happen(one: Bed, begun: float) -> None:
    """Do what users and operators do, in the course of 14 s."""

    def at(seconds: float) -> None:
        time.sleep(max(0.0, begun + seconds - time.monotonic()))

    whole = ("-n8", "-N2", "--ntasks-per-node=4", "-t", "1")
    at(0.5)
    for run_s in (1.2, 2.2, 1.7):
        one.submit(*whole, run_s=run_s, comment={"estimate_s": 2.5})
    one.submit("--array=1-3", "-n2", "-t", "1", run_s=0.6)
    big = one.submit("-N8", "-n32", "--ntasks-per-node=4", "-t", "1", run_s=1.0)
    at(2.0)
    gone = one.submit(*whole, run_s=1.0)
    one.run("scancel", str(gone))
    one.submit("-n6", run_s=0.8)
    one.run("scontrol", "update", "NodeName=n7", "State=DRAIN", "Reason=test")
    at(4.0)
    one.run("scontrol", "update", f"JobId={big}", "TimeLimit=3")
    one.run("scontrol", "update", "NodeName=n7", "State=RESUME")
    again = one.submit("-n4", "-N1", "--requeue", "-t", "2", run_s=2.0)
    at(7.5)
    one.run("scontrol", "requeue", str(again), ok=False)
    at(9.0)
    one.script("ctld-stop")
    one.script("ctld-start")


def main() -> None:
    """Record one session."""
    with bed() as one, tempfile.TemporaryDirectory() as folder:
        import os  # noqa: PLC0415

        os.environ.update(one.told)
        recorded, log = Recorded(one), Log("record")
        polls = Polls(Rest(recorded, "v0.0.38"))
        now = [time.time()]
        assert polls.poll(now[0])
        recorded.rows.insert(0, {"begin": now[0]})
        recorded.texts = {text: place + 1 for text, place in recorded.texts.items()}
        cluster = Cluster(polls, Site(partitions=("co",)), 1)
        clock = Clock(lambda: now[0])
        enforcer = Enforcer(
            cluster, SlurmActuator(cluster, recorded, clock, log), Store(f"{folder}/store"),
            lambda welcome: choose("easy").scheduler(welcome), clock, log,
        )  # fmt: skip
        enforcer.begin()
        begun = time.monotonic()
        thread = threading.Thread(target=happen, args=(one, begun))
        thread.start()
        while time.monotonic() < begun + 22:
            now[0] = time.time()
            recorded.rows.append({"turn": now[0]})
            enforcer.turn()
            time.sleep(TURN_S)
        thread.join(30)
        for row in one.jobs().values():
            print(row["job_id"], row["job_state"], row["nodes"], row["restart_cnt"])
    FILE.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(FILE, "wb", compresslevel=9, mtime=0) as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in recorded.rows).encode())
    print(FILE, FILE.stat().st_size)


if __name__ == "__main__":
    main()
