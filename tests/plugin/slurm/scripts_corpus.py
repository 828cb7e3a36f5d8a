"""What becomes of real job scripts: `python -m tests.plugin.slurm.scripts_corpus --slurm 24.11` submits the options of each, and says.

With `--record` it keeps what Slurm shows of them instead: `test_scripts.py` reads `recorded/scripts.json.gz`, of all three releases.

A file has one job a line: a letter (c: partition batch, m: batch,short, g: gpu, o: as it says itself), then the options of sbatch. The
bed is that of SLURM-MODERN beside the tree: four small nodes, two large ones, two with GPUs, every job held. A reservation `course` on
g1, for who submits, begins before and ends meanwhile: until then jobs that need g1 and do not name it wait.
"""

from __future__ import annotations

import argparse
import getpass
import gzip
import json
import re
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.plugin.slurm.bed import RECORDED, RELEASES, Bed, bed
from tests.plugin.slurm.enforcing import Enforcing, enforcing

from cosched_plugin.slurm.adapter import rest_of
from cosched_plugin.slurm.records import job_of, licence_of, node_of, partition_of, reservation_of
from cosched_plugin.slurm.transport import file_token

MODERN: Final = RECORDED.parent / "modern"
SCRIPTS: Final = MODERN / "scripts.txt"
FILE: Final = Path(__file__).parent / "recorded" / "scripts.json.gz"
READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "nodes": node_of, "partitions": partition_of, "reservations": reservation_of, "licenses": licence_of, "jobs": job_of,
}  # fmt: skip
PARTITIONS: Final = {"c": ("-p", "batch"), "m": ("-p", "batch,short"), "g": ("-p", "gpu"), "o": ()}
RESERVED_MIN: Final = 1
OVER: Final = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}


class Script(NamedTuple):
    """One line of a file, and what became of it."""

    line: str
    job: int = 0  # its number; 0: Slurm has refused it
    outcome: str = ""  # completed, left, silent, refused, or a state of Slurm
    reason: str = ""  # why it was left
    withdrawn: int = 0  # starts of it that did not come true

    @property
    def gpu(self) -> bool:
        """Tell whether it is one of partition gpu."""
        return "gpu" in (*PARTITIONS[self.line[0]], *shlex.split(self.line))


def scripts_of(file: Path) -> list[Script]:
    """Return the scripts of a file."""
    return [Script(line.strip()) for line in file.read_text().splitlines() if line.strip() and line[0] != "#"]


def bed_of(slurm: str) -> AbstractContextManager[Bed]:
    """Bring up the bed of the scripts."""
    return bed("--conf", str(MODERN / "bed-real.conf"), "--min-job-age", "900", slurm=slurm)


def reserve(one: Bed, minutes: int) -> None:
    """Keep a node with GPUs for who submits."""
    reservation = (
        f"ReservationName=course StartTime=now Duration={minutes} Users={getpass.getuser()} Nodes=g1 Flags=IGNORE_JOBS"
    )
    one.run("scontrol", "create", "reservation", *reservation.split())


def submit(one: Bed, script: Script) -> Script:
    """Submit a script; its job sleeps a second."""
    options = shlex.split(script.line[2:])
    named = any(option.startswith(("-p", "--partition")) for option in options)
    where = () if named else PARTITIONS[script.line[0]]
    said = one.run("sbatch", "-o", "/dev/null", "-D", "/", *where, *options, stdin="#!/bin/bash\nsleep 1\n", ok=False)
    found = re.search(r"job (\d+)", said)
    return script._replace(job=int(found[1])) if found else script._replace(outcome="refused")


def judged(one: Bed, driver: Enforcing, scripts: Sequence[Script]) -> Iterator[Script]:
    """Yield the scripts with what has become of them so far."""
    states: dict[int, list[str]] = {}
    for number, row in one.jobs().items():
        states.setdefault(row["array_job_id"] or number, []).append(row["job_state"])
    log = driver.log
    reasons = {
        int(job): why
        for job, why in re.findall(r"job (\d+) (?:is left to Slurm|waits for a larger machine): (.*)", log)
    }
    withdrawn = Counter(int(job) for job in re.findall(r"job (\d+)(?:_\d+)? has not started in time", log))
    for script in scripts:
        if not script.job:
            yield script
            continue
        found = set(states.get(script.job, ["gone"]))
        outcome, reason = "/".join(sorted(found)).lower(), ""
        if not found <= OVER:
            reason = reasons.get(script.job, "")
            outcome = "left" if reason else "silent"
        yield script._replace(outcome=outcome, reason=reason, withdrawn=withdrawn[script.job])


