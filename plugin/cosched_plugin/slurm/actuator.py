"""What the driver does at Slurm: placements in one call each, groups, suspensions, limits, and taking back what did not come true.

A placement is a list of nodes and the release in one change. It is not begun twice: a job that Slurm shows on nodes is not placed
again. What slurmrestd has no word for is done by scontrol.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Container
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from cosched_plugin.common.slurm_notation import WAITING
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.site.enforcing import BaseActuator
from cosched_plugin.site.observing import MARK
from cosched_plugin.site.poll_loop import Clock, Silent
from cosched_plugin.slurm.cluster import MINUTE_US, TICK, Cluster
from cosched_plugin.slurm.dialect import Change, scontrol_words
from cosched_plugin.slurm.records import SlurmJob
from cosched_plugin.slurm.rest import Rest, Warned
from cosched_terminal.console import WARNING, Log

WAIT_S: Final = 25.0
RESUME_AFTER_US: Final = 2_100_000  # Slurm delays a resume within 2 s of the suspension, and gives no sign of it
# Without accounting, about half of the changes of a partition are refused whole by an error of something else (24.11, 26.05).
_STALE: Final = "Resource temporarily unavailable"
_TRIES: Final = 20
_SILENT: Final = re.compile(
    r"Unable to contact|Socket timed out|Transport|Connection|Zero Bytes|Communication", re.IGNORECASE
)


class Tools(Protocol):
    """Slurm's commands."""

    def scontrol(self, *arguments: str) -> Outcome:
        """Run scontrol; return why it was refused, or that nobody knows."""

    def kept(self) -> Container[int]:
        """Return the jobs that operators hold, by Slurm's numbers."""

    def tick(self) -> None:
        """Let Slurm look at its queue now: without that it does so once a second."""


