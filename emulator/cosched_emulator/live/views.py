"""The manager's answers to queries of users: plain maps of integers, numbers, texts and lists. This module changes no state.

Times are seconds under names that end in ``_s``. A table is ``{"columns": [name], "rows": [[value]]}``: for ten thousand jobs it
costs a third of a list of maps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.errors import AccountingError
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.start_estimates import StartEstimates
from cosched_emulator.manager.managed_job import ABSENT, RUNNING, SUSPENDED, ManagedJob
from cosched_emulator.manager.node_states import NodeStates
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.offered import HELD, NODE_STATES, QUEUED, UNSERVED
from cosched_emulator.users import requests as r
from cosched_emulator.users.idset import idset
from cosched_emulator.workload.job import TERMS_TOLD
from cosched_hwmodel.units import MARK, SECOND_US, WHOLE_PPM
from cosched_plugin.common.allocation import Machine, room_on
from cosched_plugin.common.slots import Member, members_of, predict
from cosched_plugin.protocol.messages import SET_ASIDE, JobSpec, Turn

# The jobs on each node: derived from the running jobs, for the tables of users.


class NodeUse(NamedTuple):
    """By node: ids of the jobs that hold threads on it, ascending; the number of threads, in whatever slots; the memory.

    ``resources`` are the countable ones of its jobs, by name and node.
    """

    jobs: list[list[int]]
    threads: list[int]
    memory_mb: list[int]
    resources: Mapping[str, list[int]]

    def resources_of(self, machine: Machine, nodes: Collection[int]) -> dict[str, dict[str, int]]:
        """Return how much some nodes have of each countable resource that is there, and how much of it is used."""
        counted = {name: counts for name, counts in machine.resources.items() if not name.startswith(MARK)}
        found = {name: amount(counts, self.resources[name], nodes) for name, counts in counted.items()}
        return {name: each for name, each in found.items() if each["all"]}

    def neighbours(self, job: ManagedJob) -> list[int]:
        """Return the ids of the jobs that share a node with a running job."""
        found: set[int] = set()
        if not job.on_disk:
            for first, count, _, _ in job.runs:
                found.update(*self.jobs[first : first + count])
            found.discard(job.id)
        return sorted(found)

    def state(self, node: int, machine: Machine, nodes: NodeStates) -> str:
        """Return a node's state, one of `offered.NODE_STATES`."""
        if node in nodes.broken:
            return "DOWN"
        busy = bool(self.jobs[node])
        if nodes.state_of(node)[0] == "DRAINED":
            return "DRAINING" if busy else "DRAINED"
        if not busy:
            return "IDLE"
        return "ALLOCATED" if self.threads[node] >= machine.threads_of[node] else "MIXED"


def amount(there: Sequence[int], used: Sequence[int], nodes: Collection[int]) -> dict[str, int]:
    """Return how much some nodes have of what is counted by node, and how much of it is used."""
    return {"all": sum([there[node] for node in nodes]), "used": sum([used[node] for node in nodes])}


def node_use(machine: Machine, running: Mapping[int, ManagedJob]) -> NodeUse:
    """Return the jobs on each node; jobs on disk are on none."""
    jobs: list[list[int]] = [[] for _ in range(machine.nodes)]
    masks, memories_mb = [0] * machine.nodes, [0] * machine.nodes
    resources = {name: [0] * machine.nodes for name in machine.resources}
    for job_id, job in sorted(running.items()):
        if job.on_disk:
            continue
        memory_mb = job.job.spec.memory_mb
        for first, count, mask, processes in job.runs:
            for node in range(first, first + count):
                jobs[node].append(job_id)
                masks[node] |= mask
                memories_mb[node] += processes * memory_mb
                for name, taken in job.job.spec.resources:
                    if name in resources:
                        resources[name][node] += taken
    return NodeUse(jobs, [mask.bit_count() for mask in masks], memories_mb, resources)


def node_list(job: ManagedJob) -> str:
    """Return the nodes of a running job as text."""
    return idset([node for first, count, _, _ in job.runs for node in range(first, first + count)])


# The time sharing of a manager for the tables of users: the matrix of slots, what runs now, and CPU shares.

SLOT_COLUMNS: Final = ("slot", "share")  # more columns of the queue, where jobs share time


