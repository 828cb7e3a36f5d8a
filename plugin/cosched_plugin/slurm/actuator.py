"""What the driver does at Slurm: placements in one call each, groups, suspensions, limits, and taking back what did not come true.

A placement is `nodelist` and `hold: false` in one change. It is not begun twice: a job that Slurm shows on nodes is not placed again.
What slurmrestd has no word for is done by scontrol.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from cosched_plugin.common.slurm_notation import WAITING
from cosched_plugin.protocol.messages import (
    Action,
    KillJob,
    RejectJob,
    RequeueJob,
    ResumeJob,
    ReviseJob,
    StartJob,
    StartTogether,
    SuspendJob,
    starts_of,
)
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.slurm.cluster import MINUTE_US, Cluster, label_of
from cosched_plugin.slurm.rest import Rest
from cosched_terminal.console import WARNING, Log

WAIT_S: Final = 25.0
RESUME_AFTER_US: Final = 2_100_000  # Slurm delays a resume within 2 s of the suspension, and gives no sign of it
TICK: Final = "tick"  # the name of the jobs whose only use is to wake Slurm's scheduler
_SILENT: Final = re.compile(
    r"Unable to contact|Socket timed out|Transport|Connection|Zero Bytes|Communication", re.IGNORECASE
)


class Tools(Protocol):
    """Slurm's commands."""

    def scontrol(self, *arguments: str) -> Outcome:
        """Run scontrol; return why it was refused, or that nobody knows."""

    def tick(self) -> None:
        """Let Slurm look at its queue now: without that it does so once a second."""


