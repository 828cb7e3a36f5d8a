"""The pictures of the paired gang reproduction: figures 3, 7, 8, 9, 10, 11, 12, 13 and 14 of the paper, and ratios over load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.published import BEST_FIT_COUNTS
from scripts.papers.paired_gang.published import RESPONSE as PUBLISHED
from scripts.papers.pictures import MARK, Axes, Point, bars, error_line, grid, legend, point_at, say
from scripts.papers.study import BASE

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
PHASES: Final = {"as printed": BASE, "with 2 % of the CPU lost": "lost 2 %", "sharp changes": "lost 0 %, sharp change"}
SEED: Final = 1  # whose curves are drawn
PANELS: Final[Mapping[str, str]] = {ex.RESPONSE: "mean response [s]", ex.BOUNDED: "mean bounded slowdown (10 s)"}


def loads(figures: Figures) -> Any:
    """Draw figure 10: mean response and slowdown over load, and ratios to strict gang scheduling with the published ones."""
    figure, axes = grid(2, 2)
    for axis, (key, title) in zip(axes, PANELS.items(), strict=False):
        for (label, (program, policy)), colour in zip(CURVES.items(), LINES, strict=True):
            points = [(load, figures.mean(key, Where(ex.dynamic(program, load), policy))) for load in ex.LOADS]
            error_line(axis, [(float(load), found) for load, found in points if found is not None], label, colour)
        say(axis, y=title)
        axis.set_ylim(bottom=0)
    for axis, program in zip(axes[2:], (ex.HOMOGENEOUS, ex.HETEROGENEOUS), strict=True):
        _ratios(axis, figures, program)
    for each in axes:
        say(each, x="offered load")
    legend(figure, axes[0], 3)
    return figure


def _ratios(axis: Axes, figures: Figures, program: str) -> None:
    """Draw ratios of mean responses over load, those of homogeneous jobs with the published ones."""
    for (base, policy), colour in zip(RATIOS, LINES, strict=False):
        works = {float(load): ex.dynamic(program, load) for load in ex.LOADS}
        ratios = {at: figures.ratio(ex.RESPONSE, Where(work, base), Where(work, policy)) for at, work in works.items()}
        found = [(at, ratio) for at, ratio in ratios.items() if ratio is not None]
        error_line(axis, found, f"{base} / {policy}", colour)
    if program == ex.HOMOGENEOUS:
        label = f"published, {ex.STRICT} / {ex.PAIRED}"
        axis.plot([*map(float, PUBLISHED)], [*PUBLISHED.values()], "D", color=MARK, markersize=5, label=label)
    say(axis, y=f"{program}: ratio of mean responses", level=1)
    axis.set_ylim(0, MOST_RATIO)
    axis.legend(fontsize=6, frameon=False)


def jobs_by_load(figures: Figures) -> Any:
    """Draw figure 11: the number of jobs in the system over time, strict and paired, a panel for each load."""
    works = {f"homogeneous, load {load}": ex.dynamic(ex.HOMOGENEOUS, load) for load in ex.LOADS}
    names = (ex.BARE, ex.STRICT, ex.PAIRED)
    return _jobs(figures, {text: {name: Where(work, name) for name in names} for text, work in works.items()}, 2)


def jobs_of_others(figures: Figures) -> Any:
    """Draw figures 12 and 14: the same of heterogeneous jobs and of jobs with the phases of QCRD."""
    heavy, both = (
        ex.LOADS[-1],
        ((ex.HOMOGENEOUS, ex.PAIRED), (ex.HETEROGENEOUS, ex.PAIRED), (ex.HETEROGENEOUS, ex.NODE)),
    )
    lines = {
        f"load {heavy}": {f"{program}, {name}": Where(ex.dynamic(program, heavy), name) for program, name in both},
        f"{ex.QCRD}, load 0.8": {
            name: Where(ex.dynamic(ex.QCRD, "0.8"), name) for name in (ex.STRICT, ex.PAIRED, ex.NODE)
        },
    }
    return _jobs(figures, lines, 1)


def _jobs(figures: Figures, lines: Mapping[str, Mapping[str, Where]], rows: int) -> Any:
    """Draw a panel for each group of runs."""
    figure, axes = grid(rows, -(-len(lines) // rows))
    for axis, (title, group) in zip(axes, lines.items(), strict=False):
        for (label, where), colour in zip(group.items(), (LINES[1], LINES[0], LINES[2]), strict=False):
            row = row_of(figures, where)
            if row is not None:
                axis.plot(row["jobs_curve_h"], row["jobs_curve"], color=colour, label=label, linewidth=0.9)
        say(axis, title=title, y="jobs in the system", x="hours")
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
    work = ex.copies(ex.RUNS_S[0])
    rows = {f"{name}: {work}": row_of(figures, Where(work, ex.PAIRED, variant)) for name, variant in PHASES.items()}
    there = {title: row for title, row in rows.items() if row is not None and row.get("phase_start_s")}
    figure, axes = grid(max(1, len(there)), 1)
    for axis, (title, row) in zip(axes, there.items(), strict=False):
        shares = {"job of the row": (row["phase_row"], LINES[2]), "partner": (row["phase_partner"], LINES[1])}
        for label, (column, colour) in shares.items():
            dots = [
                (at, 100 * share) for at, share in zip(row["phase_start_s"], column, strict=True) if share is not None
            ]
            axis.plot(*zip(*dots, strict=True), ".", color=colour, markersize=2, label=label)
        paired = [at for at, share in zip(row["phase_start_s"], row["phase_partner"], strict=True) if share is not None]
        axis.plot(paired, [-5] * len(paired), "|", color=MARK, markersize=4, label="two jobs together")
        say(axis, title=title, y="CPU share of a job while it may run [%]", x="seconds")
    legend(figure, axes[0])
    return figure


def scatter(figures: Figures) -> Any:
    """Draw figure 3: predicted against real CPU shares of heterogeneous jobs; dots at 100 % are new jobs."""
    figure, axes = grid(1, 2)
    for axis, program in zip(axes, (ex.HETEROGENEOUS, ex.QCRD), strict=True):
        found = row_of(figures, Where(ex.dynamic(program, "0.8"), ex.PAIRED))
        dots = found["prediction_dots"] if found and found.get("prediction_dots") else []
        axis.plot([100 * x for x, _ in dots], [100 * y for _, y in dots], ".", color=LINES[2], markersize=3)
        say(axis, x="predicted CPU share [%]", title=f"{program}, load 0.8: real CPU share [%]")
    return figure


COLOURS: Final = {ex.STRICT: "#8d99ae", ex.BEST: "#5fa8d3", ex.PAIRED: "#0b3954"}
SHADES: Final = ("#bfd7ea", "#5fa8d3", "#0b3954", "#e0a458")  # of sizes, grains and slots
TITLES: Final = {ex.COMPUTE: "compute jobs", ex.IO: "I/O jobs"}
MATCHINGS: Final = {ex.BEST: "best fit", ex.PAIRED: "pre-designed"}


def _rates(axis: Axes, rows: Mapping[str, Sequence[Point | None]], colours: Mapping[str, str], title: str) -> None:
    """Draw bars by mix, with a legend of their own."""
    known = any(point is not None and point.published is not None for row in rows.values() for point in row)
    bars(axis, rows, colours, published=known)
    axis.legend(fontsize=7, frameon=False)
    axis.set_xlim(-0.6, len(ex.MIXES) - 0.4)
    axis.set_xticks(range(len(ex.MIXES)), [f"{io_jobs} I/O" for io_jobs in ex.MIXES])
    say(axis, y=title)


def _static(figures: Figures) -> Any:
    """Draw figure 7: barriers a second by mix, and how often each slot is chosen as partner; left best fit, right pre-designed."""
    figure, axes = grid(3, 2)
    for column, (policy, title) in enumerate(MATCHINGS.items()):
        for row, kind in enumerate(ex.KINDS):
            rows = {
                name: [point_at(figures, ex.rate(kind), Where(ex.mix(n), name)) for n in ex.MIXES]
                for name in (ex.STRICT, policy)
            }
            _rates(axes[2 * row + column], rows, COLOURS, f"{title}: barriers/s of {TITLES[kind]}")
        theirs = BEST_FIT_COUNTS if policy == ex.BEST else {}
        counts: dict[str, list[Point | None]] = {}
        for slot in ex.SLOTS:
            told = [theirs[n][slot] if theirs else None for n in ex.MIXES]
            cells = [Where(ex.mix(n), policy) for n in ex.MIXES]
            points = zip(cells, told, strict=True)
            counts[f"slot {slot}"] = [point_at(figures, f"chosen_{slot}", *each, 100.0) for each in points]
        shades = dict(zip(counts, SHADES, strict=True))
        _rates(axes[4 + column], counts, shades, f"{title}: slot chosen as partner [% of quanta]")
    return figure


def _sensitivity(figures: Figures) -> Any:
    """Draw figures 8 and 9: barriers a second of paired gang scheduling by mix, for sizes of the cluster and grains."""
    cells = {
        "nodes": {str(size): [ex.mix(n, size) for n in ex.MIXES] for size in ex.SIZES},
        "million null statements": {f"{grain:g}": [ex.mix(n, grain=grain) for n in ex.MIXES] for grain in ex.GRAINS},
    }
    figure, axes = grid(2, 2)
    for row, (what, names) in enumerate(cells.items()):
        for column, kind in enumerate(ex.KINDS):
            lines = {
                f"{label} {what}": [point_at(figures, ex.rate(kind), Where(name, ex.PAIRED)) for name in line]
                for label, line in names.items()
            }
            shades = dict(zip(lines, SHADES, strict=True))
            _rates(axes[2 * row + column], lines, shades, f"barriers/s of {TITLES[kind]}, {ex.PAIRED}")
    return figure


# By the end of their file's name.
PICTURES: Final[Mapping[str, Callable[[Figures], Any]]] = {
    "": loads,
    "-static": _static,
    "-sensitivity": _sensitivity,
    "-jobs": jobs_by_load,
    "-others": jobs_of_others,
    "-phases": phases,
    "-prediction": scatter,
}
