from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def traces() -> Path:
    """Folder of the real traces, which are not part of the project."""
    shared = os.environ.get("COSCHED_SHARED") or Path(__file__).resolve().parents[4] / "shared"
    folder = Path(shared) / "workloads"
    if not folder.is_dir():
        pytest.skip(f"no traces at {folder}: set COSCHED_SHARED")
    return folder
