"""Promises to pending jobs as columns by place in the queue, so that one array operation examines all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cosched_plugin.api import Bools, Ints

_UNPROMISED: Final = -1  # in place of a start


class QueueColumns:
    """One row for each pending job, in queue order. A job without a promise has no start; its other numbers mean nothing."""

    __slots__ = ("needs", "spans_us", "starts_us", "unsure")

    def __init__(self, rows: int) -> None:
        self.needs: Ints = np.zeros(rows, np.int64)
        self.spans_us: Ints = np.zeros(rows, np.int64)
        self.starts_us: Ints = np.full(rows, _UNPROMISED, np.int64)
        self.unsure: Bools = np.zeros(rows, np.bool_)  # jobs that may be able to start sooner: not examined since

    def enter(self, place: int, need: int, span_us: int, start_us: int) -> None:
        """Enter a promise."""
        self.needs[place] = need
        self.spans_us[place] = span_us
        self.starts_us[place] = start_us

    def enter_all(self, places: Sequence[int], needs: Ints, spans_us: Ints, starts_us: Ints) -> None:
        """Enter promises that may be too late: whether the jobs could start sooner is not known."""
        self.needs[places] = needs
        self.spans_us[places] = spans_us
        self.starts_us[places] = starts_us
        self.unsure[places] = True

    def forget(self, place: int) -> None:
        """Remove a promise."""
        self.starts_us[place] = _UNPROMISED
        self.unsure[place] = False

    def unpromised(self) -> list[int]:
        """Return the places of the jobs that have no promise."""
        found: list[int] = np.flatnonzero(self.starts_us == _UNPROMISED).tolist()
        return found

    def due(self, at_us: int) -> list[int]:
        """Return the places of the jobs that are promised to start at that instant."""
        found: list[int] = np.flatnonzero(self.starts_us == at_us).tolist()
        return found

    def any_before(self, at_us: int) -> bool:
        """Tell whether any job is promised a start before that instant."""
        return bool(((self.starts_us < at_us) & (self.starts_us != _UNPROMISED)).any())

    def first_after(self, at_us: int) -> int | None:
        """Return the first start that is promised after that instant; None if there is none."""
        later = self.starts_us[self.starts_us > at_us]
        return int(later.min()) if len(later) else None

    def append(self, rows: int) -> None:
        """Add rows without a promise at the end."""
        added = np.zeros(rows, np.int64)
        self.needs = np.append(self.needs, added)
        self.spans_us = np.append(self.spans_us, added)
        self.starts_us = np.append(self.starts_us, added + _UNPROMISED)
        self.unsure = np.append(self.unsure, added != 0)

    def remove(self, places: Sequence[int]) -> None:
        """Remove the rows of jobs that have left the queue."""
        stays = np.ones(len(self.starts_us), np.bool_)
        stays[places] = False
        self.needs = self.needs[stays]
        self.spans_us = self.spans_us[stays]
        self.starts_us = self.starts_us[stays]
        self.unsure = self.unsure[stays]

    def rearrange(self, came_from: Ints) -> list[int]:
        """Rearrange the rows; ``came_from``: the old place of each, -1 for a new one. Return the places of the new ones."""
        there = came_from >= 0
        self.needs = np.where(there, self.needs[came_from], 0)
        self.spans_us = np.where(there, self.spans_us[came_from], 0)
        self.starts_us = np.where(there, self.starts_us[came_from], _UNPROMISED)
        self.unsure = there & self.unsure[came_from]
        new: list[int] = np.flatnonzero(~there).tolist()
        return new
