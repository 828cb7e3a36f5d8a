"""The commands of the group ``keys``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cosched_emulator.errors import ConfigurationError
from cosched_plugin.common.curve import FOLDERS, MANAGER, Keyring, check_name, read_public, write_keys, write_public
from cosched_terminal.console import align, say


def new(folder: str, name: str) -> None:
    """Make a pair of keys in FOLDER: NAME.key for peers, NAME.key_secret, which stays secret."""
    public, secret = write_keys(folder, name)
    say(f"public key: {public}\nsecret key: {secret}")


def manager(folder: str) -> None:
    """Make the keyring of a manager: its own pair of keys, and folders for the public keys of others."""
    public, _ = write_keys(folder, MANAGER)
    try:
        for each in FOLDERS.values():
            (Path(folder) / each).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError("FOLDER", f"a place for a keyring ({error.strerror})", folder) from error
    Keyring(folder)
    say(f"keyring: {folder}\npublic key: {public}")


def allow(folder: str, role: str, name: str, public_file: str) -> None:
    """Let the owner of the key PUBLIC_FILE connect, as NAME, to the manager with the keyring FOLDER."""
    keyring = Keyring(folder)
    key = read_public(public_file)
    known = keyring.members().get(key)
    if known is not None:
        raise ConfigurationError("PUBLIC_FILE", "a key that is not in use", f"that of {known.role} {known.name}")
    if key == keyring.public:
        raise ConfigurationError("PUBLIC_FILE", "a key that is not in use", "the manager's own")
    target = Path(folder) / FOLDERS[role] / f"{check_name(name)}.key"
    write_public(target, key)
    say(f"{role} {name} may connect: {target}")


def revoke(folder: str, role: str, name: str) -> None:
    """Revoke a key, with immediate effect, also for a running manager and for open connections."""
    target = Path(folder) / FOLDERS[role] / f"{check_name(name)}.key"
    try:
        os.unlink(target)
    except OSError as error:
        raise ConfigurationError("NAME", f"the name of a {role} of {folder} ({error.strerror})", name) from error
    say(f"{role} {name} may not connect any more")


def list_keys(folder: str, as_json: bool) -> None:
    """List the peers that a keyring accepts, and their public keys."""
    keyring = Keyring(folder)
    members = sorted((member.role, member.name, key.decode("ascii")) for key, member in keyring.members().items())
    if as_json:
        rows = [{"role": role, "name": name, "key": key} for role, name, key in members]
        say(json.dumps({"manager": keyring.public.decode("ascii"), "members": rows}, indent=2))
        return
    say("\n".join(align([("manager", "", keyring.public.decode("ascii")), *members], ())))
