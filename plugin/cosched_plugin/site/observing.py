"""Observing: what a policy would do with the live queue, and why; advice in the manager; and a log of what really happened.

Nothing is touched but, in the mode `advise`, what a job's administrators write about it. At every change a fresh scheduler is told the
present state, so that each decision is about the queue as it is, not as it would be had earlier decisions been followed. What following
them would have brought is for the emulator to say: the log of the jobs that ended is a scenario that `cosched-emulator simulate` and
`study` run under any policy, with and without sharing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.common.allocation import nearest_layout
from cosched_plugin.common.errors import UsageError
from cosched_plugin.protocol.messages import Action, NodeClass, RejectJob, StartJob, Welcome, starts_of
from cosched_plugin.protocol.scheduler import Scheduler
from cosched_plugin.site.driver import Actuator, Driver, Outcome
from cosched_plugin.site.poll_loop import Clock, LoggedJob, Manager, PollLoop
from cosched_plugin.site.snapshots import PENDING
from cosched_terminal.console import WARNING, Log

# Makes a scheduler that tells its reasons to a sink.
Make = Callable[[Welcome, Callable[[Mapping[str, Any]], None]], Scheduler]
REST_S: Final = 0.5  # between two polls: nobody waits for an observer
MARK: Final = "cosched: "  # what our remarks begin with: others are not ours to replace
_WHY: Final = {
    "order": "it is first in the queue",
    "overtake": "no job ahead of it fits the nodes in service",
    "skip": "jobs ahead of it find no place",
    "backfill": "it is backfilled",
    "promise": "its promised start has come",
    "company": "it joins a group",
}


class _NoActuator:
    """That of a driver that is never answered."""

    def carry_out(self, action: Action) -> Outcome:
        raise AssertionError(action)

    def withdraw(self, start: StartJob) -> bool:
        raise AssertionError(start)


class Observer(PollLoop):
    """A manager that is watched."""

    def __init__(
        self,
        manager: Manager,
        make: Make,
        clock: Clock,
        log: Log,
        say: Callable[[str], None],
        job_log: JobLog | None = None,
        annotate: Callable[[int, str], Outcome] | None = None,
        actuator: Actuator | None = None,
    ) -> None:
        """``say`` takes what would be done; ``annotate`` writes it where a job's owner finds it; ``actuator``: of one that acts."""
        driver = Driver(manager.machine, None, actuator or _NoActuator(), manager.rules)
        super().__init__(manager, driver, clock, log, "would be" if actuator is None else "is")
        self._least_rest_s = REST_S
        self._make = make
        self._say = say
        self._job_log = job_log
        self._annotate = annotate
        self._advised: dict[int, str] = {}  # what was said last, by job

    def _decide(self) -> None:
        """Ask a fresh scheduler, and tell what has changed in its advice."""
        if self._job_log is not None:
            self._job_log.add(self.manager.history(self._job_log.done))
        welcome = self.driver.inventory()
        facts: list[Mapping[str, Any]] = []
        actions = self._make(welcome, facts.append).handle(welcome.now_us, [])
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
            job = self.driver.books.polled(job_id)
            if job is not None and job.state == PENDING:  # otherwise the manager has started it, or it is gone
                self._advise(job_id, "it waits")
        self._advised = advice

    def _words(self, start: StartJob, fact: Mapping[str, Any], shadow: Mapping[str, Any] | None) -> str:
        label = self.manager.label
        words = []
        reason = fact.get("reason")
        if reason in _WHY:
            words.append(_WHY[reason])
        if reason == "backfill" and shadow is not None:
            at = time.strftime("%H:%M:%S", time.localtime(shadow["shadow_us"] / SECOND_US))
            words.append(f"and job {label(shadow['job'])} still starts at {at}")
        if "host" in fact:
            slowdown = fact.get("slowdown")
            beside = f"beside job {label(fact['host'])}"
            words.append(beside if slowdown is None else f"{beside}, {slowdown:.2f} times as slow as alone")
        first = f"start it on {','.join(self.manager.names_of(start))}"
        return f"{first}: {', '.join(words)}" if words else first

    def _advise(self, job_id: int, text: str) -> None:
        self._say(f"job {self.manager.label(job_id)}: {text}")
        self._remark(job_id, text)

    def _remark(self, job_id: int, text: str) -> None:
        """Write what is said of a job where its owner finds it."""
        outcome = None if self._annotate is None else self._annotate(job_id, text)
        if outcome is not None:
            self.log("not-written", f"the remark on job {self.manager.label(job_id)}: {outcome}", level=WARNING)


# ---------------------------------------------------------------- what really happened


