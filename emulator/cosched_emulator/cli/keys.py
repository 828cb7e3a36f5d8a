"""The command group ``keys``: make keys, and set which keys a manager accepts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import click

from cosched_emulator import offered
from cosched_emulator.errors import ConfigurationError
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say
from cosched_terminal.help_text import Group
from cosched_terminal.tables import align

_EXAMPLES = """\b
Example, a manager, one scheduler, one user:
  cosched-emulator keys manager keyring
  cosched-emulator keys new ~/.cosched scheduler
  cosched-emulator keys allow keyring plugin scheduler ~/.cosched/scheduler.key
  cosched-emulator keys new ~/.cosched alice
  cosched-emulator keys allow keyring user alice ~/.cosched/alice.key

Give the file keyring/manager.key to all peers: it identifies the manager. A file that ends in .key_secret never leaves the
account and the machine that it was made for.
"""
FOLDER: Final = argument(kind=click.Path())
ROLE: Final = argument(kind=offered.ROLES)


@click.group(cls=Group, epilog=_EXAMPLES)
def keys() -> None:
    """Make keys for connections between machines, and set which keys a manager accepts."""


@command(keys)
def new(folder: str = FOLDER, name: str = argument()) -> None:
    """Make a pair of keys in FOLDER: NAME.key for peers, NAME.key_secret, which stays secret."""
    from cosched_plugin.common.curve import write_keys

    public, secret = write_keys(folder, name)
    say(f"public key: {public}\nsecret key: {secret}")


@command(keys)
def manager(folder: str = FOLDER) -> None:
    """Make the keyring of a manager: its own pair of keys, and folders for the public keys of others."""
    from cosched_plugin.common.curve import FOLDERS, MANAGER, Keyring, write_keys

    public, _ = write_keys(folder, MANAGER)
    try:
        for each in FOLDERS.values():
            (Path(folder) / each).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError("FOLDER", f"a place for a keyring ({error.strerror})", folder) from error
    Keyring(folder)
    say(f"keyring: {folder}\npublic key: {public}")


@command(keys)
def allow(
    folder: str = FOLDER, role: str = ROLE, name: str = argument(), public_file: str = argument(kind=click.Path())
) -> None:
    """Let the owner of the key PUBLIC_FILE connect, as NAME, to the manager with the keyring FOLDER."""
    from cosched_plugin.common.curve import FOLDERS, Keyring, check_name, read_public, write_public

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


@command(keys)
def revoke(folder: str = FOLDER, role: str = ROLE, name: str = argument()) -> None:
    """Revoke a key, with immediate effect, also for a running manager and for open connections."""
    from cosched_plugin.common.curve import FOLDERS, check_name

    target = Path(folder) / FOLDERS[role] / f"{check_name(name)}.key"
    try:
        os.unlink(target)
    except OSError as error:
        raise ConfigurationError("NAME", f"the name of a {role} of {folder} ({error.strerror})", name) from error
    say(f"{role} {name} may not connect any more")


@command(keys, name="list", prints="tables")
def list_keys(folder: str = FOLDER, as_json: bool = option("--json", "Machine-readable output.")) -> None:
    """List the peers that a keyring accepts, and their public keys.

    \b
    Example:
      cosched-emulator keys list keyring -o role,name
    """
    from cosched_plugin.common.curve import Keyring

    keyring = Keyring(folder)
    members = sorted((member.role, member.name, key.decode("ascii")) for key, member in keyring.members().items())
    if as_json:
        rows = [{"role": role, "name": name, "key": key} for role, name, key in members]
        say(json.dumps({"manager": keyring.public.decode("ascii"), "members": rows}, indent=2))
        return
    own = ("manager", "-", keyring.public.decode("ascii"))
    say("\n".join(align([("ROLE", "NAME", "KEY"), own, *members], ())))
