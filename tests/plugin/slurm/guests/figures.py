"""What a run of guests came to: waits, who met whom, plans of the first pending job; and runs of one seed beside each other."""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import fsum, inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.plugin.slurm.enforcing import nodes_in

LATER_S: Final = 5.0  # a job that starts so much later than without guests is counted
UNSAVED_S: Final = 8.0  # before a kill of slurmctld, which saves jobs every 5 s
AWAY_S: Final = 8.0  # until it answers again
TOLD_S: Final = 2.0  # until slurmctld knows that a job has ended
MOVED_S: Final = 2.0  # and a planned start that moves so much later between two looks; plans are told in whole seconds
COLUMNS: Final = (
    "Slurm, seed", "run", "wait, s", "response, s", "wait: in, other, batch, exclusive", "jobs later > 5 s (most, s)",
    "guests, asked, put back, refused", "pairs; by Slurm itself", "start - first plan: mean; most; moved later, %",
    "ended once, lost without a kill",
    "jobs a core", "run time: guests, in, batch", "load",
)  # fmt: skip
ORDER: Final = ("alone", "again", "guests", "chaos-alone", "chaos")


class Pair(NamedTuple):
    """A job that came to a node of another one, which went on."""

    first: int
    later: int
    partition: str  # of the later: `guest`, or Slurm has made this pair
    seconds: float


def read(file: Path) -> dict[str, Any]:
    """Return a stored run."""
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    found["submitted"] = {int(number): at_s for number, at_s in found["submitted"].items()}
    return found


def waits_of(found: Mapping[str, Any]) -> dict[int, float]:
    """Return how long each job waited for its first start, by its number."""
    first: dict[int, float] = {}
    for one in found["ran"]:
        first[one["number"]] = min(one["start_s"], first.get(one["number"], one["start_s"]))
    return {number: at_s - found["submitted"][number] for number, at_s in first.items()}


def responses_of(found: Mapping[str, Any]) -> dict[int, float]:
    """Return the time from each job's submission to its end."""
    ends = {one["number"]: one["end_s"] for one in found["ran"] if one["end_s"] is not None}
    return {number: at_s - found["submitted"][number] for number, at_s in ends.items()}