class SlotView:
    """A snapshot of a manager whose jobs share time."""

    def __init__(self, live: LiveManager, processes: Rotating) -> None:
        self._live = live
        self._running = live.manager.running
        self._rotating = processes

    @cached_property
    def _company(self) -> Mapping[int, set[int]]:
        """Return, by job, the jobs that run at the same time as it under the present rotation, on whatever nodes."""
        members = {job_id: Member(job.slot, job.layers, unpaired=False) for job_id, job in self._running.items()}
        found: dict[int, set[int]] = {job_id: set() for job_id in members}
        for turn in self._rotating.rotation.turns or (Turn((0,)),):
            together = members_of(turn, members)
            for job_id in together:
                found[job_id].update(together)
        return found

    def together(self, job: ManagedJob, neighbours: Sequence[int]) -> list[int]:
        """Return those jobs on a job's nodes that run at the same time as it."""
        company = self._company[job.id]
        return [other for other in neighbours if other in company]

    def elapsed_us(self, job: ManagedJob) -> int:
        """Return for how long a running job could run since its start; its limit counts this time."""
        return self._rotating.dispatched_us(job, self._live.now_us)

    def columns(self, job: ManagedJob) -> tuple[Any, ...]:
        """Return the values of `SLOT_COLUMNS`."""
        if job.id not in self._running:
            return None, None
        return job.slot, _part(job.shares[0]) if job.shares else None

    def details(self, job: ManagedJob) -> dict[str, Any]:
        """Return what `job` tells besides of a job that has not ended."""
        told: dict[str, Any] = {}
        if job.id in self._running:
            told["predicted"] = _part(predict(job.shares))
            told["shares"] = [_part(share) for share in job.shares]
            told["quanta"] = job.quanta
            told["progress"] = self._rotating.work_us(job, self._live.now_us) / job.job.run_us
            told["runs_as"] = self._rotating.role_of(job.id)
        return told

    def matrix(self) -> dict[str, Any]:
        """Return the rotation, what runs now, and the jobs of each slot."""
        rotating, label = self._rotating, self._live.owners.label
        present = rotating.present
        rows: dict[int, list[ManagedJob]] = {}
        for _, job in sorted(self._running.items()):
            rows.setdefault(job.slot, []).append(job)
        return {
            "quantum_s": rotating.quantum_us / SECOND_US,
            "quantum": None if present is None else present.number,
            "began_s": None if present is None else present.begin_us / SECOND_US,
            "turn": None if present is None else _turn(present.turn, label),
            "left": None if present is None else present.left,
            "turns": [_turn(turn, label) for turn in rotating.rotation.turns],
            "rows": [{"slot": slot, "jobs": [self._cell(job) for job in jobs]} for slot, jobs in sorted(rows.items())],
        }

    def _cell(self, job: ManagedJob) -> dict[str, Any]:
        job_id = job.id
        return {
            "job": self._live.owners.label(job_id),
            "node_list": node_list(job),
            "share": _part(job.shares[0]) if job.shares else None,
            "predicted": _part(predict(job.shares)),
            "quanta": job.quanta,
            "runs_as": self._rotating.role_of(job_id),
        }


def _turn(turn: Turn, label: Callable[[int], str]) -> dict[str, Any]:
    return {"slots": list(turn.slots), "quanta": turn.quanta, "guests": [label(job_id) for job_id in turn.guests]}


def _part(share_ppm: int) -> float:
    return share_ppm / WHOLE_PPM


JOB_COLUMNS: Final = (
    "job_id", "array_id", "array_index", "name", "user", "state", "reason", "submit_s", "start_s", "elapsed_s", "limit_s",
    "processes", "nodes", "node_list", "shares_with", "slowdown", "priority", "resources", "licences",
    *TERMS_TOLD,
)  # fmt: skip
_TERMS: Final = attrgetter(*TERMS_TOLD)
NODE_COLUMNS: Final = (
    "node", "state", "reason", "threads", "threads_used", "memory_mb", "memory_used_mb", "jobs", "slowed",
    "resources", "partitions",
)  # fmt: skip
_MOST_SHOWN: Final = 10_000  # jobs of one answer
# Fields of a job that its row in the queue has, most of them in seconds.
_TOLD_OTHERWISE: Final = frozenset({"id", "submit_us", "processes", "estimate_us", "limit_us", "user", "name"})
NO_WEB: Final = r.Refused("missing", "this manager has no web view: serve it with --web HOST:PORT")
NO_ESTIMATES: Final = r.Refused("missing", "this manager makes no estimates of starts: serve it with --estimate-starts")


