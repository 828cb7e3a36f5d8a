"""The conformance suite for policies: `check_policy` plays a small, honest resource manager against a policy.

Machines, jobs, users and operators are random, drawn from the seed. The suite checks after every batch of events:

- the core's invariants hold, and one more pass decides nothing;
- a core rebuilt from the manager's messages decides the same, so a restart changes nothing;
- every decision is the same after encoding and decoding;
- the policy's view equals the manager's state, so the policy has changed nothing that it may only read.

At the end, no job is left that could run. If requested, another process answers all batches once more, and decides the same.
Parts of a composition follow their protocols (`audit`).

A policy may decline a machine (MachineError, before it has decided anything), but not all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from cosched_hwmodel.errors import ContentionError, from_outside
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.deadline import Overdue, overdue_after
from cosched_plugin.common.errors import MachineError
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.protocol import messages as m
from cosched_plugin.testing import happenings, sites
from cosched_plugin.testing.comparisons import Watched, arrived, audit, compositions, find_difference, find_loss
from cosched_plugin.testing.recording import Recording
from cosched_plugin.testing.site_slots import SiteJob
from cosched_plugin.testing.verdict import PolicyCheckError, Report, apart, brief

# The sizes of notes about the cluster: the conformance check tests whether they stay bounded.

_LETTERS: Final = 8  # characters of a text that count as one value
_LEAST: Final = 20  # number of values by which a note must have grown
_SHARE: Final = 0.2  # and relative to its earlier size


def note_sizes(notes: Mapping[tuple[int | None, str], m.NoteValue]) -> dict[str, int]:
    """Return the number of values in each note about the cluster."""
    return {key: _size(value) for (job_id, key), value in notes.items() if job_id is None}


def any_larger(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Return whether any note has grown."""
    return any(size > before.get(key, 0) for key, size in after.items())


def find_growing(before: Mapping[str, int], after: Mapping[str, int]) -> str | None:
    """Return the key of a note that has grown so much that it seems unbounded; None if there is none."""
    for key, size in after.items():
        grown = size - before.get(key, 0)
        if grown >= _LEAST and grown > _SHARE * before.get(key, 0):
            return key
    return None


def _size(value: m.NoteValue) -> int:
    match value:
        case None:
            return 0
        case str():
            return 1 + len(value) // _LETTERS
        case tuple():
            return sum(map(_size, value))
        case _:
            return 1


__all__ = ["PolicyCheckError", "Report", "check_policy"]

_MOST_ROUNDS: Final = 100  # batches at one instant
_MOST_BATCHES: Final = 1_000  # in one run: a policy that wakes itself for ever would never end
_MOST_LONG_BATCHES: Final = 5_000  # the same if jobs take hours
_ROUNDS: Final = 40  # rounds of further jobs if a note seems to grow
_ROUND_JOBS: Final = 10  # further jobs of a round
_WIDTHS: Final = (63, 64, 65, 128)  # threads of a node in some runs: beside the bounds of integers of 64 bits
_JOB_TICKS_S: Final = (10, 120, 600, 1_200)  # of jobs, if some take seconds and others many hours

_ABOUT_JOBS: Final = (m.ReviseJob, m.SuspendJob, m.ResumeJob, m.RejectJob, m.RequeueJob, m.KillJob)

# The happenings of a step, with weights. A calm run has only jobs; a busy one has operators and a manager that refuses starts.
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
    "measure": 5,
}


