"""Fixtures of these tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.emulator.users.site import Site

from cosched_plugin.common.curve import read_public, write_keys, write_public


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="door-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        site = Site(Path(folder))
        yield site
        site.close()


@pytest.fixture
def ring(site: Site) -> Path:
    """A keyring with the user alice, the operator olga and the plugin rua; all keys are in ``own``, mallory's too."""
    ring, own = site.folder / "ring", site.folder / "own"
    write_keys(ring, "manager")
    for place in ("plugins", "users", "operators"):
        (ring / place).mkdir(mode=0o700)
    for name, place in (("alice", "users"), ("olga", "operators"), ("rua", "plugins"), ("mallory", "")):
        public, _ = write_keys(own, name)
        if place:
            write_public(ring / place / f"{name}.key", read_public(public))
    return ring
