"""One node with its groups of processes: the penalty of a process by each resource that it shares where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias

from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask

# Where on a node processes are: how many of a group each core, each instance of a cache and each socket has.
#
# A group is the processes of one job on one node. Its processes are spread evenly over its hardware threads, so their number in
# a part of the node is a fraction; it is counted in millionths of a process.


class Placed(NamedTuple):
    """Processes of one job on one node, and the hardware threads that they hold together."""

    profile: Profile
    processes: int
    thread_mask: ThreadMask | int


Crowd: TypeAlias = tuple[int, ...]  # for each group, its processes in one part of the node, in millionths


class CoreSite(NamedTuple):
    """What a process on some core shares its parts of the node with."""

    core: Crowd
    caches: tuple[Crowd, ...]  # by level, as the node has them
    socket: int


class Parts(NamedTuple):
    """The hardware threads of each part of a node, as masks, and the parts above each core."""

    cores: tuple[int, ...]
    caches: tuple[tuple[int, ...], ...]  # of each level, of each instance
    sockets: tuple[int, ...]


def parts_of(node: NodeShape) -> Parts:
    """Return the parts of a node."""
    return _parts(
        node.sockets, node.cores_per_socket, node.threads_per_core, tuple([cache.cores for cache in node.caches])
    )


@lru_cache(maxsize=64)
def _parts(sockets: int, cores_per_socket: int, threads_per_core: int, cache_cores: tuple[int, ...]) -> Parts:
    cores = sockets * cores_per_socket
    own = tuple([sum(1 << (layer * cores + core) for layer in range(threads_per_core)) for core in range(cores)])
    return Parts(own, tuple([_joined(own, each) for each in cache_cores]), _joined(own, cores_per_socket))


def _joined(masks: tuple[int, ...], each: int) -> tuple[int, ...]:
    """Return the union of every ``each`` neighbouring masks, which have no bit in common."""
    return tuple([sum(masks[first : first + each]) for first in range(0, len(masks), each)])


def presence(placed: Placed, mask: int) -> int:
    """Return how many processes of a group are on these hardware threads, in millionths, rounded down."""
    _, processes, held = placed
    there = (held & mask).bit_count()
    return WHOLE_PPM * there * processes // held.bit_count() if there else 0


def crowd(placed: Sequence[Placed], mask: int) -> Crowd:
    """Return how many processes of each group are on these hardware threads, in millionths."""
    return tuple([presence(group, mask) for group in placed])


def sites_of(node: NodeShape, placed: Sequence[Placed]) -> list[list[CoreSite]]:
    """Return the different sites of each group's processes.

    Raises IndexError for threads that the node does not have.
    """
    parts = parts_of(node)
    caches = [[crowd(placed, mask) for mask in masks] for masks in parts.caches]
    found: list[dict[CoreSite, None]] = [{} for _ in placed]
    for core, mask in enumerate(parts.cores):
        there = crowd(placed, mask)
        if any(there):
            above = tuple([level[core // cache.cores] for level, cache in zip(caches, node.caches, strict=True)])
            site = CoreSite(there, above, core // node.cores_per_socket)
            for sites, processes in zip(found, there, strict=True):
                if processes:
                    sites[site] = None
    for group in placed:
        if group.thread_mask >> node.threads:
            raise IndexError(f"thread {group.thread_mask.bit_length() - 1} of a node with {node.threads}")
    return [list(sites) for sites in found]


# How processes share a cache, and which of their hits they lose.
#
# Source: D. Chandra, F. Guo, S. Kim, Y. Solihin, *Predicting Inter-Thread Cache Contention on a Chip Multi-Processor
# Architecture*, HPCA 2005: the frequency-of-access model. The space of a process is in proportion to its rate of
# accesses; what is more than its working set goes to the others. Of a working set that is used evenly, the part that
# has no space is missed.


def spaces_kb(profiles: Sequence[Profile], there: Sequence[int], size_kb: int) -> list[float]:
    """Return the space of one process of each group in a cache of ``size_kb`` KiB.

    ``there`` is the number of processes of each group, in millionths. A process with few accesses for its working set gets
    less than that; one round for each group settles who gets all of it.
    """
    spaces = [0.0] * len(profiles)
    open_groups = [
        group
        for group, profile in enumerate(profiles)
        if there[group] and profile.accesses_ms and profile.working_set_kb
    ]
    left = size_kb * WHOLE_PPM
    for _ in range(len(profiles)):
        accesses = sum([there[group] * profiles[group].accesses_ms for group in open_groups])
        if accesses == 0:
            break
        each = float(left) / float(accesses)
        full = [group for group in open_groups if profiles[group].working_set_kb <= each * profiles[group].accesses_ms]
        for group in open_groups:
            spaces[group] = each * profiles[group].accesses_ms
        for group in full:
            spaces[group] = float(profiles[group].working_set_kb)
            left -= there[group] * profiles[group].working_set_kb
        if not full:
            break
        open_groups = [group for group in open_groups if group not in full]
        left = max(0, left)
    return spaces


def lost_hits(profile: Profile, processes: int, space_kb: float, size_kb: int, everyone: int) -> float:
    """Return the part of a process's accesses that hit alone, and miss in ``space_kb``.

    ``processes`` is how much of the group is at this cache, and ``everyone`` of all groups, in millionths. A process whose
    threads are at several caches has a part of its data in each.
    """
    mine = min(processes, WHOLE_PPM)
    if profile.working_set_kb == 0 or everyone <= mine:  # there is no other process
        return 0.0
    before_kb = min(float(profile.working_set_kb), float(size_kb * WHOLE_PPM) / float(mine))
    return max(0.0, before_kb - space_kb) / float(profile.working_set_kb)


def overflow(profiles: Sequence[Profile], there: Sequence[int], size_kb: int) -> float:
    """Return the part of all working sets that does not fit into a cache; none is larger than the cache, as it did not fit alone."""
    wanted = 0
    for profile, processes in zip(profiles, there, strict=True):
        if profile.accesses_ms:
            wanted += processes * min(profile.working_set_kb, size_kb)
    return max(0.0, 1.0 - float(size_kb * WHOLE_PPM) / float(wanted)) if wanted else 0.0


# Processes that use one resource at the same time: slots of a core, an instance of a cache, the network, the disk.
#
# Each process uses the resource in a part of its time, at some rate. While the rates of all that use it at the same
# time exceed the capacity, the excess delays them (roofline: S. Williams, A. Waterman, D. Patterson, 2009). Which parts
# of their times coincide is not known; the model's *overlap* says what is assumed:
#
# - ``worst``: a process uses the resource when most of the others do (LOMARC paper, section 4.1, the minimum of two parts);
# - ``independent``: its part of the time has nothing to do with the others'.
#
# The others' parts coincide in both cases.

OVERLAPS: Final = ("independent", "worst")
# Delays of one process by each other group are whole numbers of these parts, so that their sum has no order.
GRAIN: Final = 1e15
THOUSAND: Final = 1000
_TWICE: Final = 2 * THOUSAND


class User(NamedTuple):
    """How each process of a group uses a resource."""

    part_ppm: int  # of its run time alone
    rate: int  # in the units of the capacity, while it uses the resource
    request_ns: int  # length of one request; 0: unknown


def weight(own_ns: int, other_ns: int) -> int:
    """Return by how much a request waits for another one, in thousandths: 1000 for equal lengths, up to 2000 for a short one.

    The two take turns by requests; 1000 also where a length is unknown.
    """
    return _TWICE * other_ns // (own_ns + other_ns) if own_ns and other_ns else THOUSAND


def crowding(users: Sequence[User], there: Sequence[int], subject: int, capacity: int, *, independent: bool) -> float:
    """Return the penalty of each process of group ``subject`` by all that share the resource.

    ``there`` is the number of processes of each group, in millionths; a capacity of 0 is unlimited. No process alone has
    a rate above the capacity. A process waits at most once for each other process with each of its own requests.
    """
    own_part, own_rate, own_ns = users[subject]
    if capacity == 0 or own_part == 0:
        return 0.0
    room = float(capacity * WHOLE_PPM)
    own = min(own_rate, capacity) * min(there[subject], WHOLE_PPM)
    delay = 0
    low = 0
    # The parts of the others' times are nested: in each step the same groups use the resource.
    for high in sorted({user.part_ppm for user in users}):
        if high > own_part and not independent:
            break
        volumes = []
        others = 0
        for group, (part, rate, request_ns) in enumerate(users):
            if part >= high:
                processes = there[group] if group != subject else max(0, there[group] - WHOLE_PPM)
                volume = min(rate, capacity) * processes
                others += volume
                volumes.append((volume, processes, request_ns))
        excess = own + others - capacity * WHOLE_PPM
        if excess > 0:
            over = float(excess) / room
            for volume, processes, request_ns in volumes:
                by_this = min(over * (float(volume) / float(others)), (float(own) / room) * (processes / WHOLE_PPM))
                delay += int(((high - low) / WHOLE_PPM) * by_this * (weight(own_ns, request_ns) / THOUSAND) * GRAIN)
        low = high
    penalty = delay / GRAIN
    return penalty * (own_part / WHOLE_PPM) if independent else penalty


LINE_BYTES: Final = 64  # that a miss moves
BYTES_PER_MB_S: Final = 1000  # in a millisecond
MISSES: Final = 1e12  # millionths of a nanosecond in a millisecond


# What a node must limit, one of these, for a field of a profile to count; memory it always does.
_SLOTS: Final = ("integer_slots_ppm", "floating_slots_ppm")
LIMITED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu_ppm": _SLOTS,
    "integer_ppm": _SLOTS[:1],
    "floating_ppm": _SLOTS[1:],
    "stretch_ns": _SLOTS,
    **dict.fromkeys(("working_set_kb", "accesses_ms"), ("caches",)),
    "exposed_ppm": ("caches", "memory_bandwidth_mbs"),
    "memory_mbs": ("memory_bandwidth_mbs",),
    **dict.fromkeys(("network_ppm", "network_mbs", "message_ns"), ("network_mbs",)),
    **dict.fromkeys(("disk_ppm", "disk_mbs", "request_ns"), ("disk_mbs",)),
}


def limits_of(node: NodeShape) -> list[str]:
    """Return what a node limits; caches only where misses or accesses cost something."""
    costly = any(cache.miss_ns or cache.accesses_ms for cache in node.caches)
    rates = [*_SLOTS, "memory_bandwidth_mbs", "network_mbs", "disk_mbs"]
    return [name for name in rates if getattr(node, name)] + ["caches"] * costly


class CompositeSettings(Protocol):
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

    def __init__(self, model: CompositeSettings, node: NodeShape, placed: Sequence[Placed]) -> None:
        self._model = model
        self._node = node
        self._profiles = [group[0] for group in placed]
        self._everywhere = crowd(placed, (1 << node.threads) - 1)
        self._spaces: dict[tuple[int, Crowd], list[float]] = {}
        self._users = users_of(self._profiles, node)
        self._memory = self._crowds_at_memory(placed)

    def parts(self, group: int, site: CoreSite) -> tuple[float, ...]:
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
