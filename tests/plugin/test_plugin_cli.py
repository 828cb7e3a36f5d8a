"""The command cosched-plugin: help, errors in one line, exit codes, and bounded waits."""

from __future__ import annotations

import json
import re
import signal
import time

import pytest
from tests.commands import SMALL, Commands, assert_one_line
from tests.processes import ended, run_python, wait_until

from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_plugin.cli.main import cli
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.presets import ALIASES, PRESETS

HELPS = [(), ("serve",), ("batsim",), ("slurm",), ("policies",), ("check",), ("status",)]
PROGRAM = "cosched-plugin"


HELPER = """
import sys
from cosched_plugin.cli.main import cli
for command in sys.argv[1:]:
    for flag in ("--help", "-h"):
        print("<<<", command, flag)
        try:
            cli.main([*command.split(), flag], prog_name="cosched-plugin")
        except SystemExit as end:
            assert end.code == 0, end
heavy = {"numpy", "zmq", "msgpack"} & set(sys.modules)
assert not heavy, f"start-up pays for what it does not use: {heavy}"
"""


def test_help_is_quick_and_has_an_example() -> None:
    code, out, err = run_python("-c", HELPER, *map(" ".join, HELPS))
    assert (code, err) == (0, "")
    told = dict(text.split("\n", 1) for text in out.split("<<< ")[1:])
    for command in map(" ".join, HELPS):
        usage = f"Usage: cosched-plugin {command}".rstrip()
        assert told[f"{command} --help"] == told[f"{command} -h"]
        assert told[f"{command} -h"].startswith(usage), command
        if command:
            example = rf"Example(, in two terminals)?:\s.*cosched-plugin {command}"
            assert re.search(example, told[f"{command} -h"], re.DOTALL), command


def test_every_command_is_tested() -> None:
    assert {(name,) for name in cli.commands} == set(HELPS[1:])


def test_the_catalogue_of_policies_is_listed(commands: Commands) -> None:
    code, out, err = commands.plugin("policies", "--json")
    assert (code, err) == (0, "")
    catalogue = json.loads(out)
    assert [preset["name"] for preset in catalogue["presets"]] == list(PRESETS)
    assert {kind: [part["name"] for part in parts] for kind, parts in catalogue["parts"].items()} == {
        kind: list(parts) for kind, parts in KINDS.items()
    }
    for preset in catalogue["presets"]:
        assert set(preset["policy"]) == set(KINDS)
    assert [model["name"] for model in catalogue["contention"]] == list(BUILT_IN)
    code, out, _ = commands.plugin("policies")
    assert code == 0
    assert "\n  statistical  built in\n" in out
    assert all(f"\n  {name}  " in out for name in (*PRESETS, *ALIASES))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--policy", "eazy"), "no policy 'eazy'; did you mean 'easy'?"),
        (("--policy", "none.toml"), "none.toml: No such file or directory"),
        (("--policy", "math:pi"), "policy math:pi: expected a class, got 3.14"),
        (("--set", "placement.x=1"), "policy.placement.x: placement first-fit has no such parameter"),
        (("--set", "x"), "--set x: expected KEY=VALUE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_configuration_is_an_error_before_connecting(
    arguments: tuple[str, ...], text: str, commands: Commands
) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    said = assert_one_line(commands.plugin("serve", "--connect", endpoint, *arguments), 2, PROGRAM)
    assert said.startswith(text)


def test_endpoints_beyond_the_machine_need_keys(commands: Commands) -> None:
    said = assert_one_line(commands.plugin("serve", "--connect", "tcp://192.0.2.1:5000"), 2, PROGRAM)
    assert "not a loopback address" in said


@pytest.mark.parametrize(
    "arguments", [("serve",), ("nope",), ("serve", "--connect", "ipc://x", "--wait", "-1"), ("check",)], ids=" ".join
)
def test_wrong_usage_is_an_error(arguments: tuple[str, ...], commands: Commands) -> None:
    code, out, err = commands.plugin(*arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].partition(":")[0].lower() in ("error", PROGRAM)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("serve", "--connect", "ipc://x", "--wait", "-1"), 2, "Invalid value for '--wait'"),
        (("serve", "--connect", "ipc://x", "--nope"), 2, "No such option"),
        (("serve", "--connect", "tcp://192.0.2.1:5000"), 2, "not a loopback address"),
        (("serve", "--connect", "ipc://x", "--policy", "nope"), 2, "no policy 'nope'"),
        (("serve", "--connect", "ipc://x", "--wait", "0.3"), 3, "no manager welcomed us at ipc://x within 0.3 s"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_with_log_json_the_error_is_json_too(
    arguments: tuple[str, ...], code: int, text: str, commands: Commands
) -> None:
    ran = commands.plugin(*arguments, "--log-json")
    assert (ran.code, ran.out) == (code, "")
    (line,) = ran.err.splitlines()
    told = json.loads(line)
    assert (told["level"], told["event"], told["exit_code"]) == ("error", "failed", code)
    assert text in told["text"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("ipc://nobody", "--timeout", "0.3"), 3, "ipc://nobody: no answer within 0.3 s"),
        (("tcp://192.0.2.1:5000",), 2, "not a loopback address"),
        (("ipc://@abstract",), 2, "abstract"),
        (("ipc://x", "--timeout", "0"), 2, "--timeout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_unavailable_status_is_an_error(
    arguments: tuple[str, ...], code: int, text: str, commands: Commands
) -> None:
    assert text in assert_one_line(commands.plugin("status", *arguments), code, PROGRAM)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--status=tcp://192.0.2.1:5000", "not a loopback address"),
        ("--status=ipc:///dev/null", "something else"),
        ("--metrics=0.0.0.0:9000", "not a loopback address"),
        ("--metrics=127.0.0.1", "port"),
    ],
)
def test_invalid_status_and_metrics_endpoints_are_refused(option: str, text: str, commands: Commands) -> None:
    said = assert_one_line(commands.plugin("serve", "--connect", "ipc://x", option), 2, PROGRAM)
    assert said.startswith(option.partition("=")[2])
    assert text in said


