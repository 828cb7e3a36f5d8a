"""A scheduler's knowledge: the ledger of its manager, and what it believes of contention and of the jobs on each node.

Only `engine` changes a `State`; the belief and the caches here follow from the welcome and from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from cosched_hwmodel.bandwidth.bandwidth_matrix import NodeTable
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel, Resident
from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.contention import ContentionModel, Load, Neighbour
from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.allocation import Machine
from cosched_plugin.core.devices import on_machine, with_same_nodes
from cosched_plugin.core.work import Work
from cosched_plugin.ledger.ledger import Ledger, Queue
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass, Welcome

# Makes models from the site's belief about contention, which the manager's welcome states.

# What a job is believed to be slowed by another one where the model knows both, but not the pair: time-sharing.
UNKNOWN_PAIR: Final = 2.0


def believed_model(belief: Belief) -> BandwidthModel:
    """Return the bandwidths in ``belief``; none, unless bandwidth is its model."""
    return BandwidthModel(belief.resources if belief.contention == "bandwidth" else ())


def believed_pairs(
    belief: Belief, models: Mapping[str, PairFactory] = BUILT_IN, nodes: Sequence[NodeClass] = ()
) -> PairModel | None:
    """Return the site's believed model of pairs of jobs on these nodes; None if its model does not cover pairs.

    ``models`` are all models of this scheduler. Raises RemoteProtocolError for another one, for invalid
    parameters, and for nodes that cannot be.
    """
    name = belief.contention
    if name not in models:
        expected = f"expected one of {', '.join(models)}, or one that the scheduler's --contention names"
        raise RemoteProtocolError("unsupported", "welcome.belief.contention", f"{expected}, got {name!r}")
    path = "welcome.belief.contention"
    try:
        make = models[name]
        path = "welcome.belief.parameters"
        if make is None:
            return None
        pairs = make(belief.parameters)
        path = "welcome.nodes"
        return pairs.on_nodes([shape_of(item) for item in nodes])
    except HardwareModelError as error:
        raise RemoteProtocolError("unsupported", path, str(error)) from error


class KnownJobs(Mapping[int, JobSpec]):
    """The jobs that a policy may ask about, by id: running and pending ones."""

    __slots__ = ("_queue", "_running")

    def __init__(self, queue: Queue, running: Mapping[int, Running]) -> None:
        self._queue = queue
        self._running = running

    def __getitem__(self, job_id: int) -> JobSpec:
        running = self._running.get(job_id)
        return self._queue[job_id] if running is None else running.job

    def __iter__(self) -> Iterator[int]:
        return chain(self._queue, self._running)

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)


def believed_contention(pairs: PairModel | None, jobs: Mapping[int, JobSpec]) -> ContentionModel | None:
    """Return the believed contention of any number of ``jobs`` on a node; None where penalties follow from demand alone, if at all."""
    return None if pairs is None else pairs.among(jobs, UNKNOWN_PAIR)


def shapes_of(machine: Machine) -> list[NodeShape]:
    """Return the shape of each node, as contention models get it."""
    return [shape for item in machine.classes for shape in [shape_of(item)] * item.nodes]


def empty_table(model: BandwidthModel, machine: Machine) -> NodeTable:
    """Return the nodes of ``machine`` without jobs."""
    return NodeTable(model, machine.capacity_of, machine.depth)


# The running jobs of slot 0 on each node, for what a job that comes loses to them.
#
# A node table with their demands, kept up to date, where penalties follow from summed demand; the jobs themselves elsewhere.

_MOST_PENALTIES: Final = 200_000  # cached


class Residents:
    """The running jobs of slot 0 by node. Outdated rows of the table are rewritten when the table is read."""

    __slots__ = ("_changed", "_on_node", "_table")

    def __init__(self, model: BandwidthModel, machine: Machine, jobs: Iterable[Running]) -> None:
        self._on_node: dict[int, list[Resident]] = {}
        self._changed: set[int] = set()  # nodes whose row in the table is out of date
        self._table = empty_table(model, machine)
        for running in jobs:
            if not (running.on_disk or running.slot):
                self.add(running)

    def table(self) -> NodeTable:
        """Return the table, up to date."""
        if self._changed:
            self._table.put({node: self._on_node[node] for node in self._changed})
            self._changed.clear()
        return self._table

    def add(self, running: Running) -> None:
        """Enter a job on its nodes."""
        on_node = self._on_node
        for resident, nodes in self._resident_on(running):
            for node in nodes:
                there = on_node.get(node)
                if there is None:
                    on_node[node] = [resident]
                else:
                    there.append(resident)

    def remove(self, running: Running) -> None:
        """Take a job off its nodes."""
        on_node = self._on_node
        for resident, nodes in self._resident_on(running):
            for node in nodes:
                on_node[node].remove(resident)

    def _resident_on(self, running: Running) -> list[tuple[Resident, range]]:
        """Return a job's entries in the table with its nodes, run by run; the rows of these nodes become outdated."""
        self._table.note(running.end_us)
        found = []
        for first, count, _, processes in running.runs:
            nodes = range(first, first + count)
            self._changed.update(nodes)
            found.append((_resident(running, processes), nodes))
        return found


