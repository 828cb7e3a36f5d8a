"""The pictures of the paired gang reproduction: figures 3, 7, 8, 9, 10, 11, 12, 13 and 14 of the paper, and ratios over load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.published import BEST_FIT_COUNTS
from scripts.papers.paired_gang.published import RESPONSE as PUBLISHED
from scripts.papers.pictures import MARK, Axes, bars, draw_all, error_line, grid, legend, point_at

from cosched_emulator.studies.study_result import Row

LINES: Final = ("#8d99ae", "#e0a458", "#0b3954", "#5fa8d3", "#7fb069", "#a288a6")
CURVES: Final[Mapping[str, tuple[str, str]]] = {
    f"{ex.STRICT}": (ex.HOMOGENEOUS, ex.STRICT),
    f"{ex.BARE}": (ex.HOMOGENEOUS, ex.BARE),
    f"{ex.PAIRED}, homogeneous": (ex.HOMOGENEOUS, ex.PAIRED),
    f"{ex.PAIRED}, heterogeneous": (ex.HETEROGENEOUS, ex.PAIRED),
    f"{ex.NODE}, heterogeneous": (ex.HETEROGENEOUS, ex.NODE),
    f"{ex.BLIND}, homogeneous": (ex.HOMOGENEOUS, ex.BLIND),
}
RATIOS: Final = ((ex.STRICT, ex.PAIRED), (ex.BARE, ex.PAIRED), (ex.STRICT, ex.NODE), (ex.STRICT, ex.BLIND))
MOST_RATIO: Final = 10.0  # of the axis
PHASES: Final = {
    "as printed": ex.BASE,
    "with 2 % of the CPU lost": "lost 2 %",
    "sharp changes": "lost 0 %, sharp change",
}
SEED: Final = 1  # whose curves are drawn
PANELS: Final[Mapping[str, str]] = {ex.RESPONSE: "mean response [s]", ex.BOUNDED: "mean bounded slowdown (10 s)"}


def loads(figures: Figures) -> Any:
    """Draw figure 10: mean response and slowdown over load, and ratios to strict gang scheduling with the published ones."""
    if not any(
        figures.seeds(Where(ex.dynamic(program, load), name)) for program, name in CURVES.values() for load in ex.LOADS
    ):
        return None
    figure, axes = grid(2, 2)
    for axis, (key, title) in zip(axes, PANELS.items(), strict=False):
        for (label, (program, policy)), colour in zip(CURVES.items(), LINES, strict=True):
            points = [(load, figures.mean(key, Where(ex.dynamic(program, load), policy))) for load in ex.LOADS]
            error_line(axis, [(float(load), found) for load, found in points if found is not None], label, colour)
        axis.set_ylabel(title, fontsize=8)
        axis.set_ylim(bottom=0)
    for axis, program in zip(axes[2:], (ex.HOMOGENEOUS, ex.HETEROGENEOUS), strict=True):
        _ratios(axis, figures, program)
    for each in axes:
        each.set_xlabel("offered load", fontsize=9)
    legend(figure, axes[0], 3)
    return figure


def _ratios(axis: Axes, figures: Figures, program: str) -> None:
    """Draw ratios of mean responses over load, those of homogeneous jobs with the published ones."""
    for (base, policy), colour in zip(RATIOS, LINES, strict=False):
        found = [
            (float(load), ratio)
            for load in ex.LOADS
            if (
                ratio := figures.ratio(
                    ex.RESPONSE, *(Where(ex.dynamic(program, load), name) for name in (base, policy))
                )
            )
        ]
        error_line(axis, found, f"{base} / {policy}", colour)
    if program == ex.HOMOGENEOUS:
        places = [float(load) for load in PUBLISHED]
        axis.plot(
            places, [*PUBLISHED.values()], "D", color=MARK, markersize=5, label=f"published, {ex.STRICT} / {ex.PAIRED}"
        )
    axis.axhline(1, color="#888888", linewidth=0.6)
    axis.set_ylabel(f"{program}: ratio of mean responses", fontsize=8)
    axis.set_ylim(0, MOST_RATIO)
    axis.legend(fontsize=6, frameon=False)


def jobs_by_load(figures: Figures) -> Any:
    """Draw figure 11: the number of jobs in the system over time, strict and paired, a panel for each load."""
    lines = {
        f"homogeneous, load {load}": {
            name: Where(ex.dynamic(ex.HOMOGENEOUS, load), name) for name in (ex.BARE, ex.STRICT, ex.PAIRED)
        }
        for load in ex.LOADS
    }
    return _jobs(figures, lines, 2)


def jobs_of_others(figures: Figures) -> Any:
    """Draw figures 12 and 14: the same of heterogeneous jobs and of jobs with the phases of QCRD."""
    heavy = ex.LOADS[-1]
    lines = {
        f"load {heavy}": {
            f"homogeneous, {ex.PAIRED}": Where(ex.dynamic(ex.HOMOGENEOUS, heavy), ex.PAIRED),
            f"heterogeneous, {ex.PAIRED}": Where(ex.dynamic(ex.HETEROGENEOUS, heavy), ex.PAIRED),
            f"heterogeneous, {ex.NODE}": Where(ex.dynamic(ex.HETEROGENEOUS, heavy), ex.NODE),
        },
        f"{ex.QCRD}, load 0.8": {
            name: Where(ex.dynamic(ex.QCRD, "0.8"), name) for name in (ex.STRICT, ex.PAIRED, ex.NODE)
        },
    }
    return _jobs(figures, lines, 1)


def _jobs(figures: Figures, lines: Mapping[str, Mapping[str, Where]], rows: int) -> Any:
    """Draw a panel for each group of runs; None where none has run."""
    if not any(row_of(figures, where) for group in lines.values() for where in group.values()):
        return None
    figure, axes = grid(rows, -(-len(lines) // rows))
    for axis, (title, group) in zip(axes, lines.items(), strict=False):
        for (label, where), colour in zip(group.items(), (LINES[1], LINES[0], LINES[2]), strict=False):
            row = row_of(figures, where)
            if row is not None:
                axis.plot(row["jobs_curve_h"], row["jobs_curve"], color=colour, label=label, linewidth=0.9)
        axis.set_title(title, fontsize=9)
        axis.set_ylabel("jobs in the system", fontsize=8)
        axis.set_xlabel("hours", fontsize=9)
        axis.set_ylim(bottom=0)
        if axis.lines:
            axis.legend(fontsize=7, frameon=False)
    return figure


def row_of(figures: Figures, where: Where, seed: int = SEED) -> Row | None:
    """Return the row of one seed; None where it has not run."""
    series = figures.series(where)
    return next((row for row in (series.rows if series else ()) if row["seed"] == str(seed)), None)


def phases(figures: Figures) -> Any:
    """Draw figure 13: CPU shares of the jobs that run, and whether two of them do, over time; four copies of QCRD."""
    run_s = ex.RUNS_S[0]
    rows = {
        f"{name}: {ex.copies(run_s)}": row_of(figures, Where(ex.copies(run_s), ex.PAIRED, variant))
        for name, variant in PHASES.items()
    }
    there = {title: row for title, row in rows.items() if row is not None and row.get("phase_start_s")}
    if not there:
        return None
    figure, axes = grid(len(there), 1)
    for axis, (title, row) in zip(axes, there.items(), strict=True):
        for key, label, colour in (
            ("phase_row", "job of the row", LINES[2]),
            ("phase_partner", "partner", LINES[1]),
        ):
            dots = [
                (at, 100 * share) for at, share in zip(row["phase_start_s"], row[key], strict=True) if share is not None
            ]
            axis.plot(
                [at for at, _ in dots], [share for _, share in dots], ".", color=colour, markersize=2, label=label
            )
        paired = [at for at, share in zip(row["phase_start_s"], row["phase_partner"], strict=True) if share is not None]
        axis.plot(paired, [-5] * len(paired), "|", color=MARK, markersize=4, label="two jobs together")
        axis.set_title(title, fontsize=9)
        axis.set_ylabel("CPU share of a job while it may run [%]", fontsize=8)
        axis.set_xlabel("seconds", fontsize=9)
    legend(figure, axes[0])
    return figure


def scatter(figures: Figures) -> Any:
    """Draw figure 3: predicted against real CPU shares of heterogeneous jobs; dots at 100 % are new jobs."""
    row = row_of(figures, Where(ex.dynamic(ex.HETEROGENEOUS, "0.8"), ex.PAIRED))
    if row is None or not row.get("prediction_dots"):
        return None
    figure, axes = grid(1, 2)
    for axis, program in zip(axes, (ex.HETEROGENEOUS, ex.QCRD), strict=True):
        found = row_of(figures, Where(ex.dynamic(program, "0.8"), ex.PAIRED))
        dots = found["prediction_dots"] if found and found.get("prediction_dots") else []
        axis.plot([100 * x for x, _ in dots], [100 * y for _, y in dots], ".", color=LINES[2], markersize=3)
        axis.set_xlabel("predicted CPU share [%]", fontsize=9)
        axis.set_title(f"{program}, load 0.8: real CPU share [%]", fontsize=9)
    return figure


COLOURS: Final = {ex.STRICT: "#8d99ae", ex.BEST: "#5fa8d3", ex.PAIRED: "#0b3954"}
SHADES: Final = ("#bfd7ea", "#5fa8d3", "#0b3954", "#e0a458")  # of sizes, grains and slots
TITLES: Final = {ex.COMPUTE: "compute jobs", ex.IO: "I/O jobs"}
MATCHINGS: Final = {ex.BEST: "best fit", ex.PAIRED: "pre-designed"}


def draw(figures: Figures, folder: Path) -> list[Path]:
    """Write all pictures of which there are runs; return their files. Needs matplotlib."""
    return draw_all(figures, folder, "paired-gang", PICTURES)


def _static(figures: Figures) -> Any:
    """Draw figure 7: barriers a second by mix, and how often each slot is chosen as partner; left best fit, right pre-designed."""
    if not any(figures.seeds(Where(ex.mix(io_jobs), policy)) for io_jobs in ex.MIXES for policy in MATCHINGS):
        return None
    figure, axes = grid(3, 2)
    for column, (policy, title) in enumerate(MATCHINGS.items()):
        for row, kind in enumerate(ex.KINDS):
            axis = axes[2 * row + column]
            rows = {
                name: [point_at(figures, ex.rate(kind), Where(ex.mix(n), name)) for n in ex.MIXES]
                for name in (ex.STRICT, policy)
            }
            bars(axis, rows, COLOURS, published=False)
            axis.legend(fontsize=7, frameon=False)
            _mixes(axis, f"{title}: barriers/s of {TITLES[kind]}")
        axis = axes[4 + column]
        theirs = BEST_FIT_COUNTS if policy == ex.BEST else {}
        counts = {
            f"slot {slot}": [
                point_at(
                    figures, f"chosen_{slot}", Where(ex.mix(n), policy), theirs[n][slot] if theirs else None, 100.0
                )
                for n in ex.MIXES
            ]
            for slot in ex.SLOTS
        }
        bars(axis, counts, dict(zip(counts, SHADES, strict=True)), published=bool(theirs))
        axis.legend(fontsize=7, frameon=False)
        _mixes(axis, f"{title}: slot chosen as partner [% of quanta]")
    return figure


def _sensitivity(figures: Figures) -> Any:
    """Draw figures 8 and 9: barriers a second of paired gang scheduling by mix, for sizes of the cluster and grains."""
    cells = {
        "nodes": {str(size): [ex.mix(n, size) for n in ex.MIXES] for size in ex.SIZES},
        "million null statements": {f"{grain:g}": [ex.mix(n, grain=grain) for n in ex.MIXES] for grain in ex.GRAINS},
    }
    there = [
        figures.seeds(Where(name, ex.PAIRED)) for rows in cells.values() for names in rows.values() for name in names
    ]
    if not any(there):
        return None
    figure, axes = grid(2, 2)
    for row, (what, names) in enumerate(cells.items()):
        for column, kind in enumerate(ex.KINDS):
            axis = axes[2 * row + column]
            lines = {
                f"{label} {what}": [point_at(figures, ex.rate(kind), Where(name, ex.PAIRED)) for name in line]
                for label, line in names.items()
            }
            bars(axis, lines, dict(zip(lines, SHADES, strict=True)), published=False)
            axis.legend(fontsize=7, frameon=False)
            _mixes(axis, f"barriers/s of {TITLES[kind]}, {ex.PAIRED}")
    return figure


def _mixes(axis: Axes, title: str) -> None:
    axis.set_xlim(-0.6, len(ex.MIXES) - 0.4)
    axis.set_xticks(range(len(ex.MIXES)), [f"{io_jobs} I/O" for io_jobs in ex.MIXES])
    axis.set_ylabel(title, fontsize=8)


# By the end of their file's name; each returns None where nothing has run.
PICTURES: Final[Mapping[str, Callable[[Figures], Any]]] = {
    "": loads,
    "-static": _static,
    "-sensitivity": _sensitivity,
    "-jobs": jobs_by_load,
    "-others": jobs_of_others,
    "-phases": phases,
    "-prediction": scatter,
}
