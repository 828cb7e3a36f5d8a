"""The commands of users and operators: the check whether a command is possible now, and its execution."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from cosched_emulator.live.outbox import Outbox
from cosched_emulator.manager.difficult import DifficultManager
from cosched_emulator.manager.gate import Gate, holds_after
from cosched_emulator.manager.managed_job import GONE
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import Origin
from cosched_emulator.users import requests as r
from cosched_emulator.workload.job import Terms, WorkloadJob
from cosched_emulator.workload.jobs_in_columns import MOST_YEARS, MOST_YEARS_US
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.codec import pack
from cosched_plugin.protocol.limits import MAX_SPAN_US, MAX_THREADS
from cosched_plugin.protocol.messages import CANCELLED, JobEnded, JobHeld, JobReleased, JobSpec

# The owners of the jobs of a live manager that have not ended.


class Owners:
    """The origins of the users' jobs, the number of jobs of each user, and how long all take one after another."""

    def __init__(self) -> None:
        self.origins: dict[int, Origin] = {}  # by job, without the scenario's jobs
        self._spans_us: dict[str, dict[int, int]] = {}  # by user and job
        self._user_span_us: Counter[str] = Counter()
        self.span_us = 0

    def add(self, job_id: int, origin: Origin, span_us: int) -> None:
        """Enter a job that takes ``span_us``."""
        self.origins[job_id] = origin
        self._spans_us.setdefault(origin.owner, {})[job_id] = span_us
        self._user_span_us[origin.owner] += span_us
        self.span_us += span_us

    def drop(self, job_id: int) -> None:
        """Forget a job that has ended."""
        origin = self.origins.pop(job_id, None)
        if origin is not None:
            spans_us = self._spans_us[origin.owner]
            span_us = spans_us.pop(job_id)
            self.span_us -= span_us
            self._user_span_us[origin.owner] -= span_us
            if not spans_us:
                del self._spans_us[origin.owner], self._user_span_us[origin.owner]

    def owner(self, job_id: int) -> str:
        """Return the user who submitted a job; empty for the scenario's jobs."""
        return self.origins[job_id].owner if job_id in self.origins else ""

    def label(self, job_id: int) -> str:
        """Return the users' name of a job: its number, or array and task; its number if it has ended."""
        origin = self.origins.get(job_id)
        if origin is None or origin.array_id is None:
            return str(job_id)
        return f"{origin.array_id}_{origin.array_index}"

    def jobs_of(self, user: str) -> Collection[int]:
        """Return a user's jobs that have not ended."""
        return self._spans_us.get(user, {}).keys()

    def span_us_of(self, user: str) -> int:
        """Return how long a user's jobs take one after another."""
        return self._user_span_us[user]


# A submission: the check whether it is acceptable, and its jobs.

LONGEST_YEARS: Final = 10
LONGEST_US: Final = LONGEST_YEARS * 366 * 86_400 * SECOND_US  # of a run time, an estimate, a limit or a delay
LARGEST_MBS: Final = 10**9
LARGEST_MB: Final = 10**9
LARGEST_PPM: Final = 10**9
LARGEST_PRIORITY: Final = 2**32  # Slurm's numbers have 32 bits
LONGEST_NAME: Final = 128  # bytes
MOST_AFTER: Final = 1_000
MOST_PARTITIONS: Final = 100

assert LONGEST_US < MAX_SPAN_US


class Submission(NamedTuple):
    """A user's request for a job or an array, and the job as it enters the manager, but for its id.

    ``refusal`` says why it can never start here (None: it can), and ``path`` for which field, if that names one.
    """

    request: r.SubmitJob
    job: WorkloadJob
    refusal: str | None
    path: str

    def numbered(self, job_id: int) -> WorkloadJob:
        """Return the job, or one task of the array, with the given id."""
        return self.job._replace(spec=self.job.spec._replace(id=job_id), source_id=job_id)


def longest_us(job: WorkloadJob) -> int:
    """Return how long a job takes: the longest of the times that its user gave."""
    return max(job.spec.estimate_us, job.spec.limit_us or 0, job.run_us)


def submission_of(request: r.SubmitJob, user: str, now_us: int, gate: Gate, machine: Machine) -> Submission:
    """Return a submission on this machine: what its user says of the job is true."""
    spec = request.job._replace(submit_us=now_us, user=user)
    if request.all_memory:
        spec = spec._replace(memory_mb=_share_of_memory_mb(spec, machine))
    job = WorkloadJob(
        spec,
        request.run_us or spec.estimate_us,
        spec.demand,
        0,
        spec.usage,
        spec.self_slowdown,
        request.requeue,
        request.exit_code,
        profile=spec.profile,
        terms=Terms(request.partitions, request.qos, request.account, delay_us=request.delay_us),
    )
    return Submission(request, *gate.examine(job))


