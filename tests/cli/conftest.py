from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import Commands, commands_in


@pytest.fixture
def commands() -> Iterator[Commands]:
    """Commands in a folder whose path is short enough for a socket in it, which pytest's may not be."""
    with tempfile.TemporaryDirectory(prefix="cli-", dir="/tmp") as folder, commands_in(Path(folder)) as running:
        yield running