def check_policy(
    make_policy: Callable[[], Policy],
    *,
    seed: int = 1,
    runs: int = 20,
    first: int = 1,
    models: Mapping[str, PairFactory] = MappingProxyType({}),
    arguments: Sequence[str] = (),
    difficult: bool | None = None,
    threads: int | None = None,
    deadline_s: float | None = None,
) -> Report:
    """Test a policy in ``runs`` random runs of the seed, from number ``first`` on, and return a report.

    ``make_policy`` returns a new policy at every call. With ``models`` the site believes in one of these contention models,
    without parameters, instead of a drawn one. ``arguments`` make ``cosched-plugin check`` choose the same policy (and
    contention models); if they are given, another process must decide the same. ``difficult``: in some runs the manager acts on its
    own, or cannot do all that the protocol says, and jobs ask for more than threads; None: for compositions of parts only, as other
    policies need not know of these. ``threads``: of the nodes in every run, which are else wide in some runs only.
    ``deadline_s``: how long an answer may take; it needs the main thread and SIGALRM. Raises PolicyCheckError at the first error.
    """
    began = time.monotonic()
    recording = Recording()
    if difficult is None:
        difficult = any(True for _ in compositions(make_policy()))
    passed: list[_Trial] = []
    declined: list[MachineError] = []
    for run in range(first, first + runs):
        try:
            passed.append(_go(make_policy, seed, run, models, recording, _Kind(difficult, threads, deadline_s)))
        except MachineError as error:
            declined.append(error)
    if declined and len(declined) == runs:
        raise PolicyCheckError(
            seed, first + runs - 1, 0, (), f"the policy declines every machine; this one as: {declined[-1]}"
        )
    growing = next((trial for trial in passed if trial.notes_grow), None)
    if growing is not None:
        growing.check_note_sizes()
    if arguments:
        difference = recording.find_difference(arguments, time.monotonic() - began)
        if difference is not None:
            raise PolicyCheckError(seed, *difference)
    return _report(seed, passed, len(declined), len(recording) if arguments else 0)


def _report(seed: int, passed: Sequence[_Trial], declined: int, replayed: int) -> Report:
    jobs, batches = sum(len(trial.site.jobs) for trial in passed), sum(trial.site.seq for trial in passed)
    decisions, events = sum(trial.decisions for trial in passed), sum(trial.events for trial in passed)
    asking = sum(trial.wishes or trial.eased for trial in passed)
    eased = sum(trial.eased for trial in passed)
    return Report(seed, len(passed) + declined, jobs, batches, decisions, declined, replayed, events, asking, eased)


def _go(
    make_policy: Callable[[], Policy],
    seed: int,
    run: int,
    models: Mapping[str, PairFactory],
    recording: Recording,
    kind: _Kind,
) -> _Trial:
    """Do a run.

    Where the policy declines, the manager can do all, then jobs ask for less, or the machine gets slots: it has another chance.
    """
    slots = run % 3 != 0 and run % 4 == 0
    if kind.threads is None and run % 7 == 6:
        kind = kind._replace(threads=Random(f"{seed}/{run}/wide").choice(_WIDTHS))
    declined: MachineError | None = None
    recorded = len(recording)
    asking = kind.difficult and run % 5 == 4
    for wishes, lacks in ((True, True), (True, False), (False, False)) if asking else ((False, False),):
        for with_slots in (True,) if slots else (False, True):
            try:
                acts = kind.difficult and run % 5 == 2
                reserves = kind.difficult and run % 5 in (0, 4)
                own = kind._replace(slots=with_slots, wishes=wishes, lacks=lacks, difficult=acts, reserves=reserves)
                trial = _Trial(make_policy, seed, run, models, recording, own)
                trial.go()
            except MachineError as error:
                recording.cut(recorded)
                declined = error
            else:
                trial.eased = asking and not wishes
                return trial
    assert declined is not None
    raise declined


class _Kind(NamedTuple):
    """What is special about a run, and how long an answer may take."""

    difficult: bool  # whether the manager does anything itself
    threads: int | None  # of wide nodes
    deadline_s: float | None
    slots: bool = False
    wishes: bool = False  # whether jobs ask for more than threads and memory
    lacks: bool = False  # whether the manager cannot do all
    reserves: bool = False  # whether nodes are out of service until an announced time