def _share_of_memory_mb(job: JobSpec, machine: Machine) -> int:
    """Return the memory of each process if the processes on a node share all its memory.

    Among the kinds of nodes with enough threads, the one with the least memory counts, as for Slurm's ``--mem=0``.
    """
    processes = min(job.processes, job.ppn_max or job.processes)
    threads = processes * job.threads_per_process
    return min([kind.memory_mb for kind in machine.classes if kind.threads >= threads], default=0) // processes


def _beyond_bounds(request: r.SubmitJob) -> r.Refused | None:
    """Return why a number of a request, or the length of a text, is too large; None: none is."""
    wish = request.job
    for path, value, most in (
        ("estimate_us", wish.estimate_us, LONGEST_US),
        ("limit_us", wish.limit_us or 0, LONGEST_US),
        ("run_us", request.run_us or 0, LONGEST_US),
        ("delay_us", request.delay_us, LONGEST_US),
        ("memory_mb", wish.memory_mb, LARGEST_MB),
        ("ppn_min", wish.ppn_min, MAX_THREADS),
        ("ppn_max", wish.ppn_max, MAX_THREADS),
        ("threads_per_process", wish.threads_per_process, MAX_THREADS),
        ("demand", max(wish.demand or (0,)), LARGEST_MBS),
        ("self_slowdown", max(wish.self_slowdown or (0,)), LARGEST_PPM),
        ("name", len(wish.name.encode()), LONGEST_NAME),
        ("qos", len(request.qos.encode()), LONGEST_NAME),
        ("account", len(request.account.encode()), LONGEST_NAME),
        ("partitions", len(request.partitions), MOST_PARTITIONS),
        ("priority", abs(wish.priority), LARGEST_PRIORITY),
        ("token", len(request.token.encode()), LONGEST_NAME),
        ("tasks", len(request.tasks), r.MOST_TASKS),
        ("after", len(request.after), MOST_AFTER),
        ("at_once", request.at_once, r.MOST_TASKS),
    ):
        if value > most:
            return r.Refused("value", _too_much(path, value, most), path)
    return None


def refusal_of(submission: Submission, manager: Manager, *, replayed: bool = False) -> r.Refused | None:
    """Return why a submission is refused: a number beyond the limits, or a job that cannot run on the empty machine; None: accepted.

    What the job's processes do is not looked at if it is ``replayed``: earlier versions accepted programs that cannot run.
    """
    request = submission.request
    wish = request.job
    refused = _beyond_bounds(request)
    if refused is not None:
        return refused
    if wish.ppn_max and wish.ppn_min > wish.ppn_max:
        text = (
            f"expected at most {wish.ppn_max} processes on a node, the largest number, got {wish.ppn_min} as the least"
        )
        return r.Refused("value", text, "ppn_min")
    if request.all_memory and wish.processes > 1 and wish.ppn_min != wish.ppn_max:
        return r.Refused("value", "all memory of a node: expected a fixed number of processes on a node", "all_memory")
    if len(set(request.tasks)) != len(request.tasks):
        return r.Refused("value", "expected different tasks; one occurs twice", "tasks")
    on_a_node = {name: max(amounts) for name, amounts in manager.machine.resources.items()}
    for path, asked, there in (
        ("resources", wish.resources, on_a_node),
        ("licences", wish.licences, manager.machine.licences),
    ):
        for name, amount in asked:
            if amount > there.get(name, 0):
                return r.Refused("value", f"{amount} of {name} wanted, the most there is: {there.get(name, 0)}", path)
    reason = submission.refusal
    if reason is None and manager.processes is not None and not replayed:
        reason = manager.processes.refusal(submission.job)
    return None if reason is None else r.Refused("value", reason, submission.path)


def _digest(request: r.Request) -> bytes:
    return blake2b(pack(r.to_map(request)), digest_size=16).digest()


def _too_much(path: str, value: int, most: int) -> str:
    """Return the error text for a number that is too large, in the units of users."""
    if path.endswith("_us"):
        return f"expected at most {LONGEST_YEARS} years, got {value / SECOND_US:.0f} s"
    units = {
        "name": " bytes",
        "token": " bytes",
        "tasks": " tasks",
        "qos": " bytes",
        "account": " bytes",
        "partitions": " partitions",
        "after": " dependencies",
        "memory_mb": " MiB a process",
    }
    return f"expected at most {most}{units.get(path, '')}, got {value}"


