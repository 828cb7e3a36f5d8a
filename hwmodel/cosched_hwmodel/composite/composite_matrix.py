"""Penalties on many nodes of one shape at once: `CompositeModel.penalties` in arrays, with bit-identical numbers.

Arrays have the dimensions [node, part of the node] (cores, instances of a cache, sockets, or one part for the whole node); groups are
lists of such arrays. Nodes with fewer groups are filled up with groups of no processes, which slow no other down.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import GRAIN, MISSES, THOUSAND, Placed, hidden_mbs, parts_of, presence, users_of
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
_NOBODY: Final = Placed(Profile(), 0, 0)


def penalties(model: CompositeModel, node: NodeShape, placed: Sequence[Sequence[Placed]]) -> Floats:
    """Return the penalties [node, group] of the groups on each of many nodes, 0 beyond a node's own groups.

    Raises IndexError for threads that the node does not have.
    """
    most = max(map(len, placed), default=0)
    for group in chain.from_iterable(placed):
        if group[2] >> node.threads:
            raise IndexError(f"thread {int(group[2]).bit_length() - 1} of a node with {node.threads}")
    filled = [[*groups, *[_NOBODY] * (most - len(groups))] for groups in placed]
    result: Floats = np.zeros((len(placed), most))
    if result.size == 0:
        return result
    nodes = _Nodes(model, node, filled, most)
    for index in range(most):
        result[:, index] = nodes.penalties(index)
    return result


class _Nodes:
    """Nodes of one shape with their groups."""

    __slots__ = ("_caches", "_cores", "_everywhere", "_memory", "_model", "_node", "_profiles", "_sockets", "_users")

    def __init__(self, model: CompositeModel, node: NodeShape, placed: list[list[Placed]], groups: int) -> None:
        self._model, self._node = model, node
        parts = parts_of(node)
        self._cores = _there(placed, groups, parts.cores)
        self._caches = [_there(placed, groups, masks) for masks in parts.caches]
        self._sockets = _there(placed, groups, parts.sockets)
        self._everywhere = _there(placed, groups, [(1 << node.threads) - 1])
        self._profiles = [_Column([groups_here[group][0] for groups_here in placed]) for group in range(groups)]
        by_node = [users_of([group[0] for group in groups_here], node) for groups_here in placed]
        # [resource, node, group, field of a `User`]
        self._users: Ints = np.array(by_node, dtype=np.int64).reshape(len(placed), -1, groups, 3).swapaxes(0, 1)
        self._memory = self._memory_demand(placed, groups)

    def penalties(self, group: int) -> Floats:
        """Return the penalty [node] of the slowest process of the group; 0 on nodes where it has none."""
        node = self._node
        sums: Floats = np.zeros(self._cores[group].shape)
        values = [
            self._crowding(0, self._cores, group, node.integer_slots_ppm),
            self._crowding(1, self._cores, group, node.floating_slots_ppm),
        ]
        exposed = self._profiles[group].exposed_ppm / WHOLE_PPM
        for level, cache in enumerate(node.caches):
            waits = self._crowding(4 + level, self._caches[level], group, cache.accesses_ms)
            values.append(np.repeat(self._misses(level, group) + waits * exposed, cache.cores, axis=1))
        values.append(np.repeat(self._memory_penalty(group), node.cores_per_socket, axis=1))
        values.append(self._crowding(2, self._everywhere, group, node.network_mbs))
        values.append(self._crowding(3, self._everywhere, group, node.disk_mbs))
        for value in values:
            sums = sums + value
        sums = sums + np.maximum(0.0, self._paging(group) - sums)
        slowest: Floats = np.where(self._cores[group] > 0, sums, 0.0).max(axis=1)
        return slowest

    def _crowding(self, resource: int, there: list[Ints], subject: int, capacity: int) -> Floats:
        """Return `crowding.crowding` of the group in each part."""
        if capacity == 0:
            return np.zeros(there[subject].shape)
        independent = self._model.overlap == "independent"
        parts, requests = self._users[resource, :, :, 0], self._users[resource, :, :, 2]
        rates = np.minimum(self._users[resource, :, :, 1], capacity)
        own_part, room = parts[:, subject, None], float(capacity * WHOLE_PPM)
        own = rates[:, subject, None] * np.minimum(there[subject], WHOLE_PPM)
        delay: Ints = np.zeros(there[subject].shape, dtype=np.int64)
        processes = [here if group != subject else np.maximum(here - WHOLE_PPM, 0) for group, here in enumerate(there)]
        low: Ints = np.zeros_like(own_part)
        for high in np.sort(parts, axis=1).T[:, :, None]:
            using = [parts[:, group, None] >= high for group in range(len(there))]
            volumes = [np.where(now, rates[:, group, None] * processes[group], 0) for group, now in enumerate(using)]
            others = np.add.reduce(volumes)
            excess = own + others - capacity * WHOLE_PPM
            counts = (excess > 0) & (independent | (high <= own_part))
            if counts.any():
                over, length = excess.astype(np.float64) / room, (high - low) / WHOLE_PPM
                each = np.maximum(others, 1).astype(np.float64)
                for group, volume in enumerate(volumes):
                    limit = (own.astype(np.float64) / room) * (np.where(using[group], processes[group], 0) / WHOLE_PPM)
                    by_this = np.minimum(over * (volume.astype(np.float64) / each), limit)
                    waits = _weight(requests[:, subject, None], requests[:, group, None]) / THOUSAND
                    term = length * by_this * waits * GRAIN
                    delay += np.where(counts, term, 0.0).astype(np.int64)
            low = high
        penalty: Floats = delay / GRAIN
        return penalty * (own_part / WHOLE_PPM) if independent else penalty

    def _misses(self, level: int, group: int) -> Floats:
        """Return the penalty by lost hits in each instance of a cache."""
        cache, profile, there = self._node.caches[level], self._profiles[group], self._caches[level]
        space = _spaces_kb(self._profiles, there, cache.size_kb)[group]
        mine = np.minimum(there[group], WHOLE_PPM)
        set_kb = np.maximum(profile.working_set_kb, 1).astype(np.float64)
        before = np.minimum(set_kb, float(cache.size_kb * WHOLE_PPM) / np.maximum(mine, 1).astype(np.float64))
        lost = np.maximum(0.0, before - space) / set_kb
        lost[np.broadcast_to(profile.working_set_kb == 0, lost.shape) | (np.add.reduce(there) <= mine)] = 0.0
        cost = (profile.accesses_ms * cache.miss_ns * profile.exposed_ppm).astype(np.float64) / MISSES
        result: Floats = lost * cost
        return result

    def _memory_demand(self, placed: list[list[Placed]], groups: int) -> tuple[list[Ints], Ints]:
        """Return who shares the bandwidth of each socket, and what lost hits add to the demand there."""
        node = self._node
        traffic: Ints = np.zeros((len(placed), node.sockets), dtype=np.int64)
        if node.memory_bandwidth_mbs and node.caches and node.caches[-1].miss_ns:
            cache, there = node.caches[-1], self._caches[-1]
            wanted: Ints = np.zeros(there[0].shape if groups else (len(placed), 1), dtype=np.int64)
            for profile, here in zip(self._profiles, there, strict=True):
                wanted += np.where(profile.accesses_ms > 0, here * np.minimum(profile.working_set_kb, cache.size_kb), 0)
            full = float(cache.size_kb * WHOLE_PPM) / np.maximum(wanted, 1).astype(np.float64)
            beyond = np.where(wanted > 0, np.maximum(0.0, 1.0 - full), 0.0)
            for profile, here in zip(self._profiles, there, strict=True):
                moved = (beyond * (profile.hidden_mbs * here).astype(np.float64)).astype(np.int64)
                traffic += moved.reshape(len(placed), node.sockets, -1).sum(axis=2)
        if self._model.memory_scope == "node":
            whole = np.repeat(traffic.sum(axis=1)[:, None], node.sockets, axis=1)
            return [np.repeat(here, node.sockets, axis=1) for here in self._everywhere], whole
        return self._sockets, traffic

    def _memory_penalty(self, group: int) -> Floats:
        node, capacity = self._node, self._node.memory_bandwidth_mbs
        there, traffic = self._memory
        if capacity == 0:
            return np.zeros(there[group].shape)
        shared_by = node.sockets if self._model.memory_scope == "socket" else 1
        demand: Ints = traffic * shared_by  # a new array
        rates = [np.minimum(profile.memory_mbs * shared_by, capacity) for profile in self._profiles]
        for rate, here in zip(rates, there, strict=True):
            demand += rate * here
        own = rates[group] * np.minimum(there[group], WHOLE_PPM)
        room = float(capacity * WHOLE_PPM)
        excess = np.maximum(0.0, (demand - capacity * WHOLE_PPM).astype(np.float64) / room)
        queue = self._model.queueing_ppm / WHOLE_PPM * ((demand - own).astype(np.float64) / room)
        result: Floats = np.maximum(excess, queue) * (self._profiles[group].exposed_ppm / WHOLE_PPM)
        return result

    def _paging(self, group: int) -> Floats:
        memory_mb = self._node.memory_mb
        wanted: Ints = np.zeros(self._everywhere[group].shape, dtype=np.int64)
        for profile, here in zip(self._profiles, self._everywhere, strict=True):
            wanted += np.minimum(profile.memory_mb, memory_mb) * here
        missing = wanted - memory_mb * WHOLE_PPM
        slope = self._model.paging_slope_ppm / WHOLE_PPM
        penalty = self._model.paging_ppm / WHOLE_PPM + slope * (
            missing.astype(np.float64) / float(memory_mb * WHOLE_PPM)
        )
        return np.where((missing > 0) & (self._profiles[group].memory_mb > 0), penalty, 0.0)


class _Column:
    """The profiles of one group of each node, as columns [node, 1]."""

    __slots__ = ("accesses_ms", "exposed_ppm", "hidden_mbs", "memory_mb", "memory_mbs", "working_set_kb")

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self.accesses_ms = _numbers([profile.accesses_ms for profile in profiles])
        self.exposed_ppm = _numbers([profile.exposed_ppm for profile in profiles])
        self.working_set_kb = _numbers([profile.working_set_kb for profile in profiles])
        self.memory_mbs = _numbers([profile.memory_mbs for profile in profiles])
        self.memory_mb = _numbers([profile.memory_mb for profile in profiles])
        self.hidden_mbs = _numbers([hidden_mbs(profile) for profile in profiles])


def _numbers(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)[:, None]


def _there(placed: list[list[Placed]], groups: int, masks: Sequence[int]) -> list[Ints]:
    """Return the processes of each group [node, part], in millionths."""
    known: dict[tuple[int, int], list[int]] = {}
    columns = []
    for group in range(groups):
        rows = []
        for groups_here in placed:
            held = groups_here[group]
            key = (held[1], int(held[2]))
            if key not in known:
                known[key] = [presence(held, mask) for mask in masks]
            rows.append(known[key])
        columns.append(np.array(rows, dtype=np.int64).reshape(len(placed), len(masks)))
    return columns


def _weight(own_ns: Ints, other_ns: Ints) -> Ints:
    """Return `crowding.weight` of each pair."""
    known = (own_ns > 0) & (other_ns > 0)
    weights: Ints = np.where(known, 2 * THOUSAND * other_ns // np.maximum(own_ns + other_ns, 1), THOUSAND)
    return weights


def _spaces_kb(profiles: Sequence[_Column], there: list[Ints], size_kb: int) -> list[Floats]:
    """Return `shares.spaces_kb` in each part."""
    shape = there[0].shape
    spaces: list[Floats] = [np.zeros(shape) for _ in there]
    uses = [(column.accesses_ms > 0) & (column.working_set_kb > 0) for column in profiles]
    waiting = [(here > 0) & used for here, used in zip(there, uses, strict=True)]
    left: Ints = np.full(shape, size_kb * WHOLE_PPM, dtype=np.int64)
    going = np.ones(shape, dtype=np.bool_)
    for _ in there:
        accesses: Ints = np.zeros(shape, dtype=np.int64)
        for column, here, group in zip(profiles, there, waiting, strict=True):
            accesses += np.where(group, here * column.accesses_ms, 0)
        going &= accesses > 0
        each = left.astype(np.float64) / np.maximum(accesses, 1).astype(np.float64)
        full = []
        for index, column in enumerate(profiles):
            share = each * column.accesses_ms
            filled = waiting[index] & going & (column.working_set_kb <= share)
            spaces[index] = np.where(waiting[index] & going, share, spaces[index])
            spaces[index] = np.where(filled, column.working_set_kb.astype(np.float64), spaces[index])
            full.append(filled)
        for column, here, filled in zip(profiles, there, full, strict=True):
            left = left - np.where(filled, here * column.working_set_kb, 0)
        left = np.maximum(left, 0)
        going &= np.logical_or.reduce(full)
        waiting = [group & ~filled for group, filled in zip(waiting, full, strict=True)]
    return spaces
