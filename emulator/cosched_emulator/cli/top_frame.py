"""The content of `top`, independent of a terminal: an overview of the manager laid out for a window size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from cosched_emulator.cli.user_tables import node_table, queue_table, text_table
from cosched_emulator.users.idset import read_idset
from cosched_emulator.users.told import clock_text, job_label, join_values, rows_of
from cosched_terminal.console import printable
from cosched_terminal.tables import VIEW, View, short, wrapped

# Lines of `top`: each is a list of (text, style); the terminal code maps each style to its colours.

Segment: TypeAlias = tuple[str, str]
Line: TypeAlias = list[Segment]
PLAIN, BOLD, DIM, ONE, SHARED, OUT, CHOSEN, ALIKE = "plain", "bold", "dim", "one", "shared", "out", "chosen", "alike"


def add(line: Line, text: str, style: str) -> None:
    """Add a text to a line; it joins the last one if that has the same style."""
    if line and line[-1][1] == style:
        line[-1] = (line[-1][0] + text, style)
    else:
        line.append((text, style))


# The matrix of gang scheduling in `top`: slots are rows, nodes are columns, and the cells are jobs.

Row = Mapping[str, Any]
_MOST_TURNS: Final = 4  # named as the next ones
_STYLES: Final = {"row": ONE, "partner": SHARED, "guest": SHARED}  # of jobs that run now, by what they run as
_OUT: Final = {"DOWN": "x", "DRAINED": "d"}


def now_line(slots: Mapping[str, Any]) -> str:
    """Return in a line what runs now, and what comes next."""
    turns, turn = slots["turns"], slots["turn"]
    if turn is None:
        present = "no job can run" if turns or not slots["rows"] else "slot 0 runs all the time"
        return f"slots    {present}; quanta of {slots['quantum_s']:g} s"
    firsts = [each["slots"][0] for each in turns]
    place = firsts.index(turn["slots"][0]) + 1 if turn["slots"][0] in firsts else 0
    after = [_turn_text(each) for each in (*turns[place:], *turns[: max(0, place - 1)])]
    following = (
        f"; then {', '.join([*after[:_MOST_TURNS], *(['...'] if len(after) > _MOST_TURNS else [])])}" if after else ""
    )
    left = f" ({slots['left']} more)" if slots["left"] else ""
    return f"slots    quantum {slots['quantum']} of {slots['quantum_s']:g} s: {_turn_text(turn)}{left}{following}"


def matrix_lines(
    slots: Mapping[str, Any], nodes: Sequence[Row], chosen: int | None, width: int, most: int
) -> list[Line]:
    """Return the matrix in at most ``most`` lines, at most ``width`` wide, with the chosen node and the row that runs.

    A line begins with ``>`` if it is that row's turn, with ``+`` if it is the partner, ``*`` if only a guest of it runs; then come
    the slot and its partner in the rotation, and the largest share predicted for its jobs.
    """
    rows = slots["rows"]
    if most < 2 or not rows or not nodes:
        return []
    partners = {turn["slots"][0]: turn["slots"] for turn in slots["turns"]}
    labels = ["+".join(map(str, partners.get(row["slot"], [row["slot"]]))) for row in rows]
    wide = max(4, *map(len, labels))
    size = 1 + max(len(str(len(nodes) - 1)), *[len(cell["job"]) for row in rows for cell in row["jobs"]])
    columns = _window(len(nodes), max(1, (width - wide - 8) // size), chosen or 0)
    head: Line = [(f"  {'SLOT':<{wide}}  CPU ", BOLD)]
    for node in columns:
        style = CHOSEN if node == chosen else OUT if nodes[node]["state"] in _OUT else BOLD
        add(head, " " * (size - len(str(node))), BOLD)
        add(head, str(node), style)
    marks = [_mark(row, slots["turn"]) for row in rows]
    shown = _window(len(rows), most - 1, marks.index(">") if ">" in marks else 0)
    return [head, *[_row_line(rows[row], marks[row], f"{labels[row]:<{wide}}", columns, size, nodes) for row in shown]]


def _mark(row: Row, turn: Row | None) -> str:
    """Return whether a row runs now."""
    if turn is not None and row["slot"] in turn["slots"]:
        return ">" if row["slot"] == turn["slots"][0] else "+"
    return "*" if any(cell["runs_as"] == "guest" for cell in row["jobs"]) else " "


def _row_line(row: Row, mark: str, label: str, columns: range, size: int, nodes: Sequence[Row]) -> Line:
    there: dict[int, list[Row]] = {}
    for cell in row["jobs"]:
        for node in read_idset(cell["node_list"]):
            there.setdefault(node, []).append(cell)
    share = max(cell["predicted"] for cell in row["jobs"])
    line: Line = [(f"{mark} {label} {share:>4.0%} ", BOLD if mark != " " else PLAIN)]
    for node in columns:
        cells = there.get(node, ())
        text = "".join([cell["job"] for cell in cells[:1]]) + ("&" if len(cells) > 1 else "")
        state = _OUT.get(nodes[node]["state"])
        style = OUT if state and not cells else DIM
        for cell in cells:
            style = _STYLES.get(cell["runs_as"], PLAIN)
        add(line, f"{text or state or '.':>{size}}"[-size:], style)
    return line


def _window(count: int, most: int, place: int) -> range:
    """Return at most ``most`` of ``count`` numbers, with ``place`` among them."""
    first = max(0, min(place - most // 2, count - most))
    return range(first, min(count, first + most))


def _turn_text(turn: Row) -> str:
    """Return a turn in a few words, such as ``0+2 x3 with 7``."""
    quanta = f" x{turn['quanta']}" if turn["quanta"] > 1 else ""
    guests = f" with {' '.join(turn['guests'])}" if turn["guests"] else ""
    return f"{'+'.join(map(str, turn['slots']))}{quanta}{guests}"


_MOST_DECISIONS: Final = 6
_PARTITION_HEADS: Final = ("PARTITION", "RUNNING", "PENDING", "THREADS", "GRES")
_PARTITION_NUMBERS: Final = frozenset(_PARTITION_HEADS[1:4])
_WIDEST_PARTITION: Final = 24  # characters of a name
_SHARE_OF_PARTITIONS: Final = 6  # they have one line of so many
SILENT_S: Final = 2.0  # a scheduler that owes an answer for longer is shown as silent
_BAR: Final = 20
_LABEL: Final = len("cosched  ")  # in front of each line of the header
_MOST_OF_NODE: Final = 3  # lines about the selected node
_WIDEST_MATRIX: Final = 1_000  # columns of text
LEGEND: Final = ". idle, 1-9 jobs there, d drained, x down"


# The keys, as the last line has them, and what they do, as the help has it.
KEYS_LINE: Final = "q quit   ? keys   up, down: queue   left, right: nodes"
_HELP: Final = (
    ("q", "quit"),
    ("?", "this help, and back"),
    ("up, down, k, j", "scroll the queue by a line"),
    ("PgUp, PgDn", "by ten lines"),
    ("Home, End", "to its beginning, its end"),
    ("left, right, h, l", "choose a node: its jobs stand below the map, the other nodes of these jobs are marked"),
    ("map of nodes", LEGEND),
    ("slots", "> it is that slot's turn, + its partner, * only a guest of it runs"),
    ("columns", "those that matter least are left out where the window is narrow; queue --wide has all"),
)


def help_lines(width: int) -> list[Line]:
    """Return what the keys and marks mean."""
    wide = max(len(keys) for keys, _ in _HELP) + 2
    lines: list[Line] = [[("Keys and marks", BOLD)], []]
    for keys, text in _HELP:
        for number, part in enumerate(wrapped(text, max(20, width - wide))):
            lines.append([(f"{'' if number else keys:<{wide}}{part}", PLAIN)])
    return [_cut(line, width) for line in lines]


class Look(NamedTuple):
    """The user's selection: the first line of the queue to show, and a node."""

    scroll: int = 0
    node: int = 0


