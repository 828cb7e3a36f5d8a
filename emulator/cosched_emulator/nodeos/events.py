"""The events of an exact cluster: plain tuples in one heap, whose order also says what comes first at one instant."""

from __future__ import annotations

from typing import Final

# (time in us, kind, node, index of the process or number of the job, generation)
Event = tuple[int, int, int, int, int]

# The kinds, in their order at one instant. What is finished comes before the end of a turn: a process that ends its
# burst with its turn is not preempted.
BURST_END: Final = 0
DEVICE_DONE: Final = 1
MESSAGE: Final = 2
RELEASE: Final = 3
PAGED: Final = 4
TURN_END: Final = 5