class JobLog:
    """A folder for the emulator: `trace.swf`, `jobs.csv` (processes per node, and use of nodes where it is known), `scenario.toml`.

    A job is written when it has ended. Users and names are numbers in the log; who they are is in `names.csv`, which an anonymous log
    does not have, nor the manager's numbers of the jobs, nor the day.
    """

    def __init__(
        self, folder: str, classes: Sequence[NodeClass], jobs: Iterable[LoggedJob], *, anonymous: bool
    ) -> None:
        """Begin a log: times count from the first submission among ``jobs``. UsageError where the folder exists."""
        try:
            Path(folder).mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"{folder}: expected a new folder: {error.strerror}") from error
        self.written = 0
        self.running = 0  # jobs that are seen, and have not ended
        self._anonymous = anonymous
        jobs = list(jobs)
        self.done = {job.job_id for job in jobs if job.status is not None}
        waiting = [job.submit_s for job in jobs if job.status is None and job.submit_s]
        self._zero_s = min(waiting, default=int(time.time()))
        self._submits: dict[int, int] = {}  # first instant of submission, by job
        self._numbers: dict[str, dict[str, int]] = {}  # of users, names of jobs and queues
        self._swf = self._open(folder, "trace.swf")
        self._rows = self._open(folder, "jobs.csv")
        self._keys = None if anonymous else self._open(folder, "names.csv")
        nodes = sum(item.nodes for item in classes)
        cores = sum(item.nodes * item.sockets * item.cores_per_socket for item in classes)
        self._write(self._swf, "; Version: 2.2", f"; MaxNodes: {nodes}", f"; MaxProcs: {cores}")
        if not anonymous:
            self._write(self._swf, f"; UnixStartTime: {self._zero_s}")
        self._write(self._rows, "job,bound,cpu,network,disk,memory,ppn")
        if self._keys is not None:
            self._write(self._keys, "kind,number,name")
        self._write_scenario(folder, classes)

    def _write_scenario(self, folder: str, classes: Sequence[NodeClass]) -> None:
        """Write the scenario, and the nodes as a file of their own where they differ."""

        def keys(item: NodeClass) -> str:
            return f'preset = "{item.sockets}x{item.cores_per_socket}x1"\nmemory_mb = {max(1, item.memory_mb)}'

        machine = f"nodes = {sum(item.nodes for item in classes)}\n{keys(classes[0])}"
        if len(classes) > 1:
            machine = 'file = "machine.toml"'
            with self._open(folder, "machine.toml") as nodes:
                self._write(nodes, *(f"[[nodes]]\ncount = {item.nodes}\n{keys(item)}\n" for item in classes))
        with self._open(folder, "scenario.toml") as scenario:
            self._write(
                scenario,
                f"[cluster]\n{machine}",
                '\n[truth]\ncontention = "none"',
                '\n[workload]\nswf = "trace.swf"\nannotations = "jobs.csv"\nminimum_estimate_s = 0.0\nlog_memory = false',
            )

    def add(self, jobs: Iterable[LoggedJob]) -> None:
        """Write the jobs that have ended since; ``jobs`` are those that are not done."""
        self.running = 0
        for job in jobs:
            self._submits.setdefault(job.job_id, job.submit_s)  # a requeue overwrites it
            self.running += job.on_nodes
            if job.status is not None:
                self.done.add(job.job_id)
                if job.nodes:
                    self._end(job)

    def close(self) -> None:
        """Close the files."""
        for stream in (self._swf, self._rows, *([] if self._keys is None else [self._keys])):
            stream.close()

    def _end(self, job: LoggedJob) -> None:
        self.written += 1
        number = self.written if self._anonymous else job.job_id
        submit_s = max(0, self._submits[job.job_id] - self._zero_s)
        wait_s = max(0, job.start_s - self._zero_s - submit_s)
        processors, ppn = nearest_layout(max(job.nodes, job.processors), job.nodes)
        fields = [
            number, submit_s, wait_s, max(1, job.run_s), processors, -1, -1, processors,
            f"{max(1.0, job.estimate_s, job.run_s):.3f}", -1, job.status, self._number("user", job.user), -1,
            self._number("name", job.name), self._number("partition", job.queue), -1, -1, -1,
        ]  # fmt: skip
        self._write(self._swf, " ".join(map(str, fields)))
        usage = ",,,,"
        if job.usage is not None:
            bound, *parts = job.usage
            usage = f"{bound},{','.join(f'{part / WHOLE_PPM:.6f}' for part in parts)}"
        self._write(self._rows, f"{number},{usage},{ppn}")

    def _number(self, kind: str, name: str) -> int:
        """Return the number of a user, a name of jobs or a queue."""
        known = self._numbers.setdefault(kind, {})
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
