"""What a poll of a real manager shows, a snapshot, and what has happened between two of them, in the protocol's events.

A snapshot says what is there now, not what happened: a job that came and went between two was never there, and one that is gone
without a state ended `UNKNOWN`. Job by job, the rules are (`_of_job`):

| before | after | events |
|---|---|---|
| - | pending | submitted; held |
| - | running | started, with the whole job; suspended |
| pending | pending | modified; held or released |
| pending | running | started; suspended |
| running | pending | requeued; modified; held |
| running | running, restarted or elsewhere | started; suspended |
| running | running | modified, revised, suspended or resumed |
| pending, running | ended, or gone | ended |

Pure: the same two snapshots give the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.threads import each_mask, each_node
from cosched_plugin.protocol import messages as m

PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"
ANOTHER_US: Final = 600_000_000  # between the submissions of two jobs with one number: clocks may differ by less


class PolledJob(NamedTuple):
    """A job as it is in a snapshot."""

    spec: m.JobSpec
    state: str  # PENDING, RUNNING, SUSPENDED, or a final state of the protocol
    held: bool = False  # pending, and must not be started
    start_us: int = 0  # of its present run
    runs: tuple[m.Run, ...] = ()  # where; a thread mask of 0: on some threads, the manager does not tell which
    # what its present run is expected to take, and after what it is killed, without the time in which it is suspended
    estimate_us: int = 0  # 0: the manager does not know
    limit_us: int | None = None
    # the time of its present run in which it was suspended, up to the last time it went on, where that is known
    idle_us: int = 0
    since_us: int = 0  # when it was suspended, or last went on; 0: unknown
    to_disk: bool = False  # others may have its threads while it is suspended
    restarts: int = 0  # how often it has been requeued, as far as the manager counts


class Snapshot(NamedTuple):
    """All that a manager shows at one instant."""

    jobs: Mapping[int, PolledJob]  # by the number that the protocol calls it; ended ones as long as they are shown
    down: frozenset[int] = frozenset()  # nodes that take no work


class Rules(NamedTuple):
    """How exactly a manager tells what it does."""

    grain_us: int = 0  # starts and suspensions that differ by no more are the same; Slurm tells whole seconds
    limit_grain_us: int = 0  # likewise for limits; Slurm has whole minutes


EXACT: Final = Rules()

# The place of an event in its instant (PROTOCOL.md, section 3), for those that a snapshot can tell.
_ENDS, _FAILED, _RETURNED, _CHANGES, _REVISED, _STOPPED, _STARTS, _SUBMITTED = range(8)
_Entry = tuple[int, int, m.Event]  # 0 or 1 for what must have happened a little later; the place; the event


def events_between(before: Snapshot, after: Snapshot, now_us: int, rules: Rules = EXACT) -> list[m.Event]:
    """Return what has happened between two snapshots, in the protocol's order; the second was at ``now_us``."""
    found: list[tuple[int, int, int, int, m.Event]] = []
    for node in before.down ^ after.down:
        event: m.Event = m.NodeFailed(node) if node in after.down else m.NodeReturned(node)
        found.append((0, _FAILED if node in after.down else _RETURNED, node, 0, event))
    for job_id in before.jobs.keys() | after.jobs.keys():
        was, polled = before.jobs.get(job_id), after.jobs.get(job_id)
        if was is polled:
            continue
        for number, (later, place, happened) in enumerate(_of_job(job_id, was, polled, now_us, rules)):
            found.append((later, place, job_id, number, happened))
    found.sort(key=lambda entry: entry[:4])
    return [entry[4] for entry in found]


def _of_job(
    job_id: int, was: PolledJob | None, polled: PolledJob | None, now_us: int, rules: Rules
) -> Iterator[_Entry]:
    """Yield what has happened to a job."""
    if was is not None and was.state in m.END_STATES:
        was = None
    if polled is None or polled.state in m.END_STATES:
        if was is not None:
            yield 0, _ENDS, m.JobEnded(job_id, m.UNKNOWN if polled is None else polled.state)
        return
    spec = _description(polled.spec, was, now_us)
    if was is None:
        if polled.state == PENDING:
            yield 0, _SUBMITTED, m.JobSubmitted(spec)
            if polled.held:
                yield 1, _CHANGES, m.JobHeld(job_id)
        else:
            yield from _started(job_id, spec, polled, now_us, known=False)
        return
    changed = spec != was.spec
    if polled.state == PENDING:
        ran = was.state != PENDING
        if ran:
            yield 0, _CHANGES, m.JobRequeued(job_id)
        if changed:
            yield 0, _CHANGES, m.JobModified(spec)
        if polled.held != (was.held and not ran):
            yield 0, _CHANGES, m.JobHeld(job_id) if polled.held else m.JobReleased(job_id)
    elif was.state == PENDING or _is_elsewhere(was, polled, now_us, rules) or spec.processes != was.spec.processes:
        yield from _started(job_id, spec, polled, now_us, known=not changed)
    else:
        if changed:
            yield 0, _CHANGES, m.JobModified(spec)
        yield from _still_running(job_id, spec, was, polled, now_us, rules)


def _description(spec: m.JobSpec, was: PolledJob | None, now_us: int) -> m.JobSpec:
    """Return a job's description: a requeue may have changed its instant of submission, which stays what it was."""
    submit_us = min(spec.submit_us, now_us) if was is None else was.spec.submit_us
    return spec if submit_us == spec.submit_us else spec._replace(submit_us=submit_us)


