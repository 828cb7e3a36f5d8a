"""Devices that serve one request after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM


class FifoServer:
    """A disk, a server for files, a node's way out to the network, or its swap device."""

    __slots__ = ("busy_us", "free_us")

    def __init__(self) -> None:
        self.free_us = 0  # from then on it has nothing to do
        self.busy_us = 0  # in all

    def serve(self, now_us: int, service_us: int) -> int:
        """Take a request of ``service_us`` and return when it is done."""
        self.free_us = max(now_us, self.free_us) + service_us
        self.busy_us += service_us
        return self.free_us


# The memory of a node whose processes take turns: what is resident, and what must be read from the swap device.

Key = tuple[int, int]  # job and rank of a process


class _Resident(NamedTuple):
    mb: int  # in memory
    written: bool  # it has had memory before, so the rest is on the swap device


class NodeMemory:
    """Resident sets of the processes of one node, in whole MB.

    Processes that may run get all of their memory, or equal parts of it if they do not fit together. It is taken from
    processes that are stopped, from the one that ran longest ago first. With capacity 0 everything fits.
    """

    def __init__(self, capacity_mb: int) -> None:
        self._capacity_mb = capacity_mb
        self._resident: dict[Key, _Resident] = {}  # the longest unused first
        self.missing_ppm = 0  # of the memory of the processes that may run, what does not fit

    def admit(self, sizes_mb: Mapping[Key, int]) -> dict[Key, int]:
        """Make the processes resident that may run now; return the MB that each has to move before it can go on.

        These are its own pages that are read, and those of others that are written to make room for it.
        """
        if not self._capacity_mb:
            return {}
        wanted_mb = sum(sizes_mb.values())
        over = wanted_mb > self._capacity_mb
        self.missing_ppm = (wanted_mb - self._capacity_mb) * WHOLE_PPM // wanted_mb if over else 0
        targets = {
            key: size_mb * self._capacity_mb // wanted_mb if over else size_mb for key, size_mb in sizes_mb.items()
        }
        had = {key: self._resident.pop(key, _Resident(0, False)) for key in targets}
        for key, target_mb in targets.items():
            self._resident[key] = _Resident(min(had[key].mb, target_mb), True)
        moved: dict[Key, int] = {}
        for key, target_mb in targets.items():
            more_mb = target_mb - self._resident[key].mb
            if more_mb > 0:
                moved[key] = self._make_room(more_mb, targets) + (more_mb if had[key].written else 0)
                self._resident[key] = _Resident(target_mb, True)
        return {key: mb for key, mb in moved.items() if mb}

    def resident_mb(self) -> int:
        """Return how much memory is in use."""
        return sum(resident.mb for resident in self._resident.values())

    def leave(self, key: Key) -> None:
        """Free the memory of a process that has ended."""
        self._resident.pop(key, None)

    def _make_room(self, needed_mb: int, kept: Mapping[Key, int]) -> int:
        """Free that much memory, and return how much of it had to be written."""
        missing_mb = needed_mb - (self._capacity_mb - self.resident_mb())
        written_mb = 0
        for key, resident in self._resident.items():
            if written_mb >= missing_mb:
                break
            if key not in kept:
                taken_mb = min(resident.mb, missing_mb - written_mb)
                self._resident[key] = _Resident(resident.mb - taken_mb, True)
                written_mb += taken_mb
        return written_mb


def swap_us(moved_mb: int, settings: NodeSettings) -> int:
    """Return how long the swap device is busy with that much."""
    return moved_mb * SECOND_US // settings.swap_mb_s


def paging_us(missing_ppm: int, stint_us: int, settings: NodeSettings) -> int:
    """Return what a switch costs where processes do not fit together.

    The process that comes finds part of what it touches displaced by the one that ran for ``stint_us`` before it: each
    such page is written and read. The time is (first + touched) · missing · 2 / speed of the swap device.
    """
    touched_mb = settings.paged_first_mb + settings.paged_mb_s * stint_us / SECOND_US
    return round(touched_mb * missing_ppm * 2 / settings.swap_mb_s)
