"""The decision trace on the command line: the same through every coupling, and safe to write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.commands import RUN_FILES, SMALL, Commands, assert_one_line
from tests.emulator.explain.traces import PAIRS, SCENARIO
from tests.processes import PACKAGES, ended

from cosched_emulator import simulate as run_scenario
from cosched_emulator.cli.main import cli
from cosched_emulator.errors import EmulatorError, InputError
from cosched_emulator.explain.trace_reader import read_trace
from cosched_emulator.results.files.run_folder import trace_place
from cosched_plugin.common.errors import PolicyError, UsageError
from cosched_plugin.common.trace_file import TraceFile
from cosched_plugin.config import choose


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that runs ``cosched-emulator simulate`` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PACKAGES))  # for plugin processes

    def run_it(*arguments: str) -> None:
        CliRunner().invoke(cli, ["simulate", *arguments], catch_exceptions=False)

    return run_it


def test_every_coupling_writes_the_same_trace(simulate: Callable[..., None], tmp_path: Path) -> None:
    written = {}
    for link in ("direct", "loopback", "zmq"):
        name = f"{link}.jsonl"
        simulate("--lublin", "60", "--nodes", "32", *PAIRS, "--policy", "lomarc-r", "--link", link, "--trace", name)
        written[link] = (tmp_path / name).read_bytes()
    assert written["direct"] == written["loopback"] == written["zmq"]
    records = [json.loads(line) for line in written["direct"].splitlines()]
    assert sum(record["kind"] == "start" for record in records) == 60
    assert any("partner" in record.get("partners", ()) for record in records)
    assert [record["at_us"] for record in records] == sorted(record["at_us"] for record in records)
    assert all(list(record)[:3] == ["at_us", "kind", "job"] for record in records)


def test_a_trace_in_the_run_folder(simulate: Callable[..., None], tmp_path: Path) -> None:
    asked = (*SMALL, "--out", "runs/a", "--trace", "runs/a/trace.jsonl")
    simulate(*asked)
    folder = tmp_path / "runs" / "a"
    assert {path.name for path in folder.iterdir()} == RUN_FILES | {"trace.jsonl"}
    assert [path.name for path in folder.parent.iterdir()] == ["a"]
    first = (folder / "trace.jsonl").read_bytes()
    with pytest.raises(InputError, match="expected a new folder"):
        simulate(*asked)
    simulate(*asked, "--force")
    assert (folder / "trace.jsonl").read_bytes() == first
    assert [path.name for path in folder.parent.iterdir()] == ["a"]
    with pytest.raises(
        InputError, match=r"^runs/b/my\.jsonl: expected runs/b/trace\.jsonl, or a file outside the run folder$"
    ):
        simulate(*SMALL, "--out", "runs/b", "--trace", "runs/b/my.jsonl")


def _try(trace: Path, *, force: bool = True) -> None:
    with trace_place(str(trace), None, force=force):
        pass


def test_a_run_without_a_decision_is_reported_and_explained(simulate: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n1 0 -1 10 9 -1 -1 9 60 -1 1 1 1 1 -1 -1 -1 -1\n")
    simulate("--swf", "log.swf", "--out", "run", "--trace", "run/trace.jsonl")
    assert not (tmp_path / "run" / "trace.jsonl").read_bytes()
    assert CliRunner().invoke(cli, ["report", "run", "-o", "run.html"], catch_exceptions=False).exit_code == 0
    with pytest.raises(EmulatorError, match="job 1 never started; the manager gives the reason '9 processes wanted"):
        CliRunner().invoke(cli, ["explain", "1", "run"], catch_exceptions=False)


def test_an_existing_trace_is_an_error_before_the_run(tmp_path: Path) -> None:
    there = tmp_path / "t.jsonl"
    there.write_text('{"at_us":1}\n')
    hint = r"t\.jsonl: expected a new file for the trace \(--force replaces an older one\), got one that exists"
    with pytest.raises(InputError, match=hint):
        _try(there, force=False)
    _try(there)
    assert [*tmp_path.iterdir()] == []
    there.write_text("my only copy")
    with pytest.raises(InputError, match="a trace to replace, got something else, which is kept"):
        _try(there)
    assert there.read_text() == "my only copy"
    for wrong in (tmp_path, tmp_path / "none" / "t.jsonl"):
        with pytest.raises(UsageError, match="expected a file"):
            _try(wrong)
    with pytest.raises(UsageError, match="something else of that name"):
        TraceFile("/dev/null", force=True)


@pytest.mark.parametrize("link", ["direct", "zmq"])
def test_a_run_that_is_refused_keeps_the_older_trace(simulate: Callable[..., None], tmp_path: Path, link: str) -> None:
    simulate(*SMALL, "--policy", "fcfs", "--db", "a.db")
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"at_us":1}\n')
    with pytest.raises(InputError, match="a database of the same policy"):
        simulate(*SMALL, "--policy", "easy", "--db", "a.db", "--trace", "t.jsonl", "--force", "--link", link)
    assert trace.read_text() == '{"at_us":1}\n'
    simulate(*SMALL, "--policy", "easy", "--trace", "t.jsonl", "--force", "--link", link)
    assert {path.name for path in tmp_path.iterdir()} >= {"a.db", "t.jsonl"}
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".replaced")]
    assert sum(record["kind"] == "start" for record in read_trace("t.jsonl")) >= 15


def test_what_an_interrupted_run_has_left_is_replaced(simulate: Callable[..., None], tmp_path: Path) -> None:
    asked, left = (*SMALL, "--out", "a", "--trace", "a/trace.jsonl"), tmp_path / "a.partial.trace.jsonl"
    left.write_text('{"at_us":1,"ki')
    with trace_place("a/trace.jsonl", "a", force=False) as place, open(place, "x") as stream:
        stream.write('{"at_us":2,')
        with pytest.raises(InputError, match=r"a\.partial\.trace\.lock: .* got one that another run is writing"):
            simulate(*asked)
    assert left.read_text() == '{"at_us":2,'
    simulate(*asked)
    assert {path.name for path in tmp_path.iterdir()} == {"a"}
    assert sum(record["kind"] == "start" for record in read_trace("a/trace.jsonl")) >= 15


def test_an_unwritable_trace_is_an_error_in_one_line(commands: Commands) -> None:
    ran = commands.emulator("simulate", *SMALL, "--link", "zmq", "--trace", "none/t.jsonl")
    assert assert_one_line(ran, 2) == "none/t.jsonl: expected a file that can be written, got No such file or directory"


def test_a_plugin_writes_a_trace_and_refuses_an_old_one(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    manager = commands.start("cosched_emulator", "serve", *SMALL, "--bind", endpoint)
    served = commands.plugin("serve", "--connect", endpoint, "--trace", "t.jsonl", "--quiet")
    assert (served.code, ended(manager).code) == (0, 0)
    assert len((commands.folder / "t.jsonl").read_text().splitlines()) >= 15
    again = assert_one_line(commands.plugin("serve", "--connect", endpoint, "--trace", "t.jsonl"), 2, "cosched-plugin")
    assert again == "t.jsonl: expected a new file for the trace, got one that exists"


def test_a_failing_run_leaves_its_trace(tmp_path: Path) -> None:
    choice = choose("lomarc-r")

    class Failing:
        def __init__(self) -> None:
            self.policy, self.passes = choice.make(), 0

        def decide(self, view: Any) -> Any:
            self.passes += 1
            if self.passes == 40:
                raise ValueError("no idea")
            return self.policy.decide(view)

    file = tmp_path / "t.jsonl"
    failing = choice._replace(make=Failing)
    with pytest.raises(PolicyError, match="no idea"):
        run_scenario(SCENARIO, failing, trace=file)
    assert [record["kind"] for record in read_trace(str(file))].count("start") > 5


def test_values_without_a_form_in_json_are_the_policys_fault(tmp_path: Path) -> None:
    with TraceFile(tmp_path / "t.jsonl") as file:
        for value in (float("nan"), {1}):
            with pytest.raises(
                PolicyError, match=r"^the policy failed: the fact 'why' in its 'mine' records of the trace: "
            ):
                file.write({"at_us": 1, "kind": "mine", "why": value})
        file.write({"at_us": 1, "kind": "mine", "text": "ü\n"})
    assert (tmp_path / "t.jsonl").read_bytes() == b'{"at_us":1,"kind":"mine","text":"\\u00fc\\n"}\n'
    with pytest.raises(KeyError), TraceFile(tmp_path / "empty.jsonl"):
        raise KeyError
    assert not (tmp_path / "empty.jsonl").exists()