def frame(overview: Mapping[str, Any], look: Look, width: int, height: int, trouble: str = "") -> list[Line]:
    """Return at most ``height`` lines, at most ``width`` wide; ``trouble`` comes first if it is not empty."""
    nodes = rows_of(overview["nodes"])
    jobs = rows_of(overview["jobs"])
    lines: list[Line] = [[(trouble, OUT)]] if trouble else []
    slots = overview.get("slots")
    chosen = min(look.node, len(nodes) - 1)
    lines += [part for line in header(overview["status"]) for part in _folded(line, width)]
    if slots is not None:
        lines.append([(now_line(slots), BOLD)])
    lines += partition_lines(overview["status"], max(1, (height - len(lines)) // _SHARE_OF_PARTITIONS))
    room = height - len(lines)
    if room >= 4 and nodes:
        lines += _node_map(nodes, jobs, chosen, width, max(1, room // 3))
    if slots is not None:
        lines += matrix_lines(slots, nodes, chosen, width, (height - len(lines)) // 2)
    decisions = [[(f"{clock_text(at_s):>11}  {text}", PLAIN)] for at_s, text in reversed(overview["decisions"])]
    room = height - len(lines)
    shown = min(len(decisions), _MOST_DECISIONS, max(0, room // 4 - 1))
    lines += _queue(jobs, overview["jobs"]["left_out"], look.scroll, room - (shown + 1 if shown else 0), width)
    if shown:
        lines += [[("last decisions", BOLD)], *decisions[:shown]]
    return [_cut(line, width) for line in lines[: max(0, height)]]


def header(status: Mapping[str, Any]) -> list[Line]:
    """Return the state of the manager in a few lines."""
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
        *_counted(status),
        [(f"jobs     {jobs}", PLAIN), *([(f"   accounting waits: {trouble}", OUT)] if trouble else [])],
        [(f"nodes    {nodes}; {status['shared_nodes']} shared{_sharing(status)}", PLAIN)],
        *_waiting(status),
    ]


def _counted(status: Mapping[str, Any]) -> list[Line]:
    """Return a line with the countable resources and licences that are in use; none where there are none."""
    parts = [
        f"{name} {each['used']} of {each['all']}"
        for kind in ("resources", "licences")
        for name, each in status.get(kind, {}).items()
    ]
    return [[(f"counted  {', '.join(parts)}", PLAIN)]] if parts else []


def partition_lines(status: Mapping[str, Any], most: int) -> list[Line]:
    """Return a table of the partitions with at most ``most`` of them; none where there are none."""
    partitions = list(status.get("partitions", {}).items())
    fit = most if len(partitions) <= most else most - 1
    if not (partitions and fit):
        return []
    rows = [
        (
            short(name, _WIDEST_PARTITION),
            str(each["running"]),
            str(each["pending"]),
            f"{each['threads']['used']}/{each['threads']['all']}",
            ",".join([f"{what}:{count['used']}/{count['all']}" for what, count in each["resources"].items()]),
        )
        for name, each in partitions[:fit]
    ]
    columns = 5 if any(row[-1] for row in rows) else 4
    table = text_table(_PARTITION_HEADS[:columns], [row[:columns] for row in rows], _PARTITION_NUMBERS)
    heads, *lines = [line.rstrip() for line in table.splitlines()]
    if len(partitions) > fit:
        lines.append(f"and {len(partitions) - fit} more partitions")
    return [[(heads, BOLD)], *[[(line, PLAIN)] for line in lines]]


def _sharing(status: Mapping[str, Any]) -> str:
    """Return how slow the jobs on shared nodes are, if that is known."""
    slowdown = status.get("shared_slowdown")
    return "" if slowdown is None else f", by {status['shared_jobs']} jobs, {slowdown:.2f} times as long as alone"


def _waiting(status: Mapping[str, Any]) -> list[Line]:
    """Return a line with what jobs wait for, and how far start estimates are off; none if both are unknown."""
    waits = [
        (key.removeprefix("waits_").replace("_", " "), count)
        for key, count in status.items()
        if key.startswith("waits_")
    ]
    parts = [", ".join([f"{count} {reason}" for reason, count in waits if count])]
    if status.get("estimate_error_s") is not None:
        held = status.get("estimates_held")
        ranges = "" if held is None else f", {100 * held:.0f} % of ranges hold"
        parts.append(f"start estimates off by {clock_text(status['estimate_error_s'])} in the median{ranges}")
    text = "; ".join([part for part in parts if part])
    return [[(f"waits    {text}", PLAIN)]] if text else []


def plain_frame(overview: Mapping[str, Any]) -> str:
    """Return everything as text, without a limit on its length."""
    lines = ["".join([text for text, _ in line]) for line in header(overview["status"])]
    decisions = [f"{clock_text(at_s):>11}  {text}" for at_s, text in overview["decisions"]]
    if "slots" in overview:
        lines.append(now_line(overview["slots"]))
    partitions = partition_lines(overview["status"], len(overview["status"].get("partitions", ())))
    lines += ["".join([text for text, _ in line]) for line in partitions]
    parts = [
        "\n".join(map(printable, lines)) + "\n",
        *_plain_matrix(overview),
        node_table(rows_of(overview["nodes"])),
        queue_table(rows_of(overview["jobs"])),
    ]
    if overview["jobs"]["left_out"]:
        parts[-1] += f"and {overview['jobs']['left_out']} more jobs\n"
    if decisions:
        parts.append("\n".join(["last decisions", *map(printable, decisions)]) + "\n")
    return "\n".join(parts)


def _plain_matrix(overview: Mapping[str, Any]) -> list[str]:
    """Return the matrix as text, in a list; an empty list if there is none."""
    slots, nodes = overview.get("slots"), rows_of(overview["nodes"])
    lines = [] if slots is None else matrix_lines(slots, nodes, None, _WIDEST_MATRIX, len(slots["rows"]) + 1)
    text = "".join(["".join([text for text, _ in line]).rstrip() + "\n" for line in lines])
    return [text] if text else []


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
            add(line, text, style)
        lines.append(line)
    return [*lines, *_folded(_chosen_node(nodes[chosen], jobs), width)[:_MOST_OF_NODE]]


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
    counted = "".join([f", {used} of {there} {name}" for name, used, there in row["resources"] or ()])
    parts = f" of {join_values(row['partitions'])}" if row["partitions"] else ""
    used = f"{row['threads_used']} of {row['threads']} threads{counted}{slow}"
    text = f"node {row['node']}{parts}: {row['state']}{reason}, {used}"
    return [(f"{text}: {', '.join(names)}" if names else f"{text};  {LEGEND}", BOLD)]


def _queue(jobs: Sequence[Mapping[str, Any]], left_out: int, scroll: int, room: int, width: int) -> list[Line]:
    """Return the queue from line ``scroll`` on, in ``room`` lines, without some columns where it is wider than ``width``."""
    if room < 1:
        return []
    token = VIEW.set(View(width=width, cuts=True))
    try:
        heads, *lines = queue_table(jobs).splitlines()
    finally:
        VIEW.reset(token)
    if left_out:
        lines.append(f"and {left_out} more jobs")
    first = min(max(0, scroll), max(0, len(lines) - (room - 1)))
    shown = lines[first : first + room - 1]
    padding: list[Line] = [[] for _ in range(room - 1 - len(shown))]
    return [[(heads, BOLD)], *[[(line, PLAIN)] for line in shown], *padding]


def _folded(line: Line, width: int) -> list[Line]:
    """Return a line of the header as lines that fit, behind its label."""
    text = "".join([part for part, _ in line])
    if len(text) <= width or width <= 2 * _LABEL:
        return [line]
    parts = wrapped(text[_LABEL:], width - _LABEL)
    first: Line = []
    add(first, text[:_LABEL], line[0][1])
    add(first, parts[0], line[-1][1])
    return [first, *[[(" " * _LABEL + part, line[-1][1])] for part in parts[1:]]]


def _cut(line: Line, width: int) -> Line:
    """Return a line cut to ``width``, without control characters."""
    cut: Line = []
    for text, style in line:
        left = width - sum([len(part) for part, _ in cut])
        if left <= 0:
            break
        cut.append((printable(text)[:left], style))
    return cut
