"""Records the small conversations in tests/plugin/batsim/recorded: ``python -m tests.contract.record_batsim``.

The emulator is in Batsim's place; cosched's policies decide, or pybatsim's scheduler, at a socket (`scripts/pybatsim`).
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.contract.test_batsim import PYBATSIM
from tests.emulator.batsim.test_recorded import simulator_of
from tests.plugin.batsim.recordings import OWN

from cosched_emulator.batsim.run import Outputs
from cosched_emulator.couplings.batsim_link import BatsimLink
from cosched_plugin.batsim.adapter import Decisions, features_of
from cosched_plugin.batsim.site import SiteFile
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import Belief
from cosched_terminal.console import Log

HOSTS, JOBS = 6, 24
Ask = Callable[[bytes], bytes]
BELIEF = Belief("lomarc", "bulk-synchronous", ())


def write_files(folder: Path, seed: int, *, usage: bool) -> None:
    """Write a platform, a workload and events."""
    hosts = "".join(f'<host id="h{number}" speed="1Gf"/>\n' for number in range(HOSTS))
    head = '<?xml version="1.0"?>\n<platform version="4.1"><zone id="all" routing="Full">\n<host id="master" speed="1Gf"/>\n'
    (folder / "p.xml").write_text(f"{head}{hosts}</zone></platform>\n")
    random = Random(seed)
    now, jobs, profiles = 0.0, [], {}
    for number in range(1, JOBS + 1):
        now = round(now + random.expovariate(1 / 20), 3)
        run = round(random.uniform(5, 200), 1)
        name = f"p{number}"
        if number % 3:
            profiles[name] = {"type": "delay", "delay": run} | ({"ret": 2} if number % 7 == 0 else {})
        else:
            profiles[name] = {"type": "parallel_homogeneous", "cpu": run * 1e9, "com": 0}
        walltime = round(run * random.choice([0.7, 1.0, 1.5, 3.0]), 1)
        told: dict[str, Any] = {
            "id": number,
            "subtime": now,
            "walltime": walltime,
            "res": random.choice([1, 1, 2, 3, 6]),
            "profile": name,
        }
        if usage:
            cpu = random.randrange(100_000, 900_000)
            told["cosched"] = {"usage": [random.choice(["cpu", "network"]), cpu, 1_000_000 - cpu, 0, 100_000]}
        jobs.append(told)
    (folder / "w.json").write_text(json.dumps({"nb_res": HOSTS, "jobs": jobs, "profiles": profiles}) + "\n")
    events = [
        {"timestamp": 100, "type": "machine_unavailable", "resources": "0-1"},
        {"timestamp": 300, "type": "machine_available", "resources": "0-1"},
    ]
    (folder / "events.txt").write_text("".join(f"{json.dumps(event)}\n" for event in events))


def record(name: str, ask: Ask, options: Sequence[str], scheduler: str, *, seed: int, usage: bool = False) -> None:
    """Record one conversation."""
    folder = OWN / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_files(folder, seed, usage=usage)
    if "--events" not in options:
        (folder / "events.txt").unlink()
    batsim = " ".join(["batsim -p p.xml -m master -e out -w w.json", *options])
    (folder / "command.json").write_text(
        json.dumps({"batsim": batsim, "scheduler": scheduler, "batsim_exit": 0}, indent=1) + "\n"
    )
    lines = []
    with Outputs(str(folder / "out"), force=False) as outputs:
        simulator = simulator_of(folder, outputs)
        while (frame := simulator.next_message()) is not None:
            reply = ask(frame)
            lines += [{"from": "batsim", "text": frame.decode()}, {"from": "scheduler", "text": reply.decode()}]
            simulator.take(reply)
        outputs.finish(simulator, "cosched", 0.0, 0.0)
    text = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    (folder / "messages.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))
    print(name, len(lines), "messages")


def policy(name: str) -> Ask:
    """Return how a policy answers."""
    choice = choose(name)
    decisions = Decisions(choice.scheduler, features_of(choice.make()), SiteFile(belief=BELIEF), 0, Log(quiet=True))
    return decisions.answer


def main() -> None:
    """Record all."""
    record("cosched-easy", policy("easy"), ["--events", "events.txt"], "cosched-plugin batsim --policy easy", seed=1)
    sharing = ["--enable-compute-sharing"]
    record(
        "cosched-lomarc-r",
        policy("lomarc-r"),
        sharing,
        "cosched-plugin batsim --policy lomarc-r --site FILE",
        seed=2,
        usage=True,
    )
    for scheduler in ("easyBackfill", "fillerSched"):
        with tempfile.TemporaryDirectory() as place:
            endpoint = f"ipc://{place}/p.sock"
            process = subprocess.Popen(
                [str(PYBATSIM), "-v", "error", "-t", "0", "-s", endpoint, scheduler], stdout=subprocess.DEVNULL
            )
            link = BatsimLink(endpoint, wait_s=30, deadline_s=30)
            record(f"pybatsim-{scheduler}", link.ask, [], f"pybatsim {scheduler}", seed=3)
            link.close()
            process.wait()


if __name__ == "__main__":
    main()
