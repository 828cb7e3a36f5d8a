"""The report without a browser: what is in the file, and what is not."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from base64 import b64decode
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.emulator.page.conftest import EVIL

from cosched_emulator import simulate
from cosched_emulator.cli.report import report
from cosched_emulator.page.document import Bars, Beside, Block, Figure, Page, Paragraph, Section, Table, page_parts
from cosched_emulator.page.run_page import run_page
from cosched_emulator.page.run_tables import user_block
from cosched_emulator.page.schedule import pack_numbers, pack_texts, schedule_figure, shown_jobs
from cosched_emulator.results.figures.metrics import ALL_JOBS, population, quantity
from cosched_emulator.results.files.run_reader import read_owners, read_run
from cosched_emulator.results.harm import measure_harm, outcomes
from cosched_emulator.results.verdict import Told, run_verdict


def written(*arguments: object) -> str:
    """Return the output of a command that must succeed."""
    found = CliRunner().invoke(report, [str(each) for each in arguments], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def figures_of(page: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    figures: list[dict[str, Any]] = json.loads(found[1])
    return figures


def test_uplot_is_what_its_page_says() -> None:
    folder = files("cosched_emulator.page") / "assets" / "uplot"
    told = dict(re.findall(r"\| (\S+) \| ([0-9a-f]{64}) \|", (folder / "README.md").read_text()))
    assert set(told) == {"uPlot.iife.min.js", "uPlot.min.css", "LICENSE"}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in told} == told
    assert "(v1.6.32)" in (folder / "uPlot.iife.min.js").read_text()[:200]


def test_a_page_has_nothing_to_fetch(run_folder: Path, tmp_path: Path) -> None:
    written(run_folder, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert re.findall(r"<(?:link|img|iframe|script src|base)\b", page) == []


def test_a_name_is_text_everywhere(run_folder: Path, tmp_path: Path) -> None:
    written(run_folder, "-o", tmp_path / "page.html", "--title", EVIL)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert EVIL not in page
    assert "<img" not in page
    (chart,) = [figure for figure in figures_of(page) if figure["kind"] == "schedule"]
    assert EVIL in chart["users"]


def test_all_parts_of_a_page_escape() -> None:
    row = [[EVIL, EVIL]]
    blocks: list[Block] = [Paragraph(EVIL), Table(EVIL, [EVIL, EVIL], row), Table(EVIL, [EVIL, EVIL], row, closed=True)]
    beside = Beside([Paragraph(EVIL)], Table(EVIL, [EVIL, EVIL], row, stacked=True))
    bars = Bars(EVIL, EVIL, [EVIL], [1.0], [0.5], [None])
    page = Page(EVIL, [*blocks, bars, beside], [Section(EVIL, blocks)])
    text = "".join(page_parts(page))
    assert "<img" not in text
    assert text.count("<script>") == text.count("</script>") - 1  # the last is that of the data


def test_the_first_line_says_what_the_runs_show(run_folder: Path, tmp_path: Path) -> None:
    scenario = {"cluster": {"nodes": 16, "preset": "lomarc-ht"}, "truth": {"contention": "lomarc"}}
    simulate({**scenario, "workload": {"lublin": 300, "characteristics": "M1"}}, "pss", out=tmp_path / "pss")
    simulate({**scenario, "workload": {"lublin": 30}}, "pss", out=tmp_path / "few")

    def first_line(*folders: Path) -> str:
        page = run_page(folders, [folder.name for folder in folders], "")
        text = "".join(page_parts(page))
        header = text[text.index("<header>") : text.index("<nav")]
        (line,) = re.findall(r"<p class=headline>(.*)</p>", header)
        return str(line)

    runs = [read_run(folder).jobs for folder in (tmp_path / "pss", run_folder)]
    base_s, mean_s = (quantity(jobs, "response_s", population(jobs, "finished", ALL_JOBS)).mean() for jobs in runs)
    line = first_line(tmp_path / "pss", run_folder)
    way = "sooner" if mean_s < base_s else "later"
    assert line.startswith(f"Jobs respond {way} under shared than under pss: ")
    assert f"{100 * (mean_s / base_s - 1):+.1f} %; " in line
    base, run = (outcomes(each.jobs, each.machine) for each in map(read_run, (tmp_path / "pss", run_folder)))
    harm = measure_harm(run, [base])
    assert line.endswith(f"; {harm.figures.later} of 300 jobs ({harm.figures.later / 3:.1f} %) respond later.")
    assert first_line(run_folder).startswith("shared: 300 of 300 jobs completed; on average they waited ")
    assert first_line(run_folder, tmp_path / "few").startswith("Different workloads: mean response under shared ")


def test_several_seeds_differ_only_where_their_interval_says_so() -> None:
    def told(name: str, *responses_s: float) -> Told:
        figures = {"finished": {"response_s": {"mean": 0.0}}}
        return Told(
            name, {seed: {**figures, "finished": {"response_s": {"mean": s}}} for seed, s in enumerate(responses_s)}
        )

    def verdict(*columns: Told) -> str:
        return run_verdict(columns, (3600.0, "h"), alike=True, same_jobs=True)

    easy, sooner = told("easy", 7200, 9000, 8000), told("b", 3600, 4600, 3900)
    assert verdict(easy, sooner).startswith("Jobs respond sooner under b than under easy: 1.12 h instead of 2.24 h ")
    unclear = told("c", 9000, 7000, 8100)
    assert verdict(easy, unclear).startswith("Responses under c and easy cannot be told apart: ")
    assert verdict(easy, unclear, sooner).startswith(
        "Of 3 runs or policies b has the shortest responses; compared with easy: "
    )
    close = told("d", 3700, 4500, 4000)
    assert verdict(easy, unclear, sooner, close).startswith(
        "Of 4 runs or policies b has the shortest responses, not to be told from those of d; compared with easy: "
    )
    assert verdict(sooner, unclear, easy).startswith(
        "None of 2 others is shown to have shorter responses than b, 1.12 h on average; "
    )


def test_what_is_not_known_has_no_section_and_one_unit_serves_all_times_of_jobs(tmp_path: Path) -> None:
    simulate({"cluster": {"nodes": 4, "preset": "1x1x1"}, "workload": {"lublin": 50}}, "easy", out=tmp_path / "run")
    page = run_page([tmp_path / "run"], ["run"], "")
    titles = [section.title for section in page.sections]
    assert "Energy" not in titles
    assert "Users" not in titles
    told = [block.text for block in page.sections[-1].blocks if isinstance(block, Paragraph)]
    assert "The watts of the nodes were not given, so the energy is not known." in told
    tables = [block for block in page.lead if isinstance(block, Table)]
    units = {row[1] for table in tables for row in table.rows if row[0].startswith(("wait", "response"))}
    assert len(units) == 1


def test_bars_are_apart_beside_an_interval_that_is_much_wider() -> None:
    """Of an interval to 900 % only a part is drawn, and an arrow says so; the table has all of it."""
    bars = Bars("change", "%", ["a", "b", "c"], [-10.0, -40.0, 5.0], [-90.0, -50.0, 0.0], [900.0, -30.0, 10.0])
    text = "".join(page_parts(Page("", [bars], [])))
    (axis,) = re.findall(r'<div class="bar"><span></span>.*', text)
    assert [float(mark) for mark in re.findall(r">([-\d.]+)</text>", axis)] == [0, -85, 50]
    places = [float(place) for place in re.findall(r'<circle cx="([\d.]+)%"', text)]
    assert places == pytest.approx([100 * (mean + 85) / 135 for mean in (-10, -40, 5)], abs=0.01)
    assert text.count("\u25b6") == text.count("\u25c0") == 1
    assert "<td>900</td>" in text


def test_a_verdict_below_figures_does_not_make_a_column_of_texts() -> None:
    def classes(marks: dict[tuple[int, int], str]) -> list[str]:
        table = Table("", ["", "baseline"], [["mean", "381"], ["verdict", "credible"]], marks=marks)
        return re.findall(r'<td class="([\w ]+)"', "".join(page_parts(Page("", [table], []))))

    assert classes({(1, 1): "good"}) == ["good"]
    assert classes({}) == ["text", "text"]
    assert classes({(0, 1): "good", (1, 1): "bad"}) == ["text good", "text bad"]


def test_over_several_seeds_figures_and_losers_are_of_all_and_the_rest_says_its_seed(tmp_path: Path) -> None:
    """The page had the classes and the losers of the first seed in a column that says (3 seeds)."""
    runs = {}
    for seed in (1, 2, 3):
        scenario = {"cluster": {"nodes": 16, "preset": "lomarc-ht"}, "truth": {"contention": "lomarc"}}
        jobs = {"lublin": 60, "characteristics": "M1", "load": 1.0}
        for policy in ("pss", "lomarc-r"):
            folder = tmp_path / f"{policy}-{seed}"
            simulate({**scenario, "workload": jobs}, policy, seed=seed, out=folder)
            runs[policy, seed] = read_run(folder)
    folders = [tmp_path / f"{policy}-{seed}" for policy in ("pss", "lomarc-r") for seed in (1, 2, 3)]
    page = run_page(folders, [folder.name for folder in folders], "")
    tables = {b.caption: b for section in page.sections for b in section.blocks if isinstance(b, Table)}
    harms = {
        seed: measure_harm(
            outcomes(runs["lomarc-r", seed].jobs, runs["lomarc-r", seed].machine),
            [outcomes(runs["pss", seed].jobs, runs["pss", seed].machine)],
        )
        for seed in (1, 2, 3)
    }
    by_seed = tables["lomarc-r against pss, by seed"].rows
    assert [(row[0], row[2]) for row in by_seed] == [
        (f"seed {seed}", f"{harms[seed].figures.later:,}") for seed in harms
    ]
    assert len({row[2] for row in by_seed}) > 1
    (means,) = [table for caption, table in tables.items() if "means over 3 seeds" in caption]
    shares = [100 * (harm.figures.h1 or 0) for harm in harms.values()]
    assert means.rows[0][2].startswith(f"{sum(shares) / 3:.2f} (")
    (losses,) = [table for caption, table in tables.items() if "the largest losses" in caption]
    assert {row[losses.headings.index("seed")] for row in losses.rows} > {"2"}
    (response,) = [table for caption, table in tables.items() if caption.startswith("Response: end")]
    base = [run.jobs for (policy, _), run in runs.items() if policy == "pss"]
    mean_s = [quantity(jobs, "response_s", population(jobs, "all", ALL_JOBS)).mean() for jobs in base]
    *_, unit, pss, _ = response.rows[-1]
    assert float(pss.partition(" ")[0]) == pytest.approx(
        sum(mean_s) / 3 / {"h": 3600, "min": 60, "s": 1}[unit], rel=0.01
    )
    assert [caption for caption in tables if "(3 seeds)" in caption] == []
    part = [folder for folder in folders if folder.name in ("pss-2", "pss-3", "lomarc-r-1", "lomarc-r-2")]
    shared = run_page(part, [folder.name for folder in part], "")
    captions = [b.caption for section in shared.sections for b in section.blocks if isinstance(b, Table)]
    assert "lomarc-r, seed 2 against pss, seed 2, by class of job" in captions
    assert [block.title for block in page.sections[1].blocks if isinstance(block, Figure)] == [
        "Jobs on nodes, pss, seed 1", "Jobs on nodes, lomarc-r, seed 1",
    ]  # fmt: skip


def test_users_have_jobs_hours_and_waits_and_add_up_to_all(gpu_run: Path) -> None:
    run = read_run(gpu_run)
    table = user_block("run", run, read_owners(gpu_run, run.jobs), (60.0, "min"))
    assert isinstance(table, Table)
    (_, *total), *users = table.rows
    waits = quantity(run.jobs, "wait_s", population(run.jobs, "finished", run.selection)) / 60
    assert table.headings[3:5] == ("wait, mean min", "wait, p95 min")
    assert [float(cell.replace(",", "")) for cell in total[2:4]] == pytest.approx(
        [waits.mean(), np.percentile(waits, 95)], rel=0.01
    )
    assert sum(int(row[1]) for row in users) == int(total[0]) == 60
    assert sum(float(row[2]) for row in users) == pytest.approx(float(total[1]), rel=0.01)


def test_gpus_and_partitions_have_charts_and_tables(gpu_run: Path) -> None:
    page = run_page([gpu_run], ["run"], "")
    blocks = {block.title if isinstance(block, Figure) else getattr(block, "caption", ""): block
              for section in page.sections for block in section.blocks}  # fmt: skip
    jobs = blocks["Jobs, by partition"]
    assert isinstance(jobs, Table)
    assert [(row[0], row[2]) for row in jobs.rows] == [('"all"', "30"), ("gpu", "30"), ("all", "60")]
    assert "Jobs, by qos" in blocks
    assert "Jobs, by account" not in blocks
    chart = blocks["Taken of gpu"]
    assert isinstance(chart, Figure)
    run = read_run(gpu_run)
    owners, (_, size) = read_owners(gpu_run, run.jobs), run.machine
    stays = run.stays
    taken_us = (owners.counted("gpu")[stays.job] * stays.node_count * (stays.end_us - stays.start_us)).sum()
    (series,) = chart.data["series"]
    span_us = int(stays.end_us.max() - run.jobs.submit_us.min())
    share = 100 * taken_us / (4 * size.nodes) / span_us
    assert sum(series["values"]) / len(series["values"]) == pytest.approx(share, rel=1e-3)
    drawn = blocks["Jobs on nodes, run"]
    assert isinstance(drawn, Figure)
    assert drawn.data["partitions"] == ((0, 3, "all"), (3, 2, "all, gpu"))


def test_a_page_is_written_once(run_folder: Path, tmp_path: Path) -> None:
    """The same run gives the same bytes, and an older file is not replaced unasked."""
    for name in ("a.html", "b.html"):
        written(run_folder, "-o", tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    with pytest.raises(Exception, match="--force"):
        written(run_folder, "-o", tmp_path / "a.html")
    written(run_folder, "-o", tmp_path / "a.html", "--force")


@pytest.mark.parametrize("values", [[], [0], [7, 7, 7], [5, -3, 2**52, 0], [-1000, 10, -20]])
def test_numbers_come_back(values: list[int]) -> None:
    packed = pack_numbers(np.array(values, dtype=np.int64))
    planes = np.frombuffer(zlib.decompress(b64decode(packed["data"])), dtype=np.uint8)
    planes = planes.reshape(packed["planes"], len(values))
    steps = [sum(int(plane[i]) << (8 * k) for k, plane in enumerate(planes)) for i in range(len(values))]
    signed = [-(step + 1) // 2 if step % 2 else step // 2 for step in steps]
    assert (np.cumsum(signed, dtype=np.int64) * packed["unit"]).tolist() == values


def test_texts_come_back() -> None:
    assert json.loads(zlib.decompress(b64decode(pack_texts(["", "a", "ü </script>"])))) == ["", "a", "ü </script>"]


def test_a_chart_says_what_it_leaves_out(run_folder: Path) -> None:
    run = read_run(run_folder)
    owners = read_owners(run_folder, run.jobs)
    whole = schedule_figure("", run, owners, shown_jobs(run))
    assert (whole.note, whole.data["jobs"]["id"]["count"]) == ("", 300)
    for limits in ((100, 10**6), (10**6, 120)):
        shown = shown_jobs(run, *limits)
        assert 0 < shown.jobs.size <= limits[0]
        assert shown.stays.size <= limits[1]
        part = schedule_figure("", run, owners, shown)
        assert f"the first {shown.jobs.size} of 300 jobs" in part.note
        assert part.data["end_s"] < whole.data["end_s"]


def test_trace_events_hold_what_the_run_held(run_folder: Path, tmp_path: Path) -> None:
    """Node time by thread is that of the allocations, and no two events of a thread overlap, which viewers refuse."""
    written(run_folder, "-o", tmp_path / "run.json", "--format", "trace")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    stays = read_run(run_folder).stays
    held = [event for event in events if event["ph"] == "X"]
    assert sum(event["dur"] for event in held) == int(
        (stays.threads * stays.node_count * (stays.end_us - stays.start_us)).sum()
    )
    assert EVIL in {event["args"]["user"] for event in held}
    ends: dict[tuple[int, int], int] = {}
    for event in sorted(held, key=lambda event: (event["ts"], event["dur"])):
        thread = (event["pid"], event["tid"])
        assert event["ts"] >= ends.get(thread, 0)
        ends[thread] = event["ts"] + event["dur"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{none}"], "expected a run folder, got nothing of that name"),
        (["{run}", "{run}"], "every run once"),
        (["{run}", "{run}", "--format", "trace"], "--format trace is of one run"),
        (["{run}", "--format", "trace", "--title", "x"], "--title is for a page only"),
    ],
)
def test_what_cannot_be_reported_is_refused(
    run_folder: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    words = [word.format(run=run_folder, none=tmp_path / "none") for word in arguments]
    found = CliRunner().invoke(report, [*words, "-o", str(tmp_path / "x")])
    assert found.exit_code != 0
    assert message in f"{found.output}{found.exception}"
    assert not (tmp_path / "x").exists()
