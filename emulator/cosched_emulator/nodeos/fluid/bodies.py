"""What a job repeats in a loop, as the fluid cluster sees it: without what depends on its size, and rounded."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.programs import (
    Barrier,
    ByRank,
    Collective,
    Compute,
    Loop,
    Operation,
    Receive,
    Send,
    Wait,
    WriteFiles,
)
from cosched_emulator.nodeos.settings import NodeSettings

Body = tuple[Operation, ...]

# CPU shares, in percent, to which bursts are rounded: 45 is among them, the share of the paper's jobs (section 4.2.1).
SHARES: Final = (1, 2, 3, 5, 7.5, *range(10, 95, 5), 92.5, 95, 96, 97, 98, 98.5, 99, 99.25, 99.5)
# For jobs that matter only because they slow a neighbour down.
FAR_SHARES: Final = (7.5, 25, 45, 65, 85)
WAIT_STEP: Final = 1.1  # ratio of the steps to which waits are rounded


def body_of(loop: Loop, processes: int, settings: NodeSettings) -> Body:
    """Return the body of a loop in a job of ``processes``, with barriers that last ``barrier_us`` for any size of the job.

    What a barrier or a collective takes longer is a wait behind it, so a pattern can have fewer processes than the job.
    Raises `ConfigurationError` if the processes are not alike.
    """
    if isinstance(loop.body, ByRank) or any(isinstance(operation, Send | Receive) for operation in loop.body):
        raise ConfigurationError("program", "loops whose processes are all alike", "messages between ranks", "exact")
    plain: list[Operation] = []
    for operation in loop.body:
        if not isinstance(operation, Barrier | Collective):
            plain.append(operation)
            continue
        plain.append(Barrier())
        more_us = settings.barrier_time_us(processes) - settings.barrier_us
        if isinstance(operation, Collective):
            more_us += (processes - 1).bit_length() * -(-operation.size_bytes // settings.network_mb_s)
        if more_us:
            plain.append(Wait(more_us))
    return tuple(plain)


def writes_shared(body: Body) -> bool:
    """Return whether a body uses the server that all nodes share."""
    return any(isinstance(operation, WriteFiles) and operation.shared for operation in body)


def rounded(body: Body, length_us: int, cpu_us: int, shares: Sequence[float]) -> Body:
    """Return the body with bursts for which its CPU share alone is the nearest of ``shares`` (percent), and rounded waits.

    An iteration takes ``length_us`` alone, of that ``cpu_us`` on the CPU. Files stay what they are.
    """
    waits_us = sum(operation.us for operation in body if isinstance(operation, Wait))
    bursts_us = sum(operation.us for operation in body if isinstance(operation, Compute))
    if not bursts_us or length_us == cpu_us:
        return tuple(Wait(_to_step(item.us)) if isinstance(item, Wait) else item for item in body)
    share = nearest(100 * cpu_us / length_us, shares) / 100
    new_waits_us = sum(_to_step(operation.us) for operation in body if isinstance(operation, Wait))
    idle_us = length_us - cpu_us - waits_us + new_waits_us
    other_us = cpu_us - bursts_us  # CPU time of files
    factor = max(0.0, idle_us * share / (1 - share) - other_us) / bursts_us
    changed: list[Operation] = []
    for operation in body:
        if isinstance(operation, Compute):
            changed.append(Compute(max(1, round(operation.us * factor)), operation.jitter_ppm))
        elif isinstance(operation, Wait):
            changed.append(Wait(_to_step(operation.us)))
        else:
            changed.append(operation)
    return tuple(changed)


def nearest(value: float, steps: Sequence[float]) -> float:
    """Return the step (in ascending order) next to a value; of two equally near ones the smaller."""
    above = bisect_left(steps, value)
    near = steps[max(0, above - 1) : above + 1]
    return min(near, key=lambda step: abs(step - value))


def _to_step(us: int) -> int:
    return round(WAIT_STEP ** round(math.log(us, WAIT_STEP))) if us > 0 else 0
