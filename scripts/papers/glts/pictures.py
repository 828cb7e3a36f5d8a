"""The pictures of the G-LOMARC-TS reproduction: the paper's figures 6, 8 and 9, delays, and what the load does."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.glts.claims import task_of_block, task_of_gap, task_of_slack
from scripts.papers.glts.figures import Results, changes, values
from scripts.papers.glts.published import DELAY, RELATIVE_RESPONSE, SSP_W2
from scripts.papers.glts.runs import BLOCK, BLOCKS, GAPS, SCHEDULERS, SLACK, SLACKS, TENTHS, Task
from scripts.papers.pictures import MARK, Axes, Point, bars, legend, point_of, pyplot, whisker

COLOURS: Final = ("#8d99ae", "#bfd7ea", "#5fa8d3", "#0b3954", "#e0a458", "#7fb069", "#a288a6")
LINES: Final = ("#0b3954", "#5fa8d3", "#e0a458", "#7fb069")
GROUPS: Final = {"medium": "rr_60.medium", "long": "rr_60.long", "all, 60 s": "rr_60.all", "all, 600 s": "rr_600.all"}


def draw(results: Results, folder: Path) -> list[Path]:
    """Write all pictures of which there are runs; return their files. Needs matplotlib."""
    files = []
    for name, picture in {
        "": _responses,
        "-blocks": _blocks,
        "-slack": _slack,
        "-delay": _delay,
        "-load": _load,
    }.items():
        figure = picture(results)
        if figure is not None:
            files.append(folder / f"g-lomarc-ts{name}.png")
            figure.savefig(files[-1], dpi=110)
            pyplot().close(figure)
    return files


def point(results: Results, key: str, task: Task) -> Point | None:
    """Return a figure; published are those of SSP at W2, and GLTS against SSP of ours at W1, changed by the printed percentage."""
    found = list(values(results, key, task).values())
    if not found:
        return None
    which = key.partition(".")[2]
    published = None
    if key in GROUPS.values() and (task.workload, task.scheduler, task.variant) == ("W2", "SSP", "base"):
        published = SSP_W2[which]
    elif key in GROUPS.values() and task.variant == "base" and task.workload == "W1" and task.scheduler != "SSP":
        published = _from_percentages(results, key, task)
    return point_of(found, published)


def _from_percentages(results: Results, key: str, task: Task) -> float | None:
    """Return the level that the published percentages give a scheduler, with SSP's as we have it."""
    which = key.partition(".")[2]
    base = list(values(results, key, task.space_sharing).values())
    if not base or (task.scheduler != "GLTS" and task.scheduler not in RELATIVE_RESPONSE):
        return None
    level = statistics.fmean(base) * (1 + RELATIVE_RESPONSE["SSP"][which] / 100)
    return level if task.scheduler == "GLTS" else level / (1 + RELATIVE_RESPONSE[task.scheduler][which] / 100)


def _responses(results: Results) -> Any:
    """Draw figure 6: relative responses by class and scheduler, and the same at W2."""
    panels = {
        workload: {
            scheduler: [point(results, key, Task(workload, scheduler)) for key in GROUPS.values()]
            for scheduler in SCHEDULERS
        }
        for workload in ("W1", "W2")
    }
    if not any(bar for rows in panels.values() for row in rows.values() for bar in row):
        return None
    figure, axes = _figure(2)
    for axis, (workload, rows) in zip(axes, panels.items(), strict=True):
        bars(axis, rows, dict(zip(SCHEDULERS, COLOURS, strict=True)))
        axis.set_xlim(-0.6, len(GROUPS) - 0.4)
        axis.set_xticks(range(len(GROUPS)), list(GROUPS))
        axis.set_title(f"{workload}: mean relative response (RR)", fontsize=9)
    legend(figure, axes[0])
    return figure


def _blocks(results: Results) -> Any:
    """Draw figure 8: relative responses by size of blocks, W2, against GLTS with the usual size."""
    base = task_of_block(BLOCK)
    found = {
        name: {
            scheduler: _against(results, key, {size: task_of_block(size, scheduler) for size in BLOCKS}, base, "block-")
            for scheduler in ("GLTS", "GLTS-FBO", "GLTS-NS")
        }
        | {"GLTS-NH": _against(results, key, dict.fromkeys(BLOCKS, Task("W2", "GLTS-NH")), base, "block-")}
        for name, key in list(GROUPS.items())[:2]
    }
    if not any(line for lines in found.values() for line in lines.values()):
        return None
    figure, axes = _figure(2)
    for axis, (name, lines) in zip(axes, found.items(), strict=True):
        for rank, (scheduler, line) in enumerate(lines.items()):
            _line(axis, [(size + 0.3 * (rank - 1.5), item) for size, item in line], scheduler, _colour(scheduler))
        axis.set_xticks(BLOCKS)
        axis.set_xlabel("size of blocks", fontsize=9)
        axis.set_title(f"W2: RR of {name} jobs against GLTS with {BLOCK} [%]", fontsize=9)
    legend(figure, axes[0])
    return figure


