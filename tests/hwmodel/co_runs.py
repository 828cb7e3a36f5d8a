"""Measured co-runs for tests: jobs by name, and the published tables, which are not part of the project."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.processes import ROOT

from cosched_hwmodel.measured.co_run_table import CoRunTable, read_table
from cosched_hwmodel.usage import UsageTuple

PUBLISHED = ROOT.parent / "shared" / "contention"


class Job(NamedTuple):
    id: int
    name: str = ""
    usage: UsageTuple | None = None
    self_slowdown: tuple[int, int] | None = None
    user: str = ""
    processes: int = 1
    demand: tuple[int, int, int] | None = None
    profile: tuple[int, ...] | None = None


def published(name: str) -> CoRunTable:
    """Return a published table; the test is skipped where it is not there."""
    file = PUBLISHED / name
    if not file.is_file():
        pytest.skip(f"the table {name} is no part of the project, and not beside it")
    return read_table(file)