def is_another(was: PolledJob, submit_us: int, restarts: int) -> bool:
    """Return whether a job's number is another job's by now: a requeue, which sets a new submission, is counted."""
    return not restarts and abs(submit_us - was.spec.submit_us) > ANOTHER_US


def _is_elsewhere(was: PolledJob, polled: PolledJob, now_us: int, rules: Rules) -> bool:
    """Return whether a running job has been started anew since, or has other nodes or another start."""
    # A manager whose clock is ahead shows starts to come, which are told as now: not once more with each poll until then.
    other = polled.start_us <= now_us and abs(polled.start_us - was.start_us) > rules.grain_us
    return other or polled.restarts > was.restarts or polled.runs != was.runs


def _started(job_id: int, spec: m.JobSpec, polled: PolledJob, now_us: int, *, known: bool) -> Iterator[_Entry]:
    """Yield the start of a job, described anew where its description is not known, and that it is suspended."""
    start_us = min(polled.start_us, now_us)
    estimate_us, limit_us = polled.estimate_us or spec.estimate_us, _granted(spec, polled)
    described = None if known else spec
    yield 0, _STARTS, m.JobStarted(job_id, start_us, polled.runs, estimate_us, limit_us, job=described)
    if polled.state == SUSPENDED:
        yield 1, _STOPPED, m.JobSuspended(job_id, _moment(polled.since_us, start_us, now_us), polled.to_disk)


def _still_running(
    job_id: int, spec: m.JobSpec, was: PolledJob, polled: PolledJob, now_us: int, rules: Rules
) -> Iterator[_Entry]:
    """Yield what has changed for a job that is where it was."""
    granted_us, limit_us = _granted(was.spec, was), _granted(spec, polled)
    both = granted_us is not None and limit_us is not None
    if both and abs((limit_us or 0) - (granted_us or 0)) <= rules.limit_grain_us:
        limit_us = granted_us
    expected_us = was.estimate_us or was.spec.estimate_us
    estimate_us = polled.estimate_us or expected_us
    if (estimate_us, limit_us) != (expected_us, granted_us):
        limit_us = None if limit_us is None else limit_us + was.idle_us
        yield 0, _REVISED, m.JobRevised(job_id, estimate_us + was.idle_us, limit_us)
    stopped, stops = was.state == SUSPENDED, polled.state == SUSPENDED
    again = (
        stopped and stops and (polled.to_disk != was.to_disk or abs(polled.since_us - was.since_us) > rules.grain_us)
    )
    at_us = _moment(polled.since_us, max(was.since_us, was.start_us), now_us)
    if stopped and (again or not stops):
        yield 0, _STOPPED, m.JobResumed(job_id, at_us)
    if stops and (again or not stopped):
        yield 0, _STOPPED, m.JobSuspended(job_id, at_us, polled.to_disk)


def _granted(spec: m.JobSpec, polled: PolledJob) -> int | None:
    """Return the limit of the present run: a job has one exactly where its description has one."""
    if spec.limit_us is None:
        return None
    return spec.limit_us if polled.limit_us is None else polled.limit_us


def _moment(at_us: int, least_us: int, now_us: int) -> int:
    """Return when something happened, if not before ``least_us``; where the manager does not know, now."""
    return now_us if not at_us else min(max(at_us, least_us), now_us)


# Where a manager tells nodes and counts, but not which threads: the places of the plan, where the nodes are those of the plan.


def with_threads(snapshot: Snapshot, plans: Mapping[int, Sequence[m.Run]], threads_of: Sequence[int]) -> Snapshot:
    """Return a snapshot in which every running job has threads: of its plan, or else the lowest that no other job has.

    ``plans`` are the runs that were decided, by job. Where a node has more processes than threads are left, as on a node that is
    shared on purpose, the job keeps a mask of 0, and the adapter must say what that means.
    """
    held: dict[int, int] = {}  # by node
    placed: dict[int, tuple[m.Run, ...]] = {}
    unknown: list[int] = []
    for job_id, polled in sorted(snapshot.jobs.items()):
        if polled.state not in (RUNNING, SUSPENDED):
            continue
        plan = tuple(plans.get(job_id, ()))
        known = all(run.mask for run in polled.runs)
        if not known and dict(each_node(plan)) != dict(each_node(polled.runs)):
            unknown.append(job_id)
            continue
        placed[job_id] = polled.runs if known else plan
        for node, mask in each_mask(placed[job_id]) if not (polled.state == SUSPENDED and polled.to_disk) else ():
            held[node] = held.get(node, 0) | mask
    for job_id in unknown:
        polled = snapshot.jobs[job_id]
        runs: list[m.Run] = []
        for node, processes in each_node(polled.runs):
            free = ((1 << threads_of[node]) - 1) & ~held.get(node, 0)
            wanted = processes * polled.spec.threads_per_process
            bits = [1 << bit for bit in range(threads_of[node]) if free >> bit & 1]
            taken = sum(bits if polled.spec.exclusive else bits[:wanted]) if len(bits) >= wanted else 0
            held[node] = held.get(node, 0) | taken
            runs.append(m.Run(node, 1, ThreadMask(taken), processes))
        placed[job_id] = tuple(runs)
    jobs = {
        job_id: polled._replace(runs=placed[job_id]) if job_id in placed else polled
        for job_id, polled in snapshot.jobs.items()
    }
    return snapshot._replace(jobs=jobs)
