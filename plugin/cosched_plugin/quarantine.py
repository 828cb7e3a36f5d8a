"""A policy that fails on one job does not stop the others: the job is quarantined, as if it were held, and named.

A scheduler whose policy has failed cannot go on, as its state holds decisions that the manager has never got. So it is made anew
from the manager's present state, once, as after a crash. Fails the policy again, pending jobs are left out on trial, which changes
nothing outside. Nothing of this is kept: a restart finds the same jobs again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.errors import raised_by_a_signal
from cosched_plugin.common.errors import PluginError, ProtocolError, UsageError, described
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_terminal.console import WARNING, Log

MOST: Final = 100  # jobs set aside; a policy that fails on more is defective as a whole
_LONGEST: Final = 200  # characters of a reason


class PolicyFailed(PluginError):
    """A policy has failed; the scheduler must be made anew from the manager's present state."""


class Quarantine:
    """Makes schedulers that set jobs aside. It knows these jobs for as long as the process lives."""

    def __init__(self, make: SchedulerFactory, log: Log, label: Callable[[int], str] = str) -> None:
        """``label`` returns the name by which people know a job."""
        self._make = make
        self._label = label
        self._log = log
        self.jobs: dict[int, str] = {}  # what is set aside, and why

    def __call__(self, welcome: m.Welcome) -> Scheduler:
        """Return a scheduler with this state."""
        there = {pending.spec.id for pending in welcome.pending}
        self.jobs = {job_id: why for job_id, why in self.jobs.items() if job_id in there}
        return _Guarded(self, welcome)

    def without(self, welcome: m.Welcome, left_out: Collection[int]) -> Scheduler:
        """Return a scheduler for which these jobs are held."""
        pending = tuple([job._replace(held=job.held or job.spec.id in left_out) for job in welcome.pending])
        return self._make(welcome._replace(pending=pending))

    def add(self, job_id: int, why: str) -> None:
        """Set a job aside."""
        self.jobs[job_id] = why
        text = f"job {self._label(job_id)} is set aside, as the policy fails on it: {why}"
        self._log("set-aside", text, level=WARNING, job=job_id, why=why)


class _First(NamedTuple):
    """The first batch after a welcome."""

    welcome: m.Welcome
    now_us: int
    events: Sequence[m.Event]


class _Guarded:
    """One scheduler after the other, from the same welcome on."""

    def __init__(self, owner: Quarantine, welcome: m.Welcome) -> None:
        self._owner = owner
        self._welcome: m.Welcome | None = welcome  # until the first batch is answered
        self._scheduler = owner.without(welcome, owner.jobs)
        self._noted = {note.job_id for note in welcome.notes if note.key == m.SET_ASIDE and note.job_id is not None}
        self._notes = "notes" in welcome.features
        self._held = {job.spec.id for job in welcome.pending if job.held}  # by the manager, not only set aside

    @property
    def view(self) -> object:
        """Return the view of the scheduler, for its status."""
        return getattr(self._scheduler, "view", None)

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        """Apply events and decide; PolicyFailed where the policy fails in the middle of a conversation."""
        heard = [*self._translated(events)]
        welcome, self._welcome = self._welcome, None
        try:
            actions = self._scheduler.handle(now_us, heard)
        except Exception as error:
            if _no_fault_of_the_policy(error):
                raise
            if welcome is None:
                raise PolicyFailed(_why(error)) from error
            actions = self._set_aside(_First(welcome, now_us, events), error)
        return [*actions, *self._tell()]

    def _translated(self, events: Sequence[m.Event]) -> Iterator[m.Event]:
        """Yield events as the scheduler must hear them: for it a job that is set aside is held."""
        aside = self._owner.jobs
        for event in events:
            match event:
                case m.JobHeld(job_id):
                    self._held.add(job_id)
                    if job_id in aside:
                        continue
                case m.JobReleased(job_id):
                    self._held.discard(job_id)
                    aside.pop(job_id, None)
                case m.JobModified(job) if job.id in aside:
                    del aside[job.id]
                    yield event
                    if job.id not in self._held:
                        yield m.JobReleased(job.id)
                    continue
                case m.JobEnded(job_id):
                    aside.pop(job_id, None)
                    self._held.discard(job_id)
                    self._noted.discard(job_id)  # its notes are gone with it
                case m.JobStarted(job_id):
                    aside.pop(job_id, None)
            yield event

    def _set_aside(self, first: _First, error: Exception) -> list[m.Action]:
        """Set jobs aside until the policy succeeds, and return what it decides.

        Raises its error where it fails without any pending job, or on too many.
        """
        aside = self._owner.jobs
        released = {event.job_id for event in first.events if isinstance(event, m.JobReleased)}
        jobs = [job.spec for job in first.welcome.pending if not job.held or job.spec.id in released]
        jobs += [event.job for event in first.events if isinstance(event, m.JobSubmitted)]
        # The latest first: before it came, all went well
        jobs.sort(key=lambda job: (job.submit_us, job.id), reverse=True)
        left = [job.id for job in jobs if job.id not in aside]
        if isinstance(self._trial(first, left), Exception):
            raise error
        found: Exception | list[m.Action] = error
        while isinstance(found, Exception):
            if len(aside) >= MOST:
                raise found
            self._owner.add(left.pop(self._fewest(first, left) - 1), _why(found))
            found = self._trial(first, ())
        return found

    def _fewest(self, first: _First, left: Sequence[int]) -> int:
        """Return how many of these jobs must be left out at least, from the first on: the last of them is to blame."""
        short, enough = 0, len(left)  # so many are too few; so many are enough
        while enough - short > 1:
            half = (short + enough) // 2 if short else 1
            if isinstance(self._trial(first, left[:half]), Exception):
                short = half
            else:
                enough = half
        return enough

    def _trial(self, first: _First, left_out: Sequence[int]) -> list[m.Action] | Exception:
        """Return what the policy decides without these jobs, or its error. Nothing of it goes to the manager."""
        aside = {*self._owner.jobs, *left_out}
        self._scheduler = self._owner.without(first.welcome, aside)
        try:
            return self._scheduler.handle(first.now_us, [*_without(first.events, aside)])
        except Exception as error:
            if _no_fault_of_the_policy(error):
                raise
            return error

    def _tell(self) -> Iterator[m.Action]:
        """Yield what the manager has not been told: which jobs are set aside, and which are not any more."""
        aside = self._owner.jobs
        if self._notes and self._noted != aside.keys():
            for job_id in sorted(aside.keys() - self._noted):
                yield m.SetNote(job_id, m.SET_ASIDE, aside[job_id])
            for job_id in sorted(self._noted - aside.keys()):
                yield m.SetNote(job_id, m.SET_ASIDE, None)
            self._noted = {*aside}


def _without(events: Sequence[m.Event], left_out: Collection[int]) -> Iterator[m.Event]:
    """Yield events in which these jobs are held as soon as they are there."""
    for event in events:
        if isinstance(event, m.JobHeld | m.JobReleased) and event.job_id in left_out:
            continue
        yield event
        if isinstance(event, m.JobSubmitted) and event.job.id in left_out:
            yield m.JobHeld(event.job.id)


def _why(error: Exception) -> str:
    """Return the policy's own error in a line."""
    cause = error.__cause__ if isinstance(error, PluginError) and isinstance(error.__cause__, Exception) else error
    return described(cause, _LONGEST)


def _no_fault_of_the_policy(error: Exception) -> bool:
    return isinstance(error, ProtocolError | UsageError) or raised_by_a_signal(error)
