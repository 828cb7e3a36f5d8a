"""The content of `top`, independent of a terminal: an overview of the manager laid out for a window size.

A line is a list of (text, style); the terminal code maps each style name to its colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cosched_emulator.cli.users.tables import (
    clock_text,
    job_label,
    node_table,
    printable,
    queue_lines,
    queue_table,
    rows_of,
    short,
    text_table,
)

Segment = tuple[str, str]
Line = list[Segment]
PLAIN, BOLD, DIM, ONE, SHARED, OUT, CHOSEN, ALIKE = "plain", "bold", "dim", "one", "shared", "out", "chosen", "alike"
_QUEUE_HEADS: Final = ("JOBID", "NAME", "USER", "ST", "TIME", "LIMIT", "NODES", "WITH", "SLOWDOWN", "NODELIST(REASON)")
_RIGHT: Final = frozenset({"JOBID", "TIME", "LIMIT", "NODES", "SLOWDOWN"})
_MOST_DECISIONS: Final = 6
SILENT_S: Final = 2.0  # a scheduler that owes an answer for longer is shown as silent
_BAR: Final = 20
LEGEND: Final = ". idle, 1-9 jobs there, d drained, x down"


class Look(NamedTuple):
    """The user's selection: the first line of the queue to show, and a node."""

    scroll: int = 0
    node: int = 0


