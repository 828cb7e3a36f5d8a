"""The system's own processes: now and then each node needs its CPU for itself."""

from __future__ import annotations

from typing import Final

from cosched_emulator.nodeos.process import ParallelJob
from cosched_emulator.nodeos.programs import Compute, Loop, Program, Wait
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel import draws

NUMBER: Final = -1  # of the job to which they would belong


def make_daemons(settings: NodeSettings, seed: int, node: int) -> ParallelJob:
    """Return what runs on a node without belonging to a job: ``daemon_us`` of CPU each ``daemon_period_us``.

    The first time is drawn: draw ``daemon``. If the CPU comes late, so do all later times.
    """
    first_us = int(draws.uniform(seed, "daemon", node) * settings.daemon_period_us)
    rest_us = settings.daemon_period_us - settings.daemon_us
    again = (Compute(settings.daemon_us), Wait(rest_us))
    return ParallelJob(NUMBER, Program((Loop(1, (Wait(first_us),)), Loop(1 << 62, again))))
