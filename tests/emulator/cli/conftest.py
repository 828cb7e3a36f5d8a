"""A command for users, run in this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.emulator.cli.fake_manager import always, fake_manager
from tests.processes import Ran

from cosched_emulator.cli.main import main
from cosched_emulator.users.requests import Refused, Request

Run = Callable[..., Ran]


@pytest.fixture
def endpoint() -> Iterator[str]:
    """An endpoint whose path is short enough, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="users-", dir="/tmp") as folder:
        yield f"ipc://{folder}/door"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, endpoint: str) -> Run:
    """Run one of the commands to its end, as the program does."""
    for name in [name for name in os.environ if name.startswith("COSCHED_")]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # a test may set its own

    def run_it(*arguments: str, manager: bool = True) -> Ran:
        place = ("--manager", endpoint) if manager else ()
        monkeypatch.setattr("sys.argv", ["cosched-emulator", arguments[0], *place, *arguments[1:]])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, *capsys.readouterr())

    return run_it


def asked(run: Run, endpoint: str, result: Mapping[str, Any] | Refused, *arguments: str) -> tuple[Request, Ran]:
    """Return the only request of a command, and its result."""
    with fake_manager(endpoint, always(result), stale=True) as manager:
        ran = run(*arguments)
    (request,) = manager.requests
    return request, ran
