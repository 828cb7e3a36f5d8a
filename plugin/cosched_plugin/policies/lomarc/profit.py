"""The profit of two jobs on the same nodes: utilisation gain and response-time impact (LOMARC paper, section 5.2).

All functions take one job and arrays of candidates, times in seconds, sizes in processes; the profit of each candidate comes
back in the same order. A candidate is worth matching if its profit is above 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosched_plugin.api import Bools, Floats, Ints

# Relative response times are bounded by a minute, as in the paper's metric.
BOUND_S = 60.0
_TERMS = 10_000  # number of terms added one by one
_NOISE = 1e-9  # relative, and far more than the rounding error of such sums


def utilisation_gain_2(size: Ints | int, sizes: Ints, slowdowns: Floats) -> Floats:
    """Return the timeless gain per node: nodes gained where both run, less nodes lost where the larger job is slowed alone."""
    gained = np.minimum(size, sizes) * (2.0 / slowdowns - 1.0)
    lost = np.abs(size - sizes) * (1.0 - 1.0 / slowdowns)
    gain: Floats = (gained - lost) / np.maximum(size, sizes)
    return gain


def utilisation_gain_1(
    size: Ints | int, time_s: Floats | float, sizes: Ints, times_s: Floats, slowdowns: Floats
) -> Floats:
    """Return the utilisation gain, scaled by the part of the longer run time that is shared."""
    overlap = np.minimum(time_s, times_s) / np.maximum(time_s, times_s)
    gain: Floats = utilisation_gain_2(size, sizes, slowdowns) * overlap
    return gain


class Arrivals(NamedTuple):
    """Expected jobs of one kind: their number, and the work of each divided by the machine's processors, in seconds."""

    jobs: float = 0.0
    work_s: float = 0.0


class Future(NamedTuple):
    """Expected arrivals while the queued work is done: one level of forecast."""

    short: Arrivals = Arrivals()
    longer: Arrivals = Arrivals()


class Match(NamedTuple):
    """The current job (or as many as candidates) beside several candidates: sizes in processes, times in seconds."""

    processors: int  # of the machine: the divisor of all work
    size: Ints | int  # of the current job
    time_s: Floats | float
    sizes: Ints  # of the candidates
    times_s: Floats
    slowdowns: Floats

    def delay_s(self) -> Floats:
        """Return the delay of a perfectly packed machine if the pair runs instead of the current job alone."""
        run_s = np.minimum(self.time_s, self.times_s) * (self.slowdowns - 1.0) + np.maximum(self.time_s, self.times_s)
        delay: Floats = (run_s * np.maximum(self.size, self.sizes) - self.time_s * self.size) / self.processors
        return delay

    def work_s(self) -> Floats:
        """Return the candidates' work divided by the processors."""
        work: Floats = self.times_s * self.sizes / self.processors
        return work


def impact_on_waiting(match: Match, work_s: Floats, own: int, places: Ints, future: Future) -> Floats:
    """Return the response-time impact of taking a candidate out of the queue to run beside the current job.

    ``work_s``: work over processors of every pending job, in queue order, the current one at index ``own``, candidates at ``places``.
    Jobs before a candidate are pushed down by the delay, those behind it pulled up by the improvement (paper, figure 5, as
    corrected: the moved job keeps its sum of ratios, the response time starts with the current job's own).
    """
    own_s = match.time_s * match.size / match.processors
    delay = match.delay_s()
    moved_s = match.work_s()
    improvement = moved_s - delay
    places = places - (places > own)
    response = own_s + np.cumsum(np.delete(work_s, own))  # of every other job, itself included
    inverse = 1.0 / response
    before = np.concatenate(([0.0], np.cumsum(inverse)))
    at = response[places]
    increase = delay / own_s + delay * before[places]
    decrease = (at - moved_s * match.slowdowns) / at + improvement * (before[-1] - before[places + 1])
    last = response[-1]
    increase = increase + _short(delay, future.short)
    decrease = decrease + improvement * _later(last, future.longer)
    profit: Floats = (decrease - increase) / max(len(response) - 1, 1)
    return profit


def impact_on_running(match: Match, work_s: Floats, places: Ints, future: Future) -> Floats:
    """Return the response-time impact of putting newcomers beside running jobs, pair by pair.

    ``match``: the current jobs are the hosts with the time that they have left, the candidates the newcomers, at ``places`` in the
    queue; ``work_s`` as in `impact_on_waiting`. No job is pushed down.
    """
    host_s = np.asarray(match.time_s * match.size / match.processors)
    delay = match.delay_s()
    newcomer_s = match.work_s()
    improvement = newcomer_s - delay
    first = host_s + newcomer_s
    last = host_s + float(np.add.reduce(work_s))
    # Jobs before the newcomer's own place come after it now; jobs behind it count it at its old place.
    ahead = np.arange(len(work_s))[None, :] < places[:, None]
    response = (host_s[:, None] + np.cumsum(work_s)[None, :]) + np.where(ahead, newcomer_s[:, None], 0.0)
    inverse = 1.0 / response
    inverse[np.arange(len(places)), places] = 0.0
    increase = delay / host_s + _short(delay, future.short)
    decrease = (first - newcomer_s * match.slowdowns) / first + improvement * np.add.reduce(inverse, axis=1)
    decrease = decrease + improvement * _later(last, future.longer)
    profit: Floats = (decrease - increase) / max(len(work_s) - 1, 1)
    return profit


def may_gain(match: Match, work_s: Floats, future: Future) -> Bools:
    """Tell of each pair, by a cheap bound, whether `impact_on_running` with these arguments might find a gain."""
    response = np.cumsum(work_s)
    # The case of a host without work left and no job after the newcomer: no other job would have responded sooner.
    others = float(np.add.reduce(1.0 / response)) + float(_later(response[-1], future.longer))
    host_s = match.time_s * match.size / match.processors
    delay = match.delay_s()
    newcomer_s = match.work_s()
    decrease = 1.0 - newcomer_s * match.slowdowns / (host_s + newcomer_s) + np.maximum(newcomer_s - delay, 0.0) * others
    increase = delay / host_s + _short(delay, future.short)
    may: Bools = decrease - increase > -_NOISE * (2.0 + decrease + np.abs(increase))
    return may


def _short(delay: Floats, short: Arrivals) -> Floats:
    increase: Floats = short.jobs * delay / max(short.work_s, BOUND_S)
    return increase


def _later(response: Floats, longer: Arrivals) -> Floats:
    """Return Σ 1/response over jobs that come after all others, each at the mean work; the last one counts by its fraction.

    The first `_TERMS` are added up. The integral stands for further ones, as good as the sum so far out; a burst of
    submissions is a forecast of millions.
    """
    whole = int(longer.jobs)
    terms = min(whole + 1, _TERMS)
    response = np.asarray(response)
    if response.ndim and response.size * terms > _TERMS:  # many pairs share few hosts
        some, alike = np.unique(response, return_inverse=True)
        if len(some) < len(response):
            later: Floats = _later(some, longer)[alike]
            return later
    weights = np.ones(terms)
    if terms > whole:
        weights[-1] = longer.jobs - whole
    later = np.add.reduce(weights / (response[..., None] + np.arange(1, terms + 1) * longer.work_s), axis=-1)
    if terms <= whole:
        since, until = (response + (count + 0.5) * longer.work_s for count in (terms, longer.jobs))
        later = later + np.log(until / since) / longer.work_s
    return later
