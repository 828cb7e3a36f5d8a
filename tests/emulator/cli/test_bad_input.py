"""Each kind of bad input gives one line and exit code 2, without output files and without a wait.

Among them are those of ``scripts/scenarios/bad-input.sh``, without the shell.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import Commands, assert_one_line
from tests.emulator.cli.conftest import Run

FILES = {
    "broken.toml": "x = [\n",
    "key.toml": "[cluster]\nnoods = 3\n",
    "section.toml": "[clustr]\nnodes = 3\n",
    "type.toml": '[cluster]\nnodes = "three"\n',
    "script.toml": '[workload]\nlublin = 5\n[[script]]\nat_s = 1\ndo = "fail-node"\nnode = 128\n',
    "policy.toml": '[workload]\nlublin = 5\n[policy]\npreset = "easy"\n',
    "short.swf": "; MaxProcs: 4\n1 0 1 2 3\n",
    "word.swf": "1 0 1 two 1 -1 -1 1 9 -1 1 1 1 1 1 -1 -1 -1\n",
    "empty.swf": "",
    "whole.swf": "1 0 1 2 1 -1 -1 1 9 -1 1 1 1 1 1 -1 -1 -1\n",
}
RUN = ("simulate", "--lublin", "5")  # of five jobs
EMULATOR = [
    (("simulate", "missing.toml"), "missing.toml"),
    (("simulate", "broken.toml"), "broken.toml: expected TOML"),
    (("simulate", "key.toml"), "did you mean 'nodes'?"),
    (("simulate", "section.toml"), "did you mean 'cluster'?"),
    (("simulate", "type.toml"), "type.toml: cluster.nodes: expected a whole number"),
    (("simulate", "script.toml"), "script[0].node: expected a node from 0 to 127"),
    (("serve", "policy.toml", "--bind", "ipc://socket"), "the scheduler that connects brings its own"),
    (("simulate",), "expected one source of jobs: swf, lublin, nas or applications, got none"),
    (("simulate", "--swf", "missing.swf"), "missing.swf"),
    (("simulate", "--swf", "short.swf"), "short.swf:2: expected 18 fields, got 5"),
    (("simulate", "--swf", "word.swf"), "word.swf:1"),
    (("simulate", "--swf", "empty.swf"), "empty.swf: expected at least one job"),
    (("simulate", "--swf", "binary.swf"), "binary.swf:1"),
    (("simulate", "--swf", "cut.swf.gz"), "cut.swf.gz"),
    (
        ("simulate", "--swf", "whole.swf", "--lublin", "5"),
        "expected one source of jobs: swf, lublin, nas or applications, got swf and lublin",
    ),
    (("workload", "describe", "missing.swf"), "missing.swf"),
    ((*RUN, "--policy", "ruaa"), "no policy 'ruaa'; did you mean 'rua'?"),
    ((*RUN, "--policy", "lct", "--set", "placement.treshold=1"), "did you mean 'threshold'?"),
    ((*RUN, "--policy", "lct", "--set", "placement.threshold=0.5"), "expected a number >= 1"),
    ((*RUN, "--policy", "lct", "--set", "placement"), "expected KEY=VALUE"),
    ((*RUN, "--policy", "nothing.of.this:Name"), "policy nothing.of.this:Name"),
    ((*RUN, "--node", "rua"), "rua-4way"),
    ((*RUN, "--nodes", "3", "--processors", "5"), "expected either nodes or processors, got both"),
    ((*RUN, "--mix", "1:2"), "expected three whole shares"),
    ((*RUN, "--aarr", "nan"), "expected a number above 0"),
    ((*RUN, "--estimates", "f-model", "--estimate-factor", "-1"), "workload.estimate_factor"),
    ((*RUN, "--out", "there"), "there: expected a new folder"),
    ((*RUN, "--out", "there", "--force"), "there: "),
    ((*RUN, "--policy", "least_work.LeastWork"), "; a class of yours is MODULE:CLASS, such as least_work:LeastWork"),
    ((*RUN, "--policy", ""), "no policy ''"),
    ((*RUN, "--set", "backfil=easy"), "policy.backfil: no such key; did you mean 'backfill'?"),
    ((*RUN, "--annotations", ""), "Invalid value for '--annotations': expected the name of a file, got ''"),
    ((*RUN, "--out", "run", "--trace", "run"), "run: expected run/trace.jsonl, or a file outside the run folder"),
    (
        (*RUN, "--out", "run", "--trace", "../bad/./run/"),
        "/run/: expected run/trace.jsonl, or a file outside the run folder",
    ),
    ((*RUN, "--out", "run", "--trace", "run.partial"), "run.partial: expected run/trace.jsonl, or a file outside"),
    ((*RUN, "--memory-gb", "nan"), "Invalid value for '--memory-gb': expected a number, got nan"),
    (
        (*RUN, "--nodes", "9", "--machine", "none.toml"),
        "cluster: expected either a file or other keys, got file and nodes",
    ),
    ((*RUN, "--first", "2"), "workload.first: remove it: it has no effect without jobs of workload.swf"),
    ((*RUN, "--nodes", "99999999999"), "at most 1048576 nodes, got 99999999999"),
    ((*RUN, "--link", "carrier-pigeon"), "Invalid value for '--link'"),
    ((*RUN, "a.toml", "b.toml"), "Got unexpected extra argument (b.toml)"),
    (("simulate", "--lublin", "zero"), "zero"),
    (("simulate", "--nodse", "5"), "--nodse"),
    (("simulat",), "simulat"),
    (("serve", "--lublin", "5"), "--bind"),
    (("serve", "--lublin", "5", "--bind", "tcp://192.0.2.1:5555"), "192.0.2.1 is not a loopback address"),
    (("serve", "--lublin", "5", "--bind", "nonsense"), "expected ipc://PATH or tcp://"),
    (("compare", "missing"), "missing: expected a run folder"),
    (("compare", "there"), "folder without summary.json"),
    (("plot", "there", "--kind", "ecdf", "--out", "picture.png"), "expected a run folder"),
    (("plot", "there", "--out", "picture.png"), "Missing option '--kind'. Choose from: ecdf, quanta"),
]
PLUGIN = [
    (("serve",), "--connect"),
    (("serve", "--connect", "tcp://192.0.2.1:5555"), "192.0.2.1 is not a loopback address"),
    (("serve", "--connect", "ipc://socket", "--policy", "ruaa"), "did you mean 'rua'?"),
]


def test_bad_input_is_refused_in_one_line(
    run: Run, commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = commands.folder = tmp_path / "bad"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "binary.swf").write_bytes(b"\0\377\1\n")
    (folder / "cut.swf.gz").write_bytes(gzip.compress(FILES["whole.swf"].encode())[:-9])
    (folder / "there").mkdir()
    before = sorted(folder.rglob("*"))
    for arguments, text in EMULATOR:
        assert text in assert_one_line(run(*arguments, manager=False), 2), arguments
    for arguments, text in PLUGIN:
        assert text in assert_one_line(commands.plugin(*arguments), 2, "cosched-plugin"), arguments
    assert sorted(folder.rglob("*")) == before


def test_a_group_without_a_command_prints_its_help(run: Run) -> None:
    ran = run("workload", manager=False)
    assert (ran.code, ran.out) == (2, "")
    assert "\nCommands:\n  convert " in ran.err
    assert "error" not in ran.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to write to")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (("cosched_emulator", "simulate", "--lublin", "5"), ""),
        (("cosched_plugin", "--help"), "1"),
        pytest.param(
            ("cosched_emulator", "workload", "lublin", "--jobs", "5", "--out", "-"), "1", marks=pytest.mark.slow
        ),
    ],
)
def test_output_to_a_full_disk_is_one_line(arguments: tuple[str, ...], unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env={"PYTHONUNBUFFERED": unbuffered},
            timeout=60,
            check=False,
        )
    program = arguments[0].replace("_", "-")
    assert ran.returncode == 1
    assert ran.stderr.decode().splitlines()[-1] == f"{program}: error: standard output: No space left on device"
    assert b"Traceback" not in ran.stderr


def test_a_working_directory_that_is_gone_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"rmdir ../gone; exec {sys.executable} -m cosched_emulator simulate --lublin 5 --out run"
    ran = subprocess.run(["sh", "-c", command], cwd=tmp_path / "gone", capture_output=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert ran.stderr.decode() == "cosched-emulator: error: the working directory is not there any more\n"