def frame(overview: Mapping[str, Any], look: Look, width: int, height: int, trouble: str = "") -> list[Line]:
    """Return at most ``height`` lines, at most ``width`` wide; ``trouble`` comes first if it is not empty."""
    nodes = rows_of(overview["nodes"])
    jobs = rows_of(overview["jobs"])
    lines: list[Line] = [[(trouble, OUT)]] if trouble else []
    lines += header(overview["status"])
    room = height - len(lines)
    if room >= 4 and nodes:
        lines += _node_map(nodes, jobs, min(look.node, len(nodes) - 1), width, max(1, room // 3))
    if overview.get("slots"):
        lines += slot_lines(overview["slots"])[: max(2, (height - len(lines)) // 3)]
    decisions = [[(f"{clock_text(at_s):>11}  {text}", PLAIN)] for at_s, text in reversed(overview["decisions"])]
    room = height - len(lines)
    shown = min(len(decisions), _MOST_DECISIONS, max(0, room // 4 - 1))
    lines += _queue(jobs, overview["jobs"]["left_out"], look.scroll, room - (shown + 1 if shown else 0))
    if shown:
        lines += [[("last decisions", BOLD)], *decisions[:shown]]
    return [_cut(line, width) for line in lines[: max(0, height)]]


def header(status: Mapping[str, Any]) -> list[Line]:
    """Return the state of the manager in three lines."""
    used, threads = status["threads"]["used"], status["threads"]["all"]
    share = used / threads if threads else 0.0
    speed = status.get("speed")
    policy = status.get("policy")
    parts = [f"emulated {clock_text(status['now_s'])}"]
    parts += [f"speed {speed:g}"] if isinstance(speed, int | float) else []
    parts.append(f"policy {policy}" if policy else "no scheduler: jobs wait")
    silent_s = status.get("silent_s") or 0
    if policy and silent_s > SILENT_S:
        parts.append(f"silent for {silent_s:.0f} s")
    bar = "#" * round(_BAR * share)
    nodes = ", ".join([f"{count} {state}" for state, count in status["nodes"].items() if count])
    jobs = ", ".join([f"{count} {state}" for state, count in status["jobs"].items() if count]) or "none"
    trouble = status["accounting"]["trouble"]
    return [
        [("cosched  ", BOLD), ("   ".join(parts), PLAIN if policy else OUT)],
        [(f"threads  [{bar:<{_BAR}}] {100 * share:.0f} %, {used} of {threads}", PLAIN)],
        [(f"jobs     {jobs}", PLAIN), *([(f"   accounting waits: {trouble}", OUT)] if trouble else [])],
        [(f"nodes    {nodes}; {status['shared_nodes']} shared", PLAIN)],
    ]


def slot_lines(slots: Mapping[str, Any]) -> list[Line]:
    """Return the rotation, and a line for each slot with its jobs, their nodes and shares; those that run now stand out."""
    turns = []
    for numbers, quanta, guests in slots["turns"]:
        with_guests = f"({' '.join(guests)})" if guests else ""
        turns.append("+".join(map(str, numbers)) + with_guests + (f"x{quanta}" if quanta > 1 else ""))
    order = "  ".join(turns) or "none, slot 0 runs"
    lines: list[Line] = [[(f"quantum  {slots['quantum'] + 1} of {slots['quantum_s']:g} s; next turns: {order}", BOLD)]]
    of_slot: dict[int, Line] = {}
    paired = len({slot for slot, *_, runs in slots["jobs"] if runs}) > 1
    for slot, job, node_list, share, runs in slots["jobs"]:
        line = of_slot.setdefault(slot, [(f"slot {slot:<3}", PLAIN)])
        shown = "" if share is None else f" {100 * share:.0f} %"
        line.append((f"  {job}:{node_list}{shown}", (SHARED if paired else ONE) if runs else DIM))
    return lines + list(of_slot.values())


def plain_frame(overview: Mapping[str, Any]) -> str:
    """Return everything as text, without a limit on its length."""
    lines = ["".join([text for text, _ in line]) for line in header(overview["status"])]
    decisions = [f"{clock_text(at_s):>11}  {text}" for at_s, text in overview["decisions"]]
    parts = [
        "\n".join(map(printable, lines)) + "\n",
        node_table(rows_of(overview["nodes"])),
        queue_table(rows_of(overview["jobs"])),
    ]
    if overview.get("slots"):
        lines = ["".join([text for text, _ in line]) for line in slot_lines(overview["slots"])]
        parts.insert(1, "\n".join(map(printable, lines)) + "\n")
    if overview["jobs"]["left_out"]:
        parts[-1] += f"and {overview['jobs']['left_out']} more jobs\n"
    if decisions:
        parts.append("\n".join(["last decisions", *map(printable, decisions)]) + "\n")
    return "\n".join(parts)


def _node_map(
    nodes: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]], chosen: int, width: int, most: int
) -> list[Line]:
    """Return the map, one cell per node, and below it the jobs on the selected node. Nodes with any of these jobs are highlighted."""
    there = set(nodes[chosen]["jobs"])
    per_line = max(1, width)
    count = -(-len(nodes) // per_line)
    first = 0 if count <= most else min(max(0, chosen // per_line - most // 2), count - most)
    lines: list[Line] = []
    for begin in range(first * per_line, min(len(nodes), (first + most) * per_line), per_line):
        line: Line = []
        for row in nodes[begin : begin + per_line]:
            text, style = _cell(row)
            if row["node"] == chosen:
                style = CHOSEN
            elif there.intersection(row["jobs"]):
                style = ALIKE
            if line and line[-1][1] == style:
                line[-1] = (line[-1][0] + text, style)
            else:
                line.append((text, style))
        lines.append(line)
    return [*lines, _chosen_node(nodes[chosen], jobs)]


def _cell(row: Mapping[str, Any]) -> Segment:
    count = len(row["jobs"])
    if row["state"] in ("DOWN", "DRAINED"):
        return ("x" if row["state"] == "DOWN" else "d"), OUT
    style = OUT if row["state"] == "DRAINING" else DIM if not count else ONE if count == 1 else SHARED
    return "." if not count else str(count) if count < 10 else "+", style


def _chosen_node(row: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> Line:
    known = {job_label(job): job for job in jobs}
    names = []
    for label in map(str, row["jobs"]):
        job = known.get(label)
        if job is None:
            names.append(label)
            continue
        slowdown = "" if job["slowdown"] is None else f" x{job['slowdown']:.2f}"
        names.append(f"{label} {short(job['name'] or '-', 16)} ({job['user'] or '-'}){slowdown}")
    reason = f" ({row['reason']})" if row["reason"] else ""
    slow = "" if row["slowed"] is None else f", {row['slowed']:g} times as slow"
    text = f"node {row['node']}: {row['state']}{reason}, {row['threads_used']} of {row['threads']} threads{slow}"
    return [(f"{text}: {', '.join(names)}" if names else f"{text};  {LEGEND}", BOLD)]


def _queue(jobs: Sequence[Mapping[str, Any]], left_out: int, scroll: int, room: int) -> list[Line]:
    """Return the queue from line ``scroll`` on, in ``room`` lines."""
    if room < 1:
        return []
    heads, *lines = text_table(_QUEUE_HEADS, queue_lines(jobs), _RIGHT).splitlines()
    if left_out:
        lines.append(f"and {left_out} more jobs")
    first = min(max(0, scroll), max(0, len(lines) - (room - 1)))
    shown = lines[first : first + room - 1]
    padding: list[Line] = [[] for _ in range(room - 1 - len(shown))]
    return [[(heads, BOLD)], *[[(line, PLAIN)] for line in shown], *padding]


def _cut(line: Line, width: int) -> Line:
    """Return a line cut to ``width``, without control characters."""
    cut: Line = []
    for text, style in line:
        left = width - sum([len(part) for part, _ in cut])
        if left <= 0:
            break
        cut.append((printable(text)[:left], style))
    return cut
