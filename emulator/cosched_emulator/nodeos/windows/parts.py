"""The parts of a cluster that do not influence each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cosched_emulator.nodeos.windows.job import WindowJob


class Part(NamedTuple):
    """Jobs that share nodes, directly or by way of others, or the server for files; where they may run, by node."""

    where: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return its nodes."""
        return tuple([node for node, _ in self.where])

    @property
    def jobs(self) -> tuple[int, ...]:
        """Return its jobs, in order of their numbers."""
        return tuple(sorted({job for _, jobs in self.where for job in jobs}))


def parts_of(chosen: Sequence[tuple[int, ...]], jobs: Mapping[int, WindowJob]) -> list[Part]:
    """Return the parts, for the jobs that may run on each node."""
    head: dict[int, int] = {}

    def find(job: int) -> int:
        while head[job] != job:
            head[job] = job = head[head[job]]
        return job

    writer = None
    for there in chosen:
        for job in there:
            if job not in head:
                head[job] = job
                if jobs[job].extent.writes_shared:
                    writer = job if writer is None else writer
                    head[find(job)] = find(writer)
            head[find(job)] = find(there[0])
    rows: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for node, there in enumerate(chosen):
        if there:
            rows.setdefault(find(there[0]), []).append((node, there))
    return [Part(tuple(where)) for where in rows.values()]
