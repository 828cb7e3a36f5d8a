"""A site's facts in windows of its log: what of its script reaches into one, and what holds in all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.emulator.whatif.made import write_log

from cosched_emulator.whatif.candidates import Scale
from cosched_emulator.whatif.question import Question, prepare_question, study_of
from cosched_emulator.whatif.site_sections import site_of
from cosched_emulator.whatif.warm import script_of_window
from cosched_emulator.workload.side_files.annotations import read_annotations


@pytest.mark.parametrize(
    ("entry", "carried"),
    [
        ({"at_s": 50.0, "do": "drain-nodes", "nodes": "1", "until_s": 100.0}, None),
        ({"at_s": 50.0, "do": "drain-nodes", "nodes": "1"}, {"at_s": 0.0, "do": "drain-nodes", "nodes": "1"}),
        ({"at_s": 50.0, "do": "reserve", "until_s": 101.0}, {"at_s": 0.0, "do": "reserve", "until_s": 1.0}),
        ({"at_s": 5e6, "do": "reserve", "until_s": 6e6}, {"at_s": 5e6 - 100, "do": "reserve", "until_s": 6e6 - 100}),
        ({"at_s": 120.0, "do": "cancel", "job": 12}, {"at_s": 20.0, "do": "cancel", "job": 2}),
        ({"at_s": 120.0, "do": "cancel", "job": 14}, None),
        ({"at_s": 50.0, "do": "fail-node", "node": 1}, {"at_s": 0.0, "do": "fail-node", "node": 1}),
    ],
)
def test_a_window_has_what_of_the_sites_script_reaches_into_it(
    entry: dict[str, Any], carried: dict[str, Any] | None
) -> None:
    """The window has jobs 11 to 13, from second 100 on."""
    returned = {"at_s": 60.0, "do": "return-node", "node": 1}
    assert [*script_of_window([entry], 100.0, 10, 3)] == ([] if carried is None else [carried])
    if entry["do"] == "fail-node":
        assert [*script_of_window([returned, entry], 100.0, 10, 3)] == []


def test_windows_of_a_site_have_its_facts(tmp_path: Path) -> None:
    """Partitions, accounts, limits and outages hold in each window, and so does what is said of jobs, beside drawn programs, too."""
    log = write_log(tmp_path / "log.swf", 200)
    (tmp_path / "jobs.csv").write_text("job,user,partition,memory_mb,account\n7,,part,100,low\n,1,part,,\n")
    (tmp_path / "pairs.csv").write_text("application,a,b\na,1.1,1.2\nb,1.3,1.4\n")
    file = tmp_path / "site.toml"
    file.write_text(
        f'[cluster]\nnodes = 8\npreset = "1x2x1"\n[workload]\nswf = "{log}"\nannotations = "{tmp_path / "jobs.csv"}"\n'
        f'[truth]\ncontention = "pairs"\npairs = "{tmp_path / "pairs.csv"}"\n'
        '[[partitions]]\nname = "part"\nnodes = "0-3"\ndefault = true\n[[accounts]]\nname = "low"\nparent = "top"\n'
        '[[limits]]\naccount = "top"\njobs = 2\n[[script]]\nat_s = 0\ndo = "drain-nodes"\nnodes = "0"\n'
    )
    scale = Scale(windows=2, fewest=50)
    found = prepare_question(Question(site_of(str(file), {})[0], scale=scale), tmp_path / "out")
    assert not [each for each in found.assumptions if each.startswith("left out") and "truth" not in each]
    assert "no start is delayed for lack of memory" not in found.assumptions
    for cell in study_of(found).cells:
        if cell.names["variants"] in found.levers:
            continue
        site = cell.scenario
        assert (site.partitions[0].nodes, site.script[0].nodes) == ("0-3", "0")
        assert (site.accounts[0].parent, site.limits[0].jobs) == ("top", 2)
        said = read_annotations(str(site.workload.annotations))
        assert [*said.values["partitions"].values()] == [("part",), ("part",)]
        assert [*said.values["memory_mb"].values()] == [100]
