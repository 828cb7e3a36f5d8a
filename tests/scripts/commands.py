"""A script of the project as a process of its own."""

from __future__ import annotations

import sys

from tests.processes import ROOT, Ran, environment, run_command


def reproduce(paper: str, *arguments: str) -> Ran:
    """Run ``scripts/reproduce`` for a paper with this interpreter and this source."""
    script = ROOT / "scripts" / "reproduce"
    return run_command(script, paper, *arguments, env=environment(COSCHED_PYTHON=sys.executable), seconds=120)
