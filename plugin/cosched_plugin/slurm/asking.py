"""Asks Slurm to start pending jobs as guests, and puts back those that do not begin: one change of a job that is not held."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.slurm_notation import WAITING
from cosched_plugin.protocol.messages import Action, StartJob
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.site.poll_loop import Clock, Manager
from cosched_plugin.slurm.actuator import SlurmActuator, Tools
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.dialect import Change
from cosched_plugin.slurm.guests import Ask
from cosched_plugin.slurm.records import SlurmJob
from cosched_terminal.console import INFO, WARNING, Field, Log

BACK_OFF_US: Final = 5 * SECOND_US
PAUSE_US: Final = 30 * SECOND_US  # after a limit of all guests was met, unless one of them ends
CAPPED_US: Final = 600 * SECOND_US  # for so long after that one is asked at a time
_STARTED: Final = "2073"  # Job is no longer pending execution


class GuestActuator(SlurmActuator):
    """Asks Slurm to start guests, and puts back those that do not begin; it knows which it has asked for."""

    def __init__(self, cluster: Cluster, tools: Tools, clock: Clock, log: Log, *, dry: bool = False) -> None:
        super().__init__(cluster, tools, clock, log)
        self.dry = dry
        self.remarks: dict[int, str] = {}  # what is to be written of jobs
        self.asked: dict[int, Ask] = {}  # by the protocol's number
        self.there: Mapping[str, Sequence[SlurmJob]] = {}  # the jobs on each node, at the last look
        self.hopeless: Mapping[int, str] = {}  # those that are to be put back at once, and why
        # What is said of a start, in words and for programs
        self.told: Mapping[int, tuple[str, Mapping[str, Field]]] = {}
        self.paused_us = 0  # until when nobody is asked, and until when one at a time: a limit of all guests was met
        self.capped_us = 0
        self.counts = {"asked": 0, "begun": 0, "put_back": 0, "first": 0, "orphans": 0, "blind": 0}
        # Jobs that waited where their users have submitted them, at the last look
        self.seen_waiting: Container[int] = ()
        self._requeued: set[int] = set()  # guests that this process has requeued
        self._tried_us: dict[int, int] = {}  # when a job is next put back, if it is still there

    def carry_out(self, action: Action) -> Outcome:
        """Ask for a start; what is expected of running jobs is for the books alone."""
        if not isinstance(action, StartJob):
            return None
        job_id, label = action.job_id, self._cluster.label(action.job_id)
        outcome, job = self._unless_silent(lambda: self._ask(action)), self.key(job_id)
        words, facts = self.told.get(job_id, ("", {}))
        if outcome is None or isinstance(outcome, Unsettled):
            self.counts["asked"] += 1
            self.placed += 1
            text = f"job {label} {'would be' if self.dry else 'is'} asked to be a guest: {words}"
            self._log("asked", text, level=INFO, job=job, nodes=",".join(self._cluster.names_of(action)), **facts)
            if outcome is not None:
                self._log("unsettled", f"Slurm may or may not have received it: {outcome}", level=WARNING, job=job)
            return outcome
        self.refused += 1
        if _STARTED in outcome:
            self.counts["first"] += 1
            self._log("first", f"job {label}: Slurm itself has started it first", job=job)
        else:
            self._log("refused", f"Slurm refuses job {label} as a guest: {outcome}", level=WARNING, job=job)
        self.back_off(job_id)
        return outcome

    def key(self, job_id: int) -> int | str:
        """Return a job as the log has it for programs: its number in Slurm, or the name of an array's task."""
        return key_of(self._cluster.label(job_id))

    def _ask(self, start: StartJob) -> Outcome:
        job_id = start.job_id
        job = self._cluster.records.get(job_id)
        if job is None or job.state not in WAITING:
            return f"it is {'gone' if job is None else job.state}, not waiting"
        names = tuple(self._cluster.names_of(start))
        hosts = {name: frozenset(one.job_id for one in self.there.get(name, ())) for name in names}
        guests = self._cluster.site.guests[job.partition]
        outcome = None if self.dry else self._change(job_id, Change(names, partition=guests))
        if outcome is None or isinstance(outcome, Unsettled):
            self.asked[job_id] = Ask(self._clock.now_us(), hosts, job.start_s)
        return outcome

    def withdraw(self, start: StartJob) -> bool | None:
        """Put a job back that does not begin; None: it has begun by now."""
        job_id = start.job_id
        if not self.silence and self._has_begun(job_id):
            return None
        ask = self.asked.pop(job_id, None)
        reason = self._cluster.pending_reason(job_id)
        waited = "" if ask is None else f" in {(self._clock.now_us() - ask.at_us) / SECOND_US:.0f} s"
        why = self.hopeless.get(job_id) or f"it has not begun{waited} (Slurm's reason: {reason or 'None'})"
        if reason.startswith("QOS"):  # most likely of the partition's own QOS, which caps the guests
            self.paused_us, self.capped_us = (self._clock.now_us() + us for us in (PAUSE_US, CAPPED_US))
        self.put_back(job_id, why, "put_back")
        return True

    def put_back(self, job_id: int, why: str, kind: str) -> bool:
        """Give a job the partition back in which its user has submitted it, and no list of nodes; return whether it has that."""
        self._tried_us[job_id] = self._clock.now_us() + BACK_OFF_US  # its record may stay as it was for a turn
        problem = self._unless_silent(partial(self._put_back, job_id))
        self.counts[kind] += problem is None
        self.back_off(job_id)
        label, job = self._cluster.label(job_id), self.key(job_id)
        name = "put-back" if kind == "put_back" else "orphan"
        self.remarks[job_id] = f"no guest: {why}"
        if problem is None:
            self._log(name, f"job {label} is back: {why}", job=job, reason=why)
        elif isinstance(problem, str) and _STARTED in problem:
            self._log(name, f"job {label} is not put back, because it has started; {why}", job=job, reason=why)
        else:
            self._log(name, f"job {label} cannot be put back: {problem}; {why}", level=WARNING, job=job, reason=why)
        return problem is None

    def _put_back(self, job_id: int) -> Outcome:
        job = self._cluster.records.get(job_id)
        if job is None or self.dry:
            return None
        # Whatever its record says: that may be older than what was asked.
        return self._change(job_id, Change((), partition=self._cluster.site.home_of(job.partition)))

    def put_back_orphans(self, job_ids: Iterator[int]) -> None:
        """Put back what waits in a partition of guests, and was not asked by this process."""
        now_us = self._clock.now_us()
        self._tried_us = {job_id: at_us for job_id, at_us in self._tried_us.items() if at_us > now_us}
        for job_id in job_ids:
            if job_id not in self._tried_us and not self.silence:
                self.put_back(job_id, self._why_orphan(job_id), "orphans")

    def _why_orphan(self, job_id: int) -> str:
        if job_id in self._requeued:
            self._requeued.discard(job_id)
            return "cosched has requeued it"
        if self._cluster.records[job_id].partition in self._cluster.site.guests:
            return "it still has the list of nodes of an earlier request to be a guest"
        if self._cluster.records[job_id].restarts and job_id not in self.seen_waiting:
            return "Slurm has requeued it"  # its node has died, say
        return "it was pending in the partition of guests, where cosched had not put it" + (
            ": does another cosched-plugin run, on another machine?" if job_id in self.seen_waiting else ""
        )

    def back_off(self, job_id: int) -> None:
        """Let a job wait at least 5 s until it is asked again, and longer with every failure in a row."""
        now_us, manager = self._clock.now_us(), self._cluster
        # Whatever limit its reason names, which is that of the guests' partition
        Manager.back_off(manager, [job_id], now_us)
        manager.not_before_us[job_id] = max(manager.not_before_us.get(job_id, 0), now_us + BACK_OFF_US)

    def requeue(self, job: SlurmJob) -> Outcome:
        """Requeue a guest; return why that is not possible."""
        self._rest.list.touch(job.job_id)
        self._requeued.update(number for number, each in self._cluster.records.items() if each.job_id == job.job_id)
        return None if self.dry else self._unless_silent(lambda: self._tools.scontrol("requeue", job.label))

    def follow_up(self) -> None:
        """Do nothing: nothing is held or resumed here."""


def key_of(name: str) -> int | str:
    """Return a job's name as the log has it for programs."""
    return int(name) if name.isdecimal() else name
