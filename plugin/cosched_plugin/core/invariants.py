"""Invariants of a scheduler's state: the caches follow from the manager's facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

from cosched_plugin.common.allocation import Counts
from cosched_plugin.common.slots import pairing_refusal
from cosched_plugin.common.threads import (
    Layers,
    any_layer,
    busy_refusal,
    each_node,
    layers_of,
    minus,
    nodes_of,
    none_of,
    on_nodes,
    union,
)
from cosched_plugin.core.state import Residents, State
from cosched_plugin.ledger.entries import members
from cosched_plugin.protocol.messages import MOST_SHARES


def check_invariants(state: State) -> None:
    """Derive every cache of ``state`` again; raise AssertionError where one differs."""
    machine = state.machine
    taken: dict[int, Layers] = {0: none_of(machine.exists)}  # by slot
    memory = list(machine.memory_mb)
    swap = list(machine.swap_mb)
    for job_id, running in state.running.items():
        _hold(
            job_id == running.job.id and job_id not in state.queue and job_id not in state.held,
            f"job {job_id} is in two places",
        )
        _hold(
            running.layers == layers_of(running.runs, machine.depth, machine.nodes),
            f"job {job_id}: layers are not its runs",
        )
        _hold(running.on_disk == (job_id in state.on_disk), f"job {job_id} is on disk, or not")
        if running.on_disk:
            _hold(running.suspended_us is not None, f"job {job_id} is on disk and not suspended")
            for node, processes in each_node(running.runs):
                swap[node] -= processes * running.job.memory_mb
            continue
        there = taken.get(running.slot, none_of(machine.exists))
        _hold(busy_refusal(running.layers, minus(machine.exists, there)) is None, f"job {job_id} shares a thread")
        taken[running.slot] = union(there, running.layers)
        for node, processes in each_node(running.runs):
            memory[node] -= processes * running.job.memory_mb
    counts = Counts(machine)
    for running in state.running.values():
        if not running.on_disk and state.pool.counted:
            counts.count(running.job, running.runs, -1)
    _check_sets(state)
    _hold(counts.resources == state.pool.counts.resources, "free resources differ from what running jobs leave")
    _hold(counts.licences == state.pool.counts.licences, "free licences differ from what running jobs leave")
    _hold(min(memory, default=0) >= 0, "memory is over-committed")
    _hold(min(swap, default=0) >= 0, "swap space is over-committed")
    _hold(swap == state.pool.free_swap_mb, "free swap space differs from what suspended jobs leave")
    _check_slots(state, taken)
    _hold(memory == state.pool.free_memory_mb, "free memory differs from what running jobs leave")
    _hold(state.releases == sorted((running.end_us, job_id) for job_id, running in state.running.items()), "releases")
    _hold(state.measured == {job_id for job_id, running in state.running.items() if running.measured_ppm}, "measured")
    kept = {(key, job_id) for job_id, notes in state.notes.items() for key in notes}
    _hold(kept == {(key, job_id) for key, noted in state.noted.items() for job_id in noted}, "who has notes")
    state.queue.check()
    if state.job_nodes is not None:
        nodes = {job_id: any_layer(running.layers) for job_id, running in state.running.items()}
        _hold(state.job_nodes == nodes, "the nodes of running jobs")
    if state.residents is not None:  # then `node_table` has been asked for
        anew = Residents(state.model, machine, state.running.values())
        _hold(state.node_table().same_as(anew.table()), "the node table differs from running jobs")


def _check_sets(state: State) -> None:
    """Check the nodes that jobs share all or none of."""
    there = [running for running in state.running.values() if not (running.on_disk or running.slot)]
    sets = Counter([mine for running in there if (mine := nodes_of(running.runs) & state.machine.same_nodes)])
    _hold(sets == state.pool.sets, "sets of nodes that jobs share differ from those of running jobs")
    _hold(not any(one & other for one, other in combinations(sets, 2)), "two jobs share a part of their nodes")


def _check_slots(state: State, taken: Mapping[int, Layers]) -> None:
    """Check the free threads of every slot, given those that jobs hold, and the rotation."""
    slots, up = state.slots, state.pool.up
    for slot, held in taken.items():
        free = on_nodes(minus(state.machine.exists, held), up)
        pool = state.pool_of(slot)
        _hold(free == pool.free, f"free threads differ in slot {slot} from what running jobs leave")
        _hold(pool.free_memory_mb is state.pool.free_memory_mb and pool.up == up, f"slot {slot} has nodes of its own")
    away = {job_id for job_id, running in state.running.items() if running.on_disk or running.slot}
    _hold(state.away == away, "jobs without threads in slot 0")
    if slots is None:
        return
    for job_id, running in state.running.items():
        _hold(len(running.shares) == min(running.quanta, MOST_SHARES), f"job {job_id} has other shares than quanta")
    turns = slots.rotation.turns
    _hold(len({turn.slots[0] for turn in turns}) == len(turns), "two turns begin with one slot")
    jobs = members(state.running)
    for turn in turns:
        _hold(pairing_refusal(turn, jobs) is None, "an unpaired job runs beside another one")


def _hold(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)
