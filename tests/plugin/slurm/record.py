"""Record a short session of our own driver on a test bed: `python -m tests.plugin.slurm.record [RELEASE...]` writes recorded/easy-*.

`python -m tests.plugin.slurm.record limits [RELEASE...]` writes recorded/limits-*: what slurmdbd's part of slurmrestd tells of limits.

The driver runs in this process, so that its clock is recorded with what it asks and is answered. `test_recorded.py` gives a driver of
today the same answers, and it must ask the same. What it asks depends on what answers take: for it only they take time.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.plugin.slurm.bed import RELEASES, Bed, bed

from cosched_plugin.config import choose
from cosched_plugin.site.driver import Outcome
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.site.store import Store
from cosched_plugin.slurm import job_list, rest
from cosched_plugin.slurm.actuator import Commands, SlurmActuator
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import HttpTransport, Reply, file_token
from cosched_terminal.console import Log

FOLDER = Path(__file__).parent / "recorded"
TURN_S = 0.25


class Taken:
    """The monotonic clock of a driver for which only answers take time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the driver measure by this clock what answers take."""
        with patch.object(job_list, "time", self), patch.object(rest, "time", self):
            yield


class Recorded:
    """A transport and commands that write down what passes."""

    def __init__(self, one: Bed) -> None:
        self.rest = HttpTransport(one.rest, file_token(str(one.token)) if one.token.exists() else None)
        self.taken = Taken()
        self.commands = Commands("tick")
        self.rows: list[dict[str, Any]] = []
        self.texts: dict[str, int] = {}

    def call(self, method: str, target: str, body: object = None) -> Reply:
        begun = time.monotonic()
        reply = self.rest.call(method, target, body)
        took_s = round(time.monotonic() - begun, 6)
        self.taken.now_s += took_s
        row: dict[str, Any] = {
            "ask": [method, target, body],
            "took_s": took_s,
            "status": reply.status,
            "sent": reply.sent,
        }
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

    def kept(self) -> set[int]:
        return set()

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


def main(release: str) -> None:
    """Record one session."""
    file = FOLDER / f"easy-{release}.jsonl.gz"
    with ExitStack() as stack:
        one = stack.enter_context(bed(slurm=release))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ.update(one.told)
        recorded, log = Recorded(one), Log("record")
        chosen = Rest(HttpTransport(one.rest, recorded.rest.token))
        chosen.begin()
        now = [time.time()]
        recorded.rows.append({"begin": now[0], "version": chosen.version})
        polls = Polls(Rest(recorded, chosen.version))
        stack.enter_context(recorded.taken.used())
        assert polls.poll(now[0])
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
    with gzip.GzipFile(file, "wb", compresslevel=9, mtime=0) as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in recorded.rows).encode())
    print(file, file.stat().st_size)


LIMITS = """
add account phys
add account chem parent=phys
add user games,mail account=phys
add user news account=chem
add qos few set MaxJobsPerUser=2 GrpJobs=11 MaxJobsPerAccount=7 GrpTRES=gres/gpu=3,cpu=12 MaxTRESPerUser=cpu=8,mem=4000 \
    MaxTRESPerAccount=node=3 MaxWall=60 LimitFactor=2
add qos over set MaxJobsPerUser=4 flags=OverPartQOS
add qos half set GrpTRES=cpu=50 GrpJobs=3 flags=Relative
add qos part set GrpJobs=1
modify account phys set GrpJobs=9 GrpTRES=cpu=6,mem=9000
modify account chem set MaxJobs=5 GrpTRES=node=3
modify user mail set MaxJobs=2 MaxTRES=cpu=4
"""


def manage(one: Bed, lines: str) -> None:
    """Give commands to sacctmgr, one a line."""
    for line in lines.replace("\\\n", " ").split("\n"):
        if line.strip():
            one.run("sacctmgr", "-i", *line.split(), ok="Relative" not in line)  # 22.05 does not know it


def limits(release: str) -> None:
    """Record what is told of limits, and what is told after slurmdbd was killed."""
    file = FOLDER / f"limits-{release}.json.gz"
    with bed("--accounting", "--nodes", "2", slurm=release) as one:
        manage(one, LIMITS)
        one.run("scontrol", "update", "PartitionName=ex", "QOS=part")
        transport = HttpTransport(one.rest, file_token(str(one.token)) if one.token.exists() else None)
        chosen = Rest(transport)
        chosen.begin()
        version = chosen.version
        asked = (f"/slurmdb/{version}/associations", f"/slurmdb/{version}/qos", f"/slurm/{version}/partitions")
        found: dict[str, Any] = {target: transport.call("GET", target)[:2] for target in asked}
        os.kill(int((one.folder / "pids" / "slurmdbd.pid").read_text()), signal.SIGKILL)
        dead = {target: transport.call("GET", target)[:2] for target in asked}
    found = {"version": version, "answers": found, "dead": dead}
    with gzip.GzipFile(file, "wb", compresslevel=9, mtime=0) as stream:
        stream.write(json.dumps(found).encode())
    print(file, file.stat().st_size)


if __name__ == "__main__":
    what = limits if sys.argv[1:2] == ["limits"] else main
    for each in [word for word in sys.argv[1:] if word != "limits"] or RELEASES:
        what(each)
