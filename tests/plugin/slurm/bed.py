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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.processes import ROOT

SCRIPT = str(ROOT / "scripts" / "slurm-testbed")
PACKAGES = str(ROOT / "scripts" / "slurm-packages")
RECORDED = Path(os.environ.get("COSCHED_SHARED") or ROOT.parent / "shared") / "slurm" / "fixtures"
PORTS = 32
BUSY = 3  # deadlines end what hangs: all of them are so many times as long as on a machine that does nothing else
NEEDED = ("slurmctld", "slurmd", "slurmrestd", "sbatch")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
RELEASES = ("22.05", "24.11", "26.05")


def missing(*more: str) -> list[str]:
    """Return the programs of Slurm that are not installed."""
    return [name for name in (*NEEDED, *more) if shutil.which(name, path=PATH) is None]


def absent(release: str, *more: str) -> str:
    """Return why there is no Slurm of a release, with some more programs; nothing if it is installed or has been fetched."""
    if not missing(*more):
        said = subprocess.run(
            ["slurmctld", "-V"], env={"PATH": PATH}, capture_output=True, text=True, timeout=20, check=False
        )
        if f" {release}." in said.stdout:
            return ""
    kept = subprocess.run([PACKAGES, "--kept", release], capture_output=True, text=True, timeout=20, check=False)
    return kept.stderr.strip() if kept.returncode else ""


def on_each_slurm(*more: str, always: bool = False) -> pytest.MarkDecorator:
    """Return what makes a test run on each release that is at hand, with some more programs; it is the argument `slurm`.

    By default it is the newest of them, the others are slow; ``always``: all of them.
    """
    whys = {release: absent(release, *more) for release in RELEASES}
    newest = max((release for release, why in whys.items() if not why), default="")

    def marks(release: str) -> Sequence[pytest.MarkDecorator]:
        if whys[release]:
            return (pytest.mark.skipif(True, reason=whys[release]),)
        return () if always or release == newest else (pytest.mark.slow,)

    return pytest.mark.parametrize("slurm", [pytest.param(release, marks=marks(release)) for release in RELEASES])


each_slurm = on_each_slurm()
needs_slurm = pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason="no recordings of a Slurm beside the tree")


class Bed:
    """A test bed that is up."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self.folder = folder
        self.options = ["--dir", str(folder), *options]
        self.rest = str(folder / "rest" / "rest.sock")
        self.token = folder / "token"
        self.told = {"COSCHED_SLURM_BED": str(folder)}

    @property
    def env(self) -> dict[str, str]:
        """Return the environment in which Slurm's commands are those of the bed."""
        return {**os.environ, **self.told}

    @property
    def way(self) -> list[str]:
        """Return the options by which a driver finds slurmrestd."""
        return ["--rest", f"unix:{self.rest}", *(["--jwt-file", str(self.token)] if self.token.exists() else [])]

    def up(self, *options: str) -> None:
        """Bring it up; from then on commands find it."""
        self.script("up", *self.options, *options)
        names = ("PATH", "SLURM_CONF", "COSCHED_SLURM_BED", "COSCHED_SLURM_REST", "COSCHED_SLURM_TCP")
        shown = 'eval "$("$0" env)"; for name; do printf "%s=%s\\n" "$name" "${!name-}"; done'
        said = self.run("bash", "-c", shown, SCRIPT, *names)
        self.told = dict(line.split("=", 1) for line in said.splitlines() if not line.endswith("="))

    def script(self, *arguments: str) -> str:
        """Run the script; return what it said."""
        return self.run(SCRIPT, *arguments, seconds=90)

    def run(self, *command: str, stdin: str = "", ok: bool = True, seconds: float = 60) -> str:
        """Run a command of Slurm; return its output."""
        done = subprocess.run(
            command, env=self.env, input=stdin, capture_output=True, text=True, timeout=seconds, check=False, cwd="/"
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
        rows = map(_plain, json.loads(self.run("squeue", "-a", "-t", "all", "--json"))["jobs"])
        return {row["job_id"]: row for row in rows if row["partition"] != "tick"}

    def until(self, what: Callable[[dict[int, dict[str, Any]]], bool], seconds: float) -> dict[int, dict[str, Any]]:
        """Wait until the jobs are like that, and return them."""
        end = time.monotonic() + BUSY * seconds
        while True:
            jobs = self.jobs()
            if what(jobs):
                return jobs
            assert time.monotonic() < end, {
                number: (row["job_state"], row["state_reason"], row["nodes"], row["required_nodes"])
                for number, row in jobs.items()
            }
            time.sleep(0.1)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a job's record as 22.05 has it: later releases write numbers as maps, and states as lists."""
    numbers = {
        name: value.get("number") if value["set"] else None for name, value in row.items() if "set" in _map(value)
    }
    states = row["job_state"]
    if isinstance(states, list):
        numbers["job_state"] = "COMPLETING" if "COMPLETING" in states else states[0]
    return {**row, **numbers}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


@contextmanager
def bed(*options: str, slurm: str = "") -> Iterator[Bed]:
    """Bring a test bed up, of a release of Slurm or of the one that is installed, and down at the end."""
    folder = Path(tempfile.mkdtemp(prefix="cosched-bed-", dir="/tmp"))  # the path of a socket must be short
    one = Bed(folder, [*options, *(["--slurm", slurm] if slurm else [])])
    try:
        _up(one)
        yield one
    finally:
        _down(one)
        shutil.rmtree(folder, ignore_errors=True)


def _up(one: Bed) -> None:
    """Bring a bed up; on other ports where another test's bed has taken some between the look at them and their use."""
    for left in (2, 1, 0):
        try:
            one.up("--port", str(free_ports(PORTS)))
        except AssertionError as error:
            if not left or not re.search("already in use|is taken", str(error)):
                raise
            _down(one)
        else:
            return


def _down(one: Bed) -> None:
    subprocess.run(
        [SCRIPT, "down", "--dir", str(one.folder)], env=one.env, capture_output=True, timeout=90, check=False
    )


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
