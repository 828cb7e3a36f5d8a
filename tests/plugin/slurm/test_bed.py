"""The test bed is up in seconds, idempotent, on the loopback alone, and ends only what it started."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.plugin.slurm.bed import PORTS, SCRIPT, Bed, bed, each_slurm, free_ports

ANY = {"00000000", "0" * 32}  # the address of all interfaces, in /proc/net


def pids(one: Bed) -> set[int]:
    files = (one.folder / "pids").glob("*.pid")
    return {int(text) for text in (file.read_text().strip() for file in files) if text}


def listening(one: Bed) -> set[str]:
    """Return the addresses at which the bed's processes listen, as in /proc/net."""
    sockets = set()
    for pid in pids(one):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(link.readlink())
            except OSError:
                continue
            sockets |= {target[8:-1]} if target.startswith("socket:[") else set()
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].split(":")[0])
    return found


@each_slurm
def test_a_bed_runs_jobs_and_leaves_nothing(slurm: str) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        with bed(slurm=slurm) as one:
            before = pids(one)
            assert len(before) == 11
            one.up()
            assert pids(one) == before
            assert listening(one) == {"0100007F"}
            job = one.submit(run_s=0.1)
            one.run("scontrol", "release", str(job))
            ended = one.until(lambda jobs: jobs[job]["job_state"] == "COMPLETED", 20)
            assert ended[job]["nodes"] == "n0"
            assert "slurmd.n7: process" in one.script("status")
            # a pid file that names a process of somebody else
            one.script("node-kill", "n7")
            (one.folder / "pids" / "slurmd.n7.pid").write_text(f"{other.pid}\n")
            assert "slurmd.n7: not running" in one.script("status")
            one.script("down")
            assert other.poll() is None
            assert all(_is_dead(pid) for pid in before)
            assert "slurmctld: not running" in one.script("status")
            one.script("down")
            one.up("--port", str(free_ports(PORTS)), "--nodes", "2")
            assert one.run("sinfo", "-h", "-p", "co", "-o", "%N").strip() == "n[0-1]"
    finally:
        other.kill()
        other.wait()


def test_wrong_options_end_in_words(tmp_path: Path) -> None:
    for options, words in (
        (["--nodes", "3"], "expected an even number"),
        (["--node"], "unknown option"),
        (["--dir"], "a value"),
    ):
        done = subprocess.run(
            [SCRIPT, "up", "--dir", str(tmp_path), *options], capture_output=True, text=True, check=False
        )
        assert (done.returncode, words in done.stderr) == (1, True), done.stderr


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
