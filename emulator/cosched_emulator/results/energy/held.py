"""Energy by what jobs hold: the cores of their stays are busy, and the jobs on a node share its idle energy.

On each node the jobs that hold it at an instant have equal parts of its idle watts. The watts of a busy core go to the jobs on it by
hardware threads held. A core is busy while a job holds one of its threads, whether the job makes progress then or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from cosched_emulator.results.columns import IntArray, StayColumns
from cosched_emulator.results.energy.bins import EnergyBins
from cosched_emulator.results.energy.machine_power import FloatArray, MachinePower
from cosched_emulator.results.figures.occupancy import PAIRS_AT_ONCE, counters, node_groups, pairs_on
from cosched_emulator.results.thread_intervals import mask_intervals
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

_LEAST: Final = 1_000  # pairs of stay and node at once, however many cores a node has


class _Held(NamedTuple):
    """Rows of parts of the machine (nodes, or cores of nodes) that stays hold."""

    stay: IntArray
    node: IntArray
    part: IntArray
    weight: IntArray  # hardware threads of the core; 1 for a node


def idle_energy(stays: StayColumns, jobs: int, power: MachinePower) -> FloatArray:
    """Return the idle energy of each of ``jobs`` jobs, in joules."""
    joules = np.zeros(jobs)
    for stay, node in _pairs(stays, power.nodes, PAIRS_AT_ONCE):
        span_us = shared_us(node, stays.start_us[stay], stays.end_us[stay], np.ones(stay.size, dtype=np.int64))
        joules += np.bincount(stays.job[stay], span_us * power.idle_w[node], jobs) / SECOND_US
    return joules


def busy_energy(
    stays: StayColumns, jobs: int, machine: Sequence[NodeClass], power: MachinePower, bins: EnergyBins
) -> FloatArray:
    """Return the energy of the busy cores of each of ``jobs`` jobs, in joules, and add it to the bins."""
    joules = np.zeros(jobs)
    last_us = int(stays.end_us.max()) if len(stays) else 0
    deepest = max((item.sockets * item.cores_per_socket for item in machine), default=1)
    cores_held = _cores_of(stays, machine)
    for stay, node in _pairs(stays, power.nodes, max(_LEAST, PAIRS_AT_ONCE // deepest)):
        for held in cores_held(stay, node):
            start_us, end_us, watts = stays.start_us[held.stay], stays.end_us[held.stay], power.busy_w[held.node]
            span_us = shared_us(held.part, start_us, end_us, held.weight)
            joules += np.bincount(stays.job[held.stay], span_us * watts, jobs) / SECOND_US
            times_us, changes = _busy_steps(held.part, start_us, end_us, watts)
            bins.add_steps(times_us, changes, last_us)
    return joules


def shared_us(part: IntArray, start_us: IntArray, end_us: IntArray, weight: IntArray) -> FloatArray:
    """Return for each row its share of the time of its part: at each instant its weight among the rows that hold the part."""
    rows = part.size
    if not rows:
        return np.zeros(0)
    times = np.concatenate([start_us, end_us])
    order = np.lexsort((times, np.concatenate([part, part])))
    depth = np.cumsum(np.concatenate([weight, -weight])[order])[:-1]
    grown = np.zeros(2 * rows)
    # Between two parts the depth is 0. Each row takes what has grown between its two ends.
    np.cumsum(np.where(depth > 0, np.diff(times[order]) / np.maximum(depth, 1), 0.0), out=grown[1:])
    at = np.empty(2 * rows)
    at[order] = grown
    return weight * (at[rows:] - at[:rows])


def _busy_steps(part: IntArray, start_us: IntArray, end_us: IntArray, watts: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the times at which a part becomes busy, or idle again, and the change of watts."""
    times = np.concatenate([start_us, end_us])
    order = np.lexsort((times, np.concatenate([part, part])))
    change = np.concatenate([np.ones(part.size, dtype=np.int64), np.full(part.size, -1)])[order]
    turns = np.diff((np.cumsum(change) > 0).astype(np.int8), prepend=np.int8(0))
    return times[order], turns * np.concatenate([watts, watts])[order]


def _pairs(stays: StayColumns, nodes: int, most: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the pairs of stay and node, some nodes at a time, with all stays on them."""
    for first, last in node_groups(stays, nodes, most):
        yield pairs_on(stays, first, last)


def _cores_of(stays: StayColumns, machine: Sequence[NodeClass]) -> Callable[[IntArray, IntArray], Iterator[_Held]]:
    """Return the function that makes of pairs of stay and node, for one class of nodes after another, rows of cores."""
    masks = stays.mask.places
    tables: dict[int, tuple[IntArray, IntArray, IntArray]] = {}  # by cores of a node: count by mask, core, weight

    def table(cores: int) -> tuple[IntArray, IntArray, IntArray]:
        if cores not in tables:
            found = [_weights(mask, cores) for mask in stays.mask.distinct]
            flat = [pair for weights in found for pair in weights]
            columns = np.array(flat, dtype=np.int64).reshape(-1, 2).T
            tables[cores] = np.array([len(weights) for weights in found], dtype=np.int64), columns[0], columns[1]
        return tables[cores]

    def expand(stay: IntArray, node: IntArray) -> Iterator[_Held]:
        first = 0
        for item in machine:
            here = (node >= first) & (node < first + item.nodes)
            first += item.nodes
            if not here.any():
                continue
            cores = item.sockets * item.cores_per_socket
            count_of, core_of, weight_of = table(cores)
            mask = masks[stay[here]]
            counts = count_of[mask]
            row = np.repeat((np.cumsum(count_of) - count_of)[mask], counts) + counters(counts)
            on = np.repeat(node[here], counts)
            yield _Held(np.repeat(stay[here], counts), on, on * cores + core_of[row], weight_of[row])

    return expand


def _weights(mask: int, cores: int) -> list[tuple[int, int]]:
    """Return the cores of a set of threads, each with how many of its threads are in it; thread t is one of core t modulo cores."""
    found: dict[int, int] = {}
    for first, last in mask_intervals(mask):
        for thread in range(first, last + 1):
            found[thread % cores] = found.get(thread % cores, 0) + 1
    return sorted(found.items())
