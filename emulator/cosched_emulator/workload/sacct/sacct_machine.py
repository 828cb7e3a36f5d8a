"""The machine behind a dump, which does not describe it: guessed from what jobs held, and when.

A node that `NodeList` names has at least the CPUs that jobs held on it at one instant. How a job's CPUs are divided over its
nodes is not said (by default Slurm fills one node after the other), so of a job of several nodes one CPU is sure. An even
division counts where many nodes show the same sum, and none a little more; besides, the nodes of a job together have its CPUs.
Nodes whose names differ in digits alone, in one partition, are *siblings*: a node on which less has run is as large as most.
Jobs that get the same CPUs, more than they ask for and whatever that is, and are always alone have whole nodes: where others
hold more at one time, jobs share CPUs. Jobs that name no node hold nodes of their own, so there are never fewer nodes than were held.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.workload.sacct.sacct_jobs import Jobs
from cosched_plugin.common.sacct_rows import UNNAMED, Rows, each_once
from cosched_plugin.common.slurm_notation import expand

_BLOCK: Final = 1 << 16  # stays of jobs on nodes that are swept at once, which bounds memory
# A node that was so often at its most CPUs has no more; not many, if fewer than one in so many are like it
_FIRM: Final = 10
_MANY: Final = 4  # siblings: a sum of even divisions is a size where one in so many shows it, and most of a few
_FAR: Final = 4  # so many times the size of most of its siblings is no work of an uneven division

_Ints = NDArray[np.int64]
_Mask = NDArray[np.bool_]


class Machine(NamedTuple):
    """Nodes by their CPUs, and how that was guessed."""

    classes: tuple[tuple[int, int], ...]  # (nodes, CPUs of each), the smallest first
    named: int  # nodes that jobs name
    unnamed: int  # nodes beside them, for jobs that name none
    taken: int  # named nodes that are as large as most of their siblings, though their jobs held less
    raised: int  # named nodes that are larger than their jobs show, as the CPUs of some time do not fit else
    shared: int  # named nodes on which jobs shared CPUs, as they held more than there are
    peak_cpus: int  # most that jobs held at one instant
    whole: float  # share of the node time of jobs that had all CPUs of their nodes
    wholly: _Mask  # which jobs these are
    cpus_of: Mapping[str, int]  # those that jobs name, by name

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return sum(nodes for nodes, _ in self.classes)

    def cores(self, threads_per_core: int) -> Counter[int]:
        """Return the number of nodes by their cores."""
        found: Counter[int] = Counter()
        for nodes, cpus in self.classes:
            found[-(-cpus // threads_per_core)] += nodes
        return found

    def guesses(self) -> Iterator[str]:
        """Yield what was guessed, a line each."""
        if self.named:
            yield f"{self.named} nodes that jobs name, each with the most CPUs that they held on it at one time"
        if self.taken:
            yield f"{self.taken} of them are as large as most nodes with similar names: their own jobs held less"
        if self.unnamed:
            beside = " more" if self.named else ""
            yield (
                f"{self.unnamed}{beside} nodes for jobs that do not name theirs: as many as were held at one time, or fewer if "
                "such jobs shared nodes"
            )
        if self.raised:
            yield f"{self.raised} of them are larger than their jobs show: otherwise the jobs of one time do not fit"
        if self.shared:
            yield f"{self.shared} of them have fewer CPUs than were held at one time: jobs shared CPUs (OverSubscribe)"
        yield f"jobs held at most {self.peak_cpus} CPUs at one time"


def machine_of(rows: Rows, jobs: Jobs, partitions: Sequence[str] = ()) -> Machine:
    """Return the machine on which the rows of some partitions were held; of all partitions where none is named.

    Each of ``jobs`` fits on it. What other partitions held on the same nodes counts for the size of these.
    """
    places, end = _stays(rows, jobs)
    names: dict[str, int] = {}
    listed = rows.tables["node_list"].found
    none = np.zeros(0, dtype=np.int64)
    nodes_of = [none] * len(listed)  # by code
    for code in np.unique(rows.column("node_list")[places]).tolist():
        if listed[code] not in UNNAMED:
            numbers = sorted({names.setdefault(name, len(names)) for name in expand(listed[code])})
            nodes_of[code] = np.array(numbers, dtype=np.int64)
    held = _Held.of(rows, places, end, nodes_of, partitions)
    del places, end  # of a million rows each column counts
    shown = _Shown.on(len(names))
    ours = np.zeros(len(names), dtype=bool)
    for code in np.unique(held.listed[held.ours]).tolist():
        ours[nodes_of[code]] = True
    asked = ours & (held.ours & ~held.named).any()  # when nodes are busy matters beside jobs that name none
    busy = [_sweep(held, *block, shown, asked) for block in _blocks(held, nodes_of, len(names))]
    groups = _siblings(tuple(names), shown.partition)
    shared = _capped(shown, groups)
    _with_even_sums(shown, groups)
    shown_by_jobs = _lifted(shown.sure, held, nodes_of)
    settled = _settled(shown_by_jobs, np.where(shown_by_jobs > shown.sure, 0, shown.often), groups)
    sizes = settled if shared.any() else _filled(settled, shown.even, groups, held, nodes_of)
    counts = Counter(sizes[ours].tolist())
    added = _added(counts, held, busy)
    counts.update(added)
    return Machine(
        tuple(sorted(((nodes, cpus) for cpus, nodes in counts.items()), key=lambda item: item[1])),
        int(ours.sum()),
        sum(added.values()),
        int(((settled > shown_by_jobs) & ours).sum()),
        int(((sizes > settled) & ours).sum()),
        int((shared & ours).sum()),
        peak(held.start[held.ours], held.end[held.ours], held.cpus[held.ours]),
        *_whole(jobs, nodes_of, sizes, max(counts, default=1)),
        {name: int(sizes[place]) for name, place in names.items() if ours[place]},
    )


# ---------------------------------------------------------------- what held nodes


def _stays(rows: Rows, jobs: Jobs) -> tuple[_Ints, _Ints]:
    """Return the places of the rows that held nodes, each run of a job once, and their ends.

    One without an end holds them to the last time of the dump, or to its limit: the end of some jobs is never told.
    """
    numbers, start, end = map(rows.column, ("number", "start_s", "end_s"))
    last_s = max([int(times.max(initial=0)) for times in (rows.column("submit_s"), start, end)])
    kept = ~rows.steps() & (start > 0) & (rows.of("cpus", int) > 0)
    # They were cancelled while they waited, unless they are logged.
    doubtful = kept & rows.of("node_list", lambda text: text in UNNAMED) & (rows.column("elapsed_s") == 0)
    logged = jobs.last[np.isin(numbers[jobs.last], numbers[doubtful])]
    runs = {*zip(numbers[logged].tolist(), start[logged].tolist(), strict=True)}
    for place in np.flatnonzero(doubtful).tolist():
        kept[place] = (numbers[place], start[place]) in runs
    limit = 60 * rows.of("limit_min", lambda limit_min: -1 if limit_min is None else limit_min)
    latest = np.where(limit < 0, last_s, np.minimum(last_s, start + limit))
    places = np.flatnonzero(kept)
    told = each_once(numbers[places], lambda at: int(start[places[at]]), lambda at: int(end[places[at]]))
    places = places[told]
    return places, np.where(end > 0, end, latest)[places]


class _Held(NamedTuple):
    """Stays of jobs by column."""

    ours: _Mask  # of the partitions that are asked for
    named: _Mask
    start: _Ints
    end: _Ints
    nodes: _Ints  # where no number is known: as many as CPUs
    cpus: _Ints
    asked: _Ints  # 0: not known
    moved: _Mask  # suspended for a time, in which another job had its CPUs
    partition: _Ints
    listed: _Ints  # the codes of its nodes

    @classmethod
    def of(cls, rows: Rows, places: _Ints, end: _Ints, nodes_of: Sequence[_Ints], partitions: Sequence[str]) -> _Held:
        """Return the columns of the rows at some places, with their ends."""

        def told(name: str, value: Callable[[Any], Any]) -> _Ints:
            found: _Ints = rows.of(name, value)[places]
            return found

        start, listed, cpus = rows.column("start_s")[places], rows.column("node_list")[places], told("cpus", int)
        named = np.array([len(nodes) for nodes in nodes_of], dtype=np.int64)[listed]
        nodes = np.where(named > 0, named, told("nodes", int))
        return cls(
            told("partition", lambda name: not partitions or name in partitions),  # type: ignore[arg-type]
            named > 0,
            start,
            np.maximum(start, end),
            np.where(nodes > 0, nodes, cpus),
            cpus,
            told("asked", int),
            rows.column("suspended_s")[places] > 0,
            rows.column("partition")[places],
            listed,
        )


def peak(start: _Ints, end: _Ints, amount: _Ints) -> int:
    """Return the largest sum at one instant. What ends then has made room for what starts."""
    by_end, by_start = np.argsort(end), np.argsort(start)
    gone = np.searchsorted(end[by_end], start[by_start], side="right")
    left = np.concatenate(([0], np.cumsum(amount[by_end])))[gone]
    return int(max((np.cumsum(amount[by_start]) - left).max(initial=0), amount.max(initial=0)))


# ---------------------------------------------------------------- nodes with names


class _Shown(NamedTuple):
    """What was held on each node: the most CPUs that are sure, and with even divisions; how often each was reached; main partition."""

    sure: _Ints
    often: _Ints
    even: _Ints
    even_often: _Ints
    partition: _Ints
    single: _Ints  # most of one job of one node
    whole: _Ints  # of a job of one node that has it wholly; 0: none, -1: such jobs are not alone
    asked: _Ints  # what such jobs asked for: bit n for n CPUs

    @classmethod
    def on(cls, nodes: int) -> _Shown:
        """Return columns for a number of nodes, to be filled."""
        return cls(*(np.zeros(nodes, dtype=np.int64) for _ in cls._fields))


def _blocks(held: _Held, nodes_of: Sequence[_Ints], names: int) -> Iterator[tuple[_Ints, _Ints]]:
    """Yield the stays on nodes, as row and node, for some nodes after the others."""
    places = np.flatnonzero(held.named)
    listed = held.listed[places]
    nodes = np.concatenate([np.zeros(0, dtype=np.int64), *nodes_of])
    codes = np.repeat(np.arange(len(nodes_of)), [len(own) for own in nodes_of])
    stays = np.bincount(nodes, np.bincount(listed, minlength=len(nodes_of))[codes], minlength=names)
    firsts = np.flatnonzero(np.diff(np.cumsum(stays) // _BLOCK, prepend=-1)).tolist()
    for first, end in pairwise((*firsts, names)):
        here = (nodes >= first) & (nodes < end)
        count = np.bincount(codes[here], minlength=len(nodes_of))
        among = np.flatnonzero(count[listed])
        each, begin = count[listed[among]], (np.cumsum(count) - count)[listed[among]]
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each - begin, each)
        yield np.repeat(places[among], each), nodes[here][within]


def _sweep(held: _Held, rows: _Ints, nodes: _Ints, shown: _Shown, ours: _Mask) -> tuple[_Ints, _Ints]:
    """Fill in what the stays of some nodes show; return when each of those that are asked for gets busy, and idle."""
    count, cpus = held.nodes[rows], held.cpus[rows]
    counted = (held.end[rows] > held.start[rows]) & ~held.moved[rows]
    evenly = np.where(cpus % count == 0, cpus // count, 1)
    order = np.lexsort(
        (
            np.concatenate((np.ones_like(rows), np.zeros_like(rows))),
            np.concatenate((held.start[rows], held.end[rows])),
            np.concatenate((nodes, nodes)),
        )
    )
    begins = order < len(rows)
    place = order % len(rows)
    where = nodes[place]
    firsts = np.flatnonzero(np.diff(where, prepend=-1))
    sign = np.where(begins, 1, -1)
    here = where[firsts]
    spread = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(where)))
    for amount, most, often in (
        (np.where(count > 1, 1, cpus), shown.sure, shown.often),
        (evenly, shown.even, shown.even_often),
    ):
        sums = np.cumsum(sign * (amount * counted)[place])
        seen = np.where(begins, np.maximum(sums, amount[place]), 0)
        most[here] = np.maximum.reduceat(seen, firsts)
        often[here] = np.add.reduceat((seen == most[here][spread]).astype(np.int64), firsts)
    partitions = int(held.partition.max()) + 1
    pairs, times = np.unique(nodes * partitions + held.partition[rows], return_counts=True)
    rising = pairs[np.argsort(times, kind="stable")]
    shown.partition[rising // partitions] = rising % partitions  # of equal nodes the last one counts
    mine = ours[where]
    np.maximum.at(shown.single, nodes, np.where(count == 1, cpus, 0))
    there = np.cumsum(sign)  # jobs on the node
    _note_whole(held, rows[place], where, begins, there, shown)
    at = np.where(begins, held.start[rows][place], held.end[rows][place])
    return at[mine & begins & (there == 1)], at[mine & ~begins & (there == 0)]


def _note_whole(held: _Held, rows: _Ints, where: _Ints, begins: _Mask, there: _Ints, shown: _Shown) -> None:
    """Note jobs of one node that got more CPUs than they asked for, by events in order of nodes and times."""
    asked, cpus = held.asked[rows], held.cpus[rows]
    such = begins & (held.nodes[rows] == 1) & (asked > 0) & (asked < cpus) & (held.end[rows] > held.start[rows])
    alone = such & (there == 1) & (np.append(rows[1:], -1) == rows)
    shown.whole[where[alone]] = cpus[alone]
    shown.whole[where[such & ~alone]] = -1
    np.bitwise_or.at(shown.asked, where[alone], 1 << np.minimum(asked[alone], 62))


def _capped(shown: _Shown, groups: Iterable[tuple[_Ints, _Ints]]) -> _Mask:
    """Give nodes of which some job had the whole that job's CPUs, and siblings too; return those on which more was held at one time."""
    shared = np.zeros(len(shown.sure), dtype=bool)
    for own, alike in groups:
        among = own if shown.whole[own].any() else alike
        sizes = set(shown.whole[among].tolist()) - {0}
        several = int(np.bitwise_or.reduce(shown.asked[among])).bit_count() > 1
        size = sizes.pop() if len(sizes) == 1 and several else -1
        if size > 0 and shown.single[own].max() <= size:
            shared[own[shown.sure[own] > size]] = True
            for column in (shown.sure, shown.even):
                column[own] = np.minimum(column[own], size)
    return shared


