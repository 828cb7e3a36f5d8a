"""A commit of a repository as a temporary folder, removed with the context."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GIT_S: Final = 60.0


class CommitError(Exception):
    """There is no such commit."""


@contextmanager
def checkout(project: Path, commit: str) -> Iterator[tuple[str, Path]]:
    """Yield the short name of a commit of ``project`` and a folder with its files; CommitError where there is none.

    The files come from an archive, so the repository stays unchanged even if this process is killed.
    """
    try:
        name = _git(project, "rev-parse", "--verify", "--short", "--end-of-options", f"{commit}^{{commit}}").decode()
    except (OSError, subprocess.SubprocessError):
        raise CommitError(f"there is no commit {commit!r} in {project}") from None
    name = name.strip()
    with tempfile.TemporaryDirectory(prefix="cosched-commit-") as folder:
        archive = Path(folder) / "archive.zip"
        archive.write_bytes(_git(project, "archive", "--format=zip", "-0", name))
        tree = Path(folder) / "tree"
        with zipfile.ZipFile(archive) as files:
            files.extractall(tree)
        archive.unlink()
        yield name, tree


def _git(project: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(project), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_S, check=True).stdout
