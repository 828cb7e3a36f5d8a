"""What a node's kernel logs of the CPU time that a process used: ticks, rounded at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosched_hwmodel import draws


def log_times_us(
    seed: int, serial: int, processes: Sequence[tuple[int, int]], used_us: Sequence[int], tick_us: int
) -> list[int]:
    """Return what is logged of the time that each process (job, rank) used in the quantum ``serial``.

    A process that used a share of a tick is charged with a whole one, with that share as probability: draw ``tick``.
    With ticks of 0 all is logged exactly.
    """
    if not tick_us or not processes:
        return list(used_us)
    keys = np.array(processes, dtype=np.int64)
    drawn = draws.uniforms(seed, "tick", keys[:, 0], keys[:, 1], np.full(len(keys), serial, dtype=np.int64))
    ticks = np.floor(np.array(used_us) / tick_us + drawn).astype(np.int64)
    return [int(logged) for logged in ticks * tick_us]
