"""Fixtures of these tests."""

from __future__ import annotations

import pytest
from tests.emulator.explain.traces import SLICES, Record, records_of


@pytest.fixture(scope="module")
def glts() -> list[Record]:
    return records_of("glts", SLICES)


@pytest.fixture(scope="module")
def lomarc() -> list[Record]:
    return records_of("lomarc-r")
