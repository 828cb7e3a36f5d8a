"""Looking on: nothing is touched, what would be done is said with reasons, and the log of what happened runs in the emulator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.plugin.slurm.bed import Bed, bed, each_slurm
from tests.processes import environment, run_python

WHOLE = ("-n8", "-N2", "--ntasks-per-node=4")


@contextmanager
def looking_on(one: Bed, folder: Path, name: str, *options: str) -> Iterator[Path]:
    """Look on until the end of the block; yield the file of what is said."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "cosched_plugin",
        "slurm",
        *one.way,
        "--partition",
        "co",
        *options,
    ]
    said = folder / name
    with open(said, "w") as stream:
        env = environment(**one.told)
        process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        try:
            until(lambda: "looks at" in said.read_text(), 30)
            yield said
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 128 + signal.SIGTERM, said.read_text()
        finally:
            process.kill()
            process.wait()


def until(what: object, seconds: float) -> None:
    assert callable(what)
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@each_slurm
def test_what_would_be_done_is_said_and_what_happened_is_logged(tmp_path: Path, slurm: str) -> None:
    log, secret = tmp_path / "log", tmp_path / "secret"
    options = ("--mode", "observe", "--policy", "easy")
    with (
        bed(slurm=slurm) as one,
        looking_on(one, tmp_path, "said", *options, "--out", str(log)) as said,
        looking_on(one, tmp_path, "also", *options, "--out", str(secret), "--anonymise"),
        looking_on(one, tmp_path, "dry", "--mode", "advise", "--dry-run") as dry,
        looking_on(one, tmp_path, "wet", "--mode", "advise"),
    ):
        used = {"estimate_s": 20.0, "usage": {"bound": "cpu", "cpu": 0.8, "network": 0.1, "disk": 0.1, "memory": 0.2}}
        first = one.submit("-N8", "-n32", "--ntasks-per-node=4", "-t", "5", "-J", "payroll", run_s=4, comment=used)
        held = one.submit(*WHOLE, "-t", "5", run_s=1)
        time.sleep(1)
        assert said.read_text().count("job ") == 0  # those that their users hold are not Slurm's to start
        one.run("scontrol", "update", "PartitionName=co", "State=DOWN")
        for job in (first, held):
            one.run("scontrol", "release", str(job))
        small = one.submit("-n2", "-t", "1", run_s=1)
        one.run("scontrol", "release", str(small))
        until(
            lambda: f"job {first}: start it on n0,n1,n2,n3,n4,n5,n6,n7: it is first in the queue" in said.read_text(),
            60,
        )
        until(lambda: f"job {first}: start it on" in dry.read_text(), 60)
        until(lambda: str(one.jobs()[first]["admin_comment"]).startswith("cosched: start it on n0"), 60)
        assert one.jobs()[first]["comment"] == json.dumps(used)
        one.run("scontrol", "update", "PartitionName=co", "State=UP")
        one.until(lambda jobs: all(jobs[job]["job_state"] == "COMPLETED" for job in (first, held, small)), 60)
        until(lambda: (log / "trace.swf").read_text().count("\n") >= 7, 60)
        until(lambda: (secret / "trace.swf").read_text().count("\n") >= 6, 60)
    rows = [line.split() for line in (log / "trace.swf").read_text().splitlines() if line[0] != ";"]
    by_job = {row[0]: row for row in rows}
    assert by_job.keys() == {str(job) for job in (first, held, small)}
    assert (by_job[str(first)][4], by_job[str(first)][8], by_job[str(first)][10]) == ("32", "20.000", "1")
    assert 3 <= int(by_job[str(first)][3]) <= 6
    assert f"{first},cpu,0.800000,0.100000,0.100000,0.200000,4" in (log / "jobs.csv").read_text()
    assert ",payroll\n" in (log / "names.csv").read_text()
    for file in secret.iterdir():
        assert "payroll" not in file.read_text()
        assert "UnixStartTime" not in file.read_text()
    assert not (secret / "names.csv").exists()
    plain = run_emulator("simulate", "scenario.toml", "--policy", "easy", "--out", str(tmp_path / "easy"), folder=log)
    shared = ("--node", "2x2x2", "--contention", "lomarc", "--policy", "lomarc-r", "--out", str(tmp_path / "shared"))
    run_emulator("simulate", "scenario.toml", *shared, folder=secret)
    assert len((tmp_path / "easy" / "jobs.csv").read_text().splitlines()) == 4, plain


def run_emulator(*arguments: str, folder: Path) -> str:
    ran = run_python("-m", "cosched_emulator", *arguments, folder=folder)
    assert ran.code == 0, ran.err
    return ran.out
