"""The command cosched-plugin: help, errors in one line, exit codes, and bounded waits."""

from __future__ import annotations

import json
import re
import signal
import time

import pytest
from tests.commands import Commands, assert_one_line
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


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("serve", "--connect", "ipc://x", "--nope"), 2, "No such option"),
        (("serve", "--connect", "tcp://192.0.2.1:5000"), 2, "not a loopback address"),
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
