"""Policies and a part with forbidden state: they pass the check while all jobs have the same user and name."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from cosched_plugin.api import Action, Changes, JobSpec, NoteValue, Order, StartJob, View, first_fit
from cosched_plugin.core.engine import Policy
from cosched_plugin.policies.backfilling.easy import Easy
from cosched_plugin.policies.composition.composed import Composed
from cosched_plugin.policies.placement.compact import FirstFit, Threads
from cosched_plugin.policies.planning.neutral import NoMatching, NoPairing


class Sorted:
    """Start whatever fits, in an order that subclasses change by their state."""

    def rank(self, job: JobSpec) -> int:
        """Return the sort key that precedes the order of submission."""
        raise NotImplementedError

    def note_start(self, job: JobSpec) -> None:
        """Remember a start."""

    def note_ends(self, view: View) -> None:
        """Remember the ends of jobs."""

    def decide(self, view: View) -> Iterator[Action]:
        self.note_ends(view)
        for job in sorted(view.queue, key=self.rank):
            runs = first_fit(job, view.free, view.machine, view.free_memory_mb)
            if runs is not None:
                yield StartJob(job.id, runs, job.estimate_us, job.limit_us)
                self.note_start(job)


class StartsPerUser(Sorted):
    """Start jobs of the user with the fewest starts first, counted in an attribute."""

    def __init__(self) -> None:
        self.starts: Counter[str] = Counter()

    def rank(self, job: JobSpec) -> int:
        return self.starts[job.user]

    def note_start(self, job: JobSpec) -> None:
        self.starts[job.user] += 1


class LastEnds(Sorted):
    """Start jobs of the user first whose last job ended longest ago, stored in an attribute."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}

    def rank(self, job: JobSpec) -> int:
        return self.ends.get(job.user, 0)

    def note_ends(self, view: View) -> None:
        for ended in view.ended:
            self.ends[ended.running.job.user] = ended.at_us


class LastDecision(Sorted):
    """Start jobs first that have the name of the last started job."""

    def __init__(self) -> None:
        self.name = ""

    def rank(self, job: JobSpec) -> int:
        return job.name != self.name

    def note_start(self, job: JobSpec) -> None:
        self.name = job.name


class UsersInTurn(Order):
    """A queue order: the user with the fewest starts first, counted in an attribute when jobs are seen to run."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.starts: Counter[str] = Counter()

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        for job_id in view.running.keys() - self.seen:
            self.starts[view.running[job_id].job.user] += 1
        self.seen |= view.running.keys()
        return sorted(jobs, key=lambda job: self.starts[job.user])


def users_in_turn() -> Policy:
    """Return a composition with that order."""
    return Composed(UsersInTurn(), Easy(), FirstFit(), NoMatching(), NoPairing(), Threads())


class ByIdentity(Sorted):
    """Order by the memory address of a job's record."""

    def rank(self, job: JobSpec) -> int:
        return id(job)


class ByHash(Sorted):
    """Order by a hash of the user, which differs between processes."""

    def rank(self, job: JobSpec) -> int:
        return hash(job.user)


class ByClock(Sorted):
    """Start small jobs first in odd hours, and large ones in even hours."""

    def rank(self, job: JobSpec) -> int:
        odd = int(time.time() / 3600) % 2
        return job.processes if odd else -job.processes


class InModule(Sorted):
    """Count starts per user in the module, which a restart within the process does not reset."""

    def rank(self, job: JobSpec) -> int:
        return list(STARTED.values()).count(job.user)

    def note_ends(self, view: View) -> None:
        for job_id, running in view.running.items():
            STARTED.setdefault(job_id, running.job.user)


class Notebook(Order):
    """Add every job that ends to a note, and never remove it."""

    note = "notebook"

    def remember(self, changes: Changes, view: View) -> NoteValue:
        before = view.note(None, self.note)
        return (before if isinstance(before, tuple) else ()) + tuple(ended.running.job.id for ended in changes.ended)

    def arrange(self, jobs: list[JobSpec], view: View) -> list[JobSpec]:
        return jobs


class ShortNotebook(Notebook):
    """Note the last 60 jobs that ended."""

    def remember(self, changes: Changes, view: View) -> NoteValue:
        told = super().remember(changes, view)
        assert isinstance(told, tuple)
        return told[-60:]


STARTED: dict[int, str] = {}
CHEATS = [StartsPerUser, users_in_turn, LastEnds, LastDecision]
