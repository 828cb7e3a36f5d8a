"""The command cosched-emulator: help, results, errors in one line, exit codes, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import ROW, RUN_FILES, SMALL, Commands, assert_one_line
from tests.processes import ended, is_alive, run_python, wait_until

from cosched_emulator.cli.main import cli
from cosched_hwmodel.models.by_name import OF_PAIRS

# A slow policy: every pass writes its process id, then sleeps.
SLOW = """
import os, time
from cosched_plugin.policies.composition.composed import compose

class Slow:
    def __init__(self):
        self._policy = compose({})

    def decide(self, view):
        with open("pid", "w") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(0.1)
        return self._policy.decide(view)

class Broken:
    def decide(self, view):
        raise ValueError("no idea")
        yield

class Wrong:
    def decide(self, view):
        from cosched_plugin.api import StartJob
        for job in view.queue:
            yield StartJob(job.id, ((0, 1, 1, 1),), 0, None)
"""


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


HELPER = """
import sys
from cosched_emulator.cli.main import cli
for command in sys.argv[1:]:
    for flag in ("--help", "-h"):
        print("<<<", command, flag)
        try:
            cli.main([*command.split(), flag], prog_name="cosched-emulator")
        except SystemExit as end:
            assert end.code == 0, end
heavy = {"numpy", "zmq", "msgpack", "matplotlib", "sqlite3"} & set(sys.modules)
assert not heavy, f"start-up pays for what it does not use: {heavy}"
"""


def all_commands() -> Iterator[str]:
    yield ""
    for name in cli.commands:
        yield name
        yield from [f"{name} {each}" for each in getattr(cli.load(name), "commands", ())]


def test_help_is_quick_and_has_an_example() -> None:
    code, out, err = run_python("-c", HELPER, *all_commands())
    assert (code, err) == (0, "")
    told = dict(text.split("\n", 1) for text in out.split("<<< ")[1:])
    for command in all_commands():
        usage = f"Usage: cosched-emulator {command}".rstrip()
        assert told[f"{command} --help"] == told[f"{command} -h"]
        assert told[f"{command} -h"].startswith(usage), command
        group = command.partition(" ")[0]
        examples = told[f"{command} -h"] + told[f"{group} -h"]
        assert command in ("", "workload", "keys revoke") or f"  cosched-emulator {command}" in examples, command


def test_the_summary_as_json(commands: Commands) -> None:
    code, out, err = commands.emulator(
        "simulate", *SMALL, "--mix", "high", "--node", "rua-4way", "--policy", "rua", "--json"
    )
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert summary["policy"] == "rua"
    assert summary["refused_actions"] == 0
    assert summary["states"]["COMPLETED"] == summary["ran"] == 15
    assert {"selection", "machine", "finished", "all", "killed"} <= set(summary)
    assert 0 < summary["machine"]["utilisation"] <= 1
    assert summary["finished"]["wait_s"]["count"] == 15


def test_the_summary_as_a_table(commands: Commands) -> None:
    code, out, err = commands.emulator("simulate", *SMALL, "--policy", "sjbf")
    assert code == 0
    assert re.match(r" +sjbf\n-+\njobs counted +15\ncompleted +15\n", out)
    speed = r"[\d.]+ s \([\d,]+ jobs/s\)"
    assert re.search(rf"^15 jobs in {speed}; with reading and writing {speed}$", err, re.MULTILINE)


def test_characteristics_are_stored_with_the_run_and_read_back(commands: Commands) -> None:
    (commands.folder / "usage.csv").write_text("job,cpu,network,disk,memory\n3,0,0.25,0.75,1\n")
    lomarc = ("--contention", "lomarc", "--usage-noise", "0.25", "--belief-usage", "exact")
    drawn = ("--characteristics", "M1", "--annotations", "usage.csv")
    code, _, err = commands.emulator("simulate", *SMALL, *lomarc, *drawn, "--out", "first")
    assert code == 0, err
    assert "annotations usage.csv: 1 jobs by job, 14 jobs not in it; 0 jobs without characteristics" in err
    config = json.loads((commands.folder / "first" / "run.json").read_text())["config"]
    assert (config["truth"]["contention"], config["belief"]["usage_noise"], config["belief"]["usage"]) == (
        "lomarc",
        0.25,
        "exact",
    )
    stored = files_of(commands.folder / "first")
    assert set(stored) == RUN_FILES | {"workload-usage.csv"}
    assert b"\n3,disk,0.000000,0.250000,0.750000,1.000000\n" in stored["workload-usage.csv"]
    again = ("--swf", "first/workload.swf", "--nodes", "16", "--limits", "none")
    code, _, err = commands.emulator(
        "simulate", *again, *lomarc, "--annotations", "first/workload-usage.csv", "--out", "second"
    )
    assert code == 0, err
    for name in ("workload-usage.csv", "allocations.csv"):  # a log's short estimates are raised, so jobs.csv differs
        assert (commands.folder / "second" / name).read_bytes() == stored[name], name
    missing = assert_one_line(commands.emulator("simulate", *SMALL, "--annotations", "none.csv"), 2)
    assert missing.startswith("none.csv: expected a file that can be read")


def test_options_reach_the_run(commands: Commands) -> None:
    (commands.folder / "jobs.swf").write_text("".join(ROW.format(n, 10 * n, 50, 1, 1, 20) for n in range(1, 9)))
    code, out, _ = commands.emulator(
        "simulate", "--swf", "jobs.swf", "--first", "1", "--jobs", "5", "--warmup", "2", "--processors", "6", "--cores", "4",
        "--limits", "none", "--estimates", "exact", "--seed", "3", "--out", "run", "--json",
    )  # fmt: skip
    assert code == 0
    config = json.loads((commands.folder / "run" / "run.json").read_text())
    assert config["seed"] == 3
    assert [item["nodes"] * item["cores_per_socket"] for item in config["machine"]] == [4, 2]
    assert config["workload"]["jobs"] == 5
    assert config["config"]["policy"]["name"] == "easy"
    summary = json.loads(out)
    assert summary["selection"] == {"jobs": 5, "warmup": 2, "cooldown": 0, "counted": 3}
    assert summary["states"]["TIMEOUT"] == 0


def test_a_run_folder_appears_whole(commands: Commands) -> None:
    code, _, _ = commands.emulator("simulate", *SMALL, "--out", "runs/a")
    assert code == 0
    folder = commands.folder / "runs"
    assert [path.name for path in folder.iterdir()] == ["a"]  # no .partial
    first = files_of(folder / "a")
    assert set(first) == RUN_FILES
    (commands.folder / "marker").touch()

    refused = commands.emulator(
        "simulate", "--lublin", "1000000", "--nodes", "128", "--out", "runs/a"
    )  # would take minutes
    assert (
        assert_one_line(refused, 2)
        == "runs/a: expected a new folder (--force replaces an old run), got one that exists"
    )
    assert files_of(folder / "a") == first

    code, _, _ = commands.emulator("simulate", *SMALL, "--seed", "2", "--out", "runs/a", "--force")
    assert code == 0
    assert [path.name for path in folder.iterdir()] == ["a"]
    assert files_of(folder / "a")["jobs.csv"] != first["jobs.csv"]


def test_force_never_removes_other_folders(commands: Commands) -> None:
    mine = commands.folder / "thesis"
    mine.mkdir()
    (mine / "chapter").write_text("1")
    refused = commands.emulator("simulate", "--lublin", "1000000", "--out", "thesis", "--force")
    assert (
        assert_one_line(refused, 2)
        == "thesis: expected a run folder to replace, got one with something else in it, which is kept"
    )
    assert files_of(mine) == {"chapter": b"1"}


def test_jobs_larger_than_the_machine_are_rejected_and_the_rest_runs(commands: Commands) -> None:
    (commands.folder / "jobs.swf").write_text(ROW.format(1, 0, 50, 9, 9, 60) + ROW.format(2, 0, 50, 2, 2, 60))
    code, out, err = commands.emulator("simulate", "--swf", "jobs.swf", "--nodes", "4", "--json")
    assert code == 0
    why = "9 processes wanted, the machine holds 4 of this kind"
    assert err == f"warning: 1 of the jobs that count were rejected; the first one of all, job 1: {why}\n"
    assert (json.loads(out)["states"]["REJECTED"], json.loads(out)["states"]["COMPLETED"]) == (1, 1)


def test_a_job_that_its_partition_refuses_is_told_with_that_reason(commands: Commands) -> None:
    """It was said to be too large, and explain said that the policy said nothing of it."""
    (commands.folder / "jobs.swf").write_text(ROW.format(1, 0, 50, 2, 2, 900) + ROW.format(2, 0, 50, 2, 2, 60))
    (commands.folder / "site.toml").write_text(
        "[workload]\nswf = 'jobs.swf'\n[cluster]\nnodes = 4\n"
        "[[partitions]]\nname = 'short'\nmax_time_s = 600\ndefault = true\n"
    )
    ran = commands.emulator("simulate", "site.toml", "--out", "r", "--trace", "r/trace.jsonl")
    why = "900 s wanted, a job of partition short has at most 600 s"
    assert f"rejected; the first one of all, job 1: {why}\n" in ran.err
    told = assert_one_line(commands.emulator("explain", "1", "r"), 1)
    assert told.endswith(f"job 1 never started; the manager gives the reason {why!r}")


def test_jobs_that_never_end_are_an_error(commands: Commands) -> None:
    (commands.folder / "held.toml").write_text(
        "[workload]\nlublin = 4\n[[script]]\nat_s = 0\ndo = 'fail-node'\nnode = 0\n[cluster]\nnodes = 1\n"
    )
    code, out, err = commands.emulator("simulate", "held.toml", "--json")
    assert code == 1
    assert json.loads(out)["states"]["UNFINISHED"] == 4
    told = r"cosched-emulator: error: 4 jobs never ended, .* left to happen after \d+ s: 1, 2, 3, 4; easy has started no job\n"
    assert re.fullmatch(told, err)


def test_a_scenario_with_its_policy(commands: Commands) -> None:
    (commands.folder / "my.toml").write_text(
        "[workload]\nlublin = 15\n[cluster]\nnodes = 16\n[policy]\npreset = 'easy'\nbackfill = 'sjbf'\n"
    )
    results = {
        arguments: json.loads(commands.emulator("simulate", "my.toml", "--json", *arguments).out)
        for arguments in ((), ("--policy", "fcfs"), ("--set", "backfill=none"), ("--set", "backfill=sjbf"))
    }
    assert results[()] == results[("--set", "backfill=sjbf")]
    fcfs, none = results[("--policy", "fcfs")], results[("--set", "backfill=none")]
    assert {**fcfs, "policy": ""} == {**none, "policy": ""}
    assert fcfs["policy"] == "fcfs"


def test_a_trace_beside_the_run_folder_stays_there(commands: Commands) -> None:
    for out, trace in (("a", str(commands.folder.resolve() / "a.trace.jsonl")), ("b", "b.trace.jsonl")):
        code, _, err = commands.emulator("simulate", *SMALL, "--out", out, "--trace", trace)
        assert code == 0, err
        assert (commands.folder / f"{out}.trace.jsonl").stat().st_size
        assert not (commands.folder / out / "trace.jsonl").exists()


def test_missing_settings_give_warnings(commands: Commands) -> None:
    (commands.folder / "usage.csv").write_text("job,cpu,network,memory\n99,0.5,0.5,1\n")
    asked = ("simulate", *SMALL, "--policy", "lomarc-r", "--annotations", "usage.csv", "--json")
    code, out, err = commands.emulator(*asked)
    assert (code, json.loads(out)["policy"]) == (0, "lomarc-r")
    assert err == (
        "warning: matching response will pair no jobs: the scheduler knows nothing of pairs "
        f'(truth.contention = "bandwidth"; give --contention {", ".join(OF_PAIRS[:-1])} or {OF_PAIRS[-1]})\n'
        "warning: usage.csv annotates none of the 15 jobs\n"
    )


def test_rows_that_cannot_be_read_may_be_skipped(commands: Commands) -> None:
    row = ROW.format(1, 0, 50, 2, 2, 60)
    (commands.folder / "word.swf").write_text(row + row.replace(" 50 ", " ten "))
    assert commands.emulator("simulate", "--swf", "word.swf", "--skip-bad-rows", "--nodes", "4").code == 0


def test_presets_are_listed(commands: Commands) -> None:
    code, out, _ = commands.emulator("presets", "--json")
    assert code == 0
    shapes = {shape["name"]: shape for shape in json.loads(out)}
    assert (shapes["rua-4way"]["threads"], shapes["rua-4way"]["memory_bandwidth_mbs"]) == (4, 6000)
    code, out, _ = commands.emulator("presets")
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(shapes)


# ---------------------------------------------------------------- two processes


def test_serve_and_serve_give_the_same_folder_as_simulate(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    manager = commands.start(
        "cosched_emulator", "serve", *SMALL, "--mix", "high", "--bind", endpoint, "--out", "two", "--json"
    )
    plugin = commands.start("cosched_plugin", "serve", "--connect", endpoint, "--policy", "lct")
    code, out, err = ended(manager)
    assert (code, err) == (0, "")
    assert json.loads(out)["policy"] == "lct"
    code, out, err = ended(plugin)
    assert (code, out) == (0, "")
    assert [line.split(" at ")[0] for line in err.splitlines()] == [
        "cosched-plugin: welcomed by the manager",
        "cosched-plugin: the manager said bye: the manager closes",
    ]
    assert commands.emulator("simulate", *SMALL, "--mix", "high", "--policy", "lct", "--out", "one").code == 0
    one, two = files_of(commands.folder / "one"), files_of(commands.folder / "two")
    first, second = json.loads(one.pop("run.json")), json.loads(two.pop("run.json"))
    # A manager knows only the name of the policy of a plugin that others started.
    assert second["config"].pop("policy") == {"name": first["config"].pop("policy")["name"]} == {"name": "lct"}
    assert first == second
    del one["timing.json"], two["timing.json"]
    assert one == two


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGKILL, -9, "")],
)
def test_a_run_that_is_stopped_leaves_no_process_and_no_files(
    number: signal.Signals, code: int, word: str, commands: Commands
) -> None:
    (commands.folder / "slow_policy.py").write_text(SLOW)
    deadline = "30" if word else "1.5"  # the plugin's patience with a silent manager follows from it
    emulator = commands.start(
        "cosched_emulator", "simulate", "--lublin", "500", "--policy", "slow_policy:Slow", "--link", "zmq", "--deadline", deadline,
        "--out", "run",
    )  # fmt: skip
    pid_file = commands.folder / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    plugin = int(pid_file.read_text())
    assert plugin != emulator.pid
    assert is_alive(plugin)
    emulator.send_signal(number)
    ran = ended(emulator)
    assert ran.code == code
    assert ran.err.strip() == (
        f"cosched-emulator: {word}" if word else ""
    )  # after ^C a terminal needs a new line first
    assert not (commands.folder / "run").exists()
    assert not (commands.folder / "run.partial").exists()
    if word:
        assert not is_alive(plugin)
        assert commands.left_over() == []
        return
    # A killed run cannot clean up: the plugin notices by itself, and the next run removes the directory once it is old.
    wait_until(lambda: not is_alive(plugin), 10)
    (directory,) = commands.left_over()
    os.utime(commands.folder / "t" / directory, (0, 0))
    assert commands.emulator("simulate", *SMALL, "--link", "zmq").code == 0
    assert commands.left_over() == []


def test_a_run_in_one_process_is_stopped_by_a_signal(commands: Commands) -> None:
    (commands.folder / "slow_policy.py").write_text(SLOW)
    emulator = commands.start("cosched_emulator", "simulate", "--lublin", "500", "--policy", "slow_policy:Slow")
    wait_until((commands.folder / "pid").exists)
    emulator.terminate()
    ran = ended(emulator)
    assert (ran.code, ran.out, ran.err.strip().count("\n")) == (143, "", 0)


def test_an_existing_file_or_socket_in_use_is_not_replaced(commands: Commands) -> None:
    precious = commands.folder / "precious.csv"
    precious.write_text("kept\n")
    refused = commands.emulator("serve", *SMALL, "--bind", f"ipc://{precious}", "--wait", "0.2")
    assert "something else" in assert_one_line(refused, 2)
    assert precious.read_text() == "kept\n"
    path = commands.folder / "listening"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        refused = commands.emulator("serve", *SMALL, "--bind", f"ipc://{path}", "--wait", "0.2")
        assert "no other process" in assert_one_line(refused, 2)
    # A socket left over by an ended process is replaced.
    assert "no scheduler" in assert_one_line(
        commands.emulator("serve", *SMALL, "--bind", f"ipc://{path}", "--wait", "0.2"), 3
    )
    assert "Missing option '--bind'" in assert_one_line(commands.emulator("serve", *SMALL), 2)


def test_errors_of_a_policy_end_the_run(commands: Commands) -> None:
    (commands.folder / "slow_policy.py").write_text(SLOW)
    for link, code in (("direct", 4), ("zmq", 3)):
        ran = commands.emulator("simulate", *SMALL, "--policy", "slow_policy:Wrong", "--link", link)
        assert "impossible decision StartJob(job_id=1" in assert_one_line(ran, code)
    ran = commands.emulator("simulate", *SMALL, "--policy", "slow_policy:Broken", "--link", "zmq")
    said = assert_one_line(ran, 3)
    assert "the scheduler reports policy: the policy failed: ValueError: no idea" in said
    assert "Traceback" not in said
    assert commands.left_over() == []


REJECTING = """\
from cosched_plugin.api import RejectJob
class Rejecting:
    def decide(self, view):
        yield from [RejectJob(job.id, "not\\ntoday") for job in view.queue]
