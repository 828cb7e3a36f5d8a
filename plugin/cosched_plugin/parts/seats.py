"""A seat: a possible decision to start a job now. A gate: the reservation that such a decision must respect."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from cosched_hwmodel.bandwidth.matrix import Bools, Floats, Ints
from cosched_plugin.common.allocation import Layers
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import Occupancy
from cosched_plugin.parts.offers import Offer
from cosched_plugin.protocol.messages import Action


class Seat(Protocol):
    """A possible decision to start a job now: an offer, alone or with co-located jobs."""

    @property
    def sole(self) -> Offer | None:
        """Return the job's offer where no other job is concerned; None for a co-located job."""
        ...

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the jobs that start."""
        ...

    @property
    def end_us(self) -> int:
        """Return the latest expected end of the jobs that it concerns."""
        ...

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the decisions that carry it out."""
        ...

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return the occupied nodes and their expected ends once it is taken, for the started jobs and those beside them."""
        ...

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that are free at ``at_us`` without this seat, by `View.availability`, and are held with it."""
        ...

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        ...


class Gate(Protocol):
    """Admits seats: it protects a reservation, or nothing."""

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Quick check: tell whether ``threads`` threads, free from ``since_us`` on, might be held until ``until_us``."""
        ...

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat`` may be taken; if so it counts as taken."""
        ...


class Gatekeeper(Gate, Protocol):
    """A gate with a quick check of many jobs at once."""

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Return what `may_hold` returns, for each of many."""
        ...


class Unreserved:
    """A gate without a reservation: every seat is admitted."""

    __slots__ = ()

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Return True."""
        return True

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Return True for each."""
        return np.ones(len(threads), dtype=np.bool_)

    def admit(self, seat: Seat) -> bool:
        """Return True."""
        return True


UNRESERVED: Final = Unreserved()
