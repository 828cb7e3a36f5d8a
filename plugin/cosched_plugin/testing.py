"""The conformance suite for policies: `check_policy` plays a small, honest resource manager against a policy.

Machines, jobs and operators are random, drawn from the seed. After every batch of events: the core's invariants hold; one more
pass decides nothing; a core rebuilt from what the manager knows decides the same (so a restart changes nothing); and what the
policy sees is what the manager says (so it has changed nothing it may only read). At the end, no job is left that could run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, assert_never

from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.core.view import View
from cosched_plugin.errors import PluginError
from cosched_plugin.protocol.allocation import Machine, room_on
from cosched_plugin.protocol.messages import (
    CANCELLED,
    COMPLETED,
    FEATURES,
    NODE_FAIL,
    PROTOCOL_VERSION,
    TIMEOUT,
    Action,
    ActionRefused,
    Belief,
    DemandTuple,
    Event,
    JobEnded,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSpec,
    JobSubmitted,
    NodeClass,
    NodeFailed,
    NodeReturned,
    Note,
    NoteValue,
    PendingJob,
    RejectJob,
    Run,
    RunningJob,
    SetNote,
    StartJob,
    StartTogether,
    UnknownAction,
    WakeAt,
    Welcome,
    Woken,
)

__all__ = ["PolicyCheckError", "Report", "check_policy"]

_SECOND_US: Final = 1_000_000
_MOST_ROUNDS: Final = 100  # batches at one instant
_MOST_BATCHES: Final = 1_000  # in one run: a policy that wakes itself for ever would never end
_LISTED_EVENTS: Final = 12

# What happens at a step, by weight. A calm run has jobs only, a busy one operators and a manager that refuses starts.
_CALM: Final[Mapping[str, int]] = {"submit": 5, "wait": 5}
_BUSY: Final[Mapping[str, int]] = {
    "submit": 10,
    "wait": 8,
    "cancel": 2,
    "hold": 2,
    "release": 2,
    "requeue": 2,
    "fail": 2,
    "drain": 1,
    "return": 3,
}


class Report(NamedTuple):
    """What a policy that passed has been through."""

    seed: int
    runs: int
    jobs: int
    batches: int  # each followed by a restart that changed nothing
    decisions: int

    def __str__(self) -> str:
        return (
            f"passed {self.runs} runs of seed {self.seed}: {self.jobs} jobs, {self.decisions} decisions, "
            f"{self.batches} batches with a restart after each"
        )


class PolicyCheckError(PluginError):
    """A policy does what no policy may.

    ``seed`` and ``run`` (from 1) replay it, ``now_us`` and ``events`` are the batch in question, ``problem`` says what is wrong.
    """

    exit_code = 1

    def __init__(self, seed: int, run: int, now_us: int, events: Sequence[Event], problem: str) -> None:
        super().__init__(seed, run, now_us, tuple(events), problem)
        self.seed = seed
        self.run = run
        self.now_us = now_us
        self.events = tuple(events)
        self.problem = problem

    def __str__(self) -> str:
        lines = [f"{self.problem}", f"  in run {self.run} of seed {self.seed}, at {self.now_us} us, after"]
        lines += [f"    {event!r}" for event in self.events[:_LISTED_EVENTS]] or ["    nothing"]
        if len(self.events) > _LISTED_EVENTS:
            lines.append(f"    and {len(self.events) - _LISTED_EVENTS} more events")
        return "\n".join(lines)


def check_policy(make_policy: Callable[[], Policy], *, seed: int = 1, runs: int = 20) -> Report:
    """Put a policy through ``runs`` random runs and return a report.

    ``make_policy`` returns a new policy at every call. Raises PolicyCheckError at the first thing that is wrong.
    """
    jobs = batches = decisions = 0
    for run in range(1, runs + 1):
        trial = _Trial(make_policy, seed, run)
        trial.go()
        jobs += len(trial.site.jobs)
        batches += trial.site.seq
        decisions += trial.decisions
    return Report(seed, runs, jobs, batches, decisions)


class _Job:
    """A job in the manager's care."""

    __slots__ = ("estimate_us", "held", "limit_us", "run_us", "runs", "spec", "start_us", "state")

    def __init__(self, spec: JobSpec, run_us: int) -> None:
        self.spec = spec
        self.run_us = run_us
        self.state = "new"  # new, pending, running, ended
        self.held = False
        self.start_us = 0
        self.runs: tuple[Run, ...] = ()
        self.estimate_us = 0
        self.limit_us: int | None = None

    @property
    def killed(self) -> bool:
        """Tell whether its limit ends it."""
        return self.limit_us is not None and self.limit_us < self.run_us

    @property
    def end_us(self) -> int:
        """Return when it will end by itself or be killed."""
        return self.start_us + (self.limit_us if self.limit_us is not None and self.killed else self.run_us)