def answer_query(
    live: LiveManager,
    accounting: Accounting,
    status: Callable[[], dict[str, Any]],
    request: r.Request,
    *,
    served: bool = True,
    estimates: StartEstimates | None = None,
) -> r.Done | r.Refused:
    """Return the answer to a query.

    ``status`` returns the process's own state and that of its scheduler; ``served`` tells whether there is a scheduler.
    """
    view = _View(live, served=served)
    try:
        if isinstance(request, r.ListStarts):
            return NO_ESTIMATES if estimates is None else _starts(view, estimates, request.user)
        return _answer(view, accounting, status, request)
    except AccountingError as error:
        return r.Refused("accounting", str(error))


def _answer(
    view: _View, accounting: Accounting, status: Callable[[], dict[str, Any]], request: r.Request
) -> r.Done | r.Refused:
    live = view.live
    now_s = live.now_us / SECOND_US
    match request:
        case r.ListJobs(user):
            return r.Done({"now_s": now_s, **view.jobs(user)})
        case r.ListNodes():
            return r.Done({"now_s": now_s, **view.nodes()})
        case r.ShowJobs(targets):
            answer = _show_jobs(view, accounting, targets)
            if isinstance(answer, r.Done):  # job numbers are valid within one run only
                return r.Done({**answer.result, "run": accounting.meta.get("run", "")})
            return answer
        case r.ListHistory(user, most):
            return r.Done(
                {"now_s": now_s, "jobs": [r.Fields(r.ended_job(row)) for row in accounting.history(user, most)]}
            )
        case r.ShowStatus():
            return r.Done(_status(view, accounting, status))
        case r.ShowConfig():
            config = json.loads(accounting.meta.get("scenario", "{}"))
            return r.Done({"now_s": now_s, "run": accounting.meta.get("run", ""), "config": config})
        case r.ShowOverview(most):
            overview = {"status": _status(view, accounting, status), "jobs": view.jobs("", most), "nodes": view.nodes()}
            if view.slots is not None:
                overview["slots"] = view.slots.matrix()
            return r.Done({**overview, "decisions": [[at_us / SECOND_US, text] for at_us, text in live.decisions]})
        case _:
            return r.Refused("request", f"{type(request).__name__} is no question")