class _Trial:
    """One run: a machine, its jobs and operators, and the policy under test."""

    def __init__(
        self,
        make_policy: Callable[[], Policy],
        seed: int,
        run: int,
        models: Mapping[str, PairFactory],
        recording: Recording,
        kind: _Kind,
    ) -> None:
        self._recording = recording
        self._make_policy = make_policy
        self._models = {**BUILT_IN, **models}
        self._seed, self._run = seed, run
        self._random = Random(f"{seed}/{run}")
        self._more = Random(f"{seed}/{run}/more")  # draws added later, which leave the other ones unchanged
        self._sharing = Random(f"{seed}/{run}/slots")  # draws about slots
        self._hardware = Random(f"{seed}/{run}/hardware")  # draws about measured hardware
        self._own = Random(f"{seed}/{run}/own")  # draws about what the manager does itself
        # Draws about what jobs ask for, and what the manager lacks; about jobs never together.
        self._less, self._sides = [
            Random(f"{seed}/{run}/{name}") if kind.wishes else None for name in ("less", "sides")
        ]
        # Draws about reservations, and about refusals of other actions than starts.
        self._reserving = Random(f"{seed}/{run}/reservations") if kind.reserves else None
        self.wishes, self.eased = kind.wishes, False  # whether jobs asked for more, and had to ask for less than that
        self._wide = Random(f"{seed}/{run}/ppn") if kind.threads else None
        self._difficult, self._deadline_s = kind.difficult, kind.deadline_s
        self._stale = self._sharing.choice((0.0, 0.5))  # share of changes of slots that come too late
        self._measured = run % 3 == 0 and not kind.slots  # jobs may take hours, and slowdowns of pairs are measured
        self.site, self._tick_us = sites.draw_site(
            self._random,
            self._more,
            list(models),
            hardware=self._hardware,
            measured=self._measured,
            sharing=self._sharing if kind.slots else None,
            less=self._less,
            sides=self._sides,
            devices=Random(f"{seed}/{run}/devices") if kind.wishes and not (kind.slots or kind.threads) else None,
            lacks=kind.lacks,
            threads=kind.threads,
        )
        self.decisions, self.events, self._events = 0, 0, list[m.Event]()
        self.notes_grow = False  # notes about the cluster, in the second half of the run
        self._sizes: dict[str, int] = {}  # of these notes, at half of the run
        self._most_batches = _MOST_LONG_BATCHES if self._measured or kind.slots else _MOST_BATCHES
        busy = run % 4 != 1
        self._weights = _BUSY if busy else _CALM
        self._refuses = self._random.choice((0.0, 0.0, 0.1)) if busy else 0.0
        self._shapes = self._random.choice((0.0, 0.1, 0.3) if self._measured else (0.0, 0.3, 1.0))  # of jobs

    def go(self) -> None:
        """Do the whole run."""
        with self._in_time():
            self._policy = self._new_policy()
            self._watched = Watched(self._policy)
            self._core = self._new_core(self._watched)
            self._play()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Bound the time of each batch: policies may never return."""
        try:
            with (
                overdue_after(self._deadline_s, lambda: self.site.seq, ends=True) if self._deadline_s else nullcontext()
            ):
                yield
        except Overdue as where:
            raise self._problem(f"the policy does not answer within {self._deadline_s:g} s: {where}") from None

    def _play(self) -> None:
        steps = self._random.randint(20, 30 if self._measured else 60)
        for step in range(steps):
            self._step()
            if step == steps // 2:
                self._sizes = note_sizes(self.site.notes)
        self._run_out()
        self.notes_grow = any_larger(self._sizes, note_sizes(self.site.notes))
        starved = [job for job in self.site.pending if job.id in self.site.ledger.queue and self.site.could_run(job)]
        stopped = [job.job for job in self.site.running]
        if stopped:
            waits = "" if self.site.slots is None else ", or no turn has their slot"
            raise self._problem(f"no further event comes, and these jobs are suspended{waits}: {brief(stopped)}")
        if starved:
            raise self._problem(
                f"no job runs, no further event comes, and the policy does not start jobs that could run: {brief(starved)}"
            )

    def check_note_sizes(self) -> None:
        """After the run: submit many more jobs, a few at a time, and check whether a note about the cluster grows with each."""
        with self._in_time():
            self._add_jobs()

    def _add_jobs(self) -> None:
        before: dict[str, int] = {}
        for number in range(_ROUNDS):
            if number == _ROUNDS // 2:
                before = note_sizes(self.site.notes)
            self._most_batches = self.site.seq + _MOST_BATCHES
            self._batches([m.JobSubmitted(self._draw_job()) for _ in range(_ROUND_JOBS)])
            self._run_out()
        after = note_sizes(self.site.notes)
        key = find_growing(before, after)
        if key is not None:
            jobs = len(self.site.jobs)
            raise self._problem(
                f"the note {key!r} about the cluster has no bound: it has {after[key]} values after {jobs} jobs, "
                f"and had {before.get(key, 0)} after {jobs - _ROUND_JOBS * (_ROUNDS - _ROUNDS // 2)}"
            )

    def _run_out(self) -> None:
        """Continue until all jobs have ended that can end."""
        while True:  # no more random happenings: running jobs end, and nodes return once no job makes progress
            due_us = self.site.due_us()
            kept = [] if self.site.ends() else happenings.resume_kept(self.site)
            if kept:
                self._batches(kept)
            elif self.site.down and not self.site.ends():
                self._batches([m.NodeReturned(node) for node in sorted(self.site.down)])
            elif due_us is not None:
                # A limit may have fallen below the time that a job has run
                self.site.ledger.now_us = max(due_us, self.site.ledger.now_us)
                self._batches(happenings.due_events(self._sharing, self.site))
            else:
                return

    def _step(self) -> None:
        """Advance to the next instant, and draw what happens there, in the protocol's order."""
        site, random = self.site, self._random
        before_us, due_us = site.ledger.now_us, site.due_us()
        site.ledger.now_us += random.choice((0, 0, 1, 1, 2, 5)) * self._tick_us
        if due_us is not None and (site.ledger.now_us > due_us or random.random() < 0.3):
            site.ledger.now_us = max(due_us, before_us)
        most = 10 if self._measured else 4  # makes queues, in which policies have a choice
        kinds = random.choices(list(self._weights), list(self._weights.values()), k=random.randint(1, most))
        events = happenings.due_events(self._sharing, self.site)
        gone = {event.job_id for event in events if isinstance(event, m.JobEnded)}
        wakes = [event for event in events if isinstance(event, m.Woken)]
        quanta = [event for event in events if isinstance(event, m.QuantumEnded)]
        returns = [event for event in events if isinstance(event, m.NodeReturned)]
        events = [event for event in events if isinstance(event, m.JobEnded)]
        for kind in ("fail", "drain"):
            events += happenings.fail_node(random, site, gone, evict=kind == "fail") if kind in kinds else []
        if self._reserving is not None:
            events += happenings.reserve(self._reserving, site, self._tick_us)
        if "return" in kinds and site.down:
            returns = returns or [m.NodeReturned(random.choice(sorted(site.down)))]
        events += returns
        changes: dict[int, m.Event] = {}
        for kind in sorted(set(kinds) & {"cancel", "hold", "release", "requeue"}):
            changed = happenings.change(random, site, kind, gone | set(changes))
            changes |= {changed.job_id: changed} if changed is not None else {}
        events += [event for _, event in sorted(changes.items())]
        late: list[m.ActionRefused] = []
        if self._difficult:
            late, own = self._difficulties(gone | set(changes))
            events += own
        if self._reserving is not None and self._less is not None:
            events += happenings.confine(self._reserving, site, gone | set(changes))
        if "measure" in kinds and site.slots is None:
            left = {
                event.job_id
                for event in events
                if isinstance(event, m.JobEnded | m.JobRequeued | m.JobStarted | m.JobSuspended)
            }
            left |= {job_id for event in late for job_id in event.job_ids}
            events += happenings.measure(random, site, left)
        events += quanta
        events += [m.JobSubmitted(self._draw_job()) for kind in kinds if kind == "submit"]
        self._batches([*late, *events, *wakes])

    def _difficulties(self, gone: set[int]) -> tuple[list[m.ActionRefused], list[m.Event]]:
        """Draw what the manager does itself: refusals that come late, and all else; jobs in ``gone`` have left, or have changed."""
        late: list[m.ActionRefused] = []
        if self._own.random() < 0.2:
            late = [
                refusal for refusal in happenings.refuse_late(self._own, self.site) if not gone & set(refusal.job_ids)
            ]
        jobs = {job_id for refusal in late for job_id in refusal.job_ids}
        number = len(self.site.jobs) + 1
        new = self._draw_job()
        own = happenings.act_itself(self._own, self.site, gone | jobs, new)
        if not any(isinstance(event, m.JobStarted) and event.job_id == number for event in own):
            del self.site.jobs[number]
        return late, own

    # ------------------------------------------------------------ batches, and the checks after each

    def _batches(self, events: list[m.Event]) -> None:
        """Send events, and those that the answers cause at the same instant; without any, a quantum may begin."""
        rounds = 0
        if not events:
            self.site.settle()
        while events:
            self._events = events
            rounds += 1
            if rounds > _MOST_ROUNDS or self.site.seq > self._most_batches:
                raise self._problem(f"no end after {rounds} batches at this instant, {self.site.seq} in all")
            events = self._batch(events)

    def _batch(self, events: list[m.Event]) -> list[m.Event]:
        site = self.site
        watched = Watched(self._new_policy())
        welcome, batch = arrived(site.inventory()), arrived(m.Events(site.seq + 1, site.ledger.now_us, tuple(events)))
        shadow = SchedulerCore(watched, welcome, models=self._models)
        actions = self._handle(self._core, events)
        restarted = self._handle(shadow, batch.events)
        if actions != restarted:
            raise self._problem(f"a restart changes decisions: {apart(actions, restarted, 'restarted')}")
        lost = find_loss(site.seq + 1, site.ledger.now_us, actions)
        if lost is not None:
            raise self._problem(lost)
        self._recording.add(self._run, welcome, batch, actions)
        try:
            self._core.check()
        except AssertionError as error:
            raise self._problem(f"the scheduler's state is broken: {error}") from error
        work = self._core.view.work
        cut = work.cut or work.spent  # a decision that stops at its budget may have left something to the next one
        more = self._one_more()
        if more is not None and not cut:
            raise self._problem(f"one more pass at the same instant still decides: {brief(more)}")
        self.decisions += len(actions)
        self.events += len(events)
        site.seq += 1
        site.happen(events)
        for seen in (self._watched.ended, watched.ended):
            if list(seen) != site.ended:
                text = f"ended {apart(list(seen), site.ended)}"
                raise self._problem(f"the policy's view is not what the manager says: {text}")
        follow = self._carry_out(actions)
        follow += self._what_follows(refused=bool(follow))
        site.settle()
        if not follow:  # otherwise the scheduler learns only in the next batch that some did not start
            told = self._new_core(self._policy).view
            difference = find_difference(self._core.view, told, site.notes)
            if difference is not None:
                raise self._problem(f"the policy's view is not what the manager says: {difference}")
        return follow

    def _carry_out(self, actions: Sequence[m.Action]) -> list[m.Event]:
        """Let the manager carry out the actions; return its refusals of some of them, and of those that depend on them."""
        site = self.site
        refusals: list[m.Event] = []
        for number, action in enumerate(actions):
            site.number = number
            job_ids = m.started_by(action)
            if (
                (job_ids and self._random.random() < self._refuses)
                or self._is_stale(action)
                or self._is_unwanted(action)
            ):
                refusals.append(m.ActionRefused(site.seq, number, "the manager would not", job_ids))
                continue
            reason = site.act(action)
            if reason is not None:
                if not refusals or not (job_ids or isinstance(action, (m.SetRotation, m.ChangeSlot, *_ABOUT_JOBS))):
                    raise self._problem(f"{brief(action)} is impossible: {reason}")
                # The job, or its host, did not start, or another one has not left its threads or its slot.
                refusals.append(m.ActionRefused(site.seq, number, reason, job_ids))
        return refusals

    def _what_follows(self, *, refused: bool) -> list[m.Event]:
        """Return what follows at this instant from actions that ask for something: ends, requeues, submissions.

        If any was ``refused``, the measurements that hold follow, too.
        """
        site = self.site
        left, asked = site.left, site.asked
        site.left, site.asked = [], []
        follow: list[m.Event] = [*sorted(left, key=lambda event: event.job_id)]
        if refused:
            follow += happenings.still_measured(site, {event.job_id for event in left})
        for job in asked:
            number = len(site.jobs) + 1
            spec = job._replace(id=number, submit_us=site.ledger.now_us)
            site.jobs[number] = SiteJob(job.estimate_us)
            follow.append(m.JobSubmitted(spec))
        return follow

    def _is_stale(self, action: m.Action) -> bool:
        """Draw whether a change of the rotation, or of a job's slot, comes too late."""
        return isinstance(action, m.SetRotation | m.ChangeSlot) and self._sharing.random() < self._stale

    def _is_unwanted(self, action: m.Action) -> bool:
        """Draw whether the manager refuses what it need not; other policies than compositions need not know of that."""
        reserving = self._reserving
        return reserving is not None and isinstance(action, _ABOUT_JOBS) and reserving.random() < self._refuses

    def _handle(self, core: SchedulerCore, events: Sequence[m.Event]) -> list[m.Action]:
        try:
            return core.handle(self.site.ledger.now_us, tuple(events))
        except Exception as error:
            if isinstance(error, MachineError) and (not self.decisions or self._less is not None):
                raise
            if isinstance(error.__cause__, ContentionError):
                raise  # not the policy's fault
            raise self._problem(f"{type(error).__name__}: {error}") from error

    def _one_more(self) -> m.Action | None:
        """Ask for decisions once more, without carrying them out; return the first one."""
        with from_outside(lambda told: self._problem(f"in a second pass, {told}")):
            return next(iter(self._policy.decide(self._core.view)), None)

    def _new_core(self, policy: Policy) -> SchedulerCore:
        """Return a new core made from the manager's present state."""
        return SchedulerCore(policy, self.site.inventory(), models=self._models)

    def _new_policy(self) -> Policy:
        policy = self._make_policy()
        if policy is getattr(self, "_policy", None):
            raise self._problem("make_policy must return a new policy at every call, as a restarted scheduler would")
        audit(policy)
        return policy

    def _problem(self, text: str) -> PolicyCheckError:
        return PolicyCheckError(self._seed, self._run, self.site.ledger.now_us, self._events, text)

    def _draw_job(self) -> m.JobSpec:
        """Enter a job that the machine can hold."""
        random, site = self._random, self.site
        number = len(site.jobs) + 1
        while True:
            shaped = random.random() < self._shapes
            tick_us = random.choice(_JOB_TICKS_S) * SECOND_US if self._measured else self._tick_us
            spec, run_us = sites.draw_job(
                random, site.machine, number, site.ledger.now_us, shaped=shaped, tick_us=tick_us
            )
            if self._measured:
                spec = sites.with_self_slowdown(random, spec)
            if self._less is not None:
                spec = sites.with_wishes(self._less, site.machine, spec, tick_us)
            if self._sides is not None:
                spec = sites.maybe_on_a_side(self._sides, site.machine, spec)
            if self._wide is not None and shaped:
                spec = sites.with_ppn(self._wide, site.machine, spec)
            if spec.processes <= site.machine.most_processes(spec):
                spec = sites.with_owner(self._more, spec)
                if site.belief.contention == sites.COMPOSITE:
                    spec = sites.with_profile(self._hardware, spec)
                if site.slots is not None:
                    spec = sites.maybe_unpaired(self._sharing, spec)
                site.jobs[number] = SiteJob(run_us)
                return spec
