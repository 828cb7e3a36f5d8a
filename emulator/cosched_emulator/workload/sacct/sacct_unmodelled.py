"""What the jobs of a dump were bound by that a scenario of it does not have: counted, one line for each.

Where it matters, jobs start sooner in a simulation than they could: eight jobs of a GPU each run at once on a node with four.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from cosched_emulator.workload.sacct.sacct_jobs import COMPONENTS, NO_NODES, THROTTLED, LoggedJob, nodes_by_partition
from cosched_emulator.workload.sacct.sacct_rows import UNNAMED, SacctRow

# Counts of `sacct_jobs` that are about it.
TOLD_OF_JOBS: Final = (THROTTLED, COMPONENTS, NO_NODES)


_Test = Callable[[SacctRow, str], bool]  # of a row, and of the options of its submission


def _resource(name: str, option: str) -> _Test:
    """Return whether a row has a resource, by its name in TRES, or, where none are told, by an option."""
    named, asked = re.compile(name), re.compile(rf"\s(?:{option})", re.ASCII)

    def applies(row: SacctRow, options: str) -> bool:
        amounts = [*row.allocated.items(), *row.requested.items()]
        if any(amount and named.fullmatch(resource) for resource, amount in amounts):
            return True
        return not amounts and asked.search(options) is not None

    return applies


def _has_memory(row: SacctRow, _: str) -> bool:
    told = row.requested.get("mem") or row.allocated.get("mem")
    return bool(told) or re.search("[1-9]", row.memory) is not None


def _matches(option: str) -> _Test:
    asked = re.compile(rf"\s(?:{option})", re.ASCII)
    return lambda _, options: asked.search(options) is not None


def _waited_for(reason: str) -> _Test:
    known = re.compile(reason)
    return lambda row, _: known.fullmatch(row.reason) is not None


_KINDS: Final[Sequence[tuple[str, Sequence[_Test]]]] = (
    ("jobs had GPUs", [_resource(r"gres/gpu(:.*)?", r"--gres[= ]\S*gpu|--gpus[-= ]|-G ?[0-9a-z]")]),
    ("jobs had other generic resources, or burst buffers", [_resource(r"gres/(?!gpu)[^/]*|bb/.*", r"--gres[= ](?!\S*gpu)|--bb")]),
    ("jobs asked for memory", [_has_memory]),
    ("jobs had licences", [_resource("license/.*", "$"), _matches(r"-L ?\S|--licenses[= ]"), _waited_for("Licenses")]),
    ("jobs ran in reservations", [lambda row, _: row.reservation not in UNNAMED]),
    ("jobs waited at a limit of their QOS, account, user or partition", [_waited_for(r"(QOS|Assoc|Max|Partition\w*Limit)\w*")]),
    (
        "jobs asked for certain nodes, features or a network",
        [_matches(r"-[Cwx] ?[^\s-]|--(?:constraint|nodelist|exclude|prefer|switches)[= ]|--contiguous")],
    ),
)  # fmt: skip


def _options(command: str) -> str:
    """Return the options of a submission, without the script and its arguments: an option has one value at most."""
    kept: list[str] = []
    for word in command.split()[1:]:
        if not word.startswith("-") and not (kept and kept[-1].startswith("-")):
            break
        kept.append(word)
    return " ".join(("", *kept))


def unmodelled(jobs: Sequence[LoggedJob], counts: Mapping[str, int], sizes: int) -> Iterator[str]:
    """Yield what binds some jobs, and no scenario has; ``sizes``: of nodes. No name of a site's is told."""
    rows = [job.row for job in jobs]
    found = Counter[str]()
    for row in rows:
        options = _options(row.command)
        found.update(told for told, tests in _KINDS if any(applies(row, options) for applies in tests))
    yield from (f"{found[told]} {told}" for told, _ in _KINDS if told in found)
    for text in TOLD_OF_JOBS:
        if text in counts:
            yield f"{counts[text]} {text}"
    yield from _named("QOS: their priorities, limits and preemption", (row.qos for row in rows), least=1)
    yield from _named("accounts: fair share, and their limits", (row.account for row in rows), least=2)
    yield from _partitions(jobs)
    if sizes > 1:
        yield f"nodes of {sizes} sizes: a job may run on any that it fits on"


def _named(told: str, names: Iterable[str], *, least: int) -> Iterator[str]:
    count = Counter(name for name in names if name not in UNNAMED)
    if len(count) >= least:
        yield f"{sum(count.values())} jobs of {len(count)} {told}"


def _partitions(jobs: Sequence[LoggedJob]) -> Iterator[str]:
    """Yield how many partitions there are, and how many of them share nodes."""
    nodes = nodes_by_partition(jobs)
    if len(nodes) < 2:
        return
    users = Counter(node for own in nodes.values() for node in own)
    shared = sum(any(users[node] > 1 for node in own) for own in nodes.values())
    on = f"{shared} of them on the same nodes" if users else "whether on the same nodes is not known"
    yield f"{len(jobs)} jobs of {len(nodes)} partitions, {on}: a job may run on any node; their priorities and limits"
