"""The pages of docs/reference are as the programs print them now."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from scripts.reference_pages import main
from scripts.reference_pages.policies import TRACE
from scripts.reference_pages.records import fields_of, records

from cosched_emulator import simulate
from cosched_emulator.cli.main import cli as emulator
from cosched_emulator.results.figures import metrics, run_energy
from cosched_emulator.results.figures.run_energy import energy_of
from cosched_emulator.results.record_columns import job_columns, stay_columns
from cosched_hwmodel.energy import NodePower
from cosched_plugin.cli.main import cli as plugin
from cosched_plugin.protocol.messages import NodeClass


def test_the_reference_is_up_to_date() -> None:
    assert main.stale() == [], "run scripts/reference"


def test_a_changed_and_a_strange_page_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "page_text", "the page {}\n".format)  # to make the pages takes a minute
    for name in (*main.PAGES, *main.MANUAL):
        (tmp_path / name).write_text(main.page_text(name), encoding="utf-8")
    assert main.stale(tmp_path, tmp_path) == []
    first = next(iter(main.PAGES))
    (tmp_path / first).write_text("by hand", encoding="utf-8")
    (tmp_path / "strange.md").touch()
    assert main.stale(tmp_path, tmp_path) == ["strange.md", first]


def test_manual_pages_have_every_option_and_no_words_that_are_commands() -> None:
    for name, program in (("cosched-emulator", emulator), ("cosched-plugin", plugin)):
        page = (main.MAN / f"{name}.1").read_text(encoding="utf-8")
        for each in program.commands:
            command = program.load(each)
            section = page.partition(f".SH {name} {each}\n".replace("-", "\\-"))[2].partition("\n.SH ")[0]
            options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
            for option in options:
                assert option.opts[-1].replace("-", "\\-") in section, (each, option.name)
        known = re.compile(r"\.(\\\"|TH|SH|SS|PP|TP|B|nf|fi)( |$)")
        assert [line for line in page.splitlines() if line[:1] in (".", "'") and not known.match(line)] == []


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_prints_the_pages_without_a_warning() -> None:
    for name in main.MANUAL:
        command = ["man", "--warnings", "--local-file", str(main.MAN / name)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert (ran.stderr, "SYNOPSIS" in ran.stdout) == ("", True)


def test_every_field_of_every_record_has_a_meaning() -> None:
    """The meaning of a field is the comment beside it; `fields_of` finds those that a named tuple really has."""
    for name, kind in records().items():
        found = fields_of(kind)
        if hasattr(kind, "_fields"):
            assert [field for field, _, _ in found] == list(kind._fields), name
        else:
            slots = [slot for slot in kind.__slots__ if not slot.startswith("_")]  # type: ignore[attr-defined]
            assert sorted(field for field, _, _ in found) == sorted(slots), name
        assert [field for field, _, meaning in found if not meaning] == [], name


def test_no_key_and_no_column_is_without_a_meaning() -> None:
    for page in ("scenario.md", "run-folder.md", "imports.md", "view.md"):
        lines = (main.FOLDER / page).read_text(encoding="utf-8").splitlines()  # up to date, as is tested above
        assert [line for line in lines if line.endswith("|  |")] == []


def test_the_summary_has_the_figures_that_the_reference_names() -> None:
    """Figures of preempted jobs, of polling and of slots are in a summary only where there are any."""
    summary = metrics.summarise([], [])
    assert list(metrics.SUMMARY) == list(summary)
    sometimes = ("preemptions", "preemptions_per_job", "peak_swap_mb")
    assert [name for name in metrics.MACHINE if name not in sometimes] == list(summary["machine"])
    shared = {"cpu_utilisation": None}
    machine = [NodeClass(1, 1, 1, 1, 1, 0, 0, 0)]
    energy = energy_of([], machine, [NodePower(1.0, 1.0, 1.0)], metrics.ALL_JOBS, shared).figures
    assert list(run_energy.FIGURES) == list(energy)
    turns = metrics.TimeSharingTotals().figures(job_columns([]), stay_columns([]), machine, 1)
    assert list(metrics.TURNS) == list(turns)


LOMARC: dict[str, Any] = {"cluster": {"nodes": 16, "preset": "lomarc-ht"}, "truth": {"contention": "lomarc"}}
TRACED: dict[str, dict[str, Any]] = {
    "easy": {},
    "conservative": {"workload": {"limits": "none", "estimates": "f-model"}},
    "lomarc-r": {**LOMARC, "workload": {"characteristics": "M1"}},
    "glts": {
        "cluster": {"nodes": 16, "preset": "g-lomarc-2x2", "swap_mb": 1_000_000},
        "truth": {"contention": "statistical"},
        "workload": {"self_slowdowns": "table4", "grow": True},
    },
    "paired-gang": {"time_sharing": {"quantum_s": 60.0}, "workload": {"run_factor": 0.05}},
}


@pytest.mark.parametrize("policy", TRACED)
def test_a_trace_tells_only_what_the_reference_lists(policy: str) -> None:
    table: dict[str, Any] = dict(TRACED[policy])
    workload = {"lublin": 60, **table.pop("workload", {})}
    records: list[dict[str, Any]] = []
    simulate({"cluster": {"nodes": 16}, **table, "workload": workload}, policy, trace=records)
    words = {kind["name"]: {*re.findall(r"`(\w+)`", kind["fields"])} for kind in TRACE["kinds"]}
    words["start"] = {name for item in TRACE["start"] for name in item["names"]}
    for record in records:
        assert record.keys() - {"at_us", "kind"} <= words[record["kind"]], record
        for key, fields in (("group", "group"), ("partners", "search"), ("hosts", "search")):
            if isinstance(record.get(key), dict):
                assert record[key].keys() <= {name for item in TRACE[fields] for name in item["names"]}, record
    assert any(record["kind"] == "start" for record in records)
