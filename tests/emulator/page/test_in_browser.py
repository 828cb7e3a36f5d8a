"""The report in Chromium: it opens from disk without a request, and its charts take keys and say what they show."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.browser import CHROMIUM, Browser, browser
from tests.emulator.page.conftest import EVIL
from tests.emulator.page.test_page import written

from cosched_emulator import simulate

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

CHART = "charts.find((chart) => chart.area)"


@pytest.fixture(scope="module")
def page(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    written(run_folder, "-o", file)
    return file


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def shown(chromium: Browser, page: Path) -> Iterator[Browser]:
    """The page, freshly loaded; whatever a test does, nothing is fetched and nothing written to the console."""
    chromium.requests.clear()
    chromium.open(page)
    yield chromium
    assert chromium.requests == [page.as_uri()]
    assert chromium.errors == []


def test_every_figure_has_a_name_keys_and_a_table(shown: Browser) -> None:
    figures = shown.run("document.querySelectorAll('figure').length")
    assert figures >= 8
    reached = (
        "[...document.querySelectorAll('figure [tabindex=\"0\"][role][aria-label]')].map((e) => e.closest('figure').id)"
    )
    assert len(set(shown.run(reached))) == figures
    shown.run("document.querySelectorAll('figure details').forEach((details) => (details.open = true))")
    shown.run("new Promise((done) => setTimeout(done, 100))")  # a table is made when it is opened
    rows = shown.run("[...document.querySelectorAll('figure')].map((f) => f.querySelectorAll('tbody tr').length)")
    assert min(rows) >= 50
    shown.run("document.querySelectorAll('.jobs p button')[1].focus()")
    for expected in ("jobs 51 to 100 of 300", "jobs 101 to 150 of 300"):  # the focus stays on the button
        shown.run("document.activeElement.click()")
        assert expected in shown.run("document.querySelector('.jobs').innerText")


def test_a_screen_reader_finds_named_parts_only(shown: Browser) -> None:
    nodes = [node for node in shown.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    named = ("figure", "application", "table", "Canvas", "img")
    parts = [(node["role"]["value"], node["name"]["value"]) for node in nodes if node["role"]["value"] in named]
    assert [part for part in parts if not part[1]] == []
    assert ("figure", "Jobs on nodes, shared") in parts
    assert shown.run("[...document.querySelectorAll('[role=group]')].filter((part) => !part.ariaLabel).length") == 0


def test_pixels_count_the_jobs_on_a_node(shown: Browser) -> None:
    """At every pixel the hue tells how many jobs are on the node at its middle, which is counted here one by one."""
    wrong = shown.run(f"""(() => {{
        const chart = {CHART}, {{ boxes, view, image, pixels, fills, empty }} = chart;
        const {{ t0, t1, n0, n1 }} = view, wrong = [];
        let seen = new Set();
        for (let y = 3; y < image.height; y += 7) for (let x = 0; x < image.width; x += 3) {{
            const time = t0 + ((x + 0.5) / image.width) * (t1 - t0), node = n1 - ((y + 0.5) / image.height) * (n1 - n0);
            const part = Math.floor((node - Math.floor(node)) * chart.rows(image.height).bands);
            const held = chart.in_bands(chart.rows(image.height).bands, chart.threads_of[Math.floor(node)]);
            let on_node = 0, here = 0;
            boxes.job.forEach((_, i) => {{
                if (boxes.start[i] > time || boxes.end[i] <= time) return;
                if (boxes.first[i] > node || boxes.first[i] + boxes.count[i] <= node) return;
                on_node++;
                here += held[boxes.mask[i]][part];
            }});
            const hue = Math.floor(fills.indexOf(pixels[y * image.width + x]) / 3) + 1;
            const is_gap = pixels[y * image.width + x] === empty || pixels[y * image.width + x] === chart.edge;
            if (here && !is_gap && hue !== Math.min(3, on_node)) wrong.push([x, y, hue, on_node]);
            if (here && !is_gap) seen.add(on_node);
        }}
        return {{ wrong, seen: [...seen] }};
    }})()""")
    assert wrong["wrong"] == []
    assert {1, 2} <= set(wrong["seen"])


def test_keys_move_zoom_and_step_through_jobs(shown: Browser) -> None:
    def view() -> list[float]:
        """Return what is seen, once it is painted."""
        shown.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")
        scale = f"{CHART}.plot.scales.x"
        found: list[float] = shown.run(f"[{scale}.min, {scale}.max]")
        return found

    shown.run(f"{CHART}.area.focus()")
    begin, end = view()
    shown.key("+")
    low, high = view()
    assert high - low == pytest.approx((end - begin) / 2)
    shown.key("ArrowRight")
    assert view()[0] > low
    shown.key("-")
    shown.key("0")
    assert view() == [begin, end]
    shown.key("n")
    first = said(shown)
    assert first.startswith("Job 1 of user </script>")  # said as text
    assert EVIL in first
    assert "It started because" in first  # from the decision trace
    shown.key("n")
    second = said(shown, first)
    assert second.startswith("Job 3 ")  # the next one to start
    shown.key("p")
    assert said(shown, second) == first


def said(shown: Browser, before: str = "") -> str:
    """Return what the live region says, once that is something new."""
    until = time.monotonic() + 30
    while True:
        text: str = shown.run("document.querySelector('figure.schedule .said[aria-live=polite]').textContent")
        if text != before:
            return text
        assert time.monotonic() < until


def test_lines_say_their_values(shown: Browser) -> None:
    shown.run("charts[0].place.focus()")
    shown.key("ArrowRight")
    text = shown.run("document.querySelector('figure.lines .said').textContent")
    assert text.startswith("time 0 s: shared ")
    assert text.endswith(" %")


def test_paper_is_white_also_where_the_screen_is_dark(chromium: Browser, page: Path) -> None:
    chromium.open(page, dark=True)
    free = "getComputedStyle(document.documentElement).getPropertyValue('--free').trim()"
    colours = f"[{free}, {CHART}.empty >>> 0, {CHART}.plot.width]"
    dark = chromium.run(colours)
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    paper = chromium.run(colours)
    chromium.run("dispatchEvent(new Event('afterprint'))")
    assert paper[1] != dark[1]
    assert paper[1] & 0xFF > 0xF0  # its red: as good as white
    assert paper[2] < dark[2]
    assert chromium.run(colours) == dark


def test_colours_show_the_gpus_of_each_node_and_words_say_them(
    chromium: Browser, gpu_run: Path, tmp_path: Path
) -> None:
    """At every pixel the shade tells how many quarters of the node's GPUs are taken, which is counted here one by one."""
    written(gpu_run, "-o", tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    script = f"""(async () => {{
        const chart = {CHART}, choice = chart.place.querySelector("select");
        choice.selectedIndex = 1;
        choice.dispatchEvent(new Event("change"));
        await new Promise((done) => setTimeout(done, 200));
        const {{ boxes, view, image, pixels, levels, empty, counted: [gpu] }} = chart, wrong = [], seen = new Set();
        for (let y = 3; y < image.height; y += 7) for (let x = 0; x < image.width; x += 3) {{
            const time = view.t0 + ((x + 0.5) / image.width) * (view.t1 - view.t0);
            const node = Math.floor(view.n1 - ((y + 0.5) / image.height) * (view.n1 - view.n0));
            let taken = 0;
            boxes.job.forEach((job, i) => {{
                const there = boxes.first[i] <= node && node < boxes.first[i] + boxes.count[i];
                if (there && boxes.start[i] <= time && time < boxes.end[i]) taken += gpu.amounts[job];
            }});
            const pixel = pixels[y * image.width + x];
            if (pixel !== (taken ? levels[taken - 1] : empty)) wrong.push([time, node, taken, levels.indexOf(pixel)]);
            seen.add(taken);
        }}
        const one = [...boxes.job.keys()].find((i) => gpu.amounts[boxes.job[i]] === 2), at = (boxes.start[one] + boxes.end[one]) / 2;
        return [wrong, [...seen].sort(), [view.n0, view.n1], nodeText(chart, boxes.first[one], at), chart.sentence(boxes.job[one])];
    }})()"""
    wrong, seen, nodes, of_node, of_job = chromium.run(script)
    assert wrong == []
    assert {0, 4} < set(seen)
    assert len(seen) > 3
    assert nodes == [3, 5]  # those that have any
    assert re.fullmatch(r"Node [34]: in all, gpu, [234] of 4 gpu taken\.", of_node)
    assert re.match(
        r"Job \d+ .*of user \d+, in partition gpu, with QOS high, asked for .*, and on each node for gpu:2\. It", of_job
    )
    assert chromium.errors == []


def test_a_phone_needs_no_sideways_scrolling(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=400)
    assert chromium.run("document.documentElement.scrollWidth") <= 400


def test_two_runs_have_axes_of_equal_length_that_move_together(
    chromium: Browser, run_folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "longer"
    scenario = {"cluster": {"nodes": 16, "preset": "lomarc-ht"}, "truth": {"contention": "lomarc"}}
    simulate({**scenario, "workload": {"lublin": 300, "characteristics": "M1"}}, "pss", out=other)
    written(run_folder, other, "-o", tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=1400)
    settled = (
        "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
    )
    times = "charts.filter((chart) => chart.data.time || chart.area).map(({ plot }) => [plot.scales.x.min, plot.scales.x.max])"
    schedules = "charts.filter((chart) => chart.area)"
    whole, moved, dragged, widths = chromium.run(f"""(async () => {{
        const found = [{times}], [first, second] = {schedules};
        first.set_view({{ ...first.view, t0: 1000, t1: 9000 }});
        {settled};
        found.push({times});
        charts[0].plot.setScale("x", {{ min: 2000, max: 4000 }});
        {settled};
        return [...found, {times}, [first.plot.bbox.width, second.plot.bbox.width]];
    }})()""")
    assert len(whole) == 7
    first, second = whole[-2:]
    assert first == second
    # Lines have one value an interval, from the same begin to nearly the same end.
    assert [axis[0] for axis in whole] == [0] * len(whole)
    assert all(axis[1] == pytest.approx(first[1], rel=0.001) for axis in whole)
    assert moved == [[1000, 9000]] * len(whole)
    assert dragged == [[2000, 4000]] * len(whole)
    assert widths[0] == widths[1]
    assert chromium.errors == []


def test_times_are_hours_and_days_and_shades_are_explained(shown: Browser) -> None:
    texts = "[clock(9_504_000), clock(7200), clock(5), mark(9_504_000, 3600), mark(86_400, 86_400), mark(21_600, 3600)]"
    assert shown.run(texts) == ["110 d 0:00:00", "2:00:00", "5 s", "110 d", "1 d", "6 h"]
    assert "lighter or darker: another job" in shown.run("document.querySelector('.legend').innerText")
    # What a button is called has the word on it, so that it can be said.
    said = """[...document.querySelectorAll("button")].map((button) => [button.textContent, button.ariaLabel])
        .filter(([text, label]) => label && /[a-z]/i.test(text))
        .filter(([text, label]) => !label.toLowerCase().includes(text.replace(/[^a-z]/gi, "").toLowerCase()))"""
    assert shown.run(said) == []