def tried(slurm: str, scripts: Sequence[Script], seconds: float, policy: str = "easy") -> tuple[list[Script], str]:
    """Run scripts on a bed of a release; return what became of them, and the driver's log."""
    with tempfile.TemporaryDirectory() as folder, bed_of(slurm) as one:
        reserve(one, RESERVED_MIN)
        submitted = [submit(one, script) for script in scripts]
        options = [word for name in ("batch", "short", "bigmem", "gpu") for word in ("--partition", name)]
        with enforcing(one, Path(folder), "--policy", policy, *options) as driver:
            begun, end = time.monotonic(), time.monotonic() + seconds
            while True:
                found = list(judged(one, driver, submitted))
                waits = any(script.outcome in ("silent", "pending", "running", "completing") for script in found)
                reserved = (
                    time.monotonic() - begun < 60 * RESERVED_MIN + 30
                )  # until then what is left may yet be placed
                if time.monotonic() > end or not (
                    waits or (reserved and any(script.outcome == "left" for script in found))
                ):
                    return found, driver.log
                time.sleep(1.0)


def recorded(slurm: str, scripts: Sequence[Script]) -> dict[str, Any]:
    """Return what Slurm shows of held jobs, by their options, and of all else that a driver asks for."""
    with bed_of(slurm) as one:
        reserve(one, 60)
        lines = {script.job: script.line for script in (submit(one, script) for script in scripts)}
        token = file_token(str(one.token)) if one.token.exists() else None
        rest = rest_of(f"unix:{one.rest}", token)
        rest.begin()
        found: dict[str, Any] = {}
        for kind in ("nodes", "partitions", "reservations", "licenses", "jobs"):
            rows = json.loads(rest._transport.call("GET", f"/slurm/{rest.version}/{kind}").text)[kind]
            found[kind] = [_read_of(kind, row) for row in rows]
        found["jobs"] = [[lines[row["job_id"]], row] for row in found["jobs"]]
        return found


def _read_of(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return what a driver reads of a record."""

    class Noted(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            names.add(key)
            return super().__getitem__(key)

        def get(self, key: str, default: Any = None) -> Any:
            names.add(key)
            return super().get(key, default)

    names: set[str] = set()
    READERS[kind](Noted(row))
    return {name: row[name] for name in sorted(names & row.keys())}


def summary(scripts: Sequence[Script]) -> dict[str, dict[str, int]]:
    """Return how many scripts came to what, without and with GPUs."""
    found: dict[str, dict[str, int]] = {}
    for name, gpu in (("cpu", False), ("gpu", True)):
        these = [script for script in scripts if script.gpu == gpu]
        found[name] = {"scripts": len(these), **Counter(script.outcome for script in these)}
        found[name]["withdrawals"] = sum(script.withdrawn for script in these)
    return found


def main() -> None:
    """Say what becomes of the scripts of some files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path, default=[SCRIPTS])
    parser.add_argument("--slurm", choices=RELEASES, default="24.11")
    parser.add_argument("--policy", default="easy")
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="after so long, what is not placed counts as left or silent"
    )
    parser.add_argument("--record", action="store_true", help="keep what each release shows of the jobs, held")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log", type=Path, help="where the driver's log goes")
    asked = parser.parse_args()
    if asked.record:
        scripts = [script for file in asked.files for script in scripts_of(file)]
        kept = {release: recorded(release, scripts) for release in RELEASES}
        FILE.write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))
        return
    scripts = [script for file in asked.files for script in scripts_of(file)]
    found, log = tried(asked.slurm, scripts, asked.seconds, asked.policy)
    if asked.log:
        asked.log.write_text(log)
    if asked.json:
        rows: list[dict[str, Any]] = [{**script._asdict(), "gpu": script.gpu} for script in found]
        print(json.dumps({"slurm": asked.slurm, "summary": summary(found), "scripts": rows}, indent=1))
        return
    for script in found:
        if script.outcome != "completed" or script.withdrawn:
            more = f", withdrawn {script.withdrawn}" if script.withdrawn else ""
            print(f"{script.outcome}{more}: {script.line}{': ' if script.reason else ''}{script.reason}")
    for name, counts in summary(found).items():
        print(f"{asked.slurm} {name}: {', '.join(f'{count} {word}' for word, count in counts.items())}")


if __name__ == "__main__":
    main()
