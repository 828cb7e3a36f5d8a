"""The ledger of symbiosis: EASY on whole nodes, first come, first served, played beside the real schedule.

It says when a job would have begun had no two jobs shared nodes. A job that is ahead of that may be asked to pay more than its
budget, as it still ends no later than under EASY. What is played counts cores of whole nodes in service. There a job takes its
estimate, until it has really ended; then what it would have taken alone, as far as its expected end tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar, Final, NamedTuple, cast

from cosched_plugin.api import PAYMENTS, Changes, Ended, JobSpec, Ledger, Needs, NoteValue, Running, View, common, size

NOTE: Final = "ledger"
_WAITS: Final = -1  # the begin of a job that waits in the ledger
_FIELDS: Final = 6  # of a job that is gone, in a note: its id besides


class _Gone(NamedTuple):
    """A job that has really ended, and that the ledger still counts."""

    cores: int  # of the nodes that it takes
    submit_us: int
    estimate_us: int
    run_us: int  # span that it takes there
    begin_us: int  # `_WAITS`: it has not begun


class VirtualEasy(Ledger):
    """Keeps EASY's schedule beside the real one.

    ``share``: of the span by which a job is ahead, what it may be asked for. ``most``: jobs that have really ended and are still
    counted, at most; of more, the last in the queue are forgotten, so that others begin sooner there and are less far ahead.
    """

    needs: ClassVar[Needs] = frozenset({PAYMENTS})
    note: ClassVar[str] = NOTE
    follows_arrivals: ClassVar[bool] = True

    def __init__(self, *, share: float = 0.8, most: int = 500) -> None:
        self._share = share
        self._most = most
        self._account: _Account | None = None  # a cache: what the note says

    def spare_us(self, running: Running, view: View) -> int:
        """Return a share of the span by which a job is ahead; one that waits in the ledger begins there now at the soonest."""
        begin_us = self._read(view).begun.get(running.job.id, view.now_us)
        return max(0, int(self._share * (begin_us + running.job.estimate_us - view.expected_end(running))))

    def remember(self, changes: Changes, view: View) -> NoteValue:
        """Play EASY up to now, with the jobs that have come, and the run times of those that have ended."""
        if not (changes.arrived or changes.ended):
            return view.note(None, NOTE)
        account = self._read(view)
        account.settle(changes.ended, view)
        account.play(view, self._most)
        return account.write()

    def _read(self, view: View) -> _Account:
        note = view.note(None, NOTE)
        if self._account is None or note is not self._account.note:
            self._account = _Account(note)
        return self._account


class _Account:
    """What the note says: up to when EASY is played, and which jobs have begun. The view describes jobs that really wait or run."""

    __slots__ = ("at_us", "begun", "gone", "note")

    def __init__(self, note: NoteValue) -> None:
        """Read a note; one of another form counts as none: then all jobs wait in the ledger."""
        self.note = note
        self.at_us = 0
        self.begun: dict[int, int] = {}  # begin by job that really waits or runs
        self.gone: dict[int, _Gone] = {}
        if _is_account(note):
            self.at_us, begun, gone = cast("tuple[int, tuple[int, ...], tuple[int, ...]]", note)
            self.begun = dict(zip(begun[::2], begun[1::2], strict=True))
            self.gone = {job_id: _Gone(*of) for job_id, *of in zip(*[iter(gone)] * _FIELDS, strict=True)}

    def settle(self, ends: Sequence[Ended], view: View) -> None:
        """Take over which jobs have really ended."""
        for ended in ends:
            job = ended.running.job
            if view.pending(job.id) is None:  # else it has to run once more: there it does so only once
                begin_us = self.begun.pop(job.id, _WAITS)
                self.gone[job.id] = _Gone(_cores(job, view), job.submit_us, job.estimate_us, _work_us(ended), begin_us)

    # Ends must be played in order of time, each with a pass: jobs that came later do not wait there yet. Whatever is played follows
    # from note and view alone, or a scheduler that was restarted would play something else.
    def play(self, view: View, most: int) -> None:
        """Let jobs end and begin up to now; ``most`` jobs that are gone are counted."""
        live = {job.id: job for job in view.queue} | {job_id: running.job for job_id, running in view.running.items()}
        self.begun = {job_id: begin_us for job_id, begin_us in self.begun.items() if job_id in live}
        known = {job_id: (job.cores, job.estimate_us, job.run_us) for job_id, job in self.gone.items()}
        known |= {job_id: (_cores(job, view), job.estimate_us, job.estimate_us) for job_id, job in live.items()}
        waiting = [(job.submit_us, job_id) for job_id, job in self.gone.items() if job.begin_us == _WAITS]
        for _, job_id in sorted(waiting, reverse=True)[: max(0, len(self.gone) - most)]:
            del self.gone[job_id]
        waiting = [place for place in waiting if place[1] in self.gone]
        waiting += [(job.submit_us, job_id) for job_id, job in live.items() if job_id not in self.begun]
        begun = self.begun | {job_id: job.begin_us for job_id, job in self.gone.items() if job.begin_us != _WAITS}
        there = _There(_in_service(view), known, begun, sorted(waiting))
        there.leave(self.at_us)
        for at_us in there.until(view.now_us):
            there.start(at_us)
        there.start(view.now_us)
        for job_id, begin_us in there.started.items():
            if job_id in self.gone:
                self.gone[job_id] = self.gone[job_id]._replace(begin_us=begin_us)
            else:
                self.begun[job_id] = begin_us
        self.gone = {
            job_id: job for job_id, job in self.gone.items() if job.begin_us == _WAITS or job_id in there.running
        }
        self.at_us = view.now_us

    def write(self) -> NoteValue:
        """Return the note."""
        begun = tuple([item for pair in self.begun.items() for item in pair])
        gone = tuple([item for job_id, job in self.gone.items() for item in (job_id, *job)])
        self.note = (self.at_us, begun, gone)
        return self.note


class _There:
    """The cores, and the jobs that run there."""

    __slots__ = ("_ends", "_queue", "free", "known", "running", "started")

    def __init__(
        self,
        cores: int,
        known: Mapping[int, tuple[int, int, int]],
        running: dict[int, int],
        queue: list[tuple[int, int]],
    ) -> None:
        """``known``: cores, estimate and run time by job; ``running``: begins; ``queue``: (submission, id), sorted."""
        self.known = known
        self.running = running
        self._queue = queue
        self.started: dict[int, int] = {}  # begins of jobs that have begun here
        self.free = cores - sum([known[job_id][0] for job_id in running])
        self._ends = [(begin_us + known[job_id][2], job_id) for job_id, begin_us in running.items()]
        heapify(self._ends)

    def start(self, at_us: int) -> None:
        """Let the jobs begin that EASY starts at an instant."""
        shadow: tuple[int, int] | None = None  # of the head: when it can begin, and the cores that it leaves then
        blocked = False
        kept = []
        for number, (submit_us, job_id) in enumerate(self._queue):
            if self.free <= 0 or submit_us > at_us:
                kept += self._queue[number:]
                break
            cores, estimate_us, _ = self.known[job_id]
            fits = cores <= self.free
            if fits and shadow is not None and at_us + estimate_us > shadow[0]:
                fits = cores <= shadow[1]
                shadow = (shadow[0], shadow[1] - cores) if fits else shadow
            if fits:
                self._begin(job_id, at_us)
                continue
            kept.append((submit_us, job_id))
            if not blocked:
                blocked = True
                shadow = self.shadow(cores)
        self._queue = kept

    def _begin(self, job_id: int, at_us: int) -> None:
        cores, _, run_us = self.known[job_id]
        self.running[job_id] = self.started[job_id] = at_us
        self.free -= cores
        heappush(self._ends, (at_us + run_us, job_id))

    def leave(self, until_us: int) -> None:
        """Let the jobs leave that have ended by an instant."""
        while self._ends and self._ends[0][0] <= until_us:
            _, job_id = heappop(self._ends)
            del self.running[job_id]
            self.free += self.known[job_id][0]

    def until(self, until_us: int) -> Iterator[int]:
        """Let jobs leave, and yield each instant at which some have, up to ``until_us``."""
        while self._ends and self._ends[0][0] <= until_us:
            at_us = self._ends[0][0]
            self.leave(at_us)
            yield at_us

    def shadow(self, cores: int) -> tuple[int, int] | None:
        """Return when so many cores are free by estimates, and how many more then; None where there are never as many."""
        free = self.free
        ends = sorted([(begin_us + self.known[job_id][1], job_id) for job_id, begin_us in self.running.items()])
        for place, (end_us, job_id) in enumerate(ends):
            free += self.known[job_id][0]
            if free >= cores and (place + 1 == len(ends) or ends[place + 1][0] > end_us):
                return end_us, free - cores
        return None


def _in_service(view: View) -> int:
    """Return the cores of the nodes in service."""
    return size(common(view.machine.first_threads, view.in_service))


def _cores(job: JobSpec, view: View) -> int:
    """Return the cores of the nodes that a job takes, where all nodes have as many; else its processes."""
    classes = view.machine.classes
    a_node = classes[0].cores if len(classes) == 1 else 1
    return -(-job.processes // a_node) * a_node


def _work_us(ended: Ended) -> int:
    """Return what a job that has ended would have taken alone: its progress, less what its expected run time says was lost."""
    running = ended.running
    expected_us = running.end_us - running.start_us - running.idle_us
    return max(1, min(ended.progress_us, ended.progress_us * running.job.estimate_us // max(1, expected_us)))


def _is_account(note: NoteValue) -> bool:
    """Tell whether a note has the form that `_Account.write` gives it."""
    if type(note) is not tuple or list(map(type, note)) != [int, tuple, tuple]:
        return False
    begun, gone = cast("tuple[tuple[NoteValue, ...], tuple[NoteValue, ...]]", note[1:])
    return {*map(type, (*begun, *gone))} <= {int} and not (len(begun) % 2 or len(gone) % _FIELDS)
