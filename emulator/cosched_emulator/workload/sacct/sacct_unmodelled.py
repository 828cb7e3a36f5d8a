"""What the jobs of a dump were bound by that a scenario of it does not have: counted, one line for each.

Where it matters, jobs start sooner in a simulation than they could: eight jobs of a GPU each run at once on a node with four.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.workload.sacct import sacct_jobs
from cosched_plugin.common.sacct_rows import UNNAMED

# Counts of `sacct_jobs` that are about it.
TOLD_OF_JOBS: Final = (sacct_jobs.THROTTLED, sacct_jobs.COMPONENTS, sacct_jobs.NO_NODES)


_Test = Callable[[sacct_jobs.Jobs], NDArray[np.bool_]]


def _resource(name: str, option: str) -> _Test:
    """Return which jobs have a resource, by its name in TRES, or, where none are told, by an option."""
    named = re.compile(name)

    def has(amounts: Mapping[str, int]) -> bool:
        return any(amount and named.fullmatch(resource) for resource, amount in amounts.items())

    def applies(jobs: sacct_jobs.Jobs) -> NDArray[np.bool_]:
        told: NDArray[np.bool_] = jobs.of("allocated", bool) | jobs.of("requested", bool)
        found: NDArray[np.bool_] = (
            jobs.of("allocated", has) | jobs.of("requested", has) | (~told & _matches(option)(jobs))
        )
        return found

    return applies


def _has_memory(jobs: sacct_jobs.Jobs) -> NDArray[np.bool_]:
    told = [jobs.of(name, lambda amounts: bool(amounts.get("mem"))) for name in ("requested", "allocated")]
    told.append(jobs.of("memory", lambda text: re.search("[1-9]", text) is not None))
    found: NDArray[np.bool_] = np.logical_or.reduce(told)
    return found


def _matches(option: str) -> _Test:
    asked = re.compile(rf"\s(?:{option})", re.ASCII)
    return lambda jobs: jobs.of("command", lambda command: asked.search(sacct_jobs.options_of(command)) is not None)


def _waited_for(reason: str) -> _Test:
    known = re.compile(reason)
    return lambda jobs: jobs.of("reason", lambda told: known.fullmatch(told) is not None)


_KINDS: Final[Sequence[tuple[str, Sequence[_Test]]]] = (
    ("jobs had GPUs", [_resource(r"gres/gpu(:.*)?", r"--gres[= ]\S*gpu|--gpus[-= ]|-G ?[0-9a-z]")]),
    ("jobs had other generic resources, or burst buffers", [_resource(r"gres/(?!gpu)[^/]*|bb/.*", r"--gres[= ](?!\S*gpu)|--bb")]),
    ("jobs asked for memory", [_has_memory]),
    ("jobs had licences", [_resource("license/.*", "$"), _matches(r"-L ?\S|--licenses[= ]"), _waited_for("Licenses")]),
    ("jobs ran in reservations", [lambda jobs: jobs.of("reservation", lambda name: name not in UNNAMED)]),
    ("jobs waited at a limit of their QOS, account, user or partition", [_waited_for(r"(QOS|Assoc|Max|Partition\w*Limit)\w*")]),
    (
        "jobs asked for certain nodes, features or a network",
        [_matches(r"-[Cwx] ?[^\s-]|--(?:constraint|nodelist|exclude|prefer|switches)[= ]|--contiguous")],
    ),
)  # fmt: skip


def unmodelled(jobs: sacct_jobs.Jobs, counts: Mapping[str, int], sizes: int) -> Iterator[str]:
    """Yield what binds some jobs, and no scenario has; ``sizes``: of nodes. No name of a site's is told."""
    for told, tests in _KINDS:
        count = np.count_nonzero(np.logical_or.reduce([applies(jobs) for applies in tests]))
        yield from [f"{count} {told}"] * bool(count)
    for text in TOLD_OF_JOBS:
        if text in counts:
            yield f"{counts[text]} {text}"
    for column, told, least in (
        ("qos", "QOS: their priorities, limits and preemption", 1),
        ("account", "accounts: fair share, and their limits", 2),
    ):
        named = [number for (name,), number in jobs.distinct(column).items() if name not in UNNAMED]
        yield from [f"{sum(named)} jobs of {len(named)} {told}"] * (len(named) >= least)
    yield from _partitions(jobs)
    if sizes > 1:
        yield f"nodes of {sizes} sizes: a job may run on any that it fits on"


def _partitions(jobs: sacct_jobs.Jobs) -> Iterator[str]:
    """Yield how many partitions there are, and how many of them share nodes."""
    nodes = sacct_jobs.nodes_by_partition(jobs)
    if len(nodes) < 2:
        return
    users = Counter(node for own in nodes.values() for node in own)
    shared = sum(any(users[node] > 1 for node in own) for own in nodes.values())
    on = f"{shared} of them on the same nodes" if users else "whether on the same nodes is not known"
    yield f"{len(jobs)} jobs of {len(nodes)} partitions, {on}: a job may run on any node; their priorities and limits"
