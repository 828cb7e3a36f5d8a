"""Textbook space sharing, as plain as possible: a reference for the real scheduler, which shares no code with it.

The machine is a number of equal processors, and only their count matters. Times are integers of any one unit. At one
instant all ends happen first, then all submissions, then one scheduling pass; there are no passes at other instants
unless asked for. Everything is recomputed from scratch at every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias


class Job(NamedTuple):
    """A rigid job. It ends at start + ``run``; a scheduler knows only ``estimate``. No job is killed."""

    id: int
    submit: int
    processors: int
    run: int
    estimate: int


class Busy(NamedTuple):
    """``processors`` taken during [start, end)."""

    start: int
    end: int
    processors: int


Starts: TypeAlias = dict[int, int]  # job id -> start time
Candidates: TypeAlias = Literal["submission", "shortest"]


def by_submission(job: Job) -> tuple[int, int]:
    """Sort key of first come, first served."""
    return (job.submit, job.id)


def by_estimate(job: Job) -> tuple[int, int, int]:
    """Sort key of shortest first."""
    return (job.estimate, job.submit, job.id)


def used_at(time: int, busy: Iterable[Busy]) -> int:
    """Return the processors taken at ``time``."""
    return sum(one.processors for one in busy if one.start <= time < one.end)


def fits(start: int, job: Job, busy: Sequence[Busy], processors: int) -> bool:
    """Say whether ``job`` can have its processors for all of [start, start + estimate)."""
    # Usage rises only where an interval begins, so no other instant matters.
    instants = [start] + [one.start for one in busy if start < one.start < start + job.estimate]
    return all(used_at(time, busy) + job.processors <= processors for time in instants)


def earliest(now: int, job: Job, busy: Sequence[Busy], processors: int) -> int:
    """Return the earliest start, not before ``now``, at which ``job`` fits: now, or the end of something."""
    return min(time for time in {now} | {one.end for one in busy if one.end > now} if fits(time, job, busy, processors))


class Machine:
    """The state that a scheduling pass reads and changes."""

    def __init__(self, processors: int) -> None:
        self.processors = processors
        self.now = 0
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.starts: Starts = {}

    def free(self) -> int:
        """Return the processors that no job holds now."""
        return self.processors - sum(job.processors for job in self.running)

    def expected_end(self, job: Job) -> int:
        """Return when a running job should end; one beyond its estimate is expected to end one unit from now."""
        return max(self.starts[job.id] + job.estimate, self.now + 1)

    def start(self, job: Job) -> None:
        """Start a waiting job now."""
        assert job.processors <= self.free(), (job, self.now)
        self.waiting.remove(job)
        self.running.append(job)
        self.starts[job.id] = self.now


# Does one pass; returns when it wants another one without an event (None: never).
Pass: TypeAlias = Callable[[Machine], "int | None"]


def simulate(jobs: Sequence[Job], processors: int, one_pass: Pass, extra_passes: Iterable[int] = ()) -> Starts:
    """Run ``jobs`` to the end and return their starts; a pass at every end, submission, wish and ``extra_passes``."""
    for job in jobs:
        if not 0 < job.processors <= processors or job.run < 1 or job.estimate < 1:
            raise ValueError(f"cannot run {job} on {processors} processors")
    machine = Machine(processors)
    to_come = list(jobs)
    extra = set(extra_passes)
    wish: int | None = None
    while to_come or machine.waiting or machine.running:
        instants = [job.submit for job in to_come]
        instants += [machine.starts[job.id] + job.run for job in machine.running]
        instants += list(extra)
        if wish is not None:
            instants.append(wish)
        machine.now = now = min(instants)
        extra.discard(now)
        machine.running = [job for job in machine.running if machine.starts[job.id] + job.run > now]
        machine.waiting += [job for job in to_come if job.submit <= now]
        to_come = [job for job in to_come if job.submit > now]
        wish = one_pass(machine)
        assert wish is None or wish > now
    return machine.starts


def _start_while_it_fits(machine: Machine, queue: Sequence[Job]) -> None:
    """Start from the head of ``queue`` and stop at the first job that does not fit."""
    for job in queue:
        if job.processors > machine.free():
            return
        machine.start(job)


def fcfs(jobs: Sequence[Job], processors: int, extra_passes: Iterable[int] = ()) -> Starts:
    """Return the starts under first come, first served without backfilling."""

    def one_pass(machine: Machine) -> None:
        _start_while_it_fits(machine, sorted(machine.waiting, key=by_submission))

    return simulate(jobs, processors, one_pass, extra_passes)


def skip(jobs: Sequence[Job], processors: int, extra_passes: Iterable[int] = ()) -> Starts:
    """Return the starts where each job that fits starts, in order of submission, whatever the others need."""

    def one_pass(machine: Machine) -> None:
        for job in sorted(machine.waiting, key=by_submission):
            if job.processors <= machine.free():
                machine.start(job)

    return simulate(jobs, processors, one_pass, extra_passes)


def shortest_first(jobs: Sequence[Job], processors: int, extra_passes: Iterable[int] = ()) -> Starts:
    """Return the starts under shortest estimate first: the first job that does not fit blocks the rest."""

    def one_pass(machine: Machine) -> None:
        _start_while_it_fits(machine, sorted(machine.waiting, key=by_estimate))

    return simulate(jobs, processors, one_pass, extra_passes)


def shadow_and_extra(machine: Machine, head: Job) -> tuple[int, int]:
    """Return when the blocked ``head`` will fit by the expected ends, and the processors left over then."""
    for time in sorted(machine.expected_end(job) for job in machine.running):
        left = machine.processors - sum(job.processors for job in machine.running if machine.expected_end(job) > time)
        if left >= head.processors:
            return time, left - head.processors
    raise AssertionError("the head is not blocked")


def easy(
    jobs: Sequence[Job], processors: int, candidates: Candidates = "submission", extra_passes: Iterable[int] = ()
) -> Starts:
    """Return the starts under EASY backfilling: one reservation, for the first job that does not fit.

    ``candidates`` is the order in which the jobs behind the head are tried: by submission (EASY), or shortest
    estimate first (SJBF). One that would end exactly at the shadow time may start.
    """

    def one_pass(machine: Machine) -> None:
        _start_while_it_fits(machine, sorted(machine.waiting, key=by_submission))
        if not machine.waiting:
            return
        head, *behind = sorted(machine.waiting, key=by_submission)
        shadow, extra = shadow_and_extra(machine, head)
        for job in sorted(behind, key=by_submission if candidates == "submission" else by_estimate):
            if job.processors > machine.free():
                continue
            if machine.now + job.estimate <= shadow:
                machine.start(job)
            elif job.processors <= extra:
                machine.start(job)
                extra -= job.processors

    return simulate(jobs, processors, one_pass, extra_passes)


def conservative(
    jobs: Sequence[Job],
    processors: int,
    newcomers_first: bool = False,
    wake_at_reservations: bool = False,
    extra_passes: Iterable[int] = (),
) -> tuple[Starts, Starts]:
    """Return (starts, first promised starts) under conservative backfilling with compression.

    Every job gets, at submission, the earliest start that delays no reservation made before. At every pass the
    reservations whose time has come start; then, sweep after sweep, each pending job in submission order is lifted
    and put at its earliest start given all the others, until a sweep changes nothing. Nothing moves later while run
    <= estimate.

    Jobs submitted at the instant of an end get their reservation after the compression (each event by itself, ends
    first); ``newcomers_first`` lets them take their place before it. Where jobs outlive their estimates, reservations
    that are no longer possible are first put again, in submission order, at the earliest start given the running jobs
    and the reservations of those submitted before. ``wake_at_reservations`` adds a pass at every reserved start; it
    makes no difference while run <= estimate.
    """
    reserved: dict[int, int] = {}
    promised: dict[int, int] = {}

    def plan(machine: Machine, waiting: Iterable[Job]) -> list[Busy]:
        busy = [Busy(machine.now, machine.expected_end(job), job.processors) for job in machine.running]
        return busy + [Busy(reserved[job.id], reserved[job.id] + job.estimate, job.processors) for job in waiting]

    def with_reservation(machine: Machine) -> list[Job]:
        return sorted((job for job in machine.waiting if job.id in reserved), key=by_submission)

    def put_impossible_again(machine: Machine) -> None:
        done: list[Job] = []
        for job in with_reservation(machine):
            others = plan(machine, done)
            if reserved[job.id] < machine.now or not fits(reserved[job.id], job, others, processors):
                reserved[job.id] = earliest(machine.now, job, others, processors)
            done.append(job)

    def reserve_newcomers(machine: Machine) -> None:
        for job in sorted((job for job in machine.waiting if job.id not in reserved), key=by_submission):
            others = plan(machine, with_reservation(machine))
            promised[job.id] = reserved[job.id] = earliest(machine.now, job, others, processors)

    def start_due(machine: Machine) -> None:
        for job in with_reservation(machine):
            if reserved[job.id] == machine.now:
                machine.start(job)

    def compress(machine: Machine) -> None:
        changed = True
        while changed:
            changed = False
            for job in with_reservation(machine):
                others = plan(machine, [other for other in with_reservation(machine) if other != job])
                time = earliest(machine.now, job, others, processors)
                assert time <= reserved[job.id]
                changed = changed or time < reserved[job.id]
                reserved[job.id] = time

    def one_pass(machine: Machine) -> int | None:
        put_impossible_again(machine)
        if newcomers_first:
            reserve_newcomers(machine)
        start_due(machine)
        compress(machine)
        reserve_newcomers(machine)
        start_due(machine)
        if wake_at_reservations and machine.waiting:
            return min(reserved[job.id] for job in machine.waiting)
        return None

    return simulate(jobs, processors, one_pass, extra_passes), promised


# ---------------------------------------------------------------- properties that any schedule of the kind must have


def check_no_overcommit(jobs: Sequence[Job], starts: Mapping[int, int], processors: int) -> None:
    """Assert that every job starts, none before its submission, and that the processors suffice at every instant."""
    assert sorted(starts) == sorted(job.id for job in jobs)
    busy = [Busy(starts[job.id], starts[job.id] + job.run, job.processors) for job in jobs]
    for job in jobs:
        assert starts[job.id] >= job.submit, f"{job} starts at {starts[job.id]}, before its submission"
        used = used_at(starts[job.id], busy)
        assert used <= processors, f"{used} of {processors} processors in use at {starts[job.id]}"


def check_easy_reservation(jobs: Sequence[Job], starts: Mapping[int, int], processors: int) -> None:
    """Assert that a schedule is EASY for some order of candidates; needs run <= estimate.

    After every pass of the replayed schedule: the blocked head does not fit; its shadow time is not later than after
    any earlier pass, and it starts by then; and no job behind it could still be backfilled.
    """
    assert all(job.run <= job.estimate for job in jobs)
    shadows: dict[int, int] = {}
    for now in sorted({job.submit for job in jobs} | {starts[job.id] + job.run for job in jobs}):
        machine = Machine(processors)
        machine.now = now
        machine.running = [job for job in jobs if starts[job.id] <= now < starts[job.id] + job.run]
        machine.starts = dict(starts)
        waiting = sorted((job for job in jobs if job.submit <= now < starts[job.id]), key=by_submission)
        if not waiting:
            continue
        head, *behind = waiting
        assert head.processors > machine.free(), f"{head} fits at {now} and is not started"
        shadow, extra = shadow_and_extra(machine, head)
        assert shadow <= shadows.get(head.id, shadow), (
            f"{head} is delayed at {now}, from {shadows[head.id]} to {shadow}"
        )
        shadows[head.id] = shadow
        for job in behind:
            may_start = job.processors <= machine.free() and (now + job.estimate <= shadow or job.processors <= extra)
            assert not may_start, f"{job} could be backfilled at {now}"
    for number, shadow in shadows.items():
        assert starts[number] <= shadow, f"job {number} starts at {starts[number]}, after its shadow time {shadow}"


def check_conservative(
    jobs: Sequence[Job], starts: Mapping[int, int], promised: Mapping[int, int], processors: int
) -> None:
    """Assert that no job starts after its promise (needs run <= estimate).

    With exact estimates also that starts and promises are those of dropping the jobs one by one, in submission order,
    each into the first hole of the finished plan of its predecessors.
    """
    assert all(job.run <= job.estimate for job in jobs)
    for job in jobs:
        assert job.submit <= starts[job.id] <= promised[job.id], f"{job}: {starts[job.id]}, promised {promised[job.id]}"
    if all(job.run == job.estimate for job in jobs):
        busy: list[Busy] = []
        for job in sorted(jobs, key=by_submission):
            time = earliest(job.submit, job, busy, processors)
            assert starts[job.id] == promised[job.id] == time, f"{job} belongs at {time}"
            busy.append(Busy(time, time + job.estimate, job.processors))
