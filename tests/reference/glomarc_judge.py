"""A judge of whole schedules of jobs that share nodes, go to disk and return; it shares no code with the scheduler.

Times are microseconds; work is summed in exact fractions. A job's run time is that with one process a node. On a node a job
progresses at 1/f, where f is its own factor (by its place on the node's CPUs) times 1 plus the sum of SL_cos - 1 over the other
jobs there. At every instant its slowest node counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

from cosched_plugin.protocol.messages import COMPLETED, JobSpec, NodeClass, Run

CLASS_BOUNDS_US = (600_000_000, 10_800_000_000)
CLASSES = ("short", "medium", "long")
WHOLE_PPM = 1_000_000

Cos: TypeAlias = Callable[[int, int], int | float | Fraction]
Down: TypeAlias = tuple[int, int, int]  # a node out of service during [since, until)
Slice: TypeAlias = tuple[int, int, str]  # [start, end) of a class


class TrueJob(Protocol):
    """A job as it is; ``self_slowdown`` are SL_sno and SL_scr in millionths, None for none."""

    @property
    def spec(self) -> JobSpec: ...
    @property
    def run_us(self) -> int: ...
    @property
    def self_slowdown(self) -> tuple[int, int] | None: ...


class Stay(Protocol):
    """One stay of a job on its nodes, from a start or (``resumed``) a return from disk to an end or a suspension to disk."""

    @property
    def start_us(self) -> int: ...
    @property
    def end_us(self) -> int: ...
    @property
    def runs(self) -> tuple[Run, ...]: ...
    @property
    def resumed(self) -> bool: ...


class Record(Protocol):
    """The record of a job, as the emulator's `JobRecord` has it."""

    @property
    def job(self) -> TrueJob: ...
    @property
    def state(self) -> str: ...
    @property
    def end_us(self) -> int | None: ...
    @property
    def intervals(self) -> Sequence[Stay]: ...


class _Life(NamedTuple):
    """A job's time from a start to its end, or to a failure of one of its nodes after which it starts again."""

    record: Record
    stays: tuple[Stay, ...]
    over_us: int
    lost: bool


class _Place(NamedTuple):
    """The place of a job on a node: hardware threads, processes, CPUs used, most cores used on one of them."""

    mask: int
    processes: int
    cpus: int
    cores: int


_Meeting: TypeAlias = tuple[int, int, int, int]  # node, other job, since, until


def _nodes_of(runs: Iterable[Run]) -> list[tuple[int, int, int]]:
    """Return (node, mask, processes) of each node."""
    return [(node, mask, processes) for first, count, mask, processes in runs for node in range(first, first + count)]


def _shape(machine: Sequence[NodeClass]) -> list[NodeClass]:
    return [one for one in machine for _ in range(one.nodes)]


def _cores(mask: int, shape: NodeClass) -> set[int]:
    """Return the cores that a mask of hardware threads touches: thread t is on core t modulo their number."""
    cores = shape.sockets * shape.cores_per_socket
    return {thread % cores for thread in range(mask.bit_length()) if mask >> thread & 1}


