"""Jobs that influence each other, and how they progress at present: simulated exactly, or at paces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_emulator.nodeos.kernel.memory import paging_us
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.windows.alone import Alone
from cosched_emulator.nodeos.windows.job import WindowJob
from cosched_emulator.nodeos.windows.parts import Part
from cosched_emulator.nodeos.windows.window import Window, WindowPlan
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM

_STEP_US: Final = 1_000  # an end that is approached step by step is known to this


class Group:
    """The jobs of a part. ``window`` is there while they are simulated exactly, ``due_us`` when something is to be done."""

    def __init__(self, part: Part, jobs: Sequence[WindowJob]) -> None:
        self.part = part
        self.jobs = jobs
        self.window: Window | None = None
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
        self._paging_ppm = paging_us(missing_ppm, SECOND_US, settings) - self.first_us

    def go_alone(self, alone: Alone, from_us: int) -> None:
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
        self.window = Window(self.jobs, plan, now_us)
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
