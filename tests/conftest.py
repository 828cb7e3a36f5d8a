"""Settings of all tests, and the fixture that runs the two programs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.commands import Commands, commands_in

# The same cases every time: a change is judged by what it does, not by what was drawn. COSCHED_EXPLORE=1 draws others.
settings.register_profile("repeatable", derandomize=True)
if not os.environ.get("COSCHED_EXPLORE"):
    settings.load_profile("repeatable")


@pytest.fixture
def commands() -> Iterator[Commands]:
    """Commands in a folder whose path is short enough for a socket in it, which pytest's may not be."""
    with tempfile.TemporaryDirectory(prefix="cli-", dir="/tmp") as folder, commands_in(Path(folder)) as running:
        yield running
