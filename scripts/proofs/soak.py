"""Run a live manager for a day: users submit, cancel, hold and drain, the scheduler is killed and stopped, planned faults strike.

Usage: .venv/bin/python -m scripts.proofs.soak [--hours 24] [--speed 100] [--policy lomarc-r] [--seed 1] [--json OUT]

Manager and scheduler are processes of their own; the manager checks its invariants after every step. At the end no job may be
lost or have ended twice, no hardware thread may have had two jobs at a time, and the resident memory of both processes must not
have grown: the median of the last quarter is at most five percent above that of the second. Exit code 0 if all checks pass.
"""

from __future__ import annotations

import argparse
import json
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from scripts.processes import Programs, environment
from scripts.progress import Progress
from scripts.proofs.kill_nine import held_twice

from cosched_emulator.errors import EmulatorError
from cosched_emulator.users import requests as r
from cosched_emulator.users.client import ManagerConnection, SilenceError
from cosched_plugin.protocol.messages import JobSpec

MANAGER, SCHEDULER = "manager", "scheduler"
NODES = 32
MINUTE_US = 60_000_000
SUBMISSIONS_PER_HOUR = 60
MOST_HELD = 20
FLAT = 1.05
PLAN = Path(__file__).with_suffix(".toml")


def main() -> int:
    options = parse_options()
    with tempfile.TemporaryDirectory(prefix="cosched-soak-") as folder:
        soak = Soak(options, Path(folder))
        with soak.programs:
            report = soak.run()
    print(json.dumps(report, indent=2))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if report["held"] else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="emulated hours")
    parser.add_argument("--speed", type=float, default=100.0, help="emulated seconds a second")
    parser.add_argument("--policy", default="lomarc-r")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="OUT", help="also write the report there")
    return parser.parse_args()


