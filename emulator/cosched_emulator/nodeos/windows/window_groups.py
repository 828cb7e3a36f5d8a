"""A window: jobs that share nodes are simulated until the rate of each is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid.situations import half_width
from cosched_emulator.nodeos.kernel.devices import paging_us
from cosched_emulator.nodeos.programs import ByRank, Loop, Program
from cosched_emulator.nodeos.settings import BATCHES, NodeSettings, WindowPlan
from cosched_emulator.nodeos.windows.windowed_job import Extent, MeasuredPace, Use, WindowJob, WindowStage, used_by
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

# The parts of a cluster that do not influence each other.


class ConnectedJobs(NamedTuple):
    """Jobs that share nodes, directly or by way of others, or the server for files; where they may run, by node."""

    where: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return its nodes."""
        return tuple([node for node, _ in self.where])

    @property
    def jobs(self) -> tuple[int, ...]:
        """Return its jobs, in order of their numbers."""
        return tuple(sorted({job for _, jobs in self.where for job in jobs}))


def parts_of(chosen: Sequence[tuple[int, ...]], jobs: Mapping[int, WindowJob]) -> list[ConnectedJobs]:
    """Return the parts, for the jobs that may run on each node."""
    head: dict[int, int] = {}

    def find(job: int) -> int:
        while head[job] != job:
            head[job] = job = head[head[job]]
        return job

    writer = None
    for there in chosen:
        for job in there:
            if job not in head:
                head[job] = job
                if jobs[job].extent.writes_shared:
                    writer = job if writer is None else writer
                    head[find(job)] = find(writer)
            head[find(job)] = find(there[0])
    rows: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for node, there in enumerate(chosen):
        if there:
            rows.setdefault(find(there[0]), []).append((node, there))
    return [ConnectedJobs(tuple(where)) for where in rows.values()]


class SimulatedWindow:
    """The batches of one window, which begins anew when a job enters another phase, or still reads its memory."""

    def __init__(self, jobs: Sequence[WindowJob], plan: WindowPlan, now_us: int) -> None:
        self._jobs = jobs
        self._plan = plan
        self._batch_us = (plan.least_us - plan.warm_up_us) // BATCHES
        self._begin(now_us)

    def _begin(self, now_us: int) -> None:
        self.sample_us = now_us + self._plan.warm_up_us  # when the next sample is due
        self._most_us = now_us + self._plan.most_us
        self._situations = [job.situation() for job in self._jobs]
        self._samples: list[list[int]] = []  # work done by each job
        self._uses: list[list[Use]] = []  # at the first sample
        self._works: list[list[int]] = []  # likewise
        self._since_us = 0  # time of it

    def sample(self, now_us: int) -> bool:
        """Take a sample; return whether the rates are known well enough."""
        if self._situations != [job.situation() for job in self._jobs]:
            self._begin(now_us)
            return False
        if not self._samples:
            if any(process.paging for job in self._jobs for process in job.record.processes):
                self._begin(now_us)
                return False
            self._since_us = now_us
            self._uses = [job.uses(now_us) for job in self._jobs]
            self._works = [job.exact_works() for job in self._jobs]
        self._samples.append([job.exact_us() for job in self._jobs])
        self.sample_us = now_us + self._batch_us
        batches, odd = divmod(len(self._samples) - 1, BATCHES)
        if odd or not batches:
            return False
        means = list(zip(*self._samples[::batches], strict=True))
        works = [[b - a for a, b in pairwise(row)] for row in means]
        if now_us + BATCHES * self._batch_us > self._most_us:  # one job may have been starved, but not all of them
            return any(map(sum, works))
        return all(sum(row) and half_width(row) < self._plan.tolerance for row in works)

    def paces(self, now_us: int) -> list[MeasuredPace]:
        """Return the paces of the jobs since the first sample."""
        return [
            MeasuredPace(
                now_us,
                now_us - self._since_us,
                tuple([new - old for new, old in zip(job.exact_works(), self._works[index], strict=True)]),
                tuple([new.minus(old) for new, old in zip(job.uses(now_us), self._uses[index], strict=True)]),
            )
            for index, job in enumerate(self._jobs)
        ]


# The pace of a job that is alone on its nodes, measured once for all jobs with the same loop.

_SEED: Final = 1  # rates belong to a loop, whatever run asks for them first
_FIRST: Final = 2  # iterations, which do not count
_FEWEST: Final = 4  # iterations that count
_SPAN_US: Final = 3_000_000  # or for how long, about
_FOREVER_US: Final = 1 << 61


class _Run(NamedTuple):
    """How long some iterations took, and what they used on each node."""

    us: int
    uses: tuple[Use, ...]