def _slack(results: Results) -> Any:
    """Draw figure 9: relative responses by slack factor, W1, against the usual factor."""
    tasks = {rank: task_of_slack(factor) for rank, factor in enumerate(SLACKS)}
    lines = {name: _against(results, key, tasks, task_of_slack(SLACK), "slack-") for name, key in GROUPS.items()}
    if not any(lines.values()):
        return None
    figure, axes = _figure(1)
    for rank, (name, line) in enumerate(lines.items()):
        _line(axes[0], [(x + 0.07 * (rank - 1.5), item) for x, item in line], name, LINES[rank])
    axes[0].set_xticks(range(len(SLACKS)), SLACKS)
    axes[0].set_xlabel("slack factor", fontsize=9)
    axes[0].set_title(f"W1: RR of GLTS against slack factor {SLACK} [%]", fontsize=9)
    legend(figure, axes[0])
    return figure


def _against(
    results: Results, key: str, tasks: Mapping[int, Task], base: Task, prefix: str
) -> list[tuple[float, Point]]:
    """Return by how many percent tasks are above ``base``, over the seeds that variants of this prefix have."""
    seeds = {task.seed for task in results if task.variant.startswith(prefix)}
    line: list[tuple[float, Point]] = []
    for x, task in tasks.items():
        found = [change for seed, change in changes(results, key, task, base).items() if seed in seeds]
        if found:
            line.append((x, point_of(found)))
    return line


def _delay(results: Results) -> Any:
    """Draw how response / expected response is distributed over the jobs of all seeds."""
    panels = {
        workload: {name: share_within(results, Task(workload, "GLTS"), name) for name in ("medium", "long")}
        for workload in ("W1", "W2")
    }
    if not any(line for lines in panels.values() for line in lines.values()):
        return None
    figure, axes = _figure(2)
    for axis, (workload, lines) in zip(axes, panels.items(), strict=True):
        for colour, (name, line) in zip(LINES, lines.items(), strict=False):
            if line:  # the last bin has no upper end
                axis.plot([tenth / 10 for tenth in range(TENTHS)], [0.0, *line[:-1]], color=colour, label=name)
        if workload == "W1":
            axis.plot([DELAY["p75"], DELAY["p95"]], [0.75, 0.95], "D", color=MARK, markersize=4, label="published")
        axis.set_xlim(0, 2.5)
        axis.set_title(f"{workload}, GLTS: share of jobs within response / expected response", fontsize=9)
    legend(figure, axes[0])
    return figure


def share_within(results: Results, task: Task, name: str) -> list[float]:
    """Return the share of a class's jobs up to the end of each tenth, over all seeds; nothing where nothing was expected."""
    found = [
        result["delay"][name]["tenths"]
        for other, result in results.items()
        if other.series == task.series and result["delay"].get(name)
    ]
    counts = list(itertools.accumulate([sum(column) for column in zip(*found, strict=True)]))
    return [count / counts[-1] for count in counts]


def _load(results: Results) -> Any:
    """Draw how much lower GLTS's relative responses are than others', by load."""
    seeds = {task.seed for task in results if task.variant.startswith("gap-")}
    if not seeds:
        return None
    figure, axes = _figure(2)
    for axis, rival in zip(axes, ("SSP", "CST"), strict=True):
        for rank, (name, key) in enumerate(GROUPS.items()):
            line = []
            for gap in GAPS:
                task = task_of_gap(gap)
                changed = changes(results, key, task, task._replace(scheduler=rival))
                found = [change for seed, change in changed.items() if seed in seeds]
                if found:
                    line.append((1 / float(gap) + 0.003 * (rank - 1.5), point_of(found)))
            _line(axis, line, name, LINES[rank])
        axis.axhline(0, color="#888888", linewidth=0.6)
        axis.set_xlabel("arrivals, relative to W1", fontsize=9)
        axis.set_title(f"RR of GLTS against {rival} [%]", fontsize=9)
    legend(figure, axes[0])
    return figure


def _line(axis: Axes, points: Sequence[tuple[float, Point]], label: str, colour: str) -> None:
    axis.errorbar(
        [x for x, _ in points],
        [item.mean for _, item in points],
        yerr=[whisker(item) for _, item in points],
        color=colour,
        label=label,
        marker="o",
        markersize=3,
        linewidth=1.2,
        elinewidth=0.7,
        capsize=2,
    )


def _colour(scheduler: str) -> str:
    return COLOURS[tuple(SCHEDULERS).index(scheduler)]


def _figure(columns: int) -> tuple[Any, Sequence[Axes]]:
    figure, axes = pyplot().subplots(
        1, columns, figsize=(10.2 if columns > 1 else 6.4, 3.6), layout="constrained", squeeze=False
    )
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]
