"""The events of an exact cluster: plain tuples in one heap, whose order also says what comes first at one instant."""

from __future__ import annotations

from typing import Final

# (time in us, kind, node, index of the process or number of the job, generation or rank of the other process)
Event = tuple[int, int, int, int, int]

# The kinds, in their order at one instant. What is finished comes before the end of a turn: a process that ends its
# burst with its turn is not preempted.
BURST_END: Final = 0
DEVICE_DONE: Final = 1
MESSAGE: Final = 2  # has arrived
REQUEST: Final = 3  # to send a large message, has arrived
ANSWER: Final = 4  # to such a request, has arrived
ACKNOWLEDGED: Final = 5  # by the network interface of the receiver
RELEASE: Final = 6
PAGED: Final = 7
POLICY_TICK: Final = 8
TURN_END: Final = 9
OF_NODES: Final = (POLICY_TICK, TURN_END)  # kinds that belong to no process or job
