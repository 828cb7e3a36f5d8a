"""Invalid messages to each end of the protocols in this process, and to real processes beside honest traffic.

The default tests send thousands of messages; ``python -m scripts.proofs.fuzz`` and the slow tests send a million.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripts.processes import environment
from scripts.proofs import fuzz
from scripts.proofs.fuzz_inside import INSIDE
from scripts.proofs.fuzz_messages import MAGICS, Fuzz
from scripts.proofs.fuzz_plugin import plugin_lives
from tests.processes import ForkedPrograms

MESSAGES = 2_000
OUTSIDE = 400  # to real processes
FEW = 250  # status: two hundred answers a second to each client; hostile scheduler: it waits for batches


def nothing(_number: int) -> None:
    pass


@pytest.mark.parametrize("endpoint", sorted(MAGICS))
def test_messages_depend_on_their_number_alone(endpoint: str) -> None:
    one, other = Fuzz(endpoint, 7), Fuzz(endpoint, 7)
    later = [other.frames(number) for number in reversed(range(200))]
    assert [one.frames(number) for number in range(200)] == later[::-1]
    assert Fuzz(endpoint, 8).frames(3) != one.frames(3)


@pytest.mark.parametrize("endpoint", sorted(INSIDE))
def test_random_messages_reach_each_end_in_this_process(endpoint: str) -> None:
    found: Counter[str] = INSIDE[endpoint](MESSAGES, 1, nothing)
    # Some messages must pass the codec, or only the codec is tested.
    wanted = {"users": ("Done", "Refused"), "scheduler": ("Actions", "refused"), "plugin": ("Welcome", "Events")}
    assert all(found[name] > MESSAGES * 0.015 for name in wanted[endpoint]), found
    assert found["field"] > MESSAGES * 0.05
    assert found["malformed"] > MESSAGES * 0.05


@pytest.mark.parametrize("endpoint", ["users", "scheduler", "hostile", "status"])
def test_real_processes_survive_random_messages(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "Programs", ForkedPrograms)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/tmp") as folder:
        figures: dict[str, Any] = fuzz.outside(
            endpoint, FEW if endpoint in ("hostile", "status") else OUTSIDE, 2, Path(folder)
        )
    assert figures["jobs"].get("COMPLETED", 0) > 5
    assert set(figures["jobs"]) <= {"COMPLETED", "CANCELLED", "TIMEOUT", "REJECTED"}


def test_real_schedulers_end_in_one_line() -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/tmp") as folder:
        found = plugin_lives(4, 1, Path(folder), environment(), nothing)
    assert found["messages"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", fuzz.ENDPOINTS)
def test_real_processes_survive_a_million_messages(endpoint: str) -> None:
    # At two hundred answers a second, a million status requests would take hours.
    count = int(os.environ.get("COSCHED_FUZZ_MESSAGES", "1000000"))
    fuzz.fuzz(endpoint, count // 50 if endpoint == "status" else count, 1)