class LonePaces:
    """Paces of lone jobs, for one kind of node; jobs of several clusters of the same settings may share them.

    An exact simulation of the longest loop of a phase, over whole iterations.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.events = 0  # of all exact simulations
        self._node = replace(settings, tick_us=0, memory_mb=0)
        self._known: dict[tuple[str, int, tuple[int, ...]], MeasuredPace] = {}

    def pace(self, extent: Extent, phase: int, shape: tuple[int, ...], since_us: int) -> MeasuredPace:
        """Return the pace of a job in a phase, from an instant on; process i is on node ``shape[i]`` of its nodes."""
        stage = extent.longest(phase)
        most = _FIRST + max(_FEWEST, -(-_SPAN_US // max(1, stage.length_us)))
        times = min(stage.times, most)
        key = (extent.key(stage), times, shape)
        pace = self._known.get(key)
        if pace is None:
            pace = self._known[key] = self._measure(stage, times, shape)
        return pace._replace(since_us=since_us)

    def _measure(self, stage: WindowStage, times: int, shape: tuple[int, ...]) -> MeasuredPace:
        whole = self._run(stage, times, shape)
        if times < _FIRST + _FEWEST:
            return MeasuredPace(0, whole.us, tuple([times * work_us for work_us in stage.rank_us]), whole.uses)
        first = self._run(stage, _FIRST, shape)
        span_us = whole.us - first.us
        uses = [new.minus(old) for new, old in zip(whole.uses, first.uses, strict=True)]
        # Processes end at different times, so a difference can be a little more than all of the time.
        kept = tuple([use._replace(consumed_us=min(use.consumed_us, span_us)) for use in uses])
        return MeasuredPace(0, span_us, tuple([(times - _FIRST) * work_us for work_us in stage.rank_us]), kept)

    def _run(self, stage: WindowStage, times: int, shape: tuple[int, ...]) -> _Run:
        cluster = ExactCluster(self._node, 1 + max(shape), _SEED)
        bodies = stage.bodies
        cluster.start(0, Program((Loop(times, ByRank(lambda rank: bodies[rank])),)), shape)
        processes = cluster.jobs[0].processes
        cluster.allow(0, {node: [0] for node in set(shape)})
        reached = cluster.advance(_FOREVER_US)
        self.events += cluster.events_done
        uses = [used_by([item for item in processes if item.node == node]) for node in range(1 + max(shape))]
        return _Run(reached.now_us, tuple(uses))


# Jobs that influence each other, and how they progress at present: simulated exactly, or at paces.

_STEP_US: Final = 1_000  # an end that is approached step by step is known to this


class WindowGroup:
    """The jobs of a part. ``window`` is there while they are simulated exactly, ``due_us`` when something is to be done."""

    def __init__(self, part: ConnectedJobs, jobs: Sequence[WindowJob]) -> None:
        self.part = part
        self.jobs = jobs
        self.window: SimulatedWindow | None = None
        self.due_us = 0
        self.first_us = 0  # a job that is alone pages for so long when its turn begins,
        self._paging_ppm = 0  # and then for this part of the time for which it runs
        first = jobs[0]
        # A job that still reads memory which it needed beside others goes on as it is.
        self.alone = (
            len(jobs) == 1
            and len(part.nodes) == len(first.nodes)
            and not any(process.paging for process in first.record.processes)
        )

    def page(self, missing_ppm: int, settings: NodeSettings) -> None:
        """Let a lone job page, as other jobs that hold its nodes leave no room for so much of the memory.

        What it touches has been written while others ran, and is read again: the rule of `paging_us`, spread over its turn.
        """
        self.first_us = paging_us(missing_ppm, 0, settings)
        # Microseconds of a second: millionths.
        self._paging_ppm = paging_us(missing_ppm, SECOND_US, settings) - self.first_us

    def go_alone(self, alone: LonePaces, from_us: int) -> None:
        """Let the only job progress from an instant on at the pace of its phase."""
        (job,) = self.jobs
        extent = job.extent
        phase = extent.phase_after(job.done_us(from_us))
        pace = alone.pace(extent, phase, job.shape, from_us)
        if self._paging_ppm:
            pace = pace._replace(span_us=pace.span_us * (WHOLE_PPM + self._paging_ppm) // WHOLE_PPM)
        job.go(pace, extent.phase_ends_us[phase])
        self.due_us = job.due_us(alone=True)

    def open_window(self, plan: WindowPlan, now_us: int) -> None:
        """Simulate the jobs exactly from now on."""
        self.window = SimulatedWindow(self.jobs, plan, now_us)
        self.look_ahead(now_us)

    def look_ahead(self, now_us: int) -> None:
        """Set when the window has something to do: a sample, or a job that may have done its work by then.

        No job does more work in a microsecond than it has processes. So an end is approached from below.
        """
        assert self.window is not None
        self.due_us = self.window.sample_us
        for job in self.jobs:
            if job.paced:
                left_us = job.extent.work_us - job.done_us(now_us)
                self.due_us = min(self.due_us, now_us + max(_STEP_US, left_us // len(job.places)))

    def take_paces(self, now_us: int) -> None:
        """Let the jobs progress at the paces of the window, until one of them ends or enters another phase."""
        assert self.window is not None
        for job, pace in zip(self.jobs, self.window.paces(now_us), strict=True):
            end_us = job.extent.phase_ends_us[job.phase()] + sum(job.lags)
            job.go(pace, min(job.extent.work_us, end_us))
        self.window = None
        self.due_us = min(job.due_us() for job in self.jobs)
