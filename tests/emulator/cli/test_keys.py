"""The command group ``keys``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import assert_one_line
from tests.emulator.cli.conftest import Run
from tests.processes import Ran

from cosched_plugin.common.curve import Keyring


def test_a_keyring_is_made_step_by_step(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def keys(*words: str) -> Ran:
        return run("keys", *words, manager=False)

    ran = keys("manager", "ring")
    assert (ran.code, ran.out) == (0, "keyring: ring\npublic key: ring/manager.key\n")
    ran = keys("new", "own", "alice")
    assert (ran.code, ran.out) == (0, "public key: own/alice.key\nsecret key: own/alice.key_secret\n")
    for role, name in (("user", "alice"), ("operator", "root"), ("plugin", "rua")):
        if name != "alice":
            assert keys("new", "own", name).code == 0
        ran = keys("allow", "ring", role, name, f"own/{name}.key")
        assert (ran.code, ran.out) == (0, f"{role} {name} may connect: ring/{role}s/{name}.key\n")
    listed = keys("list", "ring").out.splitlines()
    assert [line.split()[:-1] for line in listed] == [
        ["ROLE", "NAME"],
        ["manager", "-"],
        ["operator", "root"],
        ["plugin", "rua"],
        ["user", "alice"],
    ]
    chosen = keys("list", "ring", "-o", "name", "--sort=-role").out
    assert [line.strip() for line in chosen.splitlines()] == ["NAME", "alice", "rua", "root", "-"]
    told = json.loads(keys("list", "ring", "--json").out)
    assert [member["name"] for member in told["members"]] == ["root", "rua", "alice"]
    assert told["manager"] == Keyring(tmp_path / "ring").public.decode() == listed[1].split()[-1]
    ran = keys("revoke", "ring", "user", "alice")
    assert (ran.code, ran.out) == (0, "user alice may not connect any more\n")
    assert not (tmp_path / "ring" / "users" / "alice.key").exists()
    assert (tmp_path / "own" / "alice.key").exists()
    assert "alice" not in keys("list", "ring").out


def test_wrong_arguments_change_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keyring knows the user alice; a folder has the keys of alice and bob."""
    monkeypatch.chdir(tmp_path)
    for words in ("manager ring", "new own alice", "new own bob", "allow ring user alice own/alice.key"):
        assert run("keys", *words.split(), manager=False).code == 0
    before = files(tmp_path)
    for words, text in {
        "allow ring plugin alice own/alice.key": "PUBLIC_FILE: expected a key that is not in use, got that of user alice",
        "allow ring user alice own/bob.key": "ring/users/alice.key: expected a new name",
        "allow ring user m ring/manager.key": "got the manager's own",
        "allow ring user ../bob own/bob.key": "expected a name",
        "revoke ring operator alice": "NAME: expected the name of a operator of ring (No such file",
        "revoke ring user ../manager": "expected a name",
        "list nothing": "nothing/manager.key_secret: cannot read it: No such file",
    }.items():
        assert text in assert_one_line(run("keys", *words.split(), manager=False), 2)
        assert files(tmp_path) == before


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
