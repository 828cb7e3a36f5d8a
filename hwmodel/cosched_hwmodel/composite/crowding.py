"""Processes that use one resource at the same time: slots of a core, an instance of a cache, the network, the disk.

Each process uses the resource in a part of its time, at some rate. While the rates of all that use it at the same time exceed
the capacity, the excess delays them (roofline: S. Williams, A. Waterman, D. Patterson, 2009). Which parts of their times coincide is
not known; the model's *overlap* says what is assumed:

- ``worst``: a process uses the resource when most of the others do (LOMARC paper, section 4.1, the minimum of two parts);
- ``independent``: its part of the time has nothing to do with the others'.

The others' parts coincide in both cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.units import WHOLE_PPM

OVERLAPS: Final = ("independent", "worst")
# Delays of one process by each other group are whole numbers of these parts, so that their sum has no order.
GRAIN: Final = 1e15
THOUSAND: Final = 1000
_TWICE: Final = 2 * THOUSAND


class User(NamedTuple):
    """How each process of a group uses a resource."""

    part_ppm: int  # of its run time alone
    rate: int  # in the units of the capacity, while it uses the resource
    request_ns: int  # length of one request; 0: unknown


def weight(own_ns: int, other_ns: int) -> int:
    """Return by how much a request waits for another one, in thousandths: 1000 for equal lengths, up to 2000 for a short one.

    The two take turns by requests; 1000 also where a length is unknown.
    """
    return _TWICE * other_ns // (own_ns + other_ns) if own_ns and other_ns else THOUSAND


def crowding(users: Sequence[User], there: Sequence[int], subject: int, capacity: int, *, independent: bool) -> float:
    """Return the penalty of each process of group ``subject`` by all that share the resource.

    ``there`` is the number of processes of each group, in millionths; a capacity of 0 is unlimited. No process alone has
    a rate above the capacity. A process waits at most once for each other process with each of its own requests.
    """
    own_part, own_rate, own_ns = users[subject]
    if capacity == 0 or own_part == 0:
        return 0.0
    room = float(capacity * WHOLE_PPM)
    own = min(own_rate, capacity) * min(there[subject], WHOLE_PPM)
    delay = 0
    low = 0
    # The parts of the others' times are nested: in each step the same groups use the resource.
    for high in sorted({user.part_ppm for user in users}):
        if high > own_part and not independent:
            break
        volumes = []
        others = 0
        for group, (part, rate, request_ns) in enumerate(users):
            if part >= high:
                processes = there[group] if group != subject else max(0, there[group] - WHOLE_PPM)
                volume = min(rate, capacity) * processes
                others += volume
                volumes.append((volume, processes, request_ns))
        excess = own + others - capacity * WHOLE_PPM
        if excess > 0:
            over = float(excess) / room
            for volume, processes, request_ns in volumes:
                by_this = min(over * (float(volume) / float(others)), (float(own) / room) * (processes / WHOLE_PPM))
                delay += int(((high - low) / WHOLE_PPM) * by_this * (weight(own_ns, request_ns) / THOUSAND) * GRAIN)
        low = high
    penalty = delay / GRAIN
    return penalty * (own_part / WHOLE_PPM) if independent else penalty
