"""What is planned to happen during a run: the script of users and operators, and the faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.faults import Alternation, ClockJump, DiskFull, FaultKind, Faults, NodeFault
from cosched_emulator.scenario.limits import NodeRanges, Reservation, nodes_of
from cosched_emulator.scenario.schema import Scenario, ScriptEntry
from cosched_hwmodel.units import SECOND_US

if TYPE_CHECKING:
    from cosched_emulator.scenario.fault_sections import FaultEntry, FaultsSection, NodeFaultsSection, SlowFaultsSection

# The script of a run: actions of users and operators at given instants.


class Scripted(NamedTuple):
    """An action of a user or an operator at a given instant; ``target`` is a job or a node.

    ``change`` is a verb of a scenario, or of one node `drain-node`, `resume-node`, `reserve-node` (``until_us``), `free-node`.
    """

    at_us: int
    change: str
    target: int
    until_us: int = 0


def build_script(scenario: Scenario, nodes: int, jobs: int) -> tuple[Scripted, ...]:
    """Return the scripted changes, for a machine of ``nodes`` nodes and a workload of ``jobs`` jobs.

    Raises ConfigurationError for a node or a job that does not exist.
    """
    changes: list[Scripted] = []
    for index, entry in enumerate(scenario.script):
        path = f"script[{index}]"
        if entry.do not in ("drain-nodes", "reserve"):
            changes.append(_change(entry, path, nodes, jobs))
            continue
        some = [node for first, count in _nodes(entry, path, nodes) for node in range(first, first + count)]
        at_us, until_us = round(entry.at_s * SECOND_US), round((entry.until_s or 0) * SECOND_US)
        # Slurm's plans know when a reservation ends; they do not know when a drained node comes back.
        take, give = ("reserve-node", "free-node") if entry.do == "reserve" else ("drain-node", "resume-node")
        changes += [Scripted(at_us, take, node, until_us if entry.do == "reserve" else 0) for node in some]
        if entry.until_s is not None:
            changes += [Scripted(until_us, give, node) for node in some]
    return tuple(changes)


def build_reservations(scenario: Scenario, nodes: int) -> tuple[Reservation, ...]:
    """Return the reservations of a scenario's script. Raises ConfigurationError for nodes that do not exist."""
    return tuple(
        [
            Reservation(
                round(entry.at_s * SECOND_US),
                round(entry.until_s * SECOND_US),
                _nodes(entry, f"script[{index}]", nodes),
            )
            for index, entry in enumerate(scenario.script)
            if entry.do == "reserve" and entry.until_s is not None
        ]
    )


def _nodes(entry: ScriptEntry, path: str, nodes: int) -> NodeRanges:
    """Return the nodes that an entry names; none named: all."""
    return nodes_of(entry.nodes, nodes, f"{path}.nodes") or ((0, nodes),)


def _change(entry: ScriptEntry, path: str, nodes: int, jobs: int) -> Scripted:
    at_us, change = round(entry.at_s * SECOND_US), entry.do
    if entry.node is not None:
        if not 0 <= entry.node < nodes:
            raise ConfigurationError(f"{path}.node", f"a node from 0 to {nodes - 1}", str(entry.node))
        return Scripted(at_us, change, entry.node)
    if entry.job is None or not 1 <= entry.job <= jobs:
        raise ConfigurationError(f"{path}.job", f"a job from 1 to {jobs}", str(entry.job))
    return Scripted(at_us, change, entry.job)


# The fault plan of a run: the table ``[faults]`` of a scenario in the manager's units, for a machine of a given size.


def build_faults(scenario: Scenario, nodes: int) -> Faults:
    """Return the scenario's fault plan for a machine of ``nodes`` nodes.

    Raises ConfigurationError for a node that the machine does not have.
    """
    section = scenario.faults
    if section is None:
        return Faults()
    seed = scenario.seed if section.seed is None else section.seed
    return Faults(
        seed=seed,
        nodes=nodes,
        alternations=_alternations(section.nodes, section.slow),
        at=tuple(_node_fault(entry, f"faults.at[{index}]", nodes) for index, entry in enumerate(section.at)),
        messages=section.messages,
        plugin=section.plugin,
        clock=_clock(section),
        disk=_disk(section),
    )


def _alternations(failing: NodeFaultsSection | None, slow: SlowFaultsSection | None) -> tuple[Alternation, ...]:
    found = []
    if failing is not None:
        up_us, down_us = failing.mean_up_s * SECOND_US, failing.mean_down_s * SECOND_US
        found.append(Alternation("fail", "return", up_us, down_us, failing.share))
    if slow is not None:
        normal_us, slow_us = slow.mean_normal_s * SECOND_US, slow.mean_slow_s * SECOND_US
        found.append(Alternation("slow", "normal", normal_us, slow_us, slow.share, slow.slowdown))
    return tuple(found)


def _node_fault(entry: FaultEntry, path: str, nodes: int) -> NodeFault:
    if not 0 <= entry.node < nodes:
        raise ConfigurationError(f"{path}.node", f"a node from 0 to {nodes - 1}", str(entry.node))
    slowdown = 1.0 if entry.slowdown is None else entry.slowdown
    return NodeFault(round(entry.at_s * SECOND_US), cast(FaultKind, entry.do), entry.node, slowdown)


def _clock(section: FaultsSection) -> tuple[ClockJump, ...]:
    jumps = (ClockJump(round(entry.at_s * SECOND_US), round(entry.jump_s * SECOND_US)) for entry in section.clock)
    return tuple(sorted(jumps))


def _disk(section: FaultsSection) -> tuple[DiskFull, ...]:
    spans = []
    for entry in section.disk:
        at_us = round(entry.at_s * SECOND_US)
        spans.append(DiskFull(at_us, at_us + round(entry.for_s * SECOND_US)))
    return tuple(sorted(spans))
