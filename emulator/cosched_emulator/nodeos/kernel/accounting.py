"""What a node's kernel logs of the CPU time that a process used: ticks, rounded at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cosched_hwmodel.draws import Beginnings

_MOST_KEPT: Final = 1_000


class TickLog:
    """The kernels' logs. With ticks of 0 all is logged exactly."""

    def __init__(self, seed: int, tick_us: int) -> None:
        self._seed = seed
        self._tick_us = tick_us
        self._serial = 0  # of the next quantum
        self._kept: dict[tuple[tuple[int, ...], tuple[int, ...]], Beginnings] = {}  # the same processes come again

    def log_us(self, jobs: Sequence[int], ranks: Sequence[int], used_us: Sequence[int]) -> list[int]:
        """Return what is logged of the time that each process (its job and its rank) used in a quantum.

        A process that used a share of a tick is charged with a whole one, with that share as probability: draw ``tick``.
        """
        serial = self._serial
        self._serial += 1
        if not self._tick_us or not jobs:
            return list(used_us)
        processes = (tuple(jobs), tuple(ranks))
        keys = self._kept.get(processes)
        if keys is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            keys = Beginnings(self._seed, "tick", np.array(jobs, dtype=np.int64), np.array(ranks, dtype=np.int64))
            self._kept[processes] = keys
        ticks = (np.array(used_us) / self._tick_us + keys.uniforms(serial)).astype(np.int64)
        logged: list[int] = (ticks * self._tick_us).tolist()
        return logged