MOST_JOBS: Final = 100_000  # jobs that have not ended; more are refused
SHARE: Final = 5  # one part of so many of what other users have left, of jobs and of their time, is for one user
RESERVE: Final = 0.05  # this part is for operators alone
MOST_LINKS: Final = 50_000  # dependencies of one submission: tasks times dependencies of each
LINKS_A_CHANGE: Final = 10


class Accepted(NamedTuple):
    """A command that can be carried out now; ``submission`` is that of a `SubmitJob`."""

    who: r.Requester
    request: r.Request
    submission: Submission | None = None


class Commands:
    """The commands on a live manager's jobs and nodes: `examine` decides whether one is possible, and `carry_out` does it."""

    def __init__(
        self,
        manager: Manager,
        gate: Gate,
        owners: Owners,
        outbox: Outbox,
        next_id: int,
        ended_state: Callable[[int], str | None],
        tasks_of: Callable[[int], Sequence[int]],
    ) -> None:
        """``outbox`` applies events and tells the scheduler of them; the last parameters are those of `LiveManager`."""
        self._manager = manager
        self._gate = gate
        self._owners = owners
        self._outbox = outbox
        self.next_id = next_id
        self._ended_state = ended_state
        self._tasks_of = tasks_of
        # By user: what was submitted with a token, as a digest, and the first and the number of its jobs.
        self._tokens: dict[str, OrderedDict[str, tuple[bytes, int, int]]] = {}

    def state(self) -> dict[str, Any]:
        """Return the state in plain values, for `take_over`."""
        tokens = [
            [user, token, digest.hex(), first, count]
            for user, used in self._tokens.items()
            for token, (digest, first, count) in used.items()
        ]
        return {"next_id": self.next_id, "tokens": tokens}

    def take_over(self, state: Mapping[str, Any]) -> None:
        """Take over the state of another manager's commands."""
        self.next_id = state["next_id"]
        for user, token, digest, first, count in state["tokens"]:
            self._tokens.setdefault(user, OrderedDict())[token] = (bytes.fromhex(digest), first, count)

    def _submitted_before(self, who: r.Requester, request: r.SubmitJob) -> r.Done | r.Refused | None:
        """Return the answer to a submission with a token that the user has used; None if this is the first."""
        tokens = self._tokens.get(who.name)
        found = None if tokens is None else tokens.get(request.token)
        if found is None:
            return None
        digest, first, count = found
        if digest != _digest(request):
            return r.Refused("value", "you have used this token for another submission", "token")
        return r.Done({"job_ids": list(range(first, first + count)), "repeated": True})

    def examine(
        self, now_us: int, who: r.Requester, request: r.Request, *, replayed: bool = False
    ) -> Accepted | r.Refused | r.Done:
        """Return a command as it can be carried out now, why it cannot, or the answer to a submission that is repeated.

        ``replayed``: it was carried out, and is in the journal.
        """
        submission = None
        match request:
            case r.SubmitJob():
                known = self._submitted_before(who, request)
                if known is not None:
                    return known
                submission = submission_of(request, who.name, now_us, self._gate, self._manager.machine)
                refused = self._refusal_of_submission(submission, who, replayed=replayed)
            case r.CancelJobs() | r.HoldJobs() | r.ReleaseJobs():
                refused = self._refusal_of_jobs(who, request)
            case r.DrainNodes() | r.ResumeNodes():
                refused = self._refusal_of_nodes(who, request)
            case _:
                refused = r.Refused("request", f"a {type(request).__name__} changes nothing")
        return Accepted(who, request, submission) if refused is None else refused

    def jobs_changed(self, request: r.Request) -> float:
        """Return how many jobs a command changes, or names; ten dependencies count as one."""
        match request:
            case r.SubmitJob():
                return (len(request.tasks) or 1) * (1 + len(request.after) / LINKS_A_CHANGE)
            case r.CancelJobs() | r.HoldJobs() | r.ReleaseJobs():
                return max(len(request.jobs), sum([len(self._jobs_meant(each)) for each in set(request.jobs)]))
        return 1.0

    def carry_out(self, now_us: int, accepted: Accepted) -> dict[str, Any]:
        """Carry out a command that `examine` has accepted in this state, and return the answer to the user."""
        who, request, submission = accepted
        match request:
            case r.SubmitJob():
                assert submission is not None
                return self._submit(submission)
            case r.CancelJobs() | r.HoldJobs() | r.ReleaseJobs():
                return self._change_jobs(now_us, who, request)
            case r.DrainNodes() | r.ResumeNodes():
                return self._change_nodes(now_us, request)
            case _:
                raise TypeError(f"a {type(request).__name__} is no command")

    # What the journal has was accepted once: a limit that has been lowered since then must not refuse it.
    def _refusal_of_submission(self, submission: Submission, who: r.Requester, *, replayed: bool) -> r.Refused | None:
        request = submission.request
        refused = refusal_of(submission, self._manager, replayed=replayed)
        if refused is not None:
            return refused
        if request.job.priority > 0 and not who.operator:
            return r.Refused("permission", "only operators raise a priority above 0", "priority")
        if request.job.eligible and not who.operator:  # some policies can serve no such job, and end
            return r.Refused("permission", "only operators say which nodes a job may have", "eligible")
        if not replayed:
            refused = self._refusal_of_share(submission, who)
            if refused is not None:
                return refused
        links = 0
        for number, (kind, job_id) in enumerate(request.after):
            members = self._tasks_of(job_id)
            tasks = members or (job_id,)
            what = f"a task of array {job_id}" if members else f"job {job_id}"
            links += len(tasks) * (len(request.tasks) or 1)
            if links > MOST_LINKS and not replayed:
                return r.Refused(
                    "limit",
                    f"expected at most {MOST_LINKS} dependencies, one for each task and each job that it waits for",
                    "after",
                )
            for each in tasks:
                state = None if each in self._manager.jobs else self._ended_state(each)
                path = f"after[{number}].job_id"
                if each not in self._manager.jobs and state is None:
                    return r.Refused("missing", f"there is no job {each}", path)
                if state is not None and not holds_after(kind, state):
                    return r.Refused("value", f"{what} has ended {state}: {kind} can never hold", path)
        return None

    # A user may have a part of what the others leave: five who take all they can leave a third of the whole, twelve the reserve.
    def _refusal_of_share(self, submission: Submission, who: r.Requester) -> r.Refused | None:
        """Return why there is no place for the jobs of a submission, for this user."""
        owners = self._owners
        more = len(submission.request.tasks) or 1
        jobs, span_us = len(self._manager.jobs) + more, owners.span_us + more * longest_us(submission.job)
        reserved = 0 if who.operator else RESERVE
        if jobs > MOST_JOBS * (1 - reserved):
            return r.Refused("limit", f"{jobs - more} jobs have not ended; the limit is {MOST_JOBS}")
        if span_us > MOST_YEARS_US * (1 - reserved):
            text = f"with these jobs, those that have not ended take more than {MOST_YEARS} years one after another, the limit"
            return r.Refused("limit", text)
        if who.operator:
            return None
        owned = len(owners.jobs_of(who.name)) + more
        most = (MOST_JOBS - (jobs - owned)) // SHARE
        if owned > most:
            return r.Refused("limit", f"{owned - more} jobs of yours have not ended; your limit is {most} at present")
        owned_us = owners.span_us_of(who.name) + more * longest_us(submission.job)
        most_us = (MOST_YEARS_US - (span_us - owned_us)) // SHARE
        if owned_us > most_us:
            years = most_us * MOST_YEARS // MOST_YEARS_US
            text = f"with these jobs, yours that have not ended take more than {years} years one after another, your limit at present"
            return r.Refused("limit", text)
        return None

    def _submit(self, submission: Submission) -> dict[str, Any]:
        request, spec = submission.request, submission.job.spec
        user, now_us = spec.user, spec.submit_us
        count = len(request.tasks) or 1
        after = {
            (kind, each)
            for kind, job_id in request.after
            for each in self._tasks_of(job_id) or (job_id,)
            if each in self._manager.jobs
        }
        job = submission.job
        submission = submission._replace(job=job._replace(terms=job.terms._replace(after=tuple(sorted(after)))))
        first = self.next_id
        self.next_id += count
        array_id = first if request.tasks else None
        if array_id is not None and 0 < request.at_once < count:
            self._gate.limit(array_id, request.at_once)
        ids = range(first, first + count)
        told = tuple((item.kind, item.job_id) for item in request.after)  # one for all tasks
        for job_id, task in zip(ids, request.tasks or (None,), strict=True):
            origin = Origin(user, array_id, task, told)
            self._owners.add(job_id, origin, longest_us(submission.job))
            job = submission.numbered(job_id)
            manager = self._manager
            lag_us = manager.submission_lag_us(job) if isinstance(manager, DifficultManager) else 0
            self._gate.enter(
                now_us, manager.accept(job, origin), origin, held=request.held, not_before_us=now_us + lag_us
            )
        if request.token:
            tokens = self._tokens.setdefault(user, OrderedDict())
            tokens[request.token] = (_digest(request), first, count)
            if len(tokens) > r.MOST_TOKENS:
                tokens.popitem(last=False)
        return {"job_ids": list(ids)}

    def _refusal_of_jobs(self, who: r.Requester, request: r.JobChange) -> r.Refused | None:
        """Return why none of the jobs can be changed; None if some can (the answer lists the others as unchanged)."""
        first = None
        for number, target in enumerate(dict.fromkeys(request.jobs)):
            problem = self._problem(who, target)
            if problem is None:
                return None
            first = first or problem._replace(path=f"jobs[{number}]")
        return first

    def _problem(self, who: r.Requester, target: r.Target) -> r.Refused | None:
        """Return why this user may not change a job, or the tasks of an array."""
        ids = self._jobs_meant(target)
        if not ids:
            return r.Refused("missing", f"there is no job {target_text(target)} that has not ended")
        if who.operator or self._owners.owner(ids[0]) == who.name:  # all tasks of an array belong to one user
            return None
        return r.Refused("permission", f"job {target_text(target)} is not yours")

    def _change_jobs(self, now_us: int, who: r.Requester, request: r.JobChange) -> dict[str, Any]:
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

    def _change_job(self, now_us: int, who: r.Requester, job_id: int, request: r.JobChange) -> str | None:
        """Cancel, hold or release one job; return the reason if that is impossible."""
        manager = self._manager
        if job_id not in manager.jobs:
            return "it has ended"  # together with another job of the same request
        if job_id in manager.running and manager.running[job_id].state == GONE:
            return "it has ended"
        waits = job_id in self._gate.jobs
        if isinstance(request, r.CancelJobs):
            if job_id in manager.unseen:
                job = manager.unseen.pop(job_id)
                job.reason = f"cancelled by {who.name}"
                manager.finish(job, now_us, CANCELLED)
            elif waits and job_id not in self._gate.known:
                self._gate.cancel(now_us, job_id, f"cancelled by {who.name}")
            else:
                manager.jobs[job_id].reason = f"cancelled by {who.name}"
                self._outbox.tell(now_us, JobEnded(job_id, CANCELLED))
            return None
        hold = isinstance(request, r.HoldJobs)
        if waits:
            return self._gate.hold(now_us, job_id, hold=hold)
        if job_id in manager.running:
            return "it runs"
        if job_id in manager.unseen:
            return "it has only just been submitted"
        if manager.pending[job_id].held == hold:
            return "it is held already" if hold else "it is not held"
        self._outbox.tell(now_us, JobHeld(job_id) if hold else JobReleased(job_id))
        return None

    def _refusal_of_nodes(self, who: r.Requester, request: r.NodeChange) -> r.Refused | None:
        if not who.operator:
            return r.Refused("permission", "only operators drain and resume nodes")
        nodes = self._manager.machine.nodes
        if request.nodes and min(request.nodes) >= nodes:
            return r.Refused("missing", f"there is no node {request.nodes[0]}; the last one is {nodes - 1}", "nodes[0]")
        return None

    def _change_nodes(self, now_us: int, request: r.NodeChange) -> dict[str, Any]:
        nodes = self._manager.nodes
        changed, unchanged = [], []
        for node in dict.fromkeys(request.nodes):
            if node >= self._manager.machine.nodes:
                unchanged.append([node, "there is no such node"])
                continue
            drained, broken = node in nodes.drained, node in nodes.broken
            if isinstance(request, r.DrainNodes):
                if drained:
                    unchanged.append([node, "it is drained already"])
                    continue
                events = nodes.drain(node, now_us, request.reason)
            else:
                if not drained and not broken:
                    unchanged.append([node, "it is reserved" if node in nodes.reserved else "it is in service"])
                    continue
                events = nodes.undrain(node, now_us)
            changed.append(node)
            self._outbox.tell(now_us, *events)
        return {"changed": changed, "unchanged": unchanged}

    def _jobs_meant(self, target: r.Target) -> list[int]:
        """Return the jobs of ``target`` that have not ended."""
        members = self._gate.members.get(target.job_id)
        if members is None:
            return [target.job_id] if target.task is None and target.job_id in self._manager.jobs else []
        if target.task is None:
            return list(members.values())
        return [members[target.task]] if target.task in members else []


def target_text(target: r.Target) -> str:
    """Return the users' name of a job, or of a task of an array."""
    return str(target.job_id) if target.task is None else f"{target.job_id}_{target.task}"
