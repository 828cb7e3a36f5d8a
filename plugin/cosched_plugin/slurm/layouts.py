"""How Slurm lays a job out on nodes, in the protocol's words: processes of each node, and what each of them takes.

The protocol has as many processes on each node, and what is left on the last one. Slurm gives each node of a list one task, and then
fills one after the other: 20 tasks on two nodes are 16 and 4, but 8 on four nodes are 5, 1, 1 and 1. What has no words in the protocol
is told of as one process on each node, with as many threads as the fullest node needs: too much is planned for, and never too little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.protocol.messages import Amounts, JobSpec, Run
from cosched_plugin.slurm.records import SlurmJob, SlurmNode


class Layout(NamedTuple):
    """``processes`` on all of ``nodes`` but the last, which has what is left of ``total``; memory is in MiB.

    Slurm gives jobs whole cores. So a process is a task on ``cores`` of its own, or, where tasks share cores, a core.
    """

    processes: int
    nodes: int
    total: int
    cores: int = 1  # of each process
    own_cores: bool = True  # of each task: beside it, another job may have the other threads
    memory_mb: int = 0  # of each process
    resources: Amounts = ()  # of each node


class _Tasks(NamedTuple):
    """The tasks of a job on nodes with so many threads a core, as seen with Slurm 24.11 and 26.05."""

    number: int
    width: int  # threads of each
    threads: int  # that the job uses of each core
    own_cores: bool


def _tasks(job: SlurmJob, per_core: int) -> _Tasks:
    # A core is a CPU to a job that wants one thread of each.
    threads = 1 if job.threads_per_core == 1 else per_core
    number, width = max(1, job.tasks), job.width
    if job.tasks_per_core == 1:
        width = -(-width // threads) * threads
    own_cores = width % threads == 0
    # Slurm hands out cores, and these hold several tasks
    if width < threads and not (job.tasks_per_node or job.tasks_per_socket or job.per_task):
        number, width, threads = -(-number * width // threads), 1, 1
    return _Tasks(number, width, threads, own_cores)


def laid_out(job: SlurmJob, node: SlurmNode, *, even: bool = False) -> Layout | str:
    """Return how a job is laid out on nodes like one; in words what such a node lacks. ``even``: no node may have fewer than others."""
    offers = dict(node.resources)
    tasks = _tasks(job, node.threads_per_core)
    most = _most_tasks(job, tasks, node, offers)
    if min(job.tasks_per_node or 1, tasks.number) > most:
        return f"tasks of {tasks.width} CPUs" if not job.per_task else f"what {max(1, job.tasks_per_node)} tasks take"
    most = min(most, job.tasks_per_node or most)
    least = -(-tasks.number // most)
    nodes = _nodes(job, least, offers, guessed=tasks.threads < node.threads_per_core)
    if not least <= nodes <= tasks.number:
        return f"room for {tasks.number} tasks on {nodes} nodes"
    first = min(most, tasks.number - nodes + 1)
    resources = _resources(job, node, offers, nodes, first)
    lacking = [f"{count} of {name}" for name, count in resources.items() if count > offers.get(name, 0)]
    return lacking[0] if lacking else _with_amounts(job, node, tasks, (nodes, first), resources, even=even)


def _with_amounts(
    job: SlurmJob, node: SlurmNode, tasks: _Tasks, size: tuple[int, int], resources: Mapping[str, int], *, even: bool
) -> Layout | str:
    """Return the layout on so many nodes with so many tasks on the first ones; in words what a node lacks."""
    nodes, first = size
    last = tasks.number - first * (nodes - 1)
    gpus = resources.get("gpu", 0)
    used = first * tasks.width
    cpus = max(used, job.least_cpus, gpus * dict(job.cpus_per or ()).get("gpu", 0))
    memory_mb = gpus * dict(job.memory_per or ()).get("gpu", 0) or job.memory_per_node
    # Slurm counts all threads of a job's cores, unless it asks for one of each; and of a node that a job has alone, all cores.
    counted = 1 if job.threads_per_core == 1 else node.threads_per_core
    node_cores, cores = node.sockets * node.cores_per_socket, -(-cpus // tasks.threads)
    if cores > node_cores:
        return f"{cpus} CPUs"
    node_mb = memory_mb or job.memory_per_cpu * counted * (node_cores if job.exclusive else cores)
    if node_mb > node.memory_mb > 0:
        return f"{node_mb} MB of memory"
    amounts = tuple(sorted(resources.items()))
    whole = tasks.width // tasks.threads
    if tasks.width % tasks.threads:
        first, last, whole = -(-used // tasks.threads), -(-last * tasks.width // tasks.threads), 1
    if not 1 <= last <= first or (last < first and (even or memory_mb)) or cpus > used:
        return Layout(
            1, nodes, nodes, cores, tasks.own_cores, memory_mb or job.memory_per_cpu * counted * cores, amounts
        )
    # Rounded down: up, a job would not fit on a node all of whose memory it asks for.
    each_mb = memory_mb // first or job.memory_per_cpu * counted * whole
    return Layout(first, nodes, first * (nodes - 1) + last, whole, tasks.own_cores, each_mb, amounts)


def _most_tasks(job: SlurmJob, tasks: _Tasks, node: SlurmNode, offers: Mapping[str, int]) -> int:
    """Return how many tasks an empty node takes."""
    most = node.sockets * node.cores_per_socket * tasks.threads // tasks.width
    if job.tasks_per_socket:
        most = min(most, job.tasks_per_socket * node.sockets)
    return min([most, *(offers.get(name, 0) // count for name, count in job.per_task or ())])


def _nodes(job: SlurmJob, least: int, offers: Mapping[str, int], *, guessed: bool) -> int:
    """Return on how many nodes a job is to run: of a range, the fewest that have room for it.

    ``guessed``: without `-N` Slurm shows how many nodes it would take if jobs used all threads. 24.11 shows `-n8` as one node exactly
    if that has the CPUs, whatever GPUs each task takes; and 26.05 shows the number of tasks as the most nodes. After a restart of
    slurmctld no job has a most (24.11, 26.05): `-N3` is known by the nodes that it asks for at least.
    """
    if 0 < job.most_nodes <= job.node_count:  # what 22.05 guesses of `-c` may be above
        return max(job.most_nodes, least) if job.per_task or guessed else job.most_nodes
    with_gpus = [-(-count // offers[name]) for name, count in job.per_job or () if offers.get(name)]
    ranged = job.most_nodes not in (0, job.tasks)
    return max(least, job.node_count if ranged else len(job.required), job.least_nodes, *with_gpus, 1)


def _resources(job: SlurmJob, node: SlurmNode, offers: Mapping[str, int], nodes: int, tasks: int) -> dict[str, int]:
    """Return what a job takes of a node with so many of its tasks; of what it takes in all, as much as may come from one node."""
    found = dict(job.per_node or ())
    for amounts, times in ((job.per_socket, job.sockets or node.sockets), (job.per_task, tasks)):
        found |= {name: max(found.get(name, 0), count * times) for name, count in amounts or ()}
    for name, count in job.per_job or ():
        found.setdefault(name, count if nodes == 1 else min(offers.get(name, 0), count - nodes + 1))
    return found


def needs_sockets(job: SlurmJob, node: SlurmNode) -> bool:
    """Return whether it matters which cores of a node a job gets: then it fits for sure on an idle one alone."""
    bound = 0 < job.tasks_per_socket * job.width < node.cores_per_socket
    return bound or bool(job.sockets or job.cores_per_socket or job.per_socket)


def with_layout(spec: JobSpec, layout: Layout) -> JobSpec:
    """Return a description with what a layout says."""
    return spec._replace(
        processes=layout.total,
        ppn_min=layout.processes,
        ppn_max=layout.processes,
        threads_per_process=layout.cores,
        memory_mb=layout.memory_mb,
        resources=layout.resources,
    )


def runs_of(counts: Mapping[int, int]) -> tuple[Run, ...]:
    """Return runs of neighbouring nodes with as many processes each."""
    runs: list[Run] = []
    for node, processes in sorted(counts.items()):
        if runs and runs[-1].first + runs[-1][1] == node and runs[-1].processes == processes:
            runs[-1] = Run(runs[-1].first, runs[-1][1] + 1, ThreadMask(0), processes)
        else:
            runs.append(Run(node, 1, ThreadMask(0), processes))
    return tuple(runs)