def _resident(running: Running, processes: int) -> Resident:
    bandwidth, network, disk = running.job.demand or (0, 0, 0)
    return Resident(running.start_us, running.end_us, (bandwidth * processes, network * processes, disk * processes))


class Neighbours:
    """The running jobs of slot 0 on each node, and the penalties of jobs beside others by a model of any number of jobs on a node.

    The penalty of a job on certain threads beside certain loads never changes, so it is cached.
    """

    __slots__ = ("_model", "_on_node", "_penalties", "_shapes", "kinds", "version")

    def __init__(self, model: ContentionModel, machine: Machine) -> None:
        self._model = model
        self._shapes = shapes_of(machine)
        self.kinds: list[int] = []  # by node: nodes of one kind are alike
        for kind, item in enumerate(machine.classes):
            self.kinds += [kind] * item.nodes
        self._on_node: dict[int, tuple[Neighbour, ...]] = {}
        self._penalties: dict[tuple[int, Load, tuple[Load, ...]], float] = {}
        self.version = -1  # of the state whose running jobs these are

    def renew(self, version: int, jobs: Iterable[Running]) -> None:
        """Follow the running jobs to another version of the state."""
        if version == self.version:
            return
        self.version = version
        on_node: dict[int, list[Neighbour]] = {}
        for running in jobs:
            if not (running.on_disk or running.slot):
                for first, count, mask, processes in running.runs:
                    load = load_of(running.job, processes, mask)
                    for node in range(first, first + count):
                        on_node.setdefault(node, []).append(Neighbour(running.start_us, running.end_us, load))
        # By job: the same jobs on other nodes are the same key of a cache.
        self._on_node = {node: tuple(sorted(there, key=_job_id)) for node, there in on_node.items()}

    def on_node(self, node: int) -> tuple[Neighbour, ...]:
        """Return the running jobs on a node until their expected ends, by id."""
        return self._on_node.get(node, ())

    def penalty(self, node: int, own: Load, there: tuple[Load, ...]) -> float:
        """Return the penalty of a job with the load ``own`` beside others on a node."""
        key = (self.kinds[node], own, there)
        penalty = self._penalties.get(key)
        if penalty is None:
            if len(self._penalties) >= _MOST_PENALTIES:
                self._penalties.clear()
            penalty = self._penalties[key] = self._model.penalties(self._shapes[node], (own, *there))[0]
        return penalty


def load_of(job: JobSpec, processes: int, mask: ThreadMask) -> Load:
    """Return the load of a number of a job's processes on these hardware threads of a node."""
    bandwidth, network, disk = job.demand or (0, 0, 0)
    return Load(job.id, processes, mask, (bandwidth * processes, network * processes, disk * processes))


def _job_id(neighbour: Neighbour) -> int:
    return neighbour.load.job_id


class State(Ledger):
    """The mutable state behind one scheduler core."""

    __slots__ = (
        "_described",
        "_neighbours",
        "_table",
        "belief",
        "believed",
        "features",
        "given_pairs",
        "model",
        "pairs",
        "work",
    )

    def __init__(self, welcome: Welcome, models: Mapping[str, PairFactory] = BUILT_IN) -> None:
        """``models`` are the contention models that the manager's site may believe in, by name."""
        super().__init__(welcome)
        self.features = frozenset(welcome.features)
        self.belief = welcome.belief
        self.model = believed_model(welcome.belief)
        self.given_pairs = on_machine(believed_pairs(welcome.belief, models, welcome.nodes), self.machine)
        # Where the believed penalties of a node's jobs do not follow from summed demand: what is believed, and the same of those jobs
        # alone that may be together here, which policies ask.
        self.believed = self.given_pairs
        self.pairs = with_same_nodes(self.believed, self.machine)
        self.work = Work()
        self._table: Residents | None = None  # made by the first call of `node_table`
        self._neighbours: Neighbours | None = None
        self._described = -1  # `interventions` for which the neighbours were made

    def believe(self, pairs: PairModel | None) -> None:
        """Replace the model of pairs that policies ask; whatever they have kept by the model before is out of date."""
        self.believed = pairs
        self.pairs = with_same_nodes(pairs, self.machine)
        self.interventions += 1
        self.version += 1

    # Each is made, or brought up to date, when a policy asks for it: most policies never pay for any.

    def node_table(self) -> NodeTable:
        """Return the running jobs on each node and their demands; kept up to date from the first call on."""
        if self._table is None:
            self._table = Residents(self.model, self.machine, self.running.values())
            self.residents = self._table
        return self._table.table()

    def neighbours(self) -> Neighbours | None:
        """Return the running jobs on each node, as the believed model of a node's jobs sees them; None where demand alone counts."""
        if self._described != self.interventions:  # a model may read a job's name, or its user
            self._described = self.interventions
            contention = believed_contention(self.believed, KnownJobs(self.queue, self.running))
            self._neighbours = None if contention is None else Neighbours(contention, self.machine)
        if self._neighbours is not None:
            self._neighbours.renew(self.version, self.running.values())
        return self._neighbours
