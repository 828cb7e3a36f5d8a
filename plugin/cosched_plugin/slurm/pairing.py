"""Whether slurm.conf lets two jobs have a core, and which line of it would: looked at once, before anything is placed.

Slurm puts one job of a partition with `OverSubscribe=FORCE:1` on a core, beside one of another such partition. So a pair's jobs are
in two partitions over the same nodes: Slurm itself keeps a third job away, and honours `--exclusive`. FORCE:2 in one partition voids
that (seen with 24.11: an exclusive job and another one on the same cores).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_plugin.slurm.records import SlurmNode
from cosched_plugin.slurm.site_file import Site

Shown: TypeAlias = Mapping[str, str]  # by the names of slurm.conf
_ALIKE: Final = ("Nodes", "PriorityTier")  # of two partitions: a guest's own tier would let it pass the queue
# Else some start late, or never
_LIKELY: Final = ("PriorityJobFactor", "MaxTime", "MaxNodes", "AllowAccounts", "AllowGroups", "AllowQos")


class Finding(NamedTuple):
    """What is wrong, with the line that mends it; where it is not fatal, some jobs do not share."""

    words: str
    fatal: bool = True


def shown(text: str) -> Shown:
    """Return what scontrol shows of the configuration, line by line, or of a partition, on one line."""
    lines = re.findall(r"^([^\s=]+)\s+= (.*)$", text, re.MULTILINE)
    return dict(lines or re.findall(r"(\w+)=(\S*)", text))


def share_of(
    site: Site, wanted: int, nodes: Sequence[SlurmNode], show: Callable[..., str], *, pairs: bool
) -> tuple[int, list[Finding]]:
    """Return how many jobs may be on a core, and what speaks against it.

    ``wanted``: as the site says, 0: two where the policy ``pairs`` jobs and slurm.conf lets it. ``show``: what scontrol shows, if any.
    """
    if wanted == 1 or not (wanted or pairs):
        return 1, []
    config = shown(show("config"))
    partitions = {name: shown(show("partition", name)) for name in site.partitions}
    there = [node for node in nodes if set(site.partitions) & set(node.partitions)]
    threads = max([node.threads_per_core for node in there], default=1)
    found = list(_of_two(site.guests, partitions, config))
    for name in site.partitions:
        if name in site.guests or name in site.guests.values():
            continue
        forced = partitions[name].get("OverSubscribe", "").startswith("FORCE:") and not _is_one(partitions[name])
        lines = f"PartitionName={name} OverSubscribe=FORCE:1, PartitionName=guest Nodes={partitions[name].get('Nodes', '...')}"
        mend = f"{lines} OverSubscribe=FORCE:1, and --guests {name}:guest"
        if forced and threads == 1 and config.get("SLURM_VERSION", "").startswith("22.05"):
            found.append(Finding(f"OverSubscribe of partition {name} voids --exclusive; better: {mend}", fatal=False))
        elif forced:
            found.append(Finding(f"OverSubscribe of partition {name} voids --exclusive; pairs need {mend}"))
        elif wanted:
            found.append(Finding(f"no two jobs of partition {name} may share a core: {mend}"))
        else:
            return 1, [
                Finding(f"the policy would pair jobs, which partition {name} does not allow: {mend}", fatal=False)
            ]
    found += _of_memory(partitions, config, there)
    if threads > 1 and config.get("TaskProlog") == "(null)":
        found.append(
            Finding("both jobs of a pair would run on the first thread of each core: TaskProlog=/.../cosched-seats.sh")
        )
    return 2, found


def _is_one(partition: Shown) -> bool:
    return partition.get("OverSubscribe") == "FORCE:1"


def _of_two(guests: Mapping[str, str], partitions: Mapping[str, Shown], config: Shown) -> Iterator[Finding]:
    for names in guests.items():
        host, guest = [partitions[name] for name in names]
        for name in names:
            if not partitions[name]:
                nodes = f" Nodes={host['Nodes']}" if host else ""
                yield Finding(f"there is no partition {name}: PartitionName={name}{nodes} OverSubscribe=FORCE:1")
            elif not _is_one(partitions[name]):
                one = f"partition {name} is OverSubscribe={partitions[name].get('OverSubscribe')}"
                yield Finding(f"{one}: PartitionName={name} OverSubscribe=FORCE:1")
        if not host or not guest:
            continue
        for key in (*_ALIKE, *_LIKELY):
            if host.get(key) != guest.get(key):
                one = f"partitions {' and '.join(names)} differ"
                line = f"PartitionName={names[1]} {key}={host.get(key)}, not {guest.get(key)}"
                yield Finding(f"{one}: {line}", fatal=key in _ALIKE)
        if guest.get("RootOnly") == "YES":  # its jobs would wait with PartitionConfig
            yield Finding(f"no job of a user would start there: PartitionName={names[1]} RootOnly=NO")
        # Slurm then takes the cores of a partition's jobs from those that another partition may have.
        if config.get("PreemptType") == "preempt/partition_prio" and "OFF" in (
            host.get("PreemptMode"),
            guest.get("PreemptMode"),
        ):
            yield Finding(f"no guest would start: PreemptMode=REQUEUE for partitions {' and '.join(names)}")


def _of_memory(partitions: Mapping[str, Shown], config: Shown, nodes: Sequence[SlurmNode]) -> Iterator[Finding]:
    if "MEMORY" not in config.get("SelectTypeParameters", "").upper() or not nodes:
        return
    least = min(nodes, key=lambda node: node.memory_mb)
    cores = least.sockets * least.cores_per_socket
    half = least.memory_mb // 2 // (cores * least.threads_per_core)
    for name, partition in partitions.items():
        told = {
            key: int(value)
            for key in ("DefMemPerCPU", "DefMemPerNode")
            if (value := partition.get(key, config.get(key, ""))).isdigit()
        }
        line = f"PartitionName={name} DefMemPerCPU={half}"
        if partition and not told:
            yield Finding(f"a job without --mem takes all of a node's memory, and no other starts beside it: {line}")
        elif 2 * max(told.get("DefMemPerCPU", 0) * cores, told.get("DefMemPerNode", 0)) > least.memory_mb:
            yield Finding(f"two jobs without --mem do not fit into the memory of {least.name}: {line}", fatal=False)
