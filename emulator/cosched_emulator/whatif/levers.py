"""What a site can change under its present policy: each lever is one entry of a table, from the site's facts to changed sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from cosched_emulator.scenario.limits import nodes_of
from cosched_emulator.scenario.machine import build_machine
from cosched_emulator.scenario.reader import scenario_of_table
from cosched_emulator.whatif.candidates import Candidate
from cosched_emulator.workload.atomic_file import make_folder, new_text_file
from cosched_emulator.workload.side_files.annotations import MOST_PRIORITY, Annotations, write_annotations
from cosched_hwmodel.text_formats import read_toml
from cosched_plugin.common.slurm_notation import ranges_text
from cosched_plugin.config import assignment_texts
from cosched_plugin.protocol.limits import MAX_NODES

_MORE: Final = 10  # percent of nodes
_MOST_PARTITIONS: Final = 3  # that get more nodes, each as a lever of its own: those that most jobs name
_OUTAGES: Final = frozenset({"fail-node", "return-node", "drain-nodes", "reserve"})
Sections: TypeAlias = Mapping[str, Any]  # of a scenario


@dataclass(frozen=True, slots=True)
class Site:
    """What levers look at."""

    sections: Sections  # of all runs, with the nodes and the script
    said: Annotations | None
    folder: Path  # for files
    by_priority: bool  # the present policy goes by the priority that jobs come with

    def annotated(self, name: str, change: Callable[[int], int], file: str) -> Sections | None:
        """Return the annotations with other values of ``name``, in a new file; None where none would differ."""
        values = {} if self.said is None else self.said.values[name]
        other = {key: change(value) for key, value in values.items()}
        if self.said is None or other == values:
            return None
        target = self.folder / file
        write_annotations(target, self.said._replace(values={**self.said.values, name: other}).rows())
        return {"workload": {"annotations": str(target)}}


class Lever(NamedTuple):
    """A change, of which there may be one for each part of a site; ``{}`` in its words is that part."""

    name: str
    what: str  # for people
    lacks: str  # why a site has none
    changes: Callable[[Site], Iterator[tuple[str, Sections | None]]]  # (part, sections); None: the site lacks the facts


def _one(change: Callable[[Site], Sections | None]) -> Callable[[Site], Iterator[tuple[str, Sections | None]]]:
    def changes(site: Site) -> Iterator[tuple[str, Sections | None]]:
        yield "", change(site)

    return changes


# ---------------------------------------------------------------- nodes


def _with_more(site: Site, of: frozenset[int] | None) -> Sections | None:
    """Return the site with a tenth more nodes ``of`` some (None: of all), which come after all others.

    A partition that has all of these nodes of a kind has all that are added; one that has a part of them, that part.
    """
    cluster = site.sections["cluster"]
    classes = [item.nodes for item in build_machine(scenario_of_table({"cluster": cluster}, {}).cluster)]
    if not ("file" in cluster or "nodes" in cluster):  # its number of processors may end in a smaller node
        return None
    total = first = sum(classes)
    grown: list[tuple[frozenset[int], int, int]] = []  # the nodes of a kind, and where so many more begin
    begin = 0
    for count in classes:
        kind = frozenset(range(begin, begin + count))
        kind = kind if of is None else kind & of
        more = -(-len(kind) * _MORE // 100)
        grown.append((kind, first, more))
        begin, first = begin + count, first + more
    parts = []
    for entry in site.sections.get("partitions", ()):
        if entry.get("nodes") is None:
            parts.append(entry)
            continue
        ranges = [*nodes_of(entry["nodes"], total, "partitions")]
        own = _numbers(ranges)
        ranges += [(new, share) for kind, new, more in grown if (share := _share(kind, own, more))]
        parts.append({**entry, "nodes": ranges_text(ranges)})
    changed: dict[str, Any] = {"partitions": parts} if parts else {}
    if "nodes" in cluster:
        return {**changed, "cluster": {"nodes": first}}
    added = [more for _, _, more in grown]
    target = site.folder / f"machine-{'-'.join(map(str, added))}.toml"  # as many more are the same lever
    _write_longer(target, cluster["file"], added)
    return {**changed, "cluster": {"file": str(target)}}


def _share(kind: frozenset[int], own: frozenset[int], more: int) -> int:
    """Return how many of ``more`` new nodes of a kind belong to a partition with these nodes."""
    return -(-more * len(kind & own) // len(kind)) if kind else 0


def _numbers(ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
    return frozenset(node for first, count in ranges for node in range(first, first + count))


def _write_longer(target: Path, file: str, more: Iterable[int]) -> None:
    """Write a file of nodes with more of each kind behind its own."""
    lines = []
    for entry, count in zip(read_toml(file)["nodes"], more, strict=True):
        if count:
            lines += ["", "[[nodes]]", *assignment_texts({**entry, "count": count})]
    make_folder(target.parent)
    with new_text_file(target, force=True) as stream:
        stream.write("\n".join([Path(file).read_text(encoding="utf-8"), *lines, ""]))


def _parts_with_more(site: Site) -> Iterator[tuple[str, Sections | None]]:
    """Yield a tenth more nodes for each of the partitions that most jobs name, of those that have some nodes of the machine."""
    own = {entry["name"]: entry["nodes"] for entry in site.sections.get("partitions", ()) if entry.get("nodes")}
    said = {} if site.said is None else site.said.values["partitions"]
    counts = Counter(name for names in said.values() for name in names if name in own)
    for name, _ in counts.most_common(_MOST_PARTITIONS):
        yield name, _with_more(site, _numbers(nodes_of(own[name], MAX_NODES, "partitions")))


def _shared(site: Site) -> Sections | None:
    parts = site.sections.get("partitions", ())
    if all(entry.get("nodes") is None for entry in parts):
        return None
    return {"partitions": [{key: value for key, value in entry.items() if key != "nodes"} for entry in parts]}


# ---------------------------------------------------------------- what binds jobs


def _user_limits(site: Site) -> Sections | None:
    limits = site.sections.get("limits", ())
    if not any(_of_users(entry) for entry in limits):
        return None
    return {"limits": [_doubled(entry) if _of_users(entry) else entry for entry in limits]}


def _of_users(entry: Mapping[str, Any]) -> bool:
    return entry.get("each") == "user" or bool(entry.get("user"))


def _doubled(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: 2 * value if isinstance(value, int) else value for key, value in entry.items()}


def _no_outages(site: Site) -> Sections | None:
    """Return a script without entries, where all of them take nodes away: those about jobs differ from window to window."""
    does = {entry["do"] for entry in site.sections.get("script", ())}
    return {"script": []} if does and does <= _OUTAGES else None


def _twice_the_priority(site: Site) -> Sections | None:
    def twice(value: int) -> int:
        return min(max(2 * value, -MOST_PRIORITY), MOST_PRIORITY)

    return site.annotated("priority", twice, "priority-twice.csv") if site.by_priority else None


LEVERS: Final = (
    Lever(
        "estimates halfway",
        "users' estimates halfway to the run times",
        "",
        _one(lambda _: {"workload": {"estimates": "halfway"}}),
    ),
    Lever(
        "nodes + 10 %",
        "a tenth more nodes of each kind",
        "the site counts processors, not nodes",
        _one(lambda site: _with_more(site, None)),
    ),
    Lever(
        "nodes of {} + 10 %",
        "a tenth more nodes in partition {}",
        "no jobs name a partition that has nodes of its own, or it is so small that this is the same as more nodes",
        _parts_with_more,
    ),
    Lever(
        "partitions shared",
        "jobs of each partition may use the nodes of all partitions",
        "no partition has nodes of its own",
        _one(_shared),
    ),
    Lever(
        "throttles x 2",
        "twice as many tasks of an array may run at a time",
        "no array is known to have a throttle",
        _one(lambda site: site.annotated("at_once", lambda most: 2 * most, "throttles.csv")),
    ),
    Lever("user limits x 2", "twice the limits of each user", "no limit applies to users", _one(_user_limits)),
    Lever(
        "no outages",
        "no node is out of service or reserved",
        "the script takes no nodes away, or also changes jobs",
        _one(_no_outages),
    ),
    Lever(
        "QOS weights x 2",
        "QOS and partition count twice in a job's priority",
        "jobs have no priority from QOS or partition, or the present policy does not use it",
        _one(_twice_the_priority),
    ),
    Lever(
        "no QOS weights",
        "QOS and partition do not count in a job's priority",
        "jobs have no priority from QOS or partition, or the present policy does not use it",
        _one(lambda site: site.annotated("priority", lambda _: 0, "priority-none.csv") if site.by_priority else None),
    ),
)


def levers_of(site: Site) -> Iterator[tuple[Candidate, Sections | None]]:
    """Yield each lever with the sections that it changes; None where the site has no facts for it, with the reason as ``lacks``."""
    known: list[Sections] = []
    for lever in LEVERS:
        found = False
        for part, sections in lever.changes(site):
            if sections is not None and sections not in known:
                found = True
                known.append(sections)
                yield Candidate(lever.name.format(part), lever.what.format(part), lever=True), sections
        if not found:
            yield Candidate(lever.name.format("partitions"), lever.what, lever=True, lacks=lever.lacks), None
