"""A reproduction as a process of its own."""

from __future__ import annotations

from tests.processes import ROOT, Ran, ended, fork_program


def reproduce(paper: str, *arguments: str) -> Ran:
    """Run a reproduction as `scripts/reproduce` does."""
    return ended(fork_program("scripts.papers.reproduce", paper, *arguments, folder=ROOT), 120)
