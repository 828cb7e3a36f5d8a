"""The command group ``keys``: make keys, and say whose keys a manager accepts.

Nothing but click is imported before a command runs, so that help and typing errors cost no time.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

_EXAMPLES = """\b
Example, a manager, one scheduler, one user:
  cosched-emulator keys manager keyring
  cosched-emulator keys new ~/.cosched scheduler
  cosched-emulator keys allow keyring plugin scheduler ~/.cosched/scheduler.key
  cosched-emulator keys new ~/.cosched alice
  cosched-emulator keys allow keyring user alice ~/.cosched/alice.key

Give the file keyring/manager.key to everybody: it is how they know the manager. A file that ends in .key_secret never leaves the
account, or the machine, that it was made for.
"""
_ROLE = click.Choice(["plugin", "user", "operator"])


@click.group(epilog=_EXAMPLES)
def keys() -> None:
    """Make keys for connections off this machine, and say whose keys a manager accepts."""


@keys.command()
@click.argument("folder", type=click.Path())
@click.argument("name")
def new(folder: str, name: str) -> None:
    """Make a pair of keys in FOLDER: NAME.key for others, NAME.key_secret for nobody else."""
    from cosched_plugin.common.curve import write_keys  # noqa: PLC0415

    public, secret = write_keys(folder, name)
    click.echo(f"public key: {public}\nsecret key: {secret}")


@keys.command()
@click.argument("folder", type=click.Path())
def manager(folder: str) -> None:
    """Make the keyring of a manager: its own pair of keys, and folders for the public keys of others."""
    from cosched_emulator.errors import ConfigurationError  # noqa: PLC0415
    from cosched_plugin.common.curve import FOLDERS, MANAGER, Keyring, write_keys  # noqa: PLC0415

    public, _ = write_keys(folder, MANAGER)
    try:
        for each in FOLDERS.values():
            (Path(folder) / each).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError("FOLDER", f"a place for a keyring ({error.strerror})", folder) from error
    Keyring(folder)
    click.echo(f"keyring: {folder}\npublic key: {public}")


@keys.command()
@click.argument("folder", type=click.Path())
@click.argument("role", type=_ROLE)
@click.argument("name")
@click.argument("public_file", type=click.Path())
def allow(folder: str, role: str, name: str, public_file: str) -> None:
    """Let who has the secret of PUBLIC_FILE connect, as NAME, to the manager with the keyring FOLDER."""
    from cosched_emulator.errors import ConfigurationError  # noqa: PLC0415
    from cosched_plugin.common.curve import FOLDERS, Keyring, check_name, read_public, write_public  # noqa: PLC0415

    keyring = Keyring(folder)
    key = read_public(public_file)
    known = keyring.members().get(key)
    if known is not None:
        raise ConfigurationError("PUBLIC_FILE", "a key that is not in use", f"that of {known.role} {known.name}")
    if key == keyring.public:
        raise ConfigurationError("PUBLIC_FILE", "a key that is not in use", "the manager's own")
    target = Path(folder) / FOLDERS[role] / f"{check_name(name)}.key"
    write_public(target, key)
    click.echo(f"{role} {name} may connect: {target}")


@keys.command()
@click.argument("folder", type=click.Path())
@click.argument("role", type=_ROLE)
@click.argument("name")
def revoke(folder: str, role: str, name: str) -> None:
    """Accept a key no more: at once, also where the manager runs and on connections that stand."""
    from cosched_emulator.errors import ConfigurationError  # noqa: PLC0415
    from cosched_plugin.common.curve import FOLDERS, check_name  # noqa: PLC0415

    target = Path(folder) / FOLDERS[role] / f"{check_name(name)}.key"
    try:
        os.unlink(target)
    except OSError as error:
        raise ConfigurationError("NAME", f"the name of a {role} of {folder} ({error.strerror})", name) from error
    click.echo(f"{role} {name} may not connect any more")


@keys.command("list")
@click.argument("folder", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def list_keys(folder: str, as_json: bool) -> None:
    """List whom a keyring knows, and their public keys."""
    from cosched_plugin.common.curve import Keyring  # noqa: PLC0415

    keyring = Keyring(folder)
    members = sorted((member.role, member.name, key.decode("ascii")) for key, member in keyring.members().items())
    if as_json:
        rows = [{"role": role, "name": name, "key": key} for role, name, key in members]
        click.echo(json.dumps({"manager": keyring.public.decode("ascii"), "members": rows}, indent=2))
        return
    for role, name, key in [("manager", "", keyring.public.decode("ascii")), *members]:
        click.echo(f"{role:<10}{name:<24}{key}")
