"""Which pending jobs Slurm may start by itself on nodes that are free: while it may, they are no guests.

Nobody asks Slurm what it will do. But its backfill looks at the queue once in a while: a job that it has not started on a free node
by then does not get that node, whatever the reason. And of a node that is kept for a job ahead, it is known when that is to start.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import islice
from typing import Final

from cosched_hwmodel.units import SECOND_US, NodeSet
from cosched_plugin.common.slurm_notation import WAITING
from cosched_plugin.common.threads import bits_of, nodes_in
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.slurm.records import SlurmJob, SlurmNode

_SETTLES_US: Final = 2 * SECOND_US  # a node that has just become free, Slurm gives away at once if any job may have it


class FreeNodes:
    """The free nodes, and since when they are."""

    def __init__(self, patience_us: int) -> None:
        """``patience_us``: how long Slurm's backfill may take to look at the queue."""
        self._patience_us = patience_us
        self._free_us: dict[int, int] = {}  # since when, by node
        self._waits_us: dict[int, int] = {}  # since when a job may be started, by the protocol's number
        self._planned = 0  # those that are kept for a job ahead
        self.due_us: int | None = None  # when `has_settled` and `for_whom` may say something else

    def look(
        self, names: Sequence[str], nodes: Iterable[SlurmNode], busy: Container[str], down: Container[int], now_us: int
    ) -> None:
        """Take what a poll shows."""
        self._free_us = {
            number: self._free_us.get(number, now_us)
            for number, name in enumerate(names)
            if name not in busy and number not in down
        }
        planned = {node.name for node in nodes if node.planned}
        self._planned = sum(1 << number for number in self._free_us if names[number] in planned)

    def has_settled(self, node: int, now_us: int) -> bool:
        """Return whether a free node has been that for so long that Slurm had the time to give it away."""
        return now_us - self._free_us[node] >= _SETTLES_US

    def for_whom(
        self, waiting: Iterable[tuple[SlurmJob, JobSpec]], jobs: Iterable[SlurmJob], now_us: int
    ) -> dict[int, list[int]]:
        """Return the free nodes for those of the jobs ``waiting`` that Slurm may start there, by the protocol's number.

        The first in the queue take theirs first. ``jobs`` are all of Slurm's.
        """
        queue = sorted(waiting, key=lambda each: (-each[0].priority, each[1].submit_us, each[1].id))
        self._waits_us = {spec.id: self._waits_us.get(spec.id, now_us) for _, spec in queue}
        moments = [*self._free_us.values(), *self._waits_us.values()] if self._free_us else []
        later = [at_us + us for at_us in moments for us in (_SETTLES_US, self._patience_us) if at_us + us > now_us]
        self.due_us = min(later, default=None)
        old_us = now_us - self._patience_us
        left = sum(1 << node for node in self._free_us)
        new = sum(1 << node for node, at_us in self._free_us.items() if at_us > old_us)
        # Heads of the queue, whose starts Slurm has planned; the last one is the first in the queue.
        heads = sorted(
            (job.priority, job.start_s) for job in jobs if job.state in WAITING and job.start_s * SECOND_US > now_us
        )
        head_us = 1 << 62
        found: dict[int, list[int]] = {}
        for job, spec in queue:
            if not left:
                break
            while heads and heads[-1][0] > job.priority:
                head_us = min(head_us, heads.pop()[1] * SECOND_US)
            may = left & _eligible(spec)
            if self._waits_us[spec.id] <= old_us:
                may &= new
            if spec.limit_us is None or now_us + spec.limit_us > head_us:
                may &= ~self._planned
            count = -(-spec.processes // spec.ppn_max)
            if may.bit_count() >= count:
                found[spec.id] = list(islice(bits_of(NodeSet(may)), count))
                left &= ~sum(1 << node for node in found[spec.id])
        return found


def _eligible(spec: JobSpec) -> int:
    return nodes_in(spec.eligible) if spec.eligible else -1
