"""The report: how large its page is, how long it takes to build, and how many frames a second a browser paints of its chart."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.bench.process import Figures, in_process, memory_mb
from scripts.browser import CHROMIUM, browser
from scripts.tables import aligned_table

from cosched_emulator import simulate

MOST_S: Final = 900.0  # longest time of one measurement
GOALS: Final = {"shared": (3.0, 3.0, 30.0), "many": (10.0, None, None)}  # MB, seconds to build, frames a second
# The view changes with every frame; painted frames are counted by the chart itself.
FRAMES: Final = """(async () => {
    const chart = charts.find((each) => each.area), { all } = chart, span = all.t1 - all.t0, found = {};
    const views = {
        all: (i) => ({ ...all, t1: all.t1 - (i % 2) * 0.001 * span }),
        zoom: (i) => ({ ...all, t0: all.t0 + 0.4 * span, t1: all.t0 + 0.4 * span + span * 0.6 * 0.98 ** (i % 200) }),
        tenth: (i) => ({ ...all, t0: all.t0 + (i % 800) * 0.001 * span, t1: all.t0 + (0.1 + (i % 800) * 0.001) * span }),
    };
    for (const [name, view] of Object.entries(views)) {
        const began = performance.now(), painted = chart.frames;
        for (let i = 0; performance.now() - began < MOST_MS; i++) {
            chart.set_view(view(i));
            await new Promise(requestAnimationFrame);
        }
        found[name] = ((chart.frames - painted) * 1000) / (performance.now() - began);
    }
    return found;
})()"""


class Extent(NamedTuple):
    """Numbers of jobs: on shared nodes, also many; in one picture."""

    shared: int = 10_000
    many: int = 50_000
    picture: int = 300_000
    view_ms: int = 2_000  # how long each kind of view is changed


def measure(extent: Extent, tell: Callable[[str], None]) -> Iterator[Figures]:
    """Yield the figures of the page for each kind of run, and of the picture."""
    cluster = {"nodes": 128, "preset": "lomarc-ht"}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for kind, jobs, policy in (("shared", extent.shared, "lomarc-r"), ("many", extent.many, "easy")):
            tell(f"a page of {jobs:,} jobs")
            run = folder / kind
            workload = {"lublin": jobs, "characteristics": "M1"}
            scenario = {"cluster": cluster, "workload": workload, "truth": {"contention": "lomarc"}}
            simulate(scenario, policy, out=run, trace=run / "trace.jsonl")
            page = folder / f"{kind}.html"
            command = ["report", str(run), "--out", str(page)]
            built = in_process(run_command, command, timeout_s=MOST_S)
            shown = (
                {"mb": page.stat().st_size / 1e6, **frames(page, folder / "profile", extent.view_ms)}
                if page.exists()
                else {}
            )
            yield {"what": f"page, {policy}", "kind": kind, "jobs": jobs, **built, **shown}
        tell(f"a picture of {extent.picture:,} jobs")
        run = folder / "picture"
        simulate({"cluster": cluster, "workload": {"lublin": extent.picture}}, "easy", out=run)
        command = ["plot", str(run), "--kind", "gantt", "--out", str(folder / "x.png")]
        drawn = in_process(run_command, command, timeout_s=MOST_S)
        yield {"what": "plot --kind gantt, easy", "kind": "picture", "jobs": extent.picture, **drawn}


def run_command(arguments: Sequence[str]) -> Figures:
    """Carry out a command of the emulator; return its CPU time and this process's largest memory."""
    import resource  # noqa: PLC0415 - of this process alone

    from cosched_emulator.cli.main import cli  # noqa: PLC0415 - its import is part of what is measured

    before_s = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    sys.stdout = sys.stderr
    cli.main([*arguments], standalone_mode=False)
    return {"cpu_s": sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before_s, "memory_mb": memory_mb("VmHWM")}


def frames(page: Path, profile: Path, view_ms: int) -> Figures:
    """Return how long a page takes to be drawn, and how many frames a second its chart paints in three kinds of view."""
    if CHROMIUM is None:
        return {"frames": "no chromium"}
    with browser(profile) as shown:
        shown.open(page)
        drawn_ms = shown.run("performance.now()")
        assert shown.errors == [], shown.errors
        script = FRAMES.replace("MOST_MS", str(view_ms))
        return {"drawn_ms": drawn_ms, "frames": json.loads(shown.run(f"{script}.then(JSON.stringify)"))}


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the figures as a table, with goals in brackets."""
    header = ("what", "jobs", "CPU s", "memory MB", "page MB", "drawn ms", "frames/s: all", "zoom", "a tenth")
    body = []
    for row in rows:
        goals = GOALS.get(row["kind"], (None, None, None))
        shown = row.get("frames", {})
        views = [shown.get(name) if isinstance(shown, dict) else None for name in ("all", "zoom", "tenth")]
        cells = [(row.get("cpu_s"), goals[1]), (row.get("memory_mb"), None), (row.get("mb"), goals[0])]
        cells += [(row.get("drawn_ms"), None), *((view, goals[2]) for view in views)]
        body.append((row["what"], f"{row['jobs']:,}", *(_cell(*cell) for cell in cells)))
    reasons = [f"{row['what']}: {row['reason']}" for row in rows if "reason" in row]
    return [*aligned_table(header, body, 1), *reasons, ""]


def _cell(value: float | None, goal: float | None) -> str:
    text = "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"{text} ({goal:g})" if goal is not None and text else text
