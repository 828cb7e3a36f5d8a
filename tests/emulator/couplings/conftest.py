"""Fixtures of these tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.emulator.couplings.summing import SCRIPT
from tests.processes import Forked, environment, fork_program, killed_at_the_end


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    path = tmp_path / "scheduler.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def endpoint() -> Iterator[str]:
    with tempfile.TemporaryDirectory(
        prefix="link-", dir="/tmp"
    ) as directory:  # pytest's paths may be too long for a socket
        yield f"ipc://{directory}/socket"


@pytest.fixture
def launch(script: Path) -> Iterator[Callable[..., Forked]]:
    with killed_at_the_end() as children:

        def start(endpoint: str, *trouble: str, wait_s: float = 10, silence_s: float = 10) -> Forked:
            arguments = (endpoint, str(wait_s), str(silence_s), *trouble)
            child = fork_program(script.stem, *arguments, env=environment(script.parent))
            children.append(child)
            return child

        yield start
        for child in children:
            child.kill()
