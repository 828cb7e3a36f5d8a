"""A real Slurm for tests: `scripts/slurm-testbed` in a folder of its own, and what a user does there."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.processes import ROOT

SCRIPT = str(ROOT / "scripts" / "slurm-testbed")
RECORDED = Path(os.environ.get("COSCHED_SHARED") or ROOT.parent / "shared") / "slurm" / "fixtures"
PORTS = 32
NEEDED = ("slurmctld", "slurmd", "slurmrestd", "sbatch")


def missing(*more: str) -> list[str]:
    """Return the programs of Slurm that are not installed."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in (*NEEDED, *more) if shutil.which(name, path=path) is None]


needs_slurm = pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason="no recordings of a Slurm beside the tree")


class Bed:
    """A test bed that is up."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.folder = folder
        self.options = ["--dir", str(folder), *options]
        self.env = {**os.environ, "SLURM_CONF": str(folder / "etc" / "slurm.conf"), "COSCHED_SLURM_BED": str(folder)}
        self.rest = str(folder / "rest" / "rest.sock")

    def script(self, *arguments: str) -> str:
        """Run the script; return what it said."""
        done = subprocess.run(
            [SCRIPT, *arguments], env=self.env, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *command: str, stdin: str = "", ok: bool = True) -> str:
        """Run a command of Slurm; return its output."""
        done = subprocess.run(
            command, env=self.env, input=stdin, capture_output=True, text=True, timeout=60, check=False, cwd="/"
        )
        assert not ok or done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def submit(
        self,
        *options: str,
        run_s: float = 1.0,
        script: str = "",
        comment: object = None,
        partition: str = "co",
        held: bool = True,
    ) -> int:
        """Submit a job, held unless told otherwise, and return its number."""
        told = [] if comment is None else ["--comment", json.dumps(comment)]
        text = f"#!/bin/bash\n{script or f'sleep {run_s}'}\n"
        said = self.run(
            "sbatch",
            *(["-H"] if held else []),
            "-o",
            "/dev/null",
            "-D",
            "/",
            "-p",
            partition,
            *told,
            *options,
            stdin=text,
        )
        found = re.search(r"job (\d+)", said)
        assert found, said
        return int(found[1])

    def jobs(self) -> dict[int, dict[str, Any]]:
        """Return the jobs as squeue shows them, by number, those that have ended too."""
        rows = json.loads(self.run("squeue", "-a", "-t", "all", "--json"))["jobs"]
        return {row["job_id"]: row for row in rows if row["partition"] != "tick"}

    def until(self, what: Callable[[dict[int, dict[str, Any]]], bool], seconds: float) -> dict[int, dict[str, Any]]:
        """Wait until the jobs are like that, and return them."""
        end = time.monotonic() + seconds
        while True:
            jobs = self.jobs()
            if what(jobs):
                return jobs
            assert time.monotonic() < end, {
                number: (row["job_state"], row["state_reason"], row["nodes"], row["required_nodes"])
                for number, row in jobs.items()
            }
            time.sleep(0.1)


@contextmanager
def bed(*options: str) -> Iterator[Bed]:
    """Bring a test bed up, and down at the end."""
    folder = Path(tempfile.mkdtemp(prefix="cosched-bed-", dir="/tmp"))  # the path of a socket must be short
    one = Bed(folder, options)
    try:
        one.script("up", *one.options, "--port", str(free_ports(PORTS)))
        yield one
    finally:
        subprocess.run([SCRIPT, "down"], env=one.env, capture_output=True, timeout=90, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> int:
    """Return the first of so many free ports in a row, below those that the system gives out."""
    draw = Random(os.getpid() ^ time.monotonic_ns())
    for _ in range(200):
        first = draw.randrange(12_000, 30_000, count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