def means(values: Mapping[int, float], jobs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean over all jobs, and over those of each kind."""
    groups: dict[str, list[float]] = defaultdict(list)
    for number, value in values.items():
        groups["all"].append(value)
        groups[jobs[number]["kind"]].append(value)
    return {name: round(statistics.fmean(group), 1) for name, group in sorted(groups.items())}


def pairs_of(found: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield the pairs, by the jobs' own clocks."""
    ran = [one for one in found["ran"] if one["end_s"] is not None]
    for one in ran:
        for other in ran:
            shared = set(one["nodes"]) & set(other["nodes"])
            if shared and other["start_s"] < one["start_s"] < other["end_s"]:
                seconds = min(one["end_s"], other["end_s"]) - one["start_s"]
                yield Pair(other["number"], one["number"], one["partition"], round(seconds, 1))


def most_by_accounts(lines: Sequence[str]) -> dict[str, int]:
    """Return how many jobs a node had at once, at most, in all and of one partition, as slurmdbd has it: all jobs take whole nodes."""
    moments: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for line in lines:
        _, _, _, partition, start, end, nodes, _ = line.split("|")
        if "Unknown" in (start, end) or "None" in (start, nodes):
            continue
        for node in nodes_in(nodes):
            for name in ("all", partition):
                moments[name, node] += [(_seconds(start), 1), (_seconds(end), -1)]
    most: dict[str, int] = {}
    for (name, _), changes in moments.items():
        now = 0
        for _, change in sorted(changes):
            now += change
            most[name] = max(now, most.get(name, 0))
    return most


def _seconds(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def plans_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Return what became of the planned start of the first pending job of the others: by how much it came later than first planned."""
    starts: dict[int, float] = {}
    for one in found["ran"]:
        starts.setdefault(one["number"], one["start_s"])
    first: dict[int, float] = {}
    moves = []
    before: tuple[int, float] | None = None
    for _, number, planned_s in found["heads"]:
        first.setdefault(number, planned_s)
        if before is not None and before[0] == number:
            moves.append(planned_s - before[1])
        before = (number, planned_s)
    late = [starts[number] - planned_s for number, planned_s in first.items() if number in starts]
    if not late:
        return {}
    return {
        "jobs": len(late),
        "start - first plan, mean s": round(statistics.fmean(late), 1),
        "start - first plan, most s": round(max(late), 1),
        "moves later, of 100 looks": round(100 * sum(move > MOVED_S for move in moves) / max(1, len(moves)), 1),
        "wait of them, mean s": round(
            statistics.fmean(wait for job, wait in waits_of(found).items() if job in first), 1
        ),
    }


def slower_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Return how much longer than alone jobs ran, as a factor: guests, and by kind the others."""
    groups: dict[str, list[float]] = defaultdict(list)
    for one in found["ran"]:
        if one["end_s"] is not None:
            job = found["jobs"][one["number"]]
            group = "guests" if one["partition"] == "guest" else job["kind"]
            groups[group].append((one["end_s"] - one["start_s"]) / job["run_s"])
    return {name: round(statistics.fmean(group), 3) for name, group in sorted(groups.items())}


def summary(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run."""
    pairs = list(pairs_of(found))
    blind = [pair for pair in pairs if pair.partition != "guest"]
    done: dict[int, list[str]] = defaultdict(list)
    for number, state in found["states"].values():
        done[number].append(state)
    finished = Counter(one["number"] for one in found["ran"] if one["end_s"] is not None)
    count = len(found["jobs"])
    return {
        "load": found["load"],
        "wait": means(waits_of(found), found["jobs"]),
        "response": means(responses_of(found), found["jobs"]),
        "run time": slower_of(found),
        "ended once": sum(finished[number] == 1 for number in range(count)),
        "ended not, or twice": {number: finished[number] for number in range(count) if finished[number] != 1},
        "unexplained": [number for number in range(count) if finished[number] != 1 and not is_slurms(found, number)],
        "states": Counter("+".join(sorted(done.get(number, ["lost"]))) for number in range(count)),
        "most a core, seen": found["most"],
        "most a node, accounts": most_by_accounts(found["accounts"]),
        "exclusive shared": sorted(
            {number for pair in pairs for number in pair[:2] if found["jobs"][number]["kind"] == "exclusive"}
            | set(found["shared"])
        ),
        "guests": len({one["job"] for one in found["ran"] if one["partition"] == "guest"}),
        "pairs": [len(pairs), round(fsum(pair.seconds for pair in pairs))],
        "made by Slurm": [len(blind), round(fsum(pair.seconds for pair in blind))],
        "not of opted in": [
            pair for pair in pairs if any(found["jobs"][number]["kind"] != "in" for number in pair[:2])
        ],
        "plans": plans_of(found),
        "log": Counter(line["event"] for line in found["log"]),
    }


def is_slurms(found: Mapping[str, Any], number: int) -> bool:
    """Tell whether slurmctld was killed before it had saved a job's submission, start or end, or when one fell due.

    It then forgets the job, or holds one that has ended for running, until its limit: with guests and without. A job that is requeued
    while slurmctld learns of its end runs again, too.
    """
    ran = [one for one in found["ran"] if one["number"] == number]
    ends = [one["end_s"] for one in ran if one["end_s"] is not None]
    kills = [at_s for at_s, what in found["chaos"] if what == "ctld-kill"]
    requeued = [at_s for at_s, what in found["chaos"] if what in {f"requeue {one['job']}" for one in ran}]
    moments = [found["submitted"].get(number, -inf), *(one["start_s"] for one in ran), *ends]
    killed = any(at_s - UNSAVED_S < moment < at_s + AWAY_S for at_s in kills for moment in moments)
    return killed or any(0 < at_s - end < TOLD_S for at_s in requeued for end in ends)


def compared(alone: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change of the mean wait, and whose start came later than in the run without guests."""
    before, after = waits_of(alone), waits_of(other)
    late = {number: after[number] - before[number] for number in before.keys() & after.keys()}
    kinds = Counter(other["jobs"][number]["kind"] for number, gap in late.items() if gap > LATER_S)
    return {
        "wait": f"{100 * (statistics.fmean(after.values()) / statistics.fmean(before.values()) - 1):+.0f} %",
        "later": dict(kinds),
        "later, most s": round(max(late.values()), 1),
        "sooner": sum(gap < -LATER_S for gap in late.values()),
    }


def report(folder: Path) -> str:
    """Return the stored runs as a table."""
    runs: dict[tuple[str, int], dict[str, dict[str, Any]]] = defaultdict(dict)
    for file in sorted(folder.glob("*.json.gz")):
        found = read(file)
        runs[found["slurm"], found["seed"]][found["kind"]] = found
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---|---:|---:|---:|---|---:|---:|---|---|"]
    for (slurm, seed), kinds in runs.items():
        for kind in (name for name in ORDER if name in kinds):
            base = kinds.get("chaos-alone" if kind == "chaos" else "alone")
            beside = None if base is None or base["kind"] == kind else compared(base, kinds[kind])
            lines.append(f"| {slurm}, {seed} | {kind} | {' | '.join(cells_of(summary(kinds[kind]), beside))} |")
    return "\n".join(lines)


def cells_of(one: Mapping[str, Any], beside: Mapping[str, Any] | None) -> list[str]:
    """Return a row of the table, without its first two columns."""
    wait, plans, log, slower = one["wait"], one["plans"], one["log"], one["run time"]
    change, later = "", "-"
    if beside is not None:
        change = f" ({beside['wait']})"
        later = f"{sum(beside['later'].values())} ({beside['later, most s']:.0f})"
    guests = [one["guests"], log.get("asked", 0), log.get("put-back", 0) + log.get("orphan", 0), log.get("first", 0)]
    drift = [
        plans["start - first plan, mean s"],
        plans["start - first plan, most s"],
        plans["moves later, of 100 looks"],
    ]
    pairs, by_slurm = one["pairs"], one["made by Slurm"]
    return [
        f"{wait['all']}{change}",
        f"{one['response']['all']}",
        ", ".join(f"{wait[name]:.0f}" for name in ("in", "other", "batch", "exclusive")),
        later,
        ", ".join(map(str, guests)) if one["guests"] else "-",
        f"{pairs[0]} ({pairs[1]} s), {by_slurm[0]} ({by_slurm[1]} s)" if pairs[0] else "-",
        "; ".join(f"{value:.0f}" for value in drift),
        f"{one['ended once']}, {len(one['unexplained'])}",
        f"{one['most a core, seen']}",
        ", ".join(f"{slower[name]:.2f}" for name in ("guests", "in", "batch") if name in slower),
        "-".join(f"{load:.0f}" for load in one["load"]),
    ]
