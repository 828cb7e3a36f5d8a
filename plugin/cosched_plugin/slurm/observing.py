"""Looking on: what a policy would do with the live queue, and why; advice in AdminComment; and a log of what really happened.

Nothing is touched but, in the mode `advise`, AdminComment. At every change a fresh scheduler is told the present state, so that each
decision is about the queue as it is, not as it would be had earlier decisions been followed. What following them would have brought
is for the emulator to say: the log of the jobs that ended is a scenario that `cosched-emulator simulate` and `study` run under any
policy, with and without sharing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from cosched_hwmodel.csv_names import encoded
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.common.allocation import nearest_layout
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import ENDED, swf_status
from cosched_plugin.protocol.messages import Action, NodeClass, RejectJob, StartJob, Welcome, starts_of
from cosched_plugin.protocol.scheduler import Scheduler
from cosched_plugin.site.driver import Driver, Outcome
from cosched_plugin.site.store import IN_MEMORY, Store
from cosched_plugin.slurm.actuator import Tools
from cosched_plugin.slurm.cluster import RULES, Cluster, label_of
from cosched_plugin.slurm.loop import Poller, welcome_of
from cosched_plugin.slurm.records import SlurmJob
from cosched_terminal.console import WARNING, Log

# Makes a scheduler that tells its reasons to a sink.
Make = Callable[[Welcome, Callable[[Mapping[str, Any]], None]], Scheduler]
MARK: Final = "cosched: "  # what our AdminComments begin with: others are not ours to replace
_WHY: Final = {
    "order": "it is first in the queue",
    "overtake": "no job ahead of it fits the nodes in service",
    "skip": "jobs ahead of it find no place",
    "backfill": "it is backfilled",
    "promise": "its promised start has come",
    "company": "it joins a group",
}


class Onlooker:
    """One cluster that is watched."""

    def __init__(
        self,
        poller: Poller,
        cluster: Cluster,
        make: Make,
        log: Log,
        say: Callable[[str], None],
        record: JobLog | None = None,
        tools: Tools | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """``say`` takes what would be done; ``tools`` write it into AdminComment, None: nothing is written."""
        self.driver = Driver(welcome_of(cluster, cluster.site), Store(IN_MEMORY), _Idle(), RULES)
        self._poller = poller
        self._cluster = cluster
        self._make = make
        self._log = log
        self._say = say
        self._record = record
        self._tools = tools
        self._clock = now_s
        self._advised: dict[int, str] = {}  # what was said last, by job
        self._left: dict[int, str] = {}
        self._latest_us = 0

    def begin(self) -> None:
        """Take the first look."""
        self._look(first=True)

    def turn(self) -> bool:
        """Poll, and tell what has changed; return whether Slurm has answered."""
        changed = self._poller.poll(self._clock())
        if changed:
            self._look()
        return changed is not None

    def next_due_s(self) -> float:
        """Return in how many seconds to poll again: nobody waits for an onlooker."""
        return 0.5

    def _look(self, *, first: bool = False) -> None:
        now_us = self._latest_us = max(self._latest_us, int(self._clock() * SECOND_US))
        look = self._cluster.look(now_us, self._poller.jobs, self._poller.nodes, self.driver.books)
        if first:
            self.driver.begin(now_us, look)
        else:
            self.driver.see(now_us, look)
        for number, why in self._cluster.left.items():
            if self._left.get(number) != why:
                self._log("left", f"job {number} would be left to Slurm: {why}", job=number)
        self._left = dict(self._cluster.left)
        if self._record is not None:
            self._record.see(self._poller.jobs, self._cluster)
        welcome = self.driver.inventory()
        facts: list[Mapping[str, Any]] = []
        actions = self._make(welcome, facts.append).handle(welcome.now_us, [])
        self._tell(actions, facts)

    def _tell(self, actions: list[Action], facts: list[Mapping[str, Any]]) -> None:
        reasons = {fact["job"]: fact for fact in facts if fact.get("kind") == "start"}
        shadow = next((fact for fact in facts if fact.get("kind") == "reserve"), None)
        advice: dict[int, str] = {}
        for action in actions:
            if isinstance(action, RejectJob):
                advice[action.job_id] = f"it can never be placed: {action.reason}"
            for start in starts_of(action):
                advice[start.job_id] = self._words(start, reasons.get(start.job_id, {}), shadow)
        for job_id, text in sorted(advice.items()):
            if self._advised.get(job_id) != text:
                self._advise(job_id, text)
        for job_id in sorted(self._advised.keys() - advice.keys()):
            job = self._cluster.records.get(job_id)
            if job is not None and job.state == "PENDING":  # otherwise Slurm has started it, or it is gone
                self._advise(job_id, "it waits")
        self._advised = advice

    def _words(self, start: StartJob, fact: Mapping[str, Any], shadow: Mapping[str, Any] | None) -> str:
        words = [f"start it on {','.join(self._cluster.names_of(start))}"]
        reason = fact.get("reason")
        if reason in _WHY:
            words.append(_WHY[reason])
        if reason == "backfill" and shadow is not None:
            at = time.strftime("%H:%M:%S", time.localtime(shadow["shadow_us"] / SECOND_US))
            words.append(f"and job {self._label(shadow['job'])} still starts at {at}")
        if "host" in fact:
            slowdown = fact.get("slowdown")
            beside = f"beside job {self._label(fact['host'])}"
            words.append(beside if slowdown is None else f"{beside}, {slowdown:.2f} times as slow as alone")
        return f"{words[0]}: {', '.join(words[1:])}" if words[1:] else words[0]

    def _label(self, job_id: int) -> str:
        job = self._cluster.records.get(job_id)
        return str(job_id) if job is None else label_of(job_id, job)

    def _advise(self, job_id: int, text: str) -> None:
        """Say it; and write it, unless somebody else has written there."""
        self._say(f"job {self._label(job_id)}: {text}")
        job = self._cluster.records.get(job_id)
        if self._tools is None or job is None or (job.admin_comment and not job.admin_comment.startswith(MARK)):
            return
        outcome: Outcome = self._tools.scontrol(
            "update", f"JobId={label_of(job_id, job)}", f"AdminComment={MARK}{text}"
        )
        if outcome is not None:
            self._log("not-written", f"AdminComment of job {job_id}: {outcome}", level=WARNING)


class _Idle:
    """Actuator of a driver that is never answered."""

    def carry_out(self, action: Action) -> Outcome:
        raise AssertionError(action)

    def withdraw(self, start: StartJob) -> bool:
        raise AssertionError(start)


# ---------------------------------------------------------------- what really happened


class JobLog:
    """A folder for the emulator: `trace.swf`, `jobs.csv` (processes per node, and use of nodes where it is known), `scenario.toml`.

    A job is written when it has ended. Users and names are numbers in the log; who they are is in `names.csv`, which an anonymous log
    does not have, nor Slurm's numbers of the jobs, nor the day.
    """

    def __init__(self, folder: str, cluster: Cluster, jobs: list[SlurmJob], *, anonymous: bool) -> None:
        """Begin a log: times count from the first submission among ``jobs``. UsageError where the folder exists."""
        try:
            Path(folder).mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"{folder}: expected a new folder: {error.strerror}") from error
        self.written = 0
        self.running = 0  # jobs that are seen, and have not ended
        self._anonymous = anonymous
        waiting = [job.submit_s for job in jobs if job.state not in ENDED and job.submit_s]
        self._zero_s = min(waiting, default=int(time.time()))
        self._submits: dict[int, int] = {}  # first instant of submission, by job
        self._done = {job.job_id for job in jobs if job.state in ENDED}
        self._users: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._queues: dict[str, int] = {}
        cores = sum(item.nodes * item.sockets * item.cores_per_socket for item in cluster.classes)
        self._swf = self._open(folder, "trace.swf")
        self._rows = self._open(folder, "jobs.csv")
        self._keys = None if anonymous else self._open(folder, "names.csv")
        self._write(self._swf, "; Version: 2.2", f"; MaxNodes: {len(cluster.names)}", f"; MaxProcs: {cores}")
        if not anonymous:
            self._write(self._swf, f"; UnixStartTime: {self._zero_s}")
        self._write(self._rows, "job,bound,cpu,network,disk,memory,ppn")
        if self._keys is not None:
            self._write(self._keys, "kind,number,name")
        self._write_scenario(folder, cluster)

    def _write_scenario(self, folder: str, cluster: Cluster) -> None:
        """Write the scenario, and the nodes as a file of their own where they differ."""

        def keys(item: NodeClass) -> str:
            return f'preset = "{item.sockets}x{item.cores_per_socket}x1"\nmemory_mb = {max(1, item.memory_mb)}'

        machine = f"nodes = {len(cluster.names)}\n{keys(cluster.classes[0])}"
        if len(cluster.classes) > 1:
            machine = 'file = "machine.toml"'
            nodes = self._open(folder, "machine.toml")
            self._write(nodes, *(f"[[nodes]]\ncount = {item.nodes}\n{keys(item)}\n" for item in cluster.classes))
            nodes.close()
        scenario = self._open(folder, "scenario.toml")
        self._write(
            scenario,
            f"[cluster]\n{machine}",
            '\n[truth]\ncontention = "none"',
            '\n[workload]\nswf = "trace.swf"\nannotations = "jobs.csv"\nminimum_estimate_s = 0.0\nlog_memory = false',
        )
        scenario.close()

    def see(self, jobs: Any, cluster: Cluster) -> None:
        """Write the jobs that have ended since."""
        self.running = 0
        for job in jobs:
            if job.partition not in cluster.site.partitions or job.job_id in self._done:
                continue
            self._submits.setdefault(job.job_id, job.submit_s)  # a requeue overwrites it
            if job.state in ENDED:
                self._done.add(job.job_id)
                if job.start_s and job.end_s > job.start_s - 1 and job.nodes:
                    self._end(job, cluster)
            elif job.nodes:
                self.running += 1

    def close(self) -> None:
        """Close the files."""
        for stream in (self._swf, self._rows, *([] if self._keys is None else [self._keys])):
            stream.close()

    def _end(self, job: SlurmJob, cluster: Cluster) -> None:
        self.written += 1
        number = self.written if self._anonymous else job.job_id
        submit_s = max(0, self._submits[job.job_id] - self._zero_s)
        # what it had run when it was last suspended or resumed, and what it has run since
        run_s = job.ran_s + job.end_s - job.suspend_s if job.suspend_s else job.end_s - job.start_s
        wait_s = max(0, job.start_s - self._zero_s - submit_s)
        traits, _ = cluster.site.traits_of(job)
        limit_s = 60 * job.limit_min if job.limit_min is not None else cluster.site.default_us // SECOND_US
        estimate_s = traits.estimate_us / SECOND_US if traits.estimate_us else limit_s
        processors, ppn = nearest_layout(max(len(job.nodes), job.tasks * job.cpus_per_task or job.cpus), len(job.nodes))
        fields = [
            number, submit_s, wait_s, max(1, run_s), processors, -1, -1, processors, f"{max(1.0, estimate_s, run_s):.3f}", -1,
            swf_status(job.state), self._number("user", self._users, job.user), -1, self._number("name", self._names, job.name),
            self._number("partition", self._queues, job.partition), -1, -1, -1,
        ]  # fmt: skip
        self._write(self._swf, " ".join(map(str, fields)))
        if traits.usage is None:
            self._write(self._rows, f"{number},,,,,,{ppn}")
        else:
            bound, *parts = traits.usage
            self._write(self._rows, f"{number},{bound},{','.join(f'{part / WHOLE_PPM:.6f}' for part in parts)},{ppn}")

    def _number(self, kind: str, known: dict[str, int], name: str) -> int:
        if name not in known:
            known[name] = len(known) + 1
            if self._keys is not None:
                self._write(self._keys, f"{kind},{known[name]},{encoded(name)}")
        return known[name]

    def _open(self, folder: str, name: str) -> TextIO:
        return open(Path(folder, name), "x", encoding="utf-8", newline="\n")

    def _write(self, stream: TextIO, *lines: str) -> None:
        """Append lines; they are on the disk if this process ends."""
        stream.write("\n".join(lines) + "\n")
        stream.flush()
