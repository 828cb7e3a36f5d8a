"""The vocabulary of machines: nodes and their hardware, what their manager can do, and how their time is shared.

Part of `messages`, which re-exports it.
"""

from typing import Annotated, Final, NamedTuple, TypeAlias

from cosched_plugin.protocol.fields import Feature, Form, Items, Name, NodeCount, Positive, SlotNumber, ThreadCount

# The vocabulary of nodes: a class of equal nodes, and what the composite model needs of it and of a job.
#
# PROTOCOL.md (section 2) is the specification.

HARDWARE: Final = "hardware"  # the feature: caches and issue slots of nodes
PROFILE: Final = "profile"  # the feature: what a job's processes ask of them
# The feature: `resources` of a job and of a node class; `licences` of a job and of the welcome
RESOURCES: Final = "resources"
APART: Final = "apart"  # the feature: that field of a node class
DEVICES: Final = "devices"  # the feature: `type` and `same_nodes` of a node class


# Countable resources: a name and a number of each, which jobs take and give back.
Amounts: TypeAlias = Annotated[tuple[tuple[str, int], ...], Form("amounts")]


class CacheLevel(NamedTuple):
    """One level of cache; each instance is shared by ``cores`` neighbouring cores of a socket."""

    level: Positive
    size_kb: Positive  # of an instance
    cores: ThreadCount
    miss_ns: int = 0  # more time of an access that does not find its data here
    accesses_ms: int = 0  # accesses that an instance serves in a millisecond; 0: unlimited


class NodeHardware(NamedTuple):
    """Issue slots of a core in millionths of those of the profiles' core, 0 for unlimited; and caches, nearest to the core first."""

    integer_slots_ppm: int = 0
    floating_slots_ppm: int = 0
    caches: tuple[CacheLevel, ...] = ()


class NodeClass(NamedTuple):
    """``nodes`` equal nodes, numbered on from those of the classes before."""

    nodes: NodeCount  # how many
    sockets: ThreadCount  # of each node
    cores_per_socket: ThreadCount  # of each CPU
    threads_per_core: ThreadCount  # of each core
    memory_mb: int  # of each node; 0: jobs that ask for memory have no place
    memory_bandwidth_mbs: int  # of each node; 0: unknown, no limit
    network_mbs: int  # of each node; 0: unknown, no limit
    disk_mbs: int  # of each node; 0: unknown, no limit
    swap_mb: int = 0  # disk space of each node for suspended jobs
    # issue slots and caches of each node; `None`: they slow no job down
    hardware: Annotated[NodeHardware | None, Feature((HARDWARE,))] = None
    resources: Annotated[Amounts, Feature((RESOURCES,))] = ()  # countable resources of each node, by name
    # pairs of names of these: no node has a job that takes the one and another that takes the other
    apart: Annotated[tuple[tuple[str, str], ...], Feature((APART,))] = ()
    type: Annotated[Name, Feature((DEVICES,))] = ""  # of the nodes, by which a belief may tell them apart
    # whether jobs share all of these nodes that they have, or none: two jobs on one of them have the same ones, as jobs of several GPUs
    same_nodes: Annotated[bool, Feature((DEVICES,))] = False

    @property
    def cores(self) -> int:
        """Return the number of cores of one node."""
        return self.sockets * self.cores_per_socket

    @property
    def threads(self) -> int:
        """Return the number of hardware threads of one node."""
        return self.cores * self.threads_per_core


# The vocabulary of time sharing: slots, and the rotation that takes turns among them. PROTOCOL.md ("Slots", section 4) has the rules.

SLOTS: Final = "slots"  # the feature
MOST_SHARES: Final = 4  # consumed shares that the manager keeps of a job (paired gang paper, section 2.2)


class Turn(NamedTuple):
    """What may run in ``quanta`` quanta in a row: the jobs of these slots, and the guests, all of them together."""

    # at least one; all their jobs run. The first one names the turn: no other turn of a rotation begins with it
    slots: Annotated[tuple[SlotNumber, ...], Items(1)]
    quanta: Positive = 1  # how many in a row, at least 1
    guests: tuple[int, ...] = ()  # jobs of other slots that run as well


class SlotState(NamedTuple):
    """The time sharing of a machine in a `Welcome`."""

    quantum_us: Positive  # length of a quantum
    quantum: int = 0  # number of the last quantum that has ended; 0: none yet
    turns: tuple[Turn, ...] = ()  # the rotation, the next turn first; none: slot 0 runs all the time
    left: int = 0  # quanta of the first turn that are still to come; 0: all of them


# What a manager can do, and a scheduler must know before it decides.

CAPABILITIES: Final = "capabilities"  # the feature
ANY_LAYOUT: Final = "any"
FILLED: Final = "filled"  # a job's nodes have the same number of processes each, in order; the last one may have fewer
LAYOUTS: Final = frozenset((ANY_LAYOUT, FILLED))


class Capabilities(NamedTuple):
    """What a manager can do. The default is what the protocol says elsewhere."""

    limits_grow: bool = True  # a start or a revision may have a longer limit than the job's own, or than granted before
    limit_grain_us: Positive = 1  # limits are multiples of it: others are rounded up, at both ends alike
    limit_late_us: int = 0  # how much later than at its limit a job may be killed
    # `start_together` starts all or none; otherwise, a refusal names the jobs that did not start
    atomic_groups: bool = True
    picks_threads: bool = False  # the manager chooses the threads of a node itself: only their number in a mask counts
    layout: Annotated[str, LAYOUTS] = ANY_LAYOUT  # how it can distribute the processes of a job: `any` or `filled`

    def rounded(self, limit_us: int) -> int:
        """Return a limit as it is granted."""
        return -(-limit_us // self.limit_grain_us) * self.limit_grain_us

    def granted(self, asked_us: int | None, own_us: int | None) -> int | str | None:
        """Return the limit that is granted where ``asked_us`` is asked for, or in words why it is not granted.

        Both ends round limits up alike, so that they know the same limit without a word about it.
        """
        if asked_us is None or own_us is None:
            return asked_us
        if asked_us > own_us and not self.limits_grow:
            return f"limit {asked_us} us is above {own_us} us, and this manager grants no longer ones"
        return self.rounded(asked_us)
