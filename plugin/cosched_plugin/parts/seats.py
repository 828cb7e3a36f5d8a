"""What a pass may decide about a job that is to start now (a seat), and what such a decision has to leave alone (a gate)."""

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
    """What a pass may decide about a job that is to start now: an offer, or that offer with company."""

    @property
    def sole(self) -> Offer | None:
        """Return the job's offer where no other job is concerned; None for a job with company."""
        ...

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the jobs that start."""
        ...

    @property
    def end_us(self) -> int:
        """Return when the last of the jobs that it concerns should be gone."""
        ...

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the decisions that take it."""
        ...

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return who is on which nodes until when once it is taken: those that start, and those that run beside them."""
        ...

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that are free at ``at_us`` without it, as `View.availability` tells, and are not with it."""
        ...

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        ...


class Gate(Protocol):
    """What a seat has to leave alone: a reservation, or nothing."""

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Tell whether so many threads, free from ``since_us`` on, might be held until ``until_us``: a quick look."""
        ...

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat`` may be taken; if so it counts as taken."""
        ...


class Gatekeeper(Gate, Protocol):
    """A gate that takes a quick look at many jobs at once."""

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Tell the same as `may_hold`, of each of many."""
        ...


class Unreserved:
    """No reservation: everything is admitted."""

    __slots__ = ()

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Tell that nothing stands against it."""
        return True

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Tell that nothing stands against any."""
        return np.ones(len(threads), dtype=np.bool_)

    def admit(self, seat: Seat) -> bool:
        """Tell that nothing stands against it."""
        return True


UNRESERVED: Final = Unreserved()
