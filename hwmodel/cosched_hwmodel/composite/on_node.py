"""One node with its groups of processes: the penalty of a process by each resource that it shares where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from cosched_hwmodel.composite.crowding import User, crowding
from cosched_hwmodel.composite.positions import Crowd, Placed, Site, crowd, parts_of
from cosched_hwmodel.composite.profile import Profile
from cosched_hwmodel.composite.shares import lost_hits, overflow, spaces_kb
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM

LINE_BYTES: Final = 64  # that a miss moves
BYTES_PER_MB_S: Final = 1000  # in a millisecond
MISSES: Final = 1e12  # millionths of a nanosecond in a millisecond


class Settings(Protocol):
    """The parameters of a `CompositeModel`."""

    @property
    def overlap(self) -> str: ...  # noqa: D102 - as in the model

    @property
    def memory_scope(self) -> str: ...  # noqa: D102

    @property
    def queueing_ppm(self) -> int: ...  # noqa: D102

    @property
    def paging_ppm(self) -> int: ...  # noqa: D102

    @property
    def paging_slope_ppm(self) -> int: ...  # noqa: D102


class OnNode:
    """Groups of processes on one node, and what follows from them for all of its parts."""

    __slots__ = ("_everywhere", "_memory", "_model", "_node", "_profiles", "_spaces", "_users")

    def __init__(self, model: Settings, node: NodeShape, placed: Sequence[Placed]) -> None:
        self._model = model
        self._node = node
        self._profiles = [group[0] for group in placed]
        self._everywhere = crowd(placed, (1 << node.threads) - 1)
        self._spaces: dict[tuple[int, Crowd], list[float]] = {}
        self._users = users_of(self._profiles, node)
        self._memory = self._crowds_at_memory(placed)

    def parts(self, group: int, site: Site) -> tuple[float, ...]:
        """Return the penalty of a process of the group at this site, and then its parts by resource."""
        node, independent = self._node, self._model.overlap == "independent"
        users = self._users
        values = [
            crowding(users[0], site.core, group, node.integer_slots_ppm, independent=independent),
            crowding(users[1], site.core, group, node.floating_slots_ppm, independent=independent),
        ]
        for level, there in enumerate(site.caches):
            limit = node.caches[level].accesses_ms
            waits = crowding(users[4 + level], there, group, limit, independent=independent)
            exposed = self._profiles[group].exposed_ppm / WHOLE_PPM
            values.append(self._misses(level, there, group) + waits * exposed)
        values.append(self._memory_penalty(group, site.socket))
        values.append(crowding(users[2], self._everywhere, group, node.network_mbs, independent=independent))
        values.append(crowding(users[3], self._everywhere, group, node.disk_mbs, independent=independent))
        penalty = 0.0
        for value in values:
            penalty += value
        paging = max(0.0, self._paging(group) - penalty)  # who waits for a page waits for nothing else
        return (penalty + paging, *values, paging)

    def _misses(self, level: int, there: Crowd, group: int) -> float:
        """Return the penalty by hits in a cache that are lost to others."""
        profile, cache = self._profiles[group], self._node.caches[level]
        lost = self._lost(level, there, group)
        return lost * (float(profile.accesses_ms * cache.miss_ns * profile.exposed_ppm) / MISSES)

    def _lost(self, level: int, there: Crowd, group: int) -> float:
        cache = self._node.caches[level]
        spaces = self._spaces.get((level, there))
        if spaces is None:
            spaces = self._spaces[level, there] = spaces_kb(self._profiles, there, cache.size_kb)
        return lost_hits(self._profiles[group], there[group], spaces[group], cache.size_kb, sum(there))

    def _crowds_at_memory(self, placed: Sequence[Placed]) -> list[tuple[Crowd, int]]:
        """Return for each socket the processes that share its bandwidth, and what lost hits add to their demand.

        That is in millionths of MB/s. A process takes between its bandwidth alone and that of all its accesses, as far as the
        working sets exceed the last cache together. With one bandwidth for the node all sockets have the same.
        """
        node = self._node
        if node.memory_bandwidth_mbs == 0:
            return [((), 0)] * node.sockets
        parts = parts_of(node)
        traffic = [0] * node.sockets
        if node.caches and node.caches[-1].miss_ns:
            level, cache = len(node.caches) - 1, node.caches[-1]
            for instance, mask in enumerate(parts.caches[level]):
                there = crowd(placed, mask)
                socket = instance * cache.cores // node.cores_per_socket
                beyond = overflow(self._profiles, there, cache.size_kb)
                for profile, processes in zip(self._profiles, there, strict=True):
                    traffic[socket] += int(beyond * float(hidden_mbs(profile) * processes))
        if self._model.memory_scope == "node":
            return [(self._everywhere, sum(traffic))] * node.sockets
        return [(crowd(placed, mask), moved) for mask, moved in zip(parts.sockets, traffic, strict=True)]

    def _memory_penalty(self, group: int, socket: int) -> float:
        """Return the penalty by the bandwidth of the memory: the roofline, or a queue where that is longer."""
        capacity = self._node.memory_bandwidth_mbs
        if capacity == 0:
            return 0.0
        there, demand = self._memory[socket]
        shared_by = self._node.sockets if self._model.memory_scope == "socket" else 1
        demand *= shared_by
        for profile, processes in zip(self._profiles, there, strict=True):
            demand += min(profile.memory_mbs * shared_by, capacity) * processes
        profile = self._profiles[group]
        own = min(profile.memory_mbs * shared_by, capacity) * min(there[group], WHOLE_PPM)
        room = float(capacity * WHOLE_PPM)
        excess = max(0.0, float(demand - capacity * WHOLE_PPM) / room)
        queue = self._model.queueing_ppm / WHOLE_PPM * (float(demand - own) / room)
        return max(excess, queue) * (profile.exposed_ppm / WHOLE_PPM)

    def _paging(self, group: int) -> float:
        """Return the penalty by a lack of memory (LOMARC paper, section 4.2), alone."""
        memory_mb = self._node.memory_mb
        if self._profiles[group].memory_mb == 0:
            return 0.0
        wanted = 0
        for profile, processes in zip(self._profiles, self._everywhere, strict=True):
            wanted += min(profile.memory_mb, memory_mb) * processes
        missing = wanted - memory_mb * WHOLE_PPM
        if missing <= 0:
            return 0.0
        slope = self._model.paging_slope_ppm / WHOLE_PPM
        return self._model.paging_ppm / WHOLE_PPM + slope * (float(missing) / float(memory_mb * WHOLE_PPM))


def hidden_mbs(profile: Profile) -> int:
    """Return the bandwidth that a process would take besides if no cache had its data, MB/s."""
    return max(0, profile.accesses_ms * LINE_BYTES // BYTES_PER_MB_S - profile.memory_mbs)


def users_of(profiles: Sequence[Profile], node: NodeShape) -> list[list[User]]:
    """Return how each group uses the slots of a core (two kinds), network, disk, and each level of cache."""
    users = [
        [User(profile.cpu_ppm, profile.integer_ppm, profile.stretch_ns) for profile in profiles],
        [User(profile.cpu_ppm, profile.floating_ppm, profile.stretch_ns) for profile in profiles],
        [User(profile.network_ppm, profile.network_mbs, profile.message_ns) for profile in profiles],
        [User(profile.disk_ppm, profile.disk_mbs, profile.request_ns) for profile in profiles],
    ]
    nearer_kb = 0
    for cache in node.caches:
        users.append([User(WHOLE_PPM, _reaching(profile, nearer_kb), 0) for profile in profiles])
        nearer_kb = cache.size_kb
    return users


def _reaching(profile: Profile, nearer_kb: int) -> int:
    """Return the accesses in a millisecond that do not find their data in the caches nearer to the core."""
    beyond_kb = max(0, profile.working_set_kb - nearer_kb)
    return profile.accesses_ms * beyond_kb // profile.working_set_kb if beyond_kb else 0