class Commands:
    """The commands themselves."""

    def __init__(self, tick_partition: str | None) -> None:
        """``tick_partition``: one with a node that nobody uses; None: Slurm is not woken."""
        self._partition = tick_partition
        self._ticks: list[subprocess.Popen[bytes]] = []

    def scontrol(self, *arguments: str) -> Outcome:
        """Run scontrol within `WAIT_S`."""
        try:
            done = subprocess.run(
                ["scontrol", *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=WAIT_S,
                check=False,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return Unsettled(f"scontrol {arguments[0]}: no answer after {WAIT_S:g} s")
        except OSError as error:
            return f"scontrol: {error.strerror}"
        if done.returncode == 0:
            return None
        words = f"scontrol {' '.join(arguments)}: {(done.stderr or done.stdout).strip()[:300]}"
        return Unsettled(words) if _SILENT.search(words) else words

    def tick(self) -> None:
        """Have an allocation that ends at once, without waiting: when its node has run the Epilog, Slurm looks at its queue."""
        self._ticks = [tick for tick in self._ticks if tick.poll() is None]
        if self._partition is None or len(self._ticks) > 3:
            return
        # The explicit priority is needed: the test for the top priority spans all partitions.
        command = [
            "salloc",
            "-Q",
            "-J",
            TICK,
            "-p",
            self._partition,
            "--priority=4294967290",
            "-N1",
            "-n1",
            "-t1",
            "true",
        ]
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


class SlurmActuator:
    """The actuator of a `Driver` at Slurm."""

    def __init__(
        self,
        rest: Rest,
        tools: Tools,
        cluster: Cluster,
        now_us: Callable[[], int],
        limit_of: Callable[[int], int | None],
        log: Log,
    ) -> None:
        """``limit_of`` returns the limit that a job has by its own description, whatever it was granted."""
        self.placed = 0  # placements since the last tick
        self.refused = 0  # starts that were refused, in all
        self._rest = rest
        self._tools = tools
        self._cluster = cluster
        self._now_us = now_us
        self._limit_of = limit_of
        self._log = log
        self._silent = ""  # why Slurm is not asked for more, until it answers a poll
        self._resumes: dict[int, int] = {}  # resumptions that are due later, by job

    def heard(self) -> None:
        """Slurm has answered a poll: it may be asked again."""
        self._silent = ""

    def carry_out(self, action: Action) -> Outcome:
        """Carry an action out, once Slurm has answered the last one."""
        if self._silent:
            outcome: Outcome = self._silent
        else:
            outcome = self._carry_out(action)
        if isinstance(outcome, Unsettled):
            # The next call would block as long. It has not been made, so it is refused and not unsettled.
            self._silent = f"Slurm does not answer: {outcome.reason}"
            self._log("unsettled", f"it is not known whether this was done: {action}: {outcome.reason}", level=WARNING)
        elif outcome is not None:
            self._log("refused", f"Slurm refuses {_words(action)}: {outcome}", level=WARNING)
            starts = starts_of(action)
            self.refused += len(starts)
            self._cluster.back_off([start.job_id for start in starts], self._now_us())
        return outcome

    def _carry_out(self, action: Action) -> Outcome:
        match action:
            case StartJob():
                return self._place(action)
            case StartTogether():
                return self._place_together(action)
            case RejectJob(job_id, reason):
                return self._reject(job_id, reason)
            case ReviseJob(job_id, _, limit_us):
                return self._grant(job_id, limit_us)
            case SuspendJob(job_id, to_disk):
                return "no job can be suspended to disk here" if to_disk else self._suspend(job_id)
            case ResumeJob(job_id):
                return self._resume(job_id)
            case RequeueJob(job_id):
                return self._command("requeuehold", job_id)
            case KillJob(job_id):
                job = self._cluster.records.get(job_id)
                return None if job is None else self._rest.cancel(label_of(job_id, job))
            case _:
                return f"Slurm cannot do that: {type(action).__name__}"

    # ------------------------------------------------------------ placements

    def _place(self, start: StartJob) -> Outcome:
        job = self._cluster.records.get(start.job_id)
        if job is None or job.state not in WAITING:
            return f"it is {'gone' if job is None else job.state}, not waiting"
        nodes = self._cluster.names_of(start)
        body: dict[str, object] = {"nodelist": ",".join(nodes), "hold": False}
        if not job.most_nodes:  # of its own it asks for no number: without one, Slurm would add nodes, or take fewer
            body["nodes"] = [len(nodes), len(nodes)]
        minutes = _minutes(start.limit_us)
        if minutes is not None and minutes != job.limit_min:
            body["time_limit"] = minutes
        if job.restarts:  # a requeue has set it ahead
            body["begin_time"] = "now"
        outcome = self._rest.change(label_of(start.job_id, job), body)
        if outcome is None:
            self.placed += 1
            self._log("placed", f"job {label_of(start.job_id, job)} on {body['nodelist']}", job=job.job_id)
        return outcome

    def _place_together(self, group: StartTogether) -> Outcome:
        """Place all jobs of a group: one that is refused takes the others with it, as far as Slurm answers."""
        begun: list[StartJob] = []
        for start in group.starts:
            outcome = self._place(start)
            if isinstance(outcome, Unsettled):
                return outcome  # what is true of each job, looks will tell
            if outcome is not None:
                for other in begun:
                    self._undo(other)
                return f"job {start.job_id} of a group: {outcome}"
            begun.append(start)
        return None

    def _undo(self, start: StartJob) -> None:
        """Take a placement back that may have come true already: such a job is requeued, and held."""
        problem = self._take_back(start)
        if problem is not None:
            problem = self._command("requeuehold", start.job_id)
        if problem is not None:
            text = problem.reason if isinstance(problem, Unsettled) else problem
            self._log("not-undone", f"job {start.job_id} cannot be taken back: {text}", level=WARNING)

    def withdraw(self, start: StartJob) -> bool:
        """Hold a job again that did not start in time, and let it wait a while."""
        job = self._cluster.records.get(start.job_id)
        self._cluster.back_off([start.job_id], self._now_us())
        # Somebody may have held it meanwhile, and an operator's hold must stay one.
        problem = self._silent or (self.clear(start.job_id) if job is not None and job.held else self._take_back(start))
        if isinstance(problem, Unsettled):
            self._silent = f"Slurm does not answer: {problem.reason}"
        reason = "" if job is None else f" ({job.reason})"
        also = "" if problem is None else f", and cannot be taken back: {problem}"
        self._log("withdrawn", f"job {start.job_id} has not started in time{reason}{also}", level=WARNING)
        return True

    def _take_back(self, start: StartJob) -> Outcome:
        """Hold a pending job as its user would, and clear what the placement has changed."""
        job = self._cluster.records.get(start.job_id)
        if job is None:
            return None
        # The hold comes first: a job without its list, and not held, would start anywhere.
        return self._command("uhold", start.job_id) or self.clear(start.job_id)

    def clear(self, job_id: int) -> Outcome:
        """Take the list of nodes from a held job, and give it the limit back that it had."""
        job = self._cluster.records.get(job_id)
        if job is None:
            return None
        body: dict[str, object] = {"nodelist": ""}
        minutes = _minutes(self._limit_of(job_id))
        if minutes is not None and minutes != job.limit_min:
            body["time_limit"] = minutes
        return self._rest.change(label_of(job_id, job), body)

    # Slurm starts a requeued job by itself, on the nodes that it had: a dead one among them.
    def hold_requeued(self) -> None:
        """Hold the jobs that Slurm has requeued, and clear their lists."""
        for job_id in self._cluster.to_hold:
            problem = self._silent or self._command("uhold", job_id) or self.clear(job_id)
            if isinstance(problem, Unsettled):
                self._silent = f"Slurm does not answer: {problem.reason}"
            self._log("requeued", f"job {job_id} was requeued, and is held" + (f"; {problem}" if problem else ""))

    # ------------------------------------------------------------ jobs that run

    def _grant(self, job_id: int, limit_us: int | None) -> Outcome:
        job, minutes = self._cluster.records.get(job_id), _minutes(limit_us)
        if job is None or minutes is None or minutes == job.limit_min:
            return None
        return self._rest.change(label_of(job_id, job), {"time_limit": minutes})

    def _suspend(self, job_id: int) -> Outcome:
        outcome = self._command("suspend", job_id)
        if outcome is None:
            self._cluster.suspended_us[job_id] = self._now_us()
        return outcome

    def _resume(self, job_id: int) -> Outcome:
        due_us = self._cluster.suspended_us.get(job_id, 0) + RESUME_AFTER_US
        if due_us > self._now_us():
            self._resumes[job_id] = due_us
            return None
        return self._command("resume", job_id)

    def resume_due(self) -> None:
        """Resume the jobs that could not be resumed so soon after their suspension."""
        for job_id in [job_id for job_id, due_us in self._resumes.items() if due_us <= self._now_us()]:
            del self._resumes[job_id]
            problem = self._command("resume", job_id)
            if problem is not None:  # the driver asks again if it is not seen
                self._log("not-resumed", f"job {job_id} cannot be resumed: {problem}", level=WARNING)

    def due_us(self) -> int | None:
        """Return when a resumption is due."""
        return min(self._resumes.values(), default=None)

    def _reject(self, job_id: int, reason: str) -> Outcome:
        """Leave a job held that the policy can never place, and say so; it is its user's, and is not cancelled."""
        self._cluster.rejected[job_id] = f"the policy can never place it: {reason}"
        job = self._cluster.records.get(job_id)
        if job is not None:
            self._tools.scontrol("update", f"JobId={label_of(job_id, job)}", f"AdminComment=cosched: {reason}")
        return None

    def _command(self, verb: str, job_id: int) -> Outcome:
        job = self._cluster.records.get(job_id)
        return None if job is None else self._tools.scontrol(verb, label_of(job_id, job))

    def wake_slurm(self) -> None:
        """Let Slurm begin what was placed."""
        if self.placed:
            self.placed = 0
            self._tools.tick()


def _words(action: Action) -> str:
    starts = starts_of(action)
    if starts:
        return f"the start of job {', '.join(str(start.job_id) for start in starts)}"
    return f"{type(action).__name__} of job {getattr(action, 'job_id', '')}"


def _minutes(limit_us: int | None) -> int | None:
    return None if limit_us is None else -(-limit_us // MINUTE_US)
