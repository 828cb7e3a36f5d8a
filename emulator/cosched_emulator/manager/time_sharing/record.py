"""What happened in a quantum: the source of ``quanta.csv`` and of the figures of time sharing."""

from __future__ import annotations

from typing import Final, NamedTuple

ROW: Final = "row"  # of the turn's first slot
PARTNER: Final = "partner"  # of another slot of the turn
GUEST: Final = "guest"  # of a slot of another turn


class Part(NamedTuple):
    """A job that could run in a quantum."""

    job_id: int
    slot: int
    role: str
    paired: bool  # another job could run on one of its nodes
    allowed_us: int  # for how long it could run; mean over its processes
    consumed_us: int  # CPU time of all its processes
    share_ppm: int | None  # None: not measured


class QuantumRecord(NamedTuple):
    """A quantum that is over.

    One in which all jobs ended is shorter than the others, and has no `QuantumEnded`; the next one has its number again.
    """

    number: int
    start_us: int
    end_us: int
    turn: int  # first slot of its turn
    jobs: int  # running jobs at its begin, those that waited for their turn included
    nodes: int  # with a job that could run, at its begin
    paired_nodes: int  # with more than one
    parts: tuple[Part, ...]  # by job id