def run_command(*words: str, timeout_s: float = WAIT_S, folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands; OSError or TimeoutExpired."""
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False,
        cwd=folder,
    )  # fmt: skip


class Commands:
    """The commands themselves."""

    def __init__(self, tick_partition: str | None) -> None:
        """``tick_partition``: one with a node that nobody uses; None: Slurm is not woken."""
        self._partition = tick_partition
        self._ticks: list[subprocess.Popen[bytes]] = []

    def scontrol(self, *arguments: str) -> Outcome:
        """Run scontrol within `WAIT_S`."""
        try:
            done = run_command("scontrol", *arguments)
        except subprocess.TimeoutExpired:
            return Unsettled(f"scontrol {arguments[0]}: no answer after {WAIT_S:g} s")
        except OSError as error:
            return f"scontrol: {error.strerror}"
        if done.returncode == 0:
            return None
        words = f"scontrol {' '.join(arguments)}: {(done.stderr or done.stdout).strip()[:300]}"
        return Unsettled(words) if _SILENT.search(words) else words

    def kept(self) -> Container[int]:
        """Ask squeue within `WAIT_S`; where it does not answer, none is known."""
        try:
            done = run_command("squeue", "-h", "-a", "-t", "PD", "-o", "%A %r")
        except (OSError, subprocess.TimeoutExpired):
            return ()
        return {
            int(number) for number in re.findall(r"^(\d{1,10}) JobHeldAdmin$", done.stdout, re.ASCII | re.MULTILINE)
        }

    def tick(self) -> None:
        """Have an allocation that ends at once, without waiting: when its node has run the Epilog, Slurm looks at its queue."""
        self._ticks = [tick for tick in self._ticks if tick.poll() is None]
        if self._partition is None or len(self._ticks) > 1:
            return
        # The explicit priority is needed: the test for the top priority spans all partitions.
        size = ("-N1", "-n1", "-t1")
        command = ["salloc", "-Q", "-J", TICK, "-p", self._partition, "--priority=4294967290", *size, "true"]
        nothing = subprocess.DEVNULL
        with suppress(OSError):
            self._ticks.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing))

    def close(self) -> None:
        """Wait for the commands that run, a short while."""
        end = time.monotonic() + 2.0
        for tick in self._ticks:
            try:
                tick.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                tick.kill()
                tick.wait()


class SlurmActuator(BaseActuator):
    """The actuator of a `Driver` at Slurm."""

    def __init__(self, cluster: Cluster, tools: Tools, clock: Clock, log: Log) -> None:
        super().__init__(cluster, clock, log)
        self._cluster = cluster
        self._rest = cluster.polls.rest
        self._tools = tools
        self._kept: Container[int] | None = None  # jobs that operators hold, where the last poll may not show that
        self._resumes: dict[int, int] = {}  # resumptions that are due later, by job

    def _carry_out(self, action: m.Action) -> Outcome:
        match action:
            case m.StartJob():
                return self._place(action)
            case m.StartTogether():
                return self._place_together(action)
            case m.RejectJob(job_id, reason):
                return self._reject(job_id, reason)
            case m.ReviseJob(job_id, _, limit_us):
                return self._grant(job_id, limit_us)
            case m.SuspendJob(job_id, to_disk):
                return "Slurm cannot suspend a job to disk" if to_disk else self._suspend(job_id)
            case m.ResumeJob(job_id):
                return self._resume(job_id)
            case m.RequeueJob(job_id):
                return self._command("requeuehold", job_id)
            case m.KillJob(job_id):
                return self._rest.cancel(self._cluster.label(job_id)) if job_id in self._cluster.records else None
            case _:
                return f"Slurm cannot do that: {type(action).__name__}"

    # ------------------------------------------------------------ placements

    def _place(self, start: m.StartJob) -> Outcome:
        job = self._cluster.records.get(start.job_id)
        if job is None or job.state not in WAITING:
            return f"it is {'gone' if job is None else job.state}, not waiting"
        if self._is_kept(job):
            self._touch(start.job_id)
            return "an operator holds it"
        nodes, partition = self._cluster.names_of(start), self._cluster.partition_for(start)
        if partition is None:
            return "there is a job of either partition on its nodes"
        change = Change(
            nodes,
            # Of its own it may ask for no number, or for a range: Slurm would add nodes, or take fewer.
            node_count=0 if job.fixed_nodes and job.node_count == len(nodes) else len(nodes),
            minutes=_other_limit(job, start.limit_us),
            begin_now=job.restarts > 0,  # a requeue has set it ahead
            release=True,
            partition="" if partition == job.partition else partition,
        )
        self._cluster.pins(start)
        outcome = self._change(start.job_id, change)
        self._cluster.placed_in[start.job_id] = partition
        if outcome is None:
            self._log("placed", f"job {self._cluster.label(start.job_id)} on {','.join(nodes)}", job=job.job_id)
        elif isinstance(outcome, Warned):  # it may have been released without its list
            self._undo(start)
        return outcome

    def _is_kept(self, job: SlurmJob) -> bool:
        """Return whether an operator holds a job: its record may be older than that."""
        if self._kept is None and self._rest.list.follows:
            self._kept = self._tools.kept()
        return self._kept is not None and job.job_id in self._kept

    def _place_together(self, group: m.StartTogether) -> Outcome:
        """Place all jobs of a group: one that is refused takes the others with it, as far as Slurm answers."""
        begun: list[m.StartJob] = []
        for start in group.starts:
            outcome = self._place(start)
            if isinstance(outcome, Unsettled):
                return outcome  # what is true of each job, snapshots will tell
            if outcome is not None:
                for other in begun:
                    self._undo(other)
                return f"job {self._cluster.label(start.job_id)} of a group: {outcome}"
            begun.append(start)
        return None

    def _undo(self, start: m.StartJob) -> None:
        """Take a placement back that may have come true already: such a job is requeued, and held."""
        problem = self._take_back(start.job_id)  # a job that runs is held, but its list cannot be cleared
        if problem is not None and not isinstance(problem, Warned):
            problem = self._command("requeuehold", start.job_id)
        if problem is not None:
            self._log(
                "not-undone", f"job {self._cluster.label(start.job_id)} cannot be taken back: {problem}", level=WARNING
            )

    def _has_begun(self, job_id: int) -> bool:
        """Ask again: the last poll may be older than the start, and a hold of a job that runs would make an operator's of it."""
        job = self._cluster.records.get(job_id)
        if job is None or self._rest.list.has_begun(job.job_id):
            return True
        with suppress(Silent):
            job = self._cluster.find(job_id, self._rest.look(job.job_id))
            if job is None or job.state not in WAITING:
                return True
            self._cluster.records[job_id] = job
        return False

    def _withdraw(self, job_id: int) -> Outcome:
        job = self._cluster.records.get(job_id)
        # Somebody may have held it meanwhile, and an operator's hold must stay one.
        outcome = self.clear(job_id) if job is not None and job.held else self._take_back(job_id)
        if isinstance(outcome, str) and not isinstance(outcome, Warned) and self._has_begun(job_id):
            self._command("release", job_id)  # it has begun in between
        return outcome

    def _take_back(self, job_id: int) -> Outcome:
        """Hold a pending job as its user would, and clear what the placement has changed."""
        # The hold comes first: a job without its list, and not held, would start anywhere.
        return self._command("uhold", job_id) or self.clear(job_id)

    def clear(self, job_id: int) -> Outcome:
        """Give a held job the list of nodes, the partitions and the limit back that it had."""
        job = self._cluster.records.get(job_id)
        if job is None:
            return None
        asked, now = self._cluster.asked(job_id), self._cluster.placed_in.pop(job_id, job.partition)
        limit = _other_limit(job, self._cluster.own_limit_us(job_id))
        return self._change(
            job_id, Change(asked.required, minutes=limit, partition="" if now == asked.partition else asked.partition)
        )

    def _change(self, job_id: int, change: Change) -> Outcome:
        if not change.release:  # then its state changes
            self._touch(job_id)
        return change_job(self._rest, self._tools, self._cluster.label(job_id), change)

    def follow_up(self) -> None:
        """Resume the jobs that could not be resumed so soon after their suspension, and hold those that Slurm has requeued."""
        self._kept = None
        for job_id in [job_id for job_id, due_us in self._resumes.items() if due_us <= self._clock.now_us()]:
            del self._resumes[job_id]
            problem = self._command("resume", job_id)
            if problem is not None:  # the driver asks again if it is not seen
                self._log(
                    "not-resumed", f"job {self._cluster.label(job_id)} cannot be resumed: {problem}", level=WARNING
                )
        # Slurm starts a requeued job by itself, on the nodes that it had: a dead one among them.
        for job_id in self._cluster.to_hold:
            problem = self._unless_silent(partial(self._take_back, job_id))
            self._log(
                "requeued",
                f"job {self._cluster.label(job_id)} was requeued, and is held" + (f"; {problem}" if problem else ""),
            )

    def due_us(self) -> int | None:
        """Return when a resumption is due."""
        return min(self._resumes.values(), default=None)

    # ------------------------------------------------------------ jobs that run

    def _grant(self, job_id: int, limit_us: int | None) -> Outcome:
        job = self._cluster.records.get(job_id)
        minutes = None if job is None else _other_limit(job, limit_us)
        return None if minutes is None else self._change(job_id, Change(minutes=minutes))

    def _suspend(self, job_id: int) -> Outcome:
        outcome = self._command("suspend", job_id)
        if outcome is None:
            self._cluster.suspended_us[job_id] = self._clock.now_us()
        return outcome

    def _resume(self, job_id: int) -> Outcome:
        due_us = self._cluster.suspended_us.get(job_id, 0) + RESUME_AFTER_US
        if due_us > self._clock.now_us():
            self._resumes[job_id] = due_us
            return None
        return self._command("resume", job_id)

    def _reject(self, job_id: int, reason: str) -> Outcome:
        """Leave a job held that the policy can never place, and say so; it is its user's, and is not cancelled."""
        self._cluster.rejected[job_id] = f"the policy can never place it: {reason}"
        if job_id in self._cluster.records:
            self._tools.scontrol("update", f"JobId={self._cluster.label(job_id)}", f"AdminComment={MARK}{reason}")
        return None

    def _touch(self, job_id: int) -> None:
        if job_id in self._cluster.records:
            self._rest.list.touch(self._cluster.records[job_id].job_id)

    def _command(self, verb: str, job_id: int) -> Outcome:
        self._touch(job_id)
        return self._tools.scontrol(verb, self._cluster.label(job_id)) if job_id in self._cluster.records else None

    def flush(self) -> None:
        """Let Slurm begin what was placed."""
        if self.placed:
            self._tools.tick()
        super().flush()


def change_job(rest: Rest, tools: Tools, label: str, change: Change) -> Outcome:
    """Change a job; a task of an array by scontrol, where slurmrestd cannot."""
    outcome: Outcome = None
    for _ in range(_TRIES if change.partition else 1):
        if rest.dialect.tasks or "_" not in label:
            outcome = rest.change(label, change)
        else:
            outcome = next((said for words in scontrol_words(label, change) if (said := tools.scontrol(*words))), None)
        if not isinstance(outcome, str) or _STALE not in outcome:
            break
    return outcome


def annotate(cluster: Cluster, tools: Tools, job_id: int, text: str) -> Outcome:
    """Write words into AdminComment, unless somebody else has written there."""
    job = cluster.records.get(job_id)
    if job is None or (job.admin_comment and not job.admin_comment.startswith(MARK)):
        return None
    return tools.scontrol("update", f"JobId={cluster.label(job_id)}", f"AdminComment={MARK}{text}")


def _other_limit(job: SlurmJob, limit_us: int | None) -> int | None:
    """Return a limit in minutes; None where there is none, or the job has it."""
    minutes = None if limit_us is None else -(-limit_us // MINUTE_US)
    return None if minutes == job.limit_min else minutes
