"""The command group ``keys``: make keys, and set which keys a manager accepts."""

from __future__ import annotations

import click

from cosched_emulator import offered
from cosched_terminal.lazy import implementation

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
_ROLE = click.Choice(offered.ROLES)


@click.group(epilog=_EXAMPLES)
def keys() -> None:
    """Make keys for connections between machines, and set which keys a manager accepts."""


@keys.command()
@click.argument("folder", type=click.Path())
@click.argument("name")
@implementation("cosched_emulator.cli.keys")
def new() -> None:
    """Make a pair of keys in FOLDER: NAME.key for peers, NAME.key_secret, which stays secret."""


@keys.command()
@click.argument("folder", type=click.Path())
@implementation("cosched_emulator.cli.keys")
def manager() -> None:
    """Make the keyring of a manager: its own pair of keys, and folders for the public keys of others."""


@keys.command()
@click.argument("folder", type=click.Path())
@click.argument("role", type=_ROLE)
@click.argument("name")
@click.argument("public_file", type=click.Path())
@implementation("cosched_emulator.cli.keys")
def allow() -> None:
    """Let the owner of the key PUBLIC_FILE connect, as NAME, to the manager with the keyring FOLDER."""


@keys.command()
@click.argument("folder", type=click.Path())
@click.argument("role", type=_ROLE)
@click.argument("name")
@implementation("cosched_emulator.cli.keys")
def revoke() -> None:
    """Revoke a key, with immediate effect, also for a running manager and for open connections."""


@keys.command("list")
@click.argument("folder", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@implementation("cosched_emulator.cli.keys")
def list_keys() -> None:
    """List the peers that a keyring accepts, and their public keys."""
