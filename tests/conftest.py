"""Settings of all tests, and the fixture that runs the two programs."""

from __future__ import annotations

import gc
import os
import signal
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.commands import Commands, commands_in

# The programs multiply no matrices, and without this numpy starts a thread for each core: 0.1 s of CPU time a process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

gc.disable()  # while tests are collected: a third of that time

# What nohup, or a shell in the background, has ignored, all that a test starts would inherit. A handler ends with `exec`: programs have
# the defaults, and a terminal that is closed does not end the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

# The same cases every time, so that a result depends on the change alone. COSCHED_EXPLORE=1 draws others.
# How long they take is no property of the code on a busy machine.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
if not os.environ.get("COSCHED_EXPLORE"):
    settings.load_profile("repeatable")


@pytest.fixture
def commands() -> Iterator[Commands]:
    """Commands in a folder whose path is short enough for a socket in it, which pytest's may not be."""
    with tempfile.TemporaryDirectory(prefix="cli-", dir="/tmp") as folder, commands_in(Path(folder)) as running:
        yield running


# From 3.13 on Python does this when rubbish is collected, and fails whichever test runs then.
@pytest.fixture(scope="module", autouse=True)
def databases_are_closed() -> Iterator[None]:
    """Fail if tests of a file leave a connection to a database open."""
    connect, opened = sqlite3.connect, list[tuple[sqlite3.Connection, str]]()

    def watched(*arguments: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **more)
        opened[:] = [each for each in opened if is_open(each[0])]
        opened.append((connection, os.environ.get("PYTEST_CURRENT_TEST", "")))
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", watched)
        yield
    if any(is_open(each) for each, _ in opened):
        gc.collect()  # some tests' databases are closed with what has them
    left = []
    for connection, test in opened:
        if is_open(connection):
            left.append(test)
            connection.close()
    assert not left, "databases that stay open"


def is_open(connection: sqlite3.Connection) -> bool:
    """Tell whether a connection to a database has not been closed."""
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `by_default` leaves out, before pytest selects slow tests."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("by_default") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        marker = found[0].get_closest_marker("by_default")
        assert marker is not None
        (wanted,) = marker.args
        for place, item in enumerate(found):
            if place * wanted % len(found) >= wanted:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Exclude loaded code and thousands of tests, which stay in memory, from garbage collection, and let that come less often."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)
