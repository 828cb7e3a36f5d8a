"""The figures of the benchmark as Markdown tables, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scripts.bench.process import Figures
from scripts.bench.wire import SHARE
from scripts.tables import NOTHING, aligned_table

COMMAND_S: Final = 0.15  # goal of ``--help``
REACHED: Final = {
    True: "yes",
    False: "**no**",
    None: NOTHING,
}  # None: not measured, or in a smaller run than the goal requires


def machine_lines(machine: Figures, options: str) -> list[str]:
    """Return the lines about machine, versions and commit."""
    changed = " with changes" if machine["changed"] else ""
    return [
        f"Commit {machine['commit']}{changed}; {machine['cpu']}, {machine['cpus']} CPUs, load {machine['load_average']} before;"
        f" Python {machine['python']}, numpy {machine['numpy']}, libzmq {machine['zmq']}. `scripts/bench.py{options}`.",
        "",
    ]


def goal_lines(rows: Sequence[Figures]) -> list[str]:
    """Return the goals and the measured figures."""
    header = ("run", "jobs", "goal", "measured", "reached", "offered load", "mean queue", "peak MB")
    return aligned_table(header, [_goal_row(row) for row in rows], 1)


def _goal_row(row: Figures) -> list[str]:
    goal = f"{row['goal']:,g} {row['unit']}"
    if "reason" in row:
        return [row["name"], NOTHING, goal, row["reason"], NOTHING, NOTHING, NOTHING, NOTHING]
    measured = f"{row['measured']:,.{0 if row['measured'] >= 100 else 2}f} {row['unit']}"
    digits = {"offered_load": 2, "mean_queue_length": 0, "peak_mb": 0}
    figures = [_figure(row, name, places) for name, places in digits.items()]
    return [row["name"], f"{row['jobs']:,}", goal, measured, REACHED[row["reached"]], *figures]


def wire_lines(rows: Sequence[Figures]) -> list[str]:
    """Return the couplings: one row for each placement of the processes on processors."""
    speeds = ("direct jobs/s", "zmq jobs/s", "us a batch", "bare jobs/s", "us a round trip")
    header = ("processes", *speeds, "zmq / bare", "reached")
    names = {False: "as the system puts them", True: "each on its own processor"}
    lines = []
    for row in rows:
        direct, zmq, bare = (_figure(row, f"{kind}_jobs_per_second", 0) for kind in ("direct", "zmq", "bare"))
        share, reached = _figure(row, "share", 2), REACHED[row.get("reached")]
        cells = (direct, zmq, _figure(row, "zmq_us", 1), bare, _figure(row, "bare_us", 1), share, reached)
        lines.append((names[row["apart"]], *cells))
    about = [
        f"{row['jobs']:,.0f} jobs under easy, {row['batches']:,.0f} batches, {row['median_bytes_out']:.0f} bytes out and"
        f" {row['median_bytes_back']:.0f} back (medians). Goal of zmq / bare: {SHARE:.2f}. The start of the"
        f" plugin (not included) took {row['open_s']:.2f} s."
        for row in rows[:1]
        if "reason" not in row
    ]
    return [*aligned_table(header, lines, 1), *about, ""]


def start_up_lines(rows: Sequence[Figures]) -> list[str]:
    """Return the times of trivial commands."""
    body = []
    for row in rows:
        times = [f"{row[key] * 1000:.0f}" for key in ("median_s", "least_s")]
        body.append((f"`{row['command']}`", *times, f"{row['over_python']:.1f}"))
    header = ("command", "median ms", "least ms", "times Python's own")
    return [*aligned_table(header, body, 1), f"Goal of `--help`: {COMMAND_S * 1000:.0f} ms.", ""]


def _figure(found: Mapping[str, Any], name: str, digits: int) -> str:
    """Return a figure, or the reason why there is none."""
    if name in found:
        return NOTHING if found[name] is None else f"{found[name]:,.{digits}f}"
    reason = str(found.get("reason", NOTHING))
    return reason.replace("more than", ">")
