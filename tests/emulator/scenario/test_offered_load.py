"""A scenario's offered load and shaken run times, with the other settings of its workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.prepare import prepare as prepare_scenario
from cosched_emulator.run.run import run
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

WEEK_S = 7 * 86_400
ROW = "{} {} -1 {} {} -1 -1 {} {} -1 1 {} 1 {} -1 -1 -1 -1\n"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return a log of four weeks and eight processors, with four users; one job in five is longer than its estimate."""
    file = tmp_path / "log.swf"
    rows = [
        ROW.format(
            number,
            number * WEEK_S // 12,
            36_000,
            1 + number % 4,
            1 + number % 4,
            estimate_s,
            number % 4,
            50 + number % 3,
        )
        for number in range(48)
        for estimate_s in (30_000 if number % 5 == 0 else 40_000,)
    ]
    file.write_text("; MaxProcs: 8\n" + "".join(rows) + ROW.format(48, 4 * WEEK_S, 60, 1, 1, 60, 1, 50))
    return str(file)


def prepare(log: str, **workload: object) -> Prepared:
    return prepared_of({"workload": {"swf": log, **workload}})


def prepared_of(table: dict[str, Any]) -> Prepared:
    return prepare_scenario(read_scenario(None, table))


def summary_of(prepared: Prepared) -> dict[str, Any]:
    return run(prepared, DirectLink(choose("easy").scheduler)).summary


def test_a_log_without_a_machine(log: str) -> None:
    Path(log).write_text(Path(log).read_text().replace("; MaxProcs: 8\n", ""))
    with pytest.raises(ConfigurationError, match=r"^workload.load: expected a size of the cluster"):
        prepare(log, load=0.5)
    table = {"workload": {"swf": log, "load": 0.5}, "cluster": {"nodes": 8}}
    assert summary_of(prepared_of(table))["machine"]["offered_load"] == 0.5
