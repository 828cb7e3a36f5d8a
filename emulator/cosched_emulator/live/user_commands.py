"""The commands of users and operators: the check whether a command is possible now, and its execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from cosched_emulator.live.dependencies import WaitingRoom
from cosched_emulator.live.owners import Owners
from cosched_emulator.live.submission import refusal_of, submission_of
from cosched_emulator.manager.changes import Origin
from cosched_emulator.manager.manager import Manager
from cosched_emulator.users.requests import (
    CancelJobs,
    DrainNodes,
    HoldJobs,
    Refused,
    ReleaseJobs,
    Request,
    ResumeNodes,
    SubmitJob,
    Target,
)
from cosched_emulator.users.server.requester import Requester
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, Event, JobEnded, JobHeld, JobReleased

MOST_JOBS: Final = 100_000  # jobs that have not ended; more are refused
MOST_JOBS_A_USER: Final = 20_000  # likewise for one user who is not an operator
MOST_LINKS: Final = 1_000_000  # dependencies of one submission: tasks times dependencies of each
JobChange: TypeAlias = CancelJobs | HoldJobs | ReleaseJobs


class Commands:
    """The commands on a live manager's jobs and nodes. Call `carry_out` only for commands that `refusal` does not refuse."""

    def __init__(
        self,
        manager: Manager,
        room: WaitingRoom,
        owners: Owners,
        apply: Callable[[Event], None],
        next_id: int,
        ended_state: Callable[[int], str | None],
        tasks_of: Callable[[int], Sequence[int]],
    ) -> None:
        """``apply`` applies an event immediately; the other parameters are those of `LiveManager`."""
        self._manager = manager
        self._room = room
        self._owners = owners
        self._apply = apply
        self._next_id = next_id
        self._ended_state = ended_state
        self._tasks_of = tasks_of

    def refusal(self, now_us: int, who: Requester, request: Request, *, replayed: bool = False) -> Refused | None:
        """Return why a command cannot be carried out now; None if it can. ``replayed``: it was carried out, and is in the journal."""
        match request:
            case SubmitJob():
                return self._refusal_of_submission(now_us, who, request, replayed=replayed)
            case CancelJobs() | HoldJobs() | ReleaseJobs():
                return self._refusal_of_jobs(who, request)
            case DrainNodes() | ResumeNodes():
                return self._refusal_of_nodes(who, request)
            case _:
                return Refused("request", f"a {type(request).__name__} changes nothing")

    def carry_out(self, now_us: int, who: Requester, request: Request) -> dict[str, Any]:
        """Carry out a command, and return the answer to the user."""
        match request:
            case SubmitJob():
                return self._submit(now_us, who, request)
            case CancelJobs() | HoldJobs() | ReleaseJobs():
                return self._change_jobs(now_us, who, request)
            case DrainNodes() | ResumeNodes():
                return self._change_nodes(now_us, request)
            case _:
                raise TypeError(f"a {type(request).__name__} is no command")

    def _refusal_of_submission(
        self, now_us: int, who: Requester, request: SubmitJob, *, replayed: bool
    ) -> Refused | None:
        submission = submission_of(request, who.name, now_us, self._manager.machine)
        refused = refusal_of(submission, self._manager, replayed=replayed)
        if refused is not None:
            return refused
        more = len(request.tasks) or 1
        unfinished = len(self._manager.jobs)
        if unfinished + more > MOST_JOBS:
            return Refused("limit", f"{unfinished} jobs have not ended; the limit is {MOST_JOBS}")
        owned = self._owners.jobs_of(who.name)
        if owned + more > MOST_JOBS_A_USER and not who.operator:
            text = f"{owned} jobs of yours have not ended; the limit is {MOST_JOBS_A_USER}"
            return Refused("limit", text)
        links = 0
        for number, (kind, job_id) in enumerate(request.after):
            members = self._tasks_of(job_id)
            tasks = members or (job_id,)
            what = f"a task of array {job_id}" if members else f"job {job_id}"
            links += len(tasks) * (len(request.tasks) or 1)
            if links > MOST_LINKS:
                return Refused(
                    "limit",
                    f"expected at most {MOST_LINKS} dependencies, one for each task and each job that it waits for",
                    "after",
                )
            for each in tasks:
                state = None if each in self._manager.jobs else self._ended_state(each)
                path = f"after[{number}].job_id"
                if each not in self._manager.jobs and state is None:
                    return Refused("missing", f"there is no job {each}", path)
                if kind == "afterok" and state not in (None, COMPLETED):
                    return Refused("value", f"{what} has ended {state}: afterok can never hold", path)
        return None

    def _submit(self, now_us: int, who: Requester, request: SubmitJob) -> dict[str, Any]:
        count = len(request.tasks) or 1
        after = frozenset(
            (kind, each)
            for kind, job_id in request.after
            for each in self._tasks_of(job_id) or (job_id,)
            if each in self._manager.jobs
        )
        first = self._next_id
        self._next_id += count
        array_id = first if request.tasks else None
        if array_id is not None and 0 < request.at_once < count:
            self._room.limit(array_id, request.at_once)
        ids = range(first, first + count)
        submission = submission_of(request, who.name, now_us, self._manager.machine)
        for job_id, task in zip(ids, request.tasks or (None,), strict=True):
            origin = Origin(who.name, array_id, task, tuple((item.kind, item.job_id) for item in request.after))
            job = self._manager.accept(submission.job(job_id), origin)
            self._owners.add(job_id, origin)
            begin_us = now_us + request.delay_us
            self._room.enter(now_us, job, origin, after, held=request.held, begin_us=begin_us)
        return {"job_ids": list(ids)}

    def _refusal_of_jobs(self, who: Requester, request: JobChange) -> Refused | None:
        """Return why none of the jobs can be changed; None if some can (the answer lists the others as unchanged)."""
        first = None
        for number, target in enumerate(dict.fromkeys(request.jobs)):
            problem = self._problem(who, target)
            if problem is None:
                return None
            first = first or problem._replace(path=f"jobs[{number}]")
        return first

    def _problem(self, who: Requester, target: Target) -> Refused | None:
        """Return why this user may not change a job, or the tasks of an array."""
        ids = self._jobs_meant(target)
        if not ids:
            return Refused("missing", f"there is no job {target_text(target)} that has not ended")
        if who.operator or self._owners.owner(ids[0]) == who.name:  # all tasks of an array belong to one user
            return None
        return Refused("permission", f"job {target_text(target)} is not yours")

    def _change_jobs(self, now_us: int, who: Requester, request: JobChange) -> dict[str, Any]:
        unchanged: list[list[int | str]] = []
        wanted: dict[int, None] = {}
        for target in dict.fromkeys(request.jobs):
            problem = self._problem(who, target)
            if problem is None:
                wanted.update(dict.fromkeys(self._jobs_meant(target)))
            else:
                unchanged.append([target_text(target), problem.text])
        changed = []
        for job_id in wanted:
            label = self._owners.label(job_id)
            why_not = self._change_job(now_us, who, job_id, request)
            if why_not is None:
                changed.append(job_id)
            else:
                unchanged.append([label, why_not])
        return {"changed": changed, "unchanged": unchanged}

    def _change_job(self, now_us: int, who: Requester, job_id: int, request: JobChange) -> str | None:
        """Cancel, hold or release one job; return the reason if that is impossible."""
        manager = self._manager
        if job_id not in manager.jobs:
            return "it has ended"  # together with another job of the same request
        waits = job_id in self._room.jobs
        if isinstance(request, CancelJobs):
            if waits:
                self._room.cancel(now_us, job_id, f"cancelled by {who.name}")
            else:
                manager.jobs[job_id].reason = f"cancelled by {who.name}"
                self._apply(JobEnded(job_id, CANCELLED))
            return None
        hold = isinstance(request, HoldJobs)
        if waits:
            return self._room.hold(now_us, job_id, hold=hold)
        if job_id in manager.running:
            return "it runs"
        if manager.pending[job_id].held == hold:
            return "it is held already" if hold else "it is not held"
        self._apply(JobHeld(job_id) if hold else JobReleased(job_id))
        return None

    def _refusal_of_nodes(self, who: Requester, request: DrainNodes | ResumeNodes) -> Refused | None:
        if not who.operator:
            return Refused("permission", "only operators drain and resume nodes")
        nodes = self._manager.machine.nodes
        if request.nodes and min(request.nodes) >= nodes:
            return Refused("missing", f"there is no node {request.nodes[0]}; the last one is {nodes - 1}", "nodes[0]")
        return None

    def _change_nodes(self, now_us: int, request: DrainNodes | ResumeNodes) -> dict[str, Any]:
        nodes = self._manager.nodes
        changed, unchanged = [], []
        for node in dict.fromkeys(request.nodes):
            if node >= self._manager.machine.nodes:
                unchanged.append([node, "there is no such node"])
                continue
            drained, broken = node in nodes.drained, node in nodes.broken
            if isinstance(request, DrainNodes):
                if drained:
                    unchanged.append([node, "it is drained already"])
                    continue
                events = nodes.drain(node, now_us, request.reason)
            else:
                if not drained and not broken:
                    unchanged.append([node, "it is in service"])
                    continue
                events = nodes.undrain(node, now_us)
            changed.append(node)
            for event in events:
                self._apply(event)
        return {"changed": changed, "unchanged": unchanged}

    def _jobs_meant(self, target: Target) -> list[int]:
        """Return the jobs of ``target`` that have not ended."""
        members = self._room.members.get(target.job_id)
        if members is None:
            return [target.job_id] if target.task is None and target.job_id in self._manager.jobs else []
        if target.task is None:
            return list(members.values())
        return [members[target.task]] if target.task in members else []


def target_text(target: Target) -> str:
    """Return the users' name of a job, or of a task of an array."""
    return str(target.job_id) if target.task is None else f"{target.job_id}_{target.task}"