class _View:
    """A snapshot of a manager, with the data that several tables need."""

    def __init__(self, live: LiveManager, *, served: bool) -> None:
        self.live = live
        self._queued = QUEUED if served else UNSERVED
        self.manager = live.manager
        self.machine = live.manager.machine
        processes = live.manager.processes
        self.slots = None if processes is None else SlotView(live, processes)
        self.job_columns = JOB_COLUMNS if processes is None else (*JOB_COLUMNS, *SLOT_COLUMNS)
        # Capacity of an empty node of each kind: (threads, memory); for the number of nodes that a pending job needs.
        self._kinds = sorted({(kind.threads, kind.memory_mb) for kind in self.machine.classes})

    @cached_property
    def node_use(self) -> NodeUse:
        """Return the jobs on each node."""
        return node_use(self.machine, self.manager.running)

    def unfinished_jobs(self, user: str = "") -> Iterator[ManagedJob]:
        """Yield the running jobs by id, then the pending ones in order of submission; only those of ``user`` if it is not empty."""
        if user:
            mine = list(self.live.jobs_of(user))
            running = {job.id: job for job in mine if job.id in self.manager.running}
            pending = [job for job in mine if job.id not in running]
        else:
            running = self.manager.running
            waiting = [entry.job for entry in self.live.waiting.values()]
            pending = [*self.manager.pending.values(), *waiting, *self.manager.unseen.values()]
        yield from [job for _, job in sorted(running.items())]
        yield from sorted(pending, key=_SUBMISSION)

    def jobs(self, user: str, most: int | None = None) -> dict[str, Any]:
        """Return a table of at most ``most`` jobs that have not ended, and the number of jobs left out."""
        rows = [self._row(job) for job in islice(self.unfinished_jobs(user), most)]
        left_out = 0 if most is None else max(0, len(self.manager.running) + self._waiting() - most)
        return {"columns": self.job_columns, "rows": rows, "left_out": left_out}

    def nodes(self) -> dict[str, Any]:
        """Return a table of the nodes."""
        there, machine, nodes = self.node_use, self.machine, self.manager.nodes
        partitions = self.live.gate.binding.members()
        rows = [
            (
                node,
                there.state(node, machine, nodes),
                nodes.state_of(node)[1],
                machine.threads_of[node],
                there.threads[node],
                machine.memory_mb[node],
                there.memory_mb[node],
                [self.live.owners.label(job_id) for job_id in there.jobs[node]],
                nodes.slow.get(node),
                [
                    (name, there.resources[name][node], counts[node])
                    for name, counts in machine.resources.items()
                    if counts[node] and not name.startswith(MARK)
                ],
                [partition.name for partition, members in partitions if members >> node & 1],
            )
            for node in range(machine.nodes)
        ]
        return {"columns": NODE_COLUMNS, "rows": rows}

    def reason(self, job: ManagedJob) -> str:
        """Return why a job is pending; empty if it is not."""
        job_id = job.id
        waiting = self.live.waiting.get(job_id)
        if waiting is not None:
            return waiting.reason
        if job_id not in self.manager.pending:
            return job.reason
        why = self.manager.notes.get(job_id, SET_ASIDE)
        return HELD if job.held else self._queued if why is None else f"the scheduler has set it aside: {why}"

    def _waiting(self) -> int:
        return len(self.manager.pending) + len(self.live.waiting) + len(self.manager.unseen)

    def _row(self, job: ManagedJob) -> tuple[Any, ...]:
        spec = job.job.spec
        origin = self.live.origins.get(spec.id)
        runs = spec.id in self.manager.running
        return (
            spec.id,
            None if origin is None else origin.array_id,
            None if origin is None else origin.array_index,
            spec.name,
            (origin.owner if origin is not None else "") or spec.user,
            RUNNING if job.state in ABSENT else job.state,
            "" if runs else self.reason(job),
            spec.submit_us / SECOND_US,
            job.start_us / SECOND_US if runs else None,
            self.elapsed_us(job) / SECOND_US if runs else 0.0,
            r.seconds(self.limit_us(job) if runs else spec.limit_us),
            spec.processes,
            sum([count for _, count, _, _ in job.runs]) if runs else self._least_nodes(spec),
            node_list(job) if runs else "",
            [self.live.owners.label(other) for other in self._neighbours(job)] if runs else (),
            job.measured_ppm / WHOLE_PPM if runs and job.measured_ppm else None,
            spec.priority,
            spec.resources,
            spec.licences,
            *_TERMS(job.job.terms),
            *(() if self.slots is None else self.slots.columns(job)),
        )

    def _neighbours(self, job: ManagedJob) -> list[int]:
        """Return the jobs that share nodes with a running job, and time."""
        found = self.node_use.neighbours(job)
        return found if self.slots is None else self.slots.together(job, found)

    def elapsed_us(self, job: ManagedJob) -> int:
        """Return how long a running job has run, without suspensions; where jobs share time, for how long it could run."""
        if self.slots is not None:
            return self.slots.elapsed_us(job)
        return max(0, job.idle_until(self.live.now_us) - job.start_us - job.idle_us)

    @staticmethod
    def limit_us(job: ManagedJob) -> int | None:
        """Return the limit granted to a running job, for the time that `elapsed_us` counts."""
        return None if job.limit_us is None else job.limit_us - job.idle_us

    def _least_nodes(self, spec: JobSpec) -> int:
        room = max([room_on(spec, threads, threads, memory_mb) for threads, memory_mb in self._kinds], default=0)
        return -(-spec.processes // room) if room else 0

    def details(self, job: ManagedJob) -> dict[str, Any]:
        """Return the details of one job that has not ended."""
        spec = job.job.spec
        origin = self.live.origins.get(spec.id)
        runs = spec.id in self.manager.running
        return {
            **dict(zip(self.job_columns, self._row(job), strict=True)),
            "begin_s": r.seconds(self.live.gate.begin_us.get(spec.id)),
            "end_s": r.seconds(job.end_us),
            "estimate_s": (job.estimate_us - job.idle_us if runs else spec.estimate_us) / SECOND_US,
            **r.with_seconds({name: value for name, value in spec._asdict().items() if name not in _TOLD_OTHERWISE}),
            "requeue": job.job.requeue,
            **({} if self.slots is None else self.slots.details(job)),
            "after": [] if origin is None else [list(each) for each in origin.after],
            "starts": sum([not stay.resumed for stay in job.intervals]) + (runs and not job.resumed),
            "on_disk": job.on_disk,
            "allocation": [[first, count, f"{mask:#x}", processes] for first, count, mask, processes in job.runs]
            if runs
            else [],
        }


def _starts(view: _View, estimates: StartEstimates, user: str) -> r.Done:
    """Return the estimates of pending jobs; what the manager itself knows of one comes before what a copy of the policy says."""
    live = view.live
    jobs = [job for job in view.unfinished_jobs(user) if job.id not in live.manager.running]
    table = estimates.table(jobs)
    return r.Done({"now_s": live.now_us / SECOND_US, **table})


_SUBMISSION: Final = attrgetter("job.spec.submit_us", "job.spec.id")


def _show_jobs(view: _View, accounting: Accounting, targets: Sequence[r.Target]) -> r.Done | r.Refused:
    """Return the details of some jobs; an array stands for its tasks. The answer names unknown jobs."""
    found: dict[int, None] = {}
    missing = []
    jobs, origins = view.manager.jobs, view.live.origins
    known = dict.fromkeys([target.job_id for target in targets if target.job_id < view.live.commands.next_id])
    told = _ended_jobs(accounting, [job_id for job_id in known if job_id not in jobs])
    heads = {job_id for job_id in known if job_id in origins and origins[job_id].array_id == job_id}
    heads.update([job_id for job_id, job in told.items() if job["array_id"] == job_id])
    arrays = {job_id: _tasks(view, accounting, job_id) for job_id in heads}  # only the first task is looked up
    for target in targets:
        job_id, task = target
        tasks = arrays.get(job_id, {})
        if task is None:
            found.update(dict.fromkeys([job for _, job in sorted(tasks.items())] or [job_id]))
        elif task in tasks:
            found[tasks[task]] = None
        else:
            missing.append(f"{job_id}_{task}")
    if len(found) > _MOST_SHOWN:
        return r.Refused("limit", f"at most {_MOST_SHOWN} jobs at a time, not {len(found)}", "jobs")
    told |= {job_id: r.Fields(view.details(jobs[job_id])) for job_id in found if job_id in jobs}
    told |= _ended_jobs(accounting, [job_id for job_id in found if job_id not in told and job_id not in known])
    missing += [str(job_id) for job_id in found if job_id not in told]
    shown = [told[job_id] for job_id in found if job_id in told]
    return r.Done({"now_s": view.live.now_us / SECOND_US, "jobs": shown, "missing": missing})


def _ended_jobs(accounting: Accounting, ids: Sequence[int]) -> dict[int, r.Fields]:
    """Return the details of these jobs that the accounts have, by id."""
    return {row["id"]: r.Fields(r.ended_job(row)) for row in accounting.jobs(ids)}


def _tasks(view: _View, accounting: Accounting, array_id: int) -> dict[int, int]:
    """Return the tasks of an array, also those that have ended: index -> job."""
    ended = [job_id for job_id in accounting.tasks(array_id) if job_id not in view.manager.jobs]
    return {**{row["array_index"]: row["id"] for row in accounting.jobs(ended)}, **view.live.members.get(array_id, {})}


# Fields that the process reports, too, under other names.
_TOLD_HERE: Final = frozenset(
    {"seq", "refused", "queued", "running", "nodes_down", "accounting_backlog", "batches", "by"}
)


def _status(view: _View, accounting: Accounting, status: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    live, manager, machine, there = view.live, view.manager, view.machine, view.node_use
    states = dict.fromkeys(NODE_STATES, 0)
    for node in range(machine.nodes):
        states[there.state(node, machine, manager.nodes)] += 1
    suspended = sum([job.state == SUSPENDED for job in manager.running.values()])
    told = r.with_seconds(status())
    return {
        **{key: value for key, value in told.items() if key not in _TOLD_HERE},
        "now_s": live.now_us / SECOND_US,
        "batch": manager.seq,
        "refused_actions": manager.refused,
        "jobs": {
            "running": len(manager.running) - suspended,
            "suspended": suspended,
            "pending": len(manager.pending),
            "held": sum([job.held for job in manager.pending.values()]),
            "waiting": len(live.waiting),
        },
        "nodes": {state.lower(): count for state, count in states.items()},
        "shared_nodes": sum([len(jobs) > 1 for jobs in there.jobs]),
        "threads": {"all": machine.threads, "used": sum(there.threads)},
        "accounting": {"backlog": accounting.backlog, "trouble": accounting.trouble},
    }
