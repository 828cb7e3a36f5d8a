"""The command group ``keys``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.commands import Commands, assert_one_line, commands_in

from cosched_plugin.common.curve import Keyring


def test_a_keyring_is_made_step_by_step(commands: Commands) -> None:
    ran = commands.emulator("keys", "manager", "ring")
    assert (ran.code, ran.out) == (0, "keyring: ring\npublic key: ring/manager.key\n")
    ran = commands.emulator("keys", "new", "own", "alice")
    assert (ran.code, ran.out) == (0, "public key: own/alice.key\nsecret key: own/alice.key_secret\n")
    for role, name in (("user", "alice"), ("operator", "root"), ("plugin", "rua")):
        if name != "alice":
            assert commands.emulator("keys", "new", "own", name).code == 0
        ran = commands.emulator("keys", "allow", "ring", role, name, f"own/{name}.key")
        assert (ran.code, ran.out) == (0, f"{role} {name} may connect: ring/{role}s/{name}.key\n")
    listed = commands.emulator("keys", "list", "ring").out.splitlines()
    assert [line.split()[:-1] for line in listed] == [
        ["ROLE", "NAME"],
        ["manager", "-"],
        ["operator", "root"],
        ["plugin", "rua"],
        ["user", "alice"],
    ]
    chosen = commands.emulator("keys", "list", "ring", "-o", "name", "--sort=-role").out
    assert [line.strip() for line in chosen.splitlines()] == ["NAME", "alice", "rua", "root", "-"]
    told = json.loads(commands.emulator("keys", "list", "ring", "--json").out)
    assert [member["name"] for member in told["members"]] == ["root", "rua", "alice"]
    assert told["manager"] == Keyring(commands.folder / "ring").public.decode() == listed[1].split()[-1]
    ran = commands.emulator("keys", "revoke", "ring", "user", "alice")
    assert (ran.code, ran.out) == (0, "user alice may not connect any more\n")
    assert not (commands.folder / "ring" / "users" / "alice.key").exists()
    assert (commands.folder / "own" / "alice.key").exists()
    assert "alice" not in commands.emulator("keys", "list", "ring").out
    assert commands.left_over() == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("manager", "ring"), "ring/manager.key_secret: expected a new name"),
        (("new", "own", "alice"), "own/alice.key_secret: expected a new name"),
        (("new", "own", "../alice"), "expected a name"),
        (("new", "/proc/none", "alice"), "/proc/none: cannot write keys there"),
        (
            ("allow", "ring", "user", "bob", "own/alice.key"),
            "PUBLIC_FILE: expected a key that is not in use, got that of user alice",
        ),
        (
            ("allow", "ring", "plugin", "alice", "own/alice.key"),
            "PUBLIC_FILE: expected a key that is not in use, got that of user alice",
        ),
        (("allow", "ring", "user", "alice", "own/bob.key"), "ring/users/alice.key: expected a new name"),
        (("allow", "ring", "user", "m", "ring/manager.key"), "got the manager's own"),
        (("allow", "ring", "user", "bob", "own/bob.key_secret"), "own/bob.key_secret: expected a public key"),
        (("allow", "ring", "user", "../bob", "own/bob.key"), "expected a name"),
        (("allow", "ring", "user", "bob", "own/none.key"), "own/none.key: cannot read it: No such file"),
        (("allow", "own", "user", "bob", "own/bob.key"), "own/manager.key_secret: cannot read it: No such file"),
        (("revoke", "ring", "operator", "alice"), "NAME: expected the name of a operator of ring (No such file"),
        (("revoke", "ring", "user", "../manager"), "expected a name"),
        (("list", "nothing"), "nothing/manager.key_secret: cannot read it: No such file"),
    ],
)
def test_wrong_arguments_change_nothing(arguments: tuple[str, ...], text: str, keyring: Commands) -> None:
    before = files(keyring)
    assert text in assert_one_line(keyring.emulator("keys", *arguments), 2)
    assert files(keyring) == before


def test_a_secret_key_readable_by_others_is_refused(keyring: Commands) -> None:
    os.chmod(keyring.folder / "ring" / "manager.key_secret", 0o644)
    said = assert_one_line(keyring.emulator("keys", "list", "ring"), 2)
    assert "chmod 600" in said


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``ring`` knows the user alice; ``own`` has the keys of alice and bob."""
    folder = tmp_path_factory.mktemp("keys")
    with commands_in(folder) as commands:
        for arguments in (
            ("manager", "ring"),
            ("new", "own", "alice"),
            ("new", "own", "bob"),
            ("allow", "ring", "user", "alice", "own/alice.key"),
        ):
            assert commands.emulator("keys", *arguments).code == 0
    return folder


@pytest.fixture
def keyring(commands: Commands, made: Path) -> Commands:
    """Return commands in a folder with copies of both."""
    for name in ("ring", "own"):
        shutil.copytree(made / name, commands.folder / name)
    return commands


def files(commands: Commands) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in commands.folder.rglob("*") if path.is_file()}
