"""A script of the project as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def reproduce(paper: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``scripts/reproduce`` for a paper with this interpreter and this source."""
    roots = os.pathsep.join(str(ROOT / name) for name in ("hwmodel", "plugin", "emulator"))
    return subprocess.run(
        [str(ROOT / "scripts" / "reproduce"), paper, *arguments],
        env={**os.environ, "COSCHED_PYTHON": sys.executable, "PYTHONPATH": roots},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
