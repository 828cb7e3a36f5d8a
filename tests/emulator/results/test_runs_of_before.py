"""Run folders, traces and studies that released programs have written: today's program says the same of them.

``data/VERSION.tar.xz`` has the runs ``pss`` and ``lomarc-r`` of ``s.toml`` (with a decision trace), the study ``study`` of ``e.toml``,
and in ``answers`` what commands of that version said of them with ``--json``. Databases:
`tests.emulator.accounting.test_databases_of_before`.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands

DATA: Final = Path(__file__).parent / "data"
ASKED: Final = {
    "compare": ("compare", "pss", "lomarc-r"),
    "classes": ("classes", "pss", "lomarc-r"),
    "losers": ("losers", "lomarc-r", "--baseline", "pss"),
    "explain": ("explain", "55", "lomarc-r"),
    "table": ("study", "table", "study"),
}


def missing(before: Any, today: Any, path: str = "") -> list[str]:
    """Return what an answer of before has, and today's has not, or otherwise."""
    if isinstance(before, dict) and isinstance(today, dict):
        return [text for key, value in before.items() for text in missing(value, today.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(today, list) and len(before) == len(today):
        pairs = enumerate(zip(before, today, strict=True))
        return [text for place, (one, other) in pairs for text in missing(one, other, f"{path}[{place}]")]
    return [] if before == today else [f"{path}: {before}, today {today}"]


@pytest.fixture(params=sorted(file.name.removesuffix(".tar.xz") for file in DATA.glob("*.tar.xz")))
def released(request: pytest.FixtureRequest, commands: Commands) -> Commands:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as file:
        file.extractall(commands.folder, filter="data")
    return commands


def test_commands_say_the_same_of_runs_and_studies_of_before(released: Commands) -> None:
    for name, words in ASKED.items():
        ran = released.emulator(*words, "--json")
        assert ran.code == 0, ran.err
        before = json.loads((released.folder / "answers" / f"{name}.json").read_text())
        assert missing(before, json.loads(ran.out), name) == []


def test_a_page_of_them_is_written(released: Commands) -> None:
    for words in (("pss", "lomarc-r"), ("study",)):
        ran = released.emulator("report", *words, "-o", "page.html", "--force")
        assert ran.code == 0, ran.err
        assert "lomarc-r" in (released.folder / "page.html").read_text()


def test_a_study_of_before_is_known_to_be_done(released: Commands) -> None:
    status = released.emulator("study", "status", "study")
    assert status.code == 0, status.err
    assert "4 of 4" in status.out
