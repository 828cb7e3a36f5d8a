"""Energy over time, in intervals of equal length."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cosched_emulator.results.columns import IntArray
from cosched_emulator.results.energy.machine_power import FloatArray
from cosched_hwmodel.units import SECOND_US

MOST: Final = 4096  # intervals; an even number


class PowerTrace(NamedTuple):
    """The mean watts of a machine in one interval after another."""

    start_us: IntArray
    end_us: IntArray
    watts: FloatArray


class EnergyBins:
    """Joules in intervals from time 0 on: of a second at first, and of twice the length each time that there would be too many.

    Sums stay what they are when the length changes; only the time of what was used gets less exact.
    """

    def __init__(self) -> None:
        self.width_us = SECOND_US
        self._joules = np.zeros(MOST)

    def add(self, begin_us: int, end_us: int, joules: float) -> None:
        """Add energy that was used evenly from one time to another."""
        self._reach(end_us)
        width_us, bins = self.width_us, self._joules
        first, last = begin_us // width_us, max(begin_us, end_us - 1) // width_us
        if first == last:
            bins[min(first, MOST - 1)] += joules
            return
        watts_us = joules / (end_us - begin_us)
        bins[first] += watts_us * ((first + 1) * width_us - begin_us)
        bins[first + 1 : last] += watts_us * width_us
        bins[last] += watts_us * (end_us - last * width_us)

    def add_steps(self, times_us: IntArray, watts: FloatArray, until_us: int) -> None:
        """Add the energy up to ``until_us`` of a power that changes by these watts at these times, given in any order."""
        self._reach(until_us)
        place = times_us // self.width_us
        slope, part = np.zeros(MOST + 1), np.zeros(MOST + 1)
        np.add.at(part, place, watts * ((place + 1) * self.width_us - times_us))
        np.add.at(slope, np.minimum(place + 1, MOST), watts)
        power = np.cumsum(slope)
        end = -(-until_us // self.width_us)
        self._joules[:end] += ((part + power * self.width_us)[:end]) / SECOND_US

    def trace(self, idle_w: float, begin_us: int, end_us: int) -> PowerTrace:
        """Return the power from one time to another, with that of an idle machine added."""
        edges = np.arange(begin_us // self.width_us, -(-end_us // self.width_us) + 1, dtype=np.int64)
        joules = self._joules[edges[:-1]]
        edges = np.clip(edges * self.width_us, begin_us, end_us)
        return PowerTrace(edges[:-1], edges[1:], idle_w + joules / (np.diff(edges) / SECOND_US))

    def _reach(self, end_us: int) -> None:
        while end_us > MOST * self.width_us:
            self._joules = np.concatenate([self._joules.reshape(-1, 2).sum(axis=1), np.zeros(MOST // 2)])
            self.width_us *= 2
