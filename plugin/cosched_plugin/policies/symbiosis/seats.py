"""What a start beside others decides: who starts where, who runs slower because of it, and until when all are expected to run."""

from __future__ import annotations

from typing import NamedTuple

from cosched_plugin.api import (
    Action,
    Layers,
    NodeSet,
    Occupancy,
    Offer,
    SetNote,
    StartTogether,
    View,
    nodes_of,
    size,
    union,
)
from cosched_plugin.policies.symbiosis.tenancies import NOTE, Moved, Tenancy


class Newcomer(NamedTuple):
    """A pending job that starts beside others."""

    offer: Offer
    tenancy: Tenancy


class SharedSeat(NamedTuple):
    """One pending job on nodes of running ones, or two that start together; and what this does to the running ones."""

    newcomers: tuple[Newcomer, ...]
    hosts: tuple[Moved, ...]  # and jobs beside these that move with them
    view: View

    @property
    def sole(self) -> None:
        """Return None: the jobs are co-located."""
        return

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the jobs that start."""
        return tuple([each.offer.job.id for each in self.newcomers])

    @property
    def end_us(self) -> int:
        """Return the latest expected end of all."""
        return max([*[each.offer.end_us for each in self.newcomers], *[host.end_us for host in self.hosts]])

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the starts, and the notes and new expected ends of all."""
        starts = tuple([each.offer.start() for each in self.newcomers])
        actions: list[Action] = [StartTogether(starts) if len(starts) > 1 else starts[0]]
        actions += [SetNote(each.offer.job.id, NOTE, tuple(each.tenancy)) for each in self.newcomers]
        for host in self.hosts:
            actions += host.decisions(self.view)
        return tuple(actions)

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return all jobs on their nodes."""
        hosts = [Occupancy(host.end_us, host.running.job.id, nodes_of(host.running.runs)) for host in self.hosts]
        return (*hosts, *[one for each in self.newcomers for one in each.offer.occupancies])

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that are free at ``at_us`` without this start, and are held because of it."""
        held = [each.offer.threads_held(at_us, view) for each in self.newcomers]
        held += [
            view.claim(host.running.runs)
            for host in self.hosts
            if view.expected_end(host.running) <= at_us < host.end_us
        ]
        held = [threads for threads in held if threads]
        if not held:
            return ()
        together = held[0]
        for threads in held[1:]:
            together = union(together, threads)
        steps = view.availability()
        free = steps[steps.by(at_us) - 1][1]
        return tuple([NodeSet(layer & there) for layer, there in zip(together, free, strict=True)])

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        return size(self.threads_held(at_us, view))