"""


def test_a_policys_reason_of_several_lines_is_told_in_one(commands: Commands) -> None:
    (commands.folder / "rejecting.py").write_text(REJECTING)
    ran = commands.emulator("simulate", *SMALL, "--policy", "rejecting:Rejecting")
    assert ran.err.endswith("rejected; the first one of all, job 1: not today\n")


def test_closed_output_gives_no_traceback(commands: Commands) -> None:
    child = commands.start_python("-m", "cosched_emulator", "simulate", *SMALL, "--json")
    assert child.stdout is not None
    child.stdout.close()
    child.stdout = None
    _, err = child.communicate(timeout=30)
    assert "Traceback" not in err


def test_the_load_without_cut_run_times_is_reported(commands: Commands) -> None:
    rows = ROW.format(1, 0, 90, 2, 2, 60) + ROW.format(2, 100, 60, 2, 2, 60)
    (commands.folder / "cut.swf").write_text("; MaxProcs: 4\n" + rows)
    code, _, err = commands.emulator("simulate", "--swf", "cut.swf")
    assert code == 0
    assert "warning: run times cut to the estimate: 1 jobs, 20.0 % of the work lost (--no-cap-runs keeps it)" in err
    assert "offered load 0.750 as logged, 0.600 with run times cut" in err
    code, _, err = commands.emulator("simulate", "--swf", "cut.swf", "--no-cap-runs")
    assert code == 0
    assert "cut" not in err