class _Site:
    """A resource manager of the plainest kind: nothing is cached, and threads are pairs of numbers."""

    def __init__(self, nodes: tuple[NodeClass, ...], belief: Belief) -> None:
        self.nodes = nodes
        self.belief = belief
        self.seq = 0
        self.now_us = 0
        self.down: set[int] = set()
        self.jobs: dict[int, _Job] = {}
        self.notes: dict[tuple[int | None, str], NoteValue] = {}  # None where one was taken away
        self.wakes: set[int] = set()
        self.machine = Machine(nodes)

    def inventory(self) -> Welcome:
        """Return all that a scheduler needs to go on from the last answered batch."""
        pending = sorted((job for job in self.in_state("pending")), key=lambda job: (job.spec.submit_us, job.spec.id))
        return Welcome(
            PROTOCOL_VERSION,
            FEATURES,
            self.seq,
            self.now_us,
            self.nodes,
            tuple(sorted(self.down)),
            self.belief,
            tuple(
                RunningJob(job.spec, job.start_us, job.runs, job.estimate_us, job.limit_us)
                for job in self.in_state("running")
            ),
            tuple(PendingJob(job.spec, job.held) for job in pending),
            tuple(Note(job_id, key, value) for (job_id, key), value in self.notes.items() if value is not None),
            tuple(sorted(self.wakes)),
        )

    def in_state(self, state: str) -> list[_Job]:
        """Return the jobs in one state, by id."""
        return [job for _, job in sorted(self.jobs.items()) if job.state == state]

    def on_node(self, node: int) -> list[_Job]:
        """Return the running jobs that hold threads of ``node``."""
        return [job for job in self.in_state("running") if any(place[0] == node for place in _places(job.runs))]

    def due_us(self) -> int | None:
        """Return the instant at which something happens by itself; None if nothing will."""
        return min([job.end_us for job in self.in_state("running")] + list(self.wakes), default=None)

    def could_run(self, spec: JobSpec) -> bool:
        """Tell whether the nodes in service could hold such a job if they were empty."""
        machine = self.machine
        up = [node for node in range(machine.nodes) if node not in self.down]
        threads = machine.threads_of
        return spec.processes <= sum(room_on(spec, threads[n], threads[n], machine.memory_mb[n]) for n in up)

    def happen(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case JobSubmitted():
                self.jobs[event.job.id].state = "pending"
            case JobEnded():
                self._end(event.job_id)
            case JobRequeued():
                self.jobs[event.job_id].state = "pending"
            case JobHeld() | JobReleased():
                self.jobs[event.job_id].held = isinstance(event, JobHeld)
            case NodeFailed():
                self.down.add(event.node)
            case NodeReturned():
                self.down.discard(event.node)
            case Woken():
                self.wakes.discard(event.at_us)
            case ActionRefused():
                pass
            case _:
                assert_never(event)

    def act(self, action: Action) -> str | None:
        """Carry out an action, or return why it is impossible."""
        match action:
            case StartJob():
                return self._start(action)
            case StartTogether():
                # The core has vouched for all of them; one that is impossible ends the check, so nothing needs undoing.
                return next((reason for start in action.starts if (reason := self._start(start)) is not None), None)
            case SetNote():
                if action.job_id is not None and self.jobs[action.job_id].state == "ended":
                    return f"a note about job {action.job_id}, which has ended"
                self.notes[action.job_id, action.key] = action.value
            case WakeAt():
                if action.at_us <= self.now_us:
                    return f"a wake at {action.at_us}, now is {self.now_us}"
                self.wakes.add(action.at_us)
            case RejectJob():
                self._end(action.job_id)
            case UnknownAction():
                return "unknown action"
            case _:
                assert_never(action)
        return None

    def _start(self, start: StartJob) -> str | None:
        job = self.jobs.get(start.job_id)
        if job is None or job.state != "pending" or job.held:
            return f"job {start.job_id} is not waiting to be started"
        spec = job.spec
        taken = {place for other in self.in_state("running") for place in _places(other.runs)}
        memory = list(self.machine.memory_mb)
        for other in self.in_state("running"):
            for node, processes in _shares(other.runs):
                memory[node] -= processes * other.spec.memory_mb
        wanted = _places(start.runs)
        exists = {(node, thread) for node, width in enumerate(self.machine.threads_of) for thread in range(width)}
        shares = _shares(start.runs)
        nodes = [node for node, _ in shares]
        width = spec.threads_per_process
        possible = (
            sum(processes for _, processes in shares) == spec.processes
            and len(set(nodes)) == len(nodes)
            and len(set(wanted)) == len(wanted)
            and set(wanted) <= exists - taken
            and not self.down & set(nodes)
            and all(0 < processes <= (spec.ppn_max or processes) for _, processes in shares)
            and sum(processes < spec.ppn_min for _, processes in shares) <= 1
            and all(processes * spec.memory_mb <= memory[node] for node, processes in shares)
        )
        for node, processes in shares if possible else ():
            threads = sum(place[0] == node for place in wanted)
            whole = self.machine.threads_of[node]
            possible = possible and threads == (whole if spec.exclusive else processes * width)
            possible = possible and threads >= processes * width
        if not possible:
            return f"{spec} cannot start on {list(start.runs)}"
        own_us, limit_us = spec.limit_us, start.limit_us
        if (own_us is None) != (limit_us is None) or (own_us or 0) > (limit_us or 0) or start.estimate_us < 1:
            return f"{spec} cannot start with estimate {start.estimate_us} and limit {limit_us}"
        job.state, job.start_us, job.runs = "running", self.now_us, start.runs
        job.estimate_us, job.limit_us = start.estimate_us, limit_us
        return None

    def _end(self, job_id: int) -> None:
        self.jobs[job_id].state = "ended"
        for key in self.notes:
            if key[0] == job_id:
                self.notes[key] = None


class _Trial:
    """One run: a machine, its jobs and operators, and the policy that has to cope."""

    def __init__(self, make_policy: Callable[[], Policy], seed: int, run: int) -> None:
        self._make_policy = make_policy
        self._seed = seed
        self._run = run
        self._random = Random(f"{seed}/{run}")
        self.site = _Site(_draw_nodes(self._random), _draw_belief(self._random))
        self.decisions = 0
        busy = run % 4 != 1
        self._weights = _BUSY if busy else _CALM
        self._refuses = self._random.choice((0.0, 0.0, 0.1)) if busy else 0.0
        self._shapes = self._random.choice((0.0, 0.3, 1.0))  # share of jobs that care on which nodes
        self._events: list[Event] = []
        self._policy = self._made()
        self._core = SchedulerCore(self._policy, self.site.inventory())

    def go(self) -> None:
        """Play the whole run."""
        for _ in range(self._random.randint(20, 60)):
            self._step()
        while True:  # no more surprises: everything that runs ends, and nodes come back once all is quiet
            due_us = self.site.due_us()
            if due_us is not None:
                self.site.now_us = due_us
                self._batches(self._due())
            elif self.site.down:
                self._batches([NodeReturned(node) for node in sorted(self.site.down)])
            else:
                break
        starved = [job.spec for job in self.site.in_state("pending") if not job.held and self.site.could_run(job.spec)]
        if starved:
            raise self._problem(f"nothing runs, nothing will happen, and these could start: {starved}")

    def _step(self) -> None:
        """Go to the next instant, and let some things happen there, in the protocol's order."""
        site, random = self.site, self._random
        due_us = site.due_us()
        site.now_us += random.choice((0, 0, 1, 1, 2, 5)) * _SECOND_US
        if due_us is not None and (site.now_us > due_us or random.random() < 0.3):
            site.now_us = due_us
        kinds = random.choices(list(self._weights), list(self._weights.values()), k=random.randint(1, 4))
        events = self._due()
        gone = {event.job_id for event in events if isinstance(event, JobEnded)}
        wakes = [event for event in events if isinstance(event, Woken)]
        events = [event for event in events if not isinstance(event, Woken)]
        for kind in ("fail", "drain"):
            events += self._fail(gone, evict=kind == "fail") if kind in kinds else []
        if "return" in kinds and site.down:
            events.append(NodeReturned(random.choice(sorted(site.down))))
        changes: dict[int, Event] = {}
        for kind in sorted(set(kinds) & {"cancel", "hold", "release", "requeue"}):
            changed = self._change(kind, gone | set(changes))
            changes |= {changed.job_id: changed} if changed is not None else {}
        events += [event for _, event in sorted(changes.items())]
        events += [JobSubmitted(self._draw_job()) for kind in kinds if kind == "submit"]
        if events or wakes:
            self._batches([*events, *wakes])

    def _due(self) -> list[Event]:
        """Return what happens by itself at the present instant."""
        now_us = self.site.now_us
        events: list[Event] = [
            JobEnded(job.spec.id, TIMEOUT if job.killed else COMPLETED)
            for job in self.site.in_state("running")
            if job.end_us <= now_us
        ]
        return events + [Woken(at_us) for at_us in sorted(self.site.wakes) if at_us <= now_us]

    def _fail(self, gone: set[int], *, evict: bool) -> list[Event]:
        """Take a node out of service; with ``evict``, its jobs end or wait again, else they may go on to their end."""
        up = [node for node in range(self.site.machine.nodes) if node not in self.site.down]
        if len(up) < 2:
            return []
        node = self._random.choice(up)
        self.site.down.add(node)  # no second failure of it in this batch
        events: list[Event] = [NodeFailed(node)]
        for job in self.site.on_node(node) if evict else ():
            if job.spec.id not in gone:
                gone.add(job.spec.id)
                again = self._random.random() < 0.5
                events.append(JobRequeued(job.spec.id) if again else JobEnded(job.spec.id, NODE_FAIL))
        self.site.down.discard(node)
        return events

    def _change(self, kind: str, gone: set[int]) -> JobEnded | JobHeld | JobReleased | JobRequeued | None:
        """Return one change by a user or an operator; None if there is nobody to change."""
        pending = [job for job in self.site.in_state("pending") if job.spec.id not in gone]
        running = [job for job in self.site.in_state("running") if job.spec.id not in gone]
        there = {
            "cancel": pending + running,
            "hold": [job for job in pending if not job.held],
            "release": [job for job in pending if job.held],
            "requeue": running,
        }[kind]
        if not there:
            return None
        job_id = self._random.choice(there).spec.id
        match kind:
            case "cancel":
                return JobEnded(job_id, CANCELLED)
            case "hold":
                return JobHeld(job_id)
            case "release":
                return JobReleased(job_id)
            case _:
                return JobRequeued(job_id)

    # ------------------------------------------------------------ batches, and what must hold after each

    def _batches(self, events: list[Event]) -> None:
        """Let events happen, and what the answers to them cause at the same instant."""
        rounds = 0
        while events:
            self._events = events
            rounds += 1
            if rounds > _MOST_ROUNDS or self.site.seq > _MOST_BATCHES:
                raise self._problem(f"no end after {rounds} batches at this instant, {self.site.seq} in all")
            events = self._batch(events)

    def _batch(self, events: list[Event]) -> list[Event]:
        site = self.site
        shadow = SchedulerCore(self._made(), site.inventory())
        actions = self._handled(self._core, events)
        restarted = self._handled(shadow, events)
        if actions != restarted:
            raise self._problem(f"a restart changes decisions: {actions}, restarted {restarted}")
        try:
            self._core.check()
        except AssertionError as error:
            raise self._problem(f"the scheduler's state is broken: {error}") from error
        more = next(self._pass(), None)
        if more is not None:
            raise self._problem(f"one more pass at the same instant still decides: {more}")
        self.decisions += len(actions)
        site.seq += 1
        for event in events:
            site.happen(event)
        follow: list[Event] = []
        for number, action in enumerate(actions):
            job_ids = _started_by(action)
            if job_ids and self._random.random() < self._refuses:
                follow.append(ActionRefused(site.seq, number, "the manager would not", job_ids))
                continue
            reason = site.act(action)
            if reason is not None:
                raise self._problem(f"{action} is impossible: {reason}")
        if not follow:  # else the scheduler learns only in the next batch that some did not start
            self._compare(self._core.view, SchedulerCore(self._policy, site.inventory()).view)
        return follow

    def _handled(self, core: SchedulerCore, events: list[Event]) -> list[Action]:
        try:
            return core.handle(self.site.now_us, tuple(events))
        except Exception as error:
            raise self._problem(f"{type(error).__name__}: {error}") from error

    def _pass(self) -> Iterator[Action]:
        """Ask for decisions once more, without carrying them out."""
        try:
            yield from self._policy.decide(self._core.view)
        except Exception as error:
            raise self._problem(f"in a second pass, {type(error).__name__}: {error}") from error

    def _compare(self, seen: View, told: View) -> None:
        """Compare what the policy sees with the same from the manager's word."""
        notes = self.site.notes
        pairs: dict[str, tuple[object, object]] = {
            "queue": (seen.queue, told.queue),
            "running": (dict(seen.running), dict(told.running)),
            "releases": (list(seen.releases), list(told.releases)),
            "free": (seen.free, told.free),
            "in_service": (seen.in_service, told.in_service),
            "free_memory_mb": (list(seen.free_memory_mb), list(told.free_memory_mb)),
            "wakes": (list(seen.wakes()), list(told.wakes())),
            "plan": (seen.plan(), told.plan()),
            "thread_counts": (seen.thread_counts(seen.free).tolist(), told.thread_counts(told.free).tolist()),
            "notes": ({key: seen.note(*key) for key in notes}, notes),
        }
        for name in Machine.__slots__:
            pairs[f"machine.{name}"] = (getattr(seen.machine, name), getattr(told.machine, name))
        for name, (one, other) in pairs.items():
            if one != other:
                raise self._problem(f"the policy's view is not what the manager says: {name} {one}, not {other}")

    def _made(self) -> Policy:
        policy = self._make_policy()
        if policy is getattr(self, "_policy", None):
            raise self._problem("make_policy must return a new policy at every call, as a restarted scheduler would")
        return policy

    def _problem(self, text: str) -> PolicyCheckError:
        return PolicyCheckError(self._seed, self._run, self.site.now_us, self._events, text)

    def _draw_job(self) -> JobSpec:
        """Enter a job that the machine can hold."""
        random, site = self._random, self.site
        number = len(site.jobs) + 1
        while True:
            spec, run_us = _draw_job(random, site.machine, number, site.now_us, shaped=random.random() < self._shapes)
            if spec.processes <= site.machine.most_processes(spec):
                site.jobs[number] = _Job(spec, run_us)
                return spec


def _places(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the (node, thread) pairs that ``runs`` name, as often as they do."""
    return [
        (node, thread)
        for first, count, mask, _ in runs
        for node in range(first, first + count)
        for thread in range(mask.bit_length())
        if mask >> thread & 1
    ]


def _shares(runs: Sequence[Run]) -> list[tuple[int, int]]:
    """Return the (node, processes) pairs of ``runs``."""
    return [(node, processes) for first, count, _, processes in runs for node in range(first, first + count)]


def _started_by(action: Action) -> tuple[int, ...]:
    match action:
        case StartJob():
            return (action.job_id,)
        case StartTogether():
            return tuple(start.job_id for start in action.starts)
        case _:
            return ()


def _draw_nodes(random: Random) -> tuple[NodeClass, ...]:
    """Draw 1 to 12 nodes of one or two classes, of 1 to 8 threads."""
    nodes = random.randint(1, 12)
    counts = [nodes] if nodes == 1 or random.random() < 0.6 else [nodes - (few := random.randint(1, nodes // 2)), few]
    return tuple(
        NodeClass(
            nodes=count,
            sockets=random.choice((1, 1, 2)),
            cores_per_socket=random.choice((1, 2, 4)),
            threads_per_core=1,
            memory_mb=random.choice((0, 16, 64)),
            memory_bandwidth_mbs=random.choice((0, 3000, 6000)),
            network_mbs=random.choice((0, 256)),
            disk_mbs=0,
        )
        for count in counts
    )


def _draw_belief(random: Random) -> Belief:
    contention, resources = random.choice(
        (("none", ()), ("bandwidth", ("memory_bandwidth",)), ("bandwidth", ("memory_bandwidth", "network")))
    )
    return Belief(contention, "bulk-synchronous", resources)


def _draw_job(random: Random, machine: Machine, number: int, now_us: int, *, shaped: bool) -> tuple[JobSpec, int]:
    """Draw a job and its true run time; a ``shaped`` one cares on which nodes it runs."""
    # Whole seconds make many things happen at once; the odd microsecond makes others nearly so.
    run_us = random.randint(1, 15) * _SECOND_US + random.choice((0, 0, 0, 1))
    estimate_us = random.choice((run_us, run_us, 2 * run_us, run_us + 3 * _SECOND_US, max(1, run_us // 2)))
    limit_us = random.choice((None, None, estimate_us, estimate_us + _SECOND_US))
    demand: DemandTuple | None = None
    if random.random() < 0.7:
        demand = (random.choice((0, 500, 1000, 2000)), random.choice((0, 0, 100)), 0)
    spec = JobSpec(
        id=number,
        submit_us=now_us,
        processes=random.choice((1, 2, random.randint(1, 8), random.randint(1, machine.threads))),
        estimate_us=estimate_us,
        limit_us=limit_us,
        demand=demand,
    )
    if shaped:
        ppn_min = random.choice((1, 1, 2))
        spec = spec._replace(
            ppn_min=ppn_min,
            ppn_max=random.choice((0, 0, ppn_min, ppn_min + 1)),
            threads_per_process=random.choice((1, 1, 2)),
            memory_mb=random.choice((0, 0, 4, 10)),
            exclusive=random.random() < 0.3,
        )
    return spec, run_us