class Soak:
    """One day."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.draw = Random(options.seed)
        self.scheduler = f"ipc://{folder}/s"
        self.users = f"ipc://{folder}/u"
        self.db = folder / "accounts.db"
        self.progress = Progress()
        self.counts: Counter[str] = Counter()
        self.ours: list[int] = []  # jobs that were acknowledged
        self.held: list[int] = []
        self.resident: dict[str, list[tuple[float, float]]] = {MANAGER: [], SCHEDULER: []}
        plan = folder / "plan.toml"
        plan.write_text(PLAN.read_text(encoding="utf-8").format(seed=options.seed), encoding="utf-8")
        self.programs = Programs(folder, environment())
        machine = ("--nodes", str(NODES), "--node", "lomarc-ht", "--contention", "lomarc")
        clock = ("--clock", "scaled", "--speed", f"{options.speed:g}", "--until", f"{options.hours * 3600:g}")
        places = ("--bind", self.scheduler, "--users", self.users, "--db", str(self.db))
        self.programs.start(
            MANAGER, "cosched_emulator", "serve", *machine, *clock, *places, "--faults", str(plan), "--check"
        )
        self.start_scheduler()

    def start_scheduler(self) -> None:
        where = ("--connect", self.scheduler, "--policy", self.options.policy)
        self.programs.start(SCHEDULER, "cosched_plugin", "serve", *where)

    @property
    def is_over(self) -> bool:
        """Return whether the manager has ended."""
        return self.programs[MANAGER].poll() is not None

    # ------------------------------------------------------------ the day

    def run(self) -> dict[str, Any]:
        wall_s = self.options.hours * 3600 / self.options.speed
        began = time.monotonic()
        deadline = began + wall_s * 1.2 + 60
        every_s = 3600 / SUBMISSIONS_PER_HOUR / self.options.speed
        plugin_faults = sorted(began + self.draw.random() * wall_s for _ in range(round(self.options.hours)))
        goes_on_s = 0.0  # when a stopped scheduler continues
        next_s, shown_s = began + 1.0, began
        with ManagerConnection(self.users, 10.0) as connection:
            while not self.is_over:
                now = time.monotonic()
                if now > deadline:
                    return {"held": False, "why": "the manager has not ended in time", "log": self.programs.tail()}
                if goes_on_s and now >= goes_on_s:
                    goes_on_s = 0.0
                    self.programs[SCHEDULER].send_signal(signal.SIGCONT)
                if plugin_faults and now >= plugin_faults[0] and not goes_on_s:
                    plugin_faults.pop(0)
                    goes_on_s = self.plugin_fault(now, first_half=now - began < wall_s / 4)
                if now >= next_s:
                    next_s = now + self.draw.expovariate(1 / every_s)
                    self.act(connection)
                if now - shown_s >= 2.0:
                    shown_s = now
                    self.sample(now - began)
                    self.progress.bar(round(now - began), round(wall_s), f"s, {len(self.ours)} jobs")
                time.sleep(0.01)
        self.progress.clear()
        return self.report(time.monotonic() - began)

    def plugin_fault(self, now: float, *, first_half: bool) -> float:
        """Kill the scheduler, or stop it and return until when; kills come early only, so that its memory can be observed."""
        if first_half and self.draw.random() < 0.5:
            self.counts["scheduler killed"] += 1
            self.programs[SCHEDULER].kill()
            self.programs[SCHEDULER].wait(10)
            self.start_scheduler()
            return 0.0
        self.counts["scheduler stopped"] += 1
        self.programs[SCHEDULER].send_signal(signal.SIGSTOP)
        return now + self.draw.uniform(20, 400) / float(self.options.speed)

    def act(self, connection: ManagerConnection) -> None:
        """Do a random action of a user."""
        dice = self.draw.random()
        request: r.Request
        if dice < 0.72 or not self.ours:
            request = self.submission()
        elif dice < 0.82:
            request = r.CancelJobs((r.Target(self.draw.choice(self.ours[-50:])),))
        elif dice < 0.86 and len(self.held) < MOST_HELD:
            request = r.HoldJobs((r.Target(self.draw.choice(self.ours[-20:])),))
        elif dice < 0.94 and self.held:
            request = r.ReleaseJobs((r.Target(self.held.pop(0)),))
        elif dice < 0.97:
            request = r.DrainNodes((self.draw.randrange(NODES),), "soak")
        else:
            request = r.ResumeNodes(tuple(range(NODES)))
        name = type(request).__name__
        try:
            answer = connection.ask(request)
        except (SilenceError, EmulatorError) as error:
            if not self.is_over:
                self.counts[f"no answer: {error}"] += 1
            return
        if isinstance(answer, r.Done):
            self.counts[name] += 1
            if isinstance(request, r.HoldJobs) or (isinstance(request, r.SubmitJob) and request.held):
                self.held += answer.result.get("changed", answer.result.get("job_ids", ()))
            self.ours += answer.result.get("job_ids", ())
        else:
            self.counts[f"{name} refused: {answer.code}"] += 1

    def submission(self) -> r.SubmitJob:
        draw = self.draw
        limit_us = round(draw.uniform(5, 30)) * MINUTE_US
        shares = [draw.randrange(1, 8) for _ in range(3)]
        cpu, network = (1_000_000 * share // sum(shares) for share in shares[:2])
        bound = ("cpu", "network", "disk")[max(range(3), key=lambda index: shares[index])]
        after = draw.random() < 0.15 and self.ours[-5:]
        return r.SubmitJob(
            JobSpec(
                0,
                0,
                processes=draw.choice((1, 1, 2, 2, 4, 6)),
                estimate_us=limit_us,
                limit_us=limit_us if draw.random() < 0.8 else None,
                name="soak",
                usage=(bound, cpu, network, 1_000_000 - cpu - network, draw.randrange(100_000, 500_000)),
            ),
            run_us=max(MINUTE_US, round(limit_us * draw.uniform(0.1, 1.15))),
            tasks=tuple(range(draw.randrange(2, 6))) if draw.random() < 0.05 else (),
            at_once=draw.choice((0, 2)),
            after=(r.Dependency(draw.choice(("afterok", "afterany")), draw.choice(after)),) if after else (),
            held=draw.random() < 0.05,
            requeue=draw.random() < 0.7,
            exit_code=int(draw.random() < 0.05),
        )

    # ------------------------------------------------------------ results

    def sample(self, elapsed_s: float) -> None:
        for name, samples in self.resident.items():
            try:
                samples.append((elapsed_s, self.programs.memory_mb(name)))
            except (OSError, IndexError):
                continue  # it has ended

    def report(self, wall_s: float) -> dict[str, Any]:
        report: dict[str, Any] = {
            "held": False,
            "exit_code": self.programs[MANAGER].returncode,
            "wall_s": round(wall_s, 1),
            "acknowledged_jobs": len(self.ours),
            "done": dict(sorted(self.counts.items())),
        }
        faults = []
        connection = sqlite3.connect(self.db)
        try:
            report["faults"] = dict(connection.execute("SELECT kind, count(*) FROM faults GROUP BY kind ORDER BY kind"))
            report["steps"] = connection.execute("SELECT count(*) FROM journal").fetchone()[0]
            states = dict(connection.execute("SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state"))
            report["states"] = states
            known = {row[0] for row in connection.execute("SELECT id FROM jobs")}
            faults += [f"job {job_id} was acknowledged and is lost" for job_id in self.ours if job_id not in known]
            ends = connection.execute(
                "SELECT id, count(*) FROM changes WHERE what = 'job' AND state NOT IN ('PENDING', 'RUNNING', 'SUSPENDED') "
                "GROUP BY id HAVING count(*) <> 1"
            )
            faults += [f"job {job_id} has ended {times} times" for job_id, times in ends]
            faults += held_twice(connection)
        finally:
            connection.close()
        report["memory_mb"] = self.memory(faults)
        if self.programs[MANAGER].returncode != 0:
            faults.append(f"the manager's exit code is {self.programs[MANAGER].returncode}")
        report["faults_found"] = faults[:20]
        report["held"] = not faults
        if faults:
            report["log"] = self.programs.tail()
        return report

    def memory(self, faults: list[str]) -> dict[str, Any]:
        """Return the resident memory by quarters of the day, of the scheduler's last life."""
        told = {}
        for name, samples in self.resident.items():
            end_s = samples[-1][0]
            quarters = [
                [size for at_s, size in samples if part * end_s / 4 <= at_s <= (part + 1) * end_s / 4]
                for part in range(4)
            ]
            medians = [round(statistics.median(each), 2) for each in quarters if each]
            told[name] = medians
            if medians[-1] > FLAT * medians[1]:
                faults.append(f"the {name}'s memory has grown: {medians} MB")
        return told


if __name__ == "__main__":
    sys.exit(main())