def _siblings(names: Sequence[str], partition: _Ints) -> list[tuple[_Ints, _Ints]]:
    """Return nodes whose names differ in digits alone, by main partition, each with those of all partitions.

    Names without digits are alike.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    alike: dict[str, list[int]] = {}
    for node, name in enumerate(names):
        pattern = re.sub(r"\d+", "#", name)
        pattern = pattern if "#" in pattern else ""
        groups.setdefault((pattern, int(partition[node])), []).append(node)
        alike.setdefault(pattern, []).append(node)
    return [(np.array(own), np.array(alike[pattern])) for (pattern, _), own in groups.items()]


def _with_even_sums(shown: _Shown, groups: Iterable[tuple[_Ints, _Ints]]) -> None:
    """Make sums of even divisions sure that are a size: another sibling has it for sure, or many show it, and none a little more."""
    for own, _ in groups:
        sure, even = Counter(shown.sure[own].tolist()), Counter(shown.even[own].tolist())
        sizes = {
            size
            for size, count in even.items()
            if count >= max(2, len(own) / _MANY, 0.75 * min(len(own), 2 * _MANY))
            and not any(size < other < 2 * size for other in even)
            and count > max([each for other, each in sure.items() if size < 2 * other < 2 * size], default=0)
        }
        likely = np.array([size in sizes or size in sure for size in shown.even[own].tolist()], dtype=bool)
        more = own[likely & (shown.even[own] > shown.sure[own])]
        shown.sure[more], shown.often[more] = shown.even[more], shown.even_often[more]


def _lifted(sizes: _Ints, held: _Held, nodes_of: Sequence[_Ints]) -> _Ints:
    """Return sizes with which the nodes of each job together have its CPUs: where they lack some, the smallest are larger.

    Jobs with few CPUs a node come first, so that those on nodes of two sizes find the smaller one known.
    """
    most = np.zeros(len(nodes_of), dtype=np.int64)
    np.maximum.at(most, held.listed, held.cpus)
    lifted = sizes.copy()
    codes, first = np.unique(held.listed[held.named], return_index=True)
    for code in sorted(codes[np.argsort(first)].tolist(), key=lambda code: most[code] / len(nodes_of[code])):
        _fill(lifted, nodes_of[code], int(most[code]))
    return lifted


def _fill(sizes: _Ints, nodes: _Ints, cpus: int) -> None:
    """Raise the smallest of some nodes to one level, the least with which they have so many CPUs."""
    lacking = cpus - int(sizes[nodes].sum())
    if lacking <= 0:
        return
    own = np.sort(sizes[nodes])
    room = own * np.arange(1, len(own) + 1) - np.cumsum(own)  # what it takes to raise those before to each size
    below = int(np.searchsorted(room, lacking, side="right"))
    level = int(own[below - 1]) + -(-(lacking - int(room[below - 1])) // below)
    sizes[nodes] = np.maximum(sizes[nodes], level)


def _settled(sizes: _Ints, often: _Ints, groups: Iterable[tuple[_Ints, _Ints]]) -> _Ints:
    """Return the sizes with nodes as large as most of their siblings, on which too little has run."""
    settled = sizes.copy()
    for own, alike in groups:
        counts = Counter(sizes[own].tolist())
        for size in counts:
            firm = (often[own] >= _FIRM) & (size > 1)
            for some, most in (
                (own[~firm], max(counts)),
                (own[firm], 2 * size if counts[size] * _FIRM < len(own) else 0),
            ):
                settled[some[sizes[some] == size]] = _of_siblings(size, counts, most)
        if set(counts) == {1}:  # one CPU says nothing: look at alike names of other partitions
            others = Counter(sizes[alike].tolist())
            settled[own] = _of_siblings(1, others, max(others))
    return settled


def _of_siblings(size: int, counts: Mapping[int, int], most: int) -> int:
    """Return the most common larger size, at most ``most``, that more nodes have, or as many of about that size; else the node's own.

    Of equally common ones it is the larger.
    """
    larger = [
        (count, other)
        for other, count in counts.items()
        if size < other <= most and (size == 1 or count > counts[size] or (count == counts[size] and other <= 2 * size))
    ]
    return max(larger, default=(0, size))[1]


def _filled(
    sizes: _Ints, even: _Ints, groups: Sequence[tuple[_Ints, _Ints]], held: _Held, nodes_of: Sequence[_Ints]
) -> _Ints:
    """Return sizes with which siblings together, and all nodes, have the CPUs that were held on them at one time.

    Nodes that show far more than most by even divisions get more first, then the smallest.
    """
    group_of = np.zeros(len(sizes), dtype=np.int64)
    for place, (own, _) in enumerate(groups):
        group_of[own] = place
    within = [set(group_of[nodes].tolist()) for nodes in nodes_of]
    counted = held.named & ~held.moved
    of_row = np.array([places.pop() if len(places) == 1 else -1 for places in within])[held.listed]
    filled = sizes.copy()
    together = ((own, counted & (of_row == place)) for place, (own, _) in enumerate(groups))
    for nodes, mask in chain(together, [(np.arange(len(sizes)), counted)]):
        cpus = peak(held.start[mask], held.end[mask], held.cpus[mask])
        if cpus > filled[nodes].sum():
            most, _ = max(Counter(filled[nodes].tolist()).items(), key=lambda item: item[1])
            far = even[nodes] >= _FAR * most
            if far.any():
                _fill(filled, nodes[far], cpus - int(filled[nodes[~far]].sum()))
        _fill(filled, nodes, cpus)
    return filled


# ---------------------------------------------------------------- jobs that name no node


def _added(counts: Mapping[int, int], held: _Held, busy: Sequence[tuple[_Ints, _Ints]]) -> Counter[int]:
    """Return the nodes, by CPUs, that are needed beside the named ones: at each time a node for each that such jobs held.

    Sizes are the largest one, its half, its quarter, and so on.
    """
    free = held.ours & ~held.named
    added: Counter[int] = Counter()
    if not free.any():
        return added
    start, end, nodes = held.start[free], held.end[free], held.nodes[free]
    size = -(-held.cpus[free] // nodes)
    level = largest = int(size.max())
    while True:
        below = level // 2
        needed = peak(start[size > below], end[size > below], nodes[size > below])
        lacking = needed - sum(number for cpus, number in (*counts.items(), *added.items()) if cpus >= level)
        if lacking > 0:
            added[level] = lacking
        if level == 1:
            break
        level = max(1, below)
    starts, ends = (np.concatenate((own, *(times[side] for times in busy))) for side, own in enumerate((start, end)))
    weights = np.concatenate((nodes, np.ones(len(starts) - len(start), dtype=np.int64)))
    together = peak(starts, ends, weights)
    lacking = together - sum(counts.values()) - sum(added.values())
    if lacking > 0:
        added[min(largest, min(added, default=largest))] += lacking
    return added


# ---------------------------------------------------------------- all nodes


def _whole(jobs: Jobs, nodes_of: Sequence[_Ints], sizes: _Ints, largest: int) -> tuple[float, _Mask]:
    """Return which share of the node time went to jobs that had their nodes wholly, and which jobs these are."""
    listed = jobs.column("node_list")
    named = np.array([len(nodes) for nodes in nodes_of])[listed]
    nodes = np.where(named > 0, named, np.maximum(1, jobs.nodes()))
    own = np.array([int(sizes[nodes].sum()) for nodes in nodes_of])[listed]
    wholly = jobs.of("cpus", int) >= np.where(named > 0, own, largest * nodes)
    held = (jobs.run_s * nodes).astype(np.float64)  # exact: whole numbers
    return float(held[wholly].sum() / held.sum()) if held.any() else 0.0, wholly