def _places(record: Record, stay: Stay, shapes: Sequence[NodeClass]) -> dict[int, _Place]:
    """Check that a stay is possible by itself; return the job's place on each of its nodes."""
    spec = record.job.spec
    who = f"job {spec.id} at {stay.start_us} us"
    assert stay.start_us < stay.end_us, f"{who}: a stay that ends at {stay.end_us} us"
    places: dict[int, _Place] = {}
    for node, mask, processes in _nodes_of(stay.runs):
        assert 0 <= node < len(shapes), f"{who}: node {node} of {len(shapes)}"
        assert node not in places, f"{who}: node {node} twice"
        shape = shapes[node]
        assert 0 < mask < 1 << shape.threads, f"{who}: thread mask {mask:#b} of {shape.threads} threads"
        assert 0 < processes * spec.threads_per_process <= mask.bit_count(), (
            f"{who}: {processes} processes on threads {mask:#b} of node {node}"
        )
        on_cpu: defaultdict[int, int] = defaultdict(int)
        for thread in range(mask.bit_length()):
            if mask >> thread & 1:
                on_cpu[thread % (shape.sockets * shape.cores_per_socket) // shape.cores_per_socket] += 1
        places[node] = _Place(mask, processes, len(on_cpu), max(on_cpu.values()))
        if processes <= shape.sockets:
            assert len(on_cpu) >= processes, (
                f"{who}: {processes} processes on {len(on_cpu)} CPUs of node {node}, which has {shape.sockets}"
            )
        may = not spec.eligible or any(first <= node < first + count for first, count in spec.eligible)
        assert may, f"{who}: on node {node}, which it may not have"
    placed = sum(one.processes for one in places.values())
    assert placed == spec.processes, f"{who}: {placed} processes placed, of {spec.processes}"
    return places


def _lives(record: Record, down: Sequence[Down], state: str) -> list[_Life]:
    """Check that a job's stays follow one another, on the same nodes, up to its one end; return them life by life."""
    spec, stays = record.job.spec, record.intervals
    assert record.state == state, f"job {spec.id}: {record.state}, not {state}"
    assert record.end_us is not None, f"job {spec.id}: never ended"
    assert stays or state != COMPLETED, f"job {spec.id}: completed without a stay"
    lives: list[_Life] = []
    life: list[Stay] = []
    since_us = spec.submit_us
    for index, stay in enumerate(stays):
        who = f"job {spec.id} at {stay.start_us} us"
        assert stay.start_us >= since_us, f"{who}: starts before {since_us} us"
        since_us = stay.end_us
        assert stay.resumed == bool(life), f"{who}: {'resumes before it started' if stay.resumed else 'starts again'}"
        assert not life or list(life[0].runs) == list(stay.runs), f"{who}: resumes elsewhere"
        life.append(stay)
        nodes = {node for node, _, _ in _nodes_of(stay.runs)}
        is_last = index + 1 == len(stays)
        until_us = record.end_us if is_last else stays[index + 1].start_us
        failures = [failed_us for node, failed_us, _ in down if node in nodes and stay.start_us < failed_us <= until_us]
        if failures or is_last:
            lost = bool(failures) and not (is_last and state == COMPLETED)
            lives.append(_Life(record, tuple(life), min(failures) if lost else until_us, lost))
            life = []
        for node, failed_us, returned_us in down:
            assert node not in nodes or stay.end_us <= failed_us or stay.start_us >= returned_us, (
                f"{who}: on node {node}, which is down from {failed_us} us on"
            )
    assert since_us <= record.end_us, f"job {spec.id}: ended at {record.end_us} us, on nodes until {since_us} us"
    assert since_us == record.end_us or state != COMPLETED, (
        f"job {spec.id}: completed at {record.end_us} us, on nodes until {since_us} us"
    )
    return lives


def _check_node(
    node: int,
    shape: NodeClass,
    residents: Iterable[tuple[Record, Stay, _Place]],
    class_of: Callable[[JobSpec], str] | None,
    jobs_per_node: int,
    short_alone: bool,
) -> dict[tuple[int, int], list[_Meeting]]:
    """Check the jobs on a node together; return what shares the node with each (job, start of its stay)."""
    met: defaultdict[tuple[int, int], list[_Meeting]] = defaultdict(list)
    present: list[tuple[Record, Stay, _Place]] = []
    for record, stay, place in sorted(residents, key=lambda one: (one[1].start_us, one[0].job.spec.id)):
        present = [one for one in present if one[1].end_us > stay.start_us]
        spec = record.job.spec
        who = f"node {node} at {stay.start_us} us: jobs {[*(one[0].job.spec.id for one in present), spec.id]}"
        for other, others_stay, others_place in present:
            assert not _cores(place.mask, shape) & _cores(others_place.mask, shape), f"{who}: a core held twice"
            if class_of is not None:
                classes = {class_of(spec), class_of(other.job.spec)}
                assert len(classes) == 1, f"{who}: of different classes"
                assert not short_alone or classes != {"short"}, f"{who}: short jobs share"
            until_us = min(stay.end_us, others_stay.end_us)
            met[spec.id, stay.start_us].append((node, other.job.spec.id, stay.start_us, until_us))
            met[other.job.spec.id, others_stay.start_us].append((node, spec.id, stay.start_us, until_us))
        present.append((record, stay, place))
        _check_amounts(who, shape, present)
        assert len(present) <= jobs_per_node, f"{who}: more than {jobs_per_node} jobs"
    return met


def _check_amounts(who: str, shape: NodeClass, present: Sequence[tuple[Record, Stay, _Place]]) -> None:
    """Check that the jobs on a node have no more memory than it has, and of nothing that is counted more."""
    memory_mb = sum(place.processes * record.job.spec.memory_mb for record, _, place in present)
    assert memory_mb <= shape.memory_mb or not memory_mb, f"{who}: {memory_mb} MiB"
    taken: defaultdict[str, int] = defaultdict(int)
    for record, _, _ in present:
        for name, amount in record.job.spec.resources:
            taken[name] += amount
    there = dict(shape.resources)
    for name, amount in taken.items():
        assert amount <= there.get(name, 0), f"{who}: {amount} {name}"


def _check_licences(lives: Sequence[_Life], licences: Mapping[str, int]) -> None:
    """Check that the jobs on nodes never have more licences than there are."""
    stays = [(stay, life.record.job.spec) for life in lives for stay in life.stays]
    for now, _ in stays:
        there = [spec for stay, spec in stays if stay.start_us <= now.start_us < stay.end_us]
        for name in {name for spec in there for name, _ in spec.licences}:
            taken = sum(dict(spec.licences).get(name, 0) for spec in there)
            assert taken <= licences.get(name, 0), f"at {now.start_us} us: {taken} licences {name}"


def own_factor(self_slowdown: tuple[int, int] | None, cpus: int, cores: int) -> Fraction:
    """Return a job's own factor on a node: SL_sno on more than one CPU, SL_scr on more than one core of a CPU."""
    sno_ppm, scr_ppm = self_slowdown or (WHOLE_PPM, WHOLE_PPM)
    factor = Fraction(1)
    if cpus > 1:
        factor *= Fraction(sno_ppm, WHOLE_PPM)
    if cores > 1:
        factor *= Fraction(scr_ppm, WHOLE_PPM)
    return factor


def _work_in(
    job: TrueJob, stay: Stay, delay_us: int, places: Mapping[int, _Place], met: Sequence[_Meeting], cos: Cos
) -> Fraction:
    """Return the work of a job in one stay, in microseconds of its run time; the first ``delay_us`` do no work."""
    own = {node: own_factor(job.self_slowdown, place.cpus, place.cores) for node, place in places.items()}
    active_us = stay.start_us + delay_us
    instants = {active_us, stay.end_us, *(since for _, _, since, _ in met), *(until for _, _, _, until in met)}
    edges = sorted(instant for instant in instants if active_us <= instant <= stay.end_us)
    time_at: defaultdict[Fraction, int] = defaultdict(int)  # factor -> time with this factor
    for since_us, until_us in pairwise(edges):
        others: defaultdict[int, list[int]] = defaultdict(list)
        for node, other, met_us, left_us in met:
            if met_us <= since_us and left_us >= until_us:
                others[node].append(other)
        lots = {(own[node], tuple(sorted(others[node]))) for node in places}
        factor = max(
            alone * (1 + sum((Fraction(cos(job.spec.id, other)) - 1 for other in beside), Fraction(0)))
            for alone, beside in lots
        )
        time_at[factor] += until_us - since_us
    return sum((time_us / factor for factor, time_us in time_at.items()), Fraction(0))


def _check_slices(lives: Iterable[_Life], calendar: Sequence[Slice], class_of: Callable[[JobSpec], str]) -> None:
    """Check that no started job is off its nodes in a slice of its class, which are in order."""
    for (_, end_us, _), (start_us, _, _) in pairwise(calendar):
        assert end_us <= start_us, f"slices out of order at {start_us} us"
    slices = {of: [one for one in calendar if one[2] == of] for of in CLASSES}
    starts = {of: [start_us for start_us, _, _ in slices[of]] for of in CLASSES}
    for life in lives:
        spec = life.record.job.spec
        of = class_of(spec)
        back_us = [*(stay.start_us for stay in life.stays[1:]), life.over_us]
        for off_us, on_us in zip((stay.end_us for stay in life.stays), back_us, strict=True):
            if off_us == on_us:
                continue
            first = max(bisect_right(starts[of], off_us) - 1, 0)  # no slice before it lasts beyond off_us
            for start_us, end_us, _ in slices[of][first:]:
                if start_us >= on_us:
                    break
                assert end_us <= off_us, (
                    f"job {spec.id}: off its nodes at {max(start_us, off_us)} us, in a slice for {of} jobs"
                )


def check_schedule(
    records: Iterable[Record],
    machine: Sequence[NodeClass],
    cos: Cos,
    resume_us: int,
    *,
    class_bounds_us: tuple[int, int] | None = CLASS_BOUNDS_US,
    calendar: Sequence[Slice] | None = None,
    down: Sequence[Down] = (),
    ended_early: Mapping[int, str] | None = None,
    jobs_per_node: int = 2,
    short_alone: bool = True,
    licences: Mapping[str, int] | None = None,
    tolerance_us: int = 3,
) -> None:
    """Raise AssertionError unless the schedule is possible and every job did exactly its work.

    Two jobs never hold the same core. A node has at most ``jobs_per_node`` jobs, all of one class, and at most one short job
    (``short_alone``). If a job has no more processes on a node than the node has CPUs, each has a CPU of its own. A job's stays
    are all on the same threads, and it makes no progress in the first ``resume_us`` of each but the first, though it slows
    others. All jobs complete, except those of ``ended_early``, which maps them to their end states. A job that loses a node
    (``down``), also while it is on disk, starts again. Jobs are on nodes that they may have, with no more memory and no more of what
    is counted, on each node and of ``licences``, than there is.

    ``cos(job, other)``: the slowdown of job beside other, by ids. ``class_bounds_us``: longest estimates of short and
    medium jobs; None: all jobs are of one class. ``calendar``: slices in order, with gaps or without, in which every
    started job of the class must be on its nodes; None: not checked. Ends are rounded up to whole microseconds, hence
    the tolerance.
    """
    shapes = _shape(machine)
    ended_early = ended_early or {}

    def class_of(spec: JobSpec) -> str:
        return CLASSES[sum(spec.estimate_us > bound_us for bound_us in class_bounds_us or ())]

    assert calendar is None or class_bounds_us is not None, "slices are of classes, which have bounds"
    lives: list[_Life] = []
    places: dict[tuple[int, int], dict[int, _Place]] = {}  # by job and start of the stay, as below
    on_node: defaultdict[int, list[tuple[Record, Stay, _Place]]] = defaultdict(list)
    seen: set[int] = set()
    for record in records:
        number = record.job.spec.id
        assert number not in seen, f"job {number}: two records"
        seen.add(number)
        for life in _lives(record, down, ended_early.get(number, COMPLETED)):
            lives.append(life)
            for stay in life.stays:
                places[number, stay.start_us] = _places(record, stay, shapes)
                for node, place in places[number, stay.start_us].items():
                    on_node[node].append((record, stay, place))
    assert seen >= ended_early.keys(), f"jobs {sorted(ended_early.keys() - seen)}: no record"

    met: defaultdict[tuple[int, int], list[_Meeting]] = defaultdict(list)
    of_class = None if class_bounds_us is None else class_of
    for node in sorted(on_node):
        here = _check_node(node, shapes[node], on_node[node], of_class, jobs_per_node, short_alone)
        for key, meetings in here.items():
            met[key] += meetings
    _check_licences(lives, licences or {})
    if calendar is not None:
        _check_slices(lives, calendar, class_of)

    for life in lives:
        job = life.record.job
        work = Fraction(0)
        for index, stay in enumerate(life.stays):
            key = (job.spec.id, stay.start_us)
            work += _work_in(job, stay, resume_us if index else 0, places[key], met[key], cos)
        who = f"job {job.spec.id}: {float(work)} us of work done by {life.over_us} us, of {job.run_us} us"
        assert work <= job.run_us + tolerance_us, who
        assert life.lost or life.record.state != COMPLETED or work >= job.run_us - tolerance_us, who
