"""How turns change hands: jobs go to the disks of their nodes and come back, or the manager lets slots run in turn.

Disks are for turns of minutes to hours, whose jobs would not fit into memory together. The manager's rotation is for turns of seconds:
all jobs stay in memory, and a scheduler that is late holds up none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from cosched_plugin.api import Action, ResumeJob, Rotation, SetRotation, SuspendJob, Turn, View, each_node
from cosched_plugin.policies.turns.members import Bundle


def to_disk(bundle: Bundle, view: View) -> Iterator[Action]:
    """Suspend jobs that share nodes to disk: all of them, or none if the disks have no room for their memory."""
    if fits_on_disk(bundle, view):
        for running in bundle:
            if running.suspended_us is not None:
                yield ResumeJob(running.job.id)  # it was suspended on its nodes
            yield SuspendJob(running.job.id, to_disk=True)


def fits_on_disk(bundle: Bundle, view: View) -> bool:
    """Tell whether the disks of their nodes have room for the memory of all these jobs."""
    wanted: dict[int, int] = {}
    for running in bundle:
        for node, processes in each_node(running.runs) if running.job.memory_mb else ():
            wanted[node] = wanted.get(node, 0) + processes * running.job.memory_mb
    return all(megabytes <= view.free_swap_mb[node] for node, megabytes in wanted.items())


def from_disk(bundle: Bundle, view: View) -> Iterator[Action]:
    """Resume jobs that share nodes, all of them or none."""
    if all(view.may_resume(running) for running in bundle):
        for running in bundle:
            yield ResumeJob(running.job.id)


def let_run(turns: tuple[Turn, ...], view: View) -> Iterator[Action]:
    """Let the manager take these turns from the next quantum on, if it would take others."""
    if view.rotation != Rotation(turns):
        yield SetRotation(view.quantum + 1, turns)