def test_without_a_manager_a_plugin_ends_in_time(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    started = time.monotonic()
    ran = commands.plugin("serve", "--connect", endpoint, "--wait", "0.5")
    assert time.monotonic() - started < 5
    assert assert_one_line(ran, 3, PROGRAM) == f"no manager welcomed us at {endpoint} within 0.5 s"


def test_a_second_plugin_is_refused_while_the_first_lives(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    (commands.folder / "patient.py").write_text(
        "import time\nclass Patient:\n    def decide(self, view):\n"
        "        open('deciding', 'w').close()\n        time.sleep(2.5)\n        return iter(())\n"
    )
    manager = commands.start("cosched_emulator", "serve", "--lublin", "1", "--bind", endpoint)
    first = commands.start("cosched_plugin", "serve", "--connect", endpoint, "--policy", "patient:Patient", "--quiet")
    wait_until((commands.folder / "deciding").exists)
    second = commands.plugin("serve", "--connect", endpoint, "--wait", "0.7", "--quiet")
    said = assert_one_line(second, 3, PROGRAM)
    assert re.search(r"within 0\.7 s: the manager reports busy: scheduler .* is being served", said)
    assert ended(manager).code == 1  # no job was started
    assert ended(first).code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_plugin_is_stopped_by_a_signal(number: signal.Signals, code: int, commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    manager = commands.start("cosched_emulator", "serve", "--lublin", "300", "--bind", endpoint, "--deadline", "1")
    (commands.folder / "slow_policy.py").write_text(
        "import time\nclass Slow:\n    def decide(self, view):\n"
        "        open('deciding', 'w').close()\n        time.sleep(0.05)\n        return iter(())\n"
    )
    plugin = commands.start("cosched_plugin", "serve", "--connect", endpoint, "--policy", "slow_policy:Slow")
    wait_until((commands.folder / "deciding").exists)
    plugin.send_signal(number)
    ran = ended(plugin)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.splitlines()[-1] == f"cosched-plugin: leaving on {number.name}"
    said = assert_one_line(ended(manager), 3)
    assert f"within 1 s; the scheduler left: {number.name}" in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_a_decision_that_never_ends(number: signal.Signals, code: int, commands: Commands) -> None:
    """The policy catches every exception, so the first signal has no effect."""
    endpoint = f"ipc://{commands.folder}/socket"
    (commands.folder / "endless.py").write_text(
        "import time\nclass Endless:\n    def decide(self, view):\n"
        "        open('deciding', 'w').close()\n        while True:\n"
        "            try:\n                time.sleep(0.01)\n            except BaseException:\n                pass\n"
    )
    manager = commands.start("cosched_emulator", "serve", "--lublin", "300", "--bind", endpoint, "--deadline", "1.5")
    plugin = commands.start("cosched_plugin", "serve", "--connect", endpoint, "--policy", "endless:Endless", "--quiet")
    wait_until((commands.folder / "deciding").exists)
    for first in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):  # a terminal that is closed sends several
        plugin.send_signal(first)
        time.sleep(0.1)
        assert plugin.poll() is None
    plugin.send_signal(number)
    said = assert_one_line(ended(plugin, 2), code, PROGRAM)
    assert said.endswith(f"ended at once by a second signal, {number.name}")
    assert_one_line(ended(manager), 3)


def test_a_plugin_waits_for_a_killed_manager_and_then_gives_up(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    (commands.folder / "slow_policy.py").write_text(
        "import time\nclass Slow:\n    def decide(self, view):\n"
        "        open('deciding', 'w').close()\n        time.sleep(0.05)\n        return iter(())\n"
    )
    manager = commands.start("cosched_emulator", "serve", "--lublin", "300", "--bind", endpoint)
    plugin = commands.start(
        "cosched_plugin", "serve", "--connect", endpoint, "--policy", "slow_policy:Slow", "--wait", "3", "--quiet"
    )
    wait_until((commands.folder / "deciding").exists)
    manager.kill()
    ran = ended(plugin, 20)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines() == [
        f"{PROGRAM}: warning: lost the connection to the manager at {endpoint}; saying hello until it is back",
        f"{PROGRAM}: error: the manager at {endpoint} has been gone for 3 s",
    ]


def test_an_impossible_decision_is_reported_by_both_programs(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    (commands.folder / "wrong.py").write_text(
        "from cosched_plugin.api import WakeAt\nclass Wrong:\n    def decide(self, view):\n        yield WakeAt(view.now_us)\n"
    )
    manager = commands.start("cosched_emulator", "serve", *SMALL, "--bind", endpoint)
    plugin = commands.start("cosched_plugin", "serve", "--connect", endpoint, "--policy", "wrong:Wrong", "--quiet")
    said = assert_one_line(ended(plugin), 4, PROGRAM)
    assert said == "impossible decision WakeAt(at_us=0): a wake must lie after now, 0"
    assert "the scheduler reports policy: impossible decision WakeAt(at_us=0)" in assert_one_line(ended(manager), 3)
