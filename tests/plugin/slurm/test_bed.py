"""The test bed is up in seconds, idempotent, on the loopback alone, and ends only what it started."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.plugin.slurm.bed import PACKAGES, PORTS, SCRIPT, Bed, bed, each_slurm, free_ports
from tests.processes import environment, run_python


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
            for what in ("ctld-kill", "ctld-start", "rest-stop", "rest-start"):
                one.script(what)
            assert len(before - pids(one)) == 2
            if "COSCHED_SLURM_TCP" in one.told:
                said = one.script("token", "60")
                assert one.token.read_text() == said
                assert [asked(one, token) for token in ("", "nonsense", said.strip())] == [401, 511, 200]
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


def asked(one: Bed, token: str) -> int:
    """Ask slurmrestd for its jobs, by TCP; return the status of the answer."""
    line = HTTPConnection(one.told["COSCHED_SLURM_TCP"].removeprefix("http://"), timeout=20)
    line.request("GET", "/slurm/v0.0.42/jobs", headers={"X-SLURM-USER-TOKEN": token} if token else {})
    with closing(line), line.getresponse() as answer:
        return answer.status


OWN = {
    "conf": """TaskPlugin=task/affinity
TaskProlog=%D/prolog
JobSubmitPlugins=lua
GresTypes=gpu
NodeName=DEFAULT Sockets=1 CoresPerSocket=4 ThreadsPerCore=2
NodeName=g[0-1] NodeHostname=%H NodeAddr=127.0.0.1 Port=[%P+10-%P+11] Gres=gpu:a:2
PartitionName=gpu Nodes=g[0-1] Default=YES
""",
    "gres": "NodeName=g[0-1] Name=gpu Type=a File=/dev/tty[0-1]\n",
    "lua": """function slurm_job_submit(job_desc, part_list, submit_uid)
  job_desc.comment = "by lua"
  return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end
""",
}


@each_slurm
def test_nodes_and_lines_of_ones_own_take_the_place_of_the_beds(slurm: str, tmp_path: Path) -> None:
    for kind, text in OWN.items():
        (tmp_path / f"own.{kind}").write_text(text)
    with bed("--conf", str(tmp_path / "own.conf"), slurm=slurm) as one:
        assert one.run("sinfo", "-h", "-o", "%N %G %X%Y%Z %P").strip() == "g[0-1] gpu:a:2 142 gpu*"
        prolog = one.folder / "prolog"
        prolog.write_text(f"#!/bin/sh\nhostname > {one.folder}/seen\n")
        prolog.chmod(0o755)
        job = one.submit("--gres=gpu:1", script="srun -n1 true", partition="gpu", held=False)
        ended = one.until(lambda jobs: jobs[job]["job_state"] == "COMPLETED", 20)
        assert ended[job]["comment"] == "by lua"
        assert (one.folder / "seen").exists()
        one.script("down")
        one.up("--port", str(free_ports(PORTS)), "--conf", "", "--node-shape", "1x4x2", "--nodes", "2")
        assert one.run("sinfo", "-h", "-o", "%N %X%Y%Z", "-p", "co").strip() == "n[0-1] 142"


@each_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can let slurmctld be another user")
def test_without_tokens_slurmrestd_serves_root_where_slurmctld_is_another_user(slurm: str) -> None:
    with bed("--slurm-user", "daemon", "--rest-auth", "local", "--nodes", "2", slurm=slurm) as one:
        job = one.submit("-n1", run_s=0.1)
        env = environment(**one.told)
        ran = run_python("-m", "cosched_plugin", "slurm", "release-all", *one.way, "--partition", "co", env=env)
        assert (ran.code, ran.out) == (0, f"job {job}: released\n"), ran.err
        one.until(lambda jobs: jobs[job]["job_state"] == "COMPLETED", 20)
        assert Path(f"/proc/{(one.folder / 'pids' / 'slurmctld.pid').read_text().strip()}").stat().st_uid == 1


def test_a_slurm_that_cannot_be_had_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "apt.conf").write_text('Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "/dev/null";\n')
    env = {**os.environ, "COSCHED_SLURM_PACKAGES": str(tmp_path), "APT_CONFIG": str(tmp_path / "apt.conf")}
    for options in ([], ["--kept"]):
        done = subprocess.run([PACKAGES, *options, "26.05"], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 69
        assert re.fullmatch(
            r"Slurm 26\.05 cannot be had here: .*(no Debian mirror|it takes|permits no).*\n", done.stderr
        )


def test_wrong_options_end_in_words(tmp_path: Path) -> None:
    for options, words in (
        (["--nodes", "3"], "expected an even number"),
        (["--node-shape", "2x2"], "such as 2x2x1"),
        (["--rest-auth", "none"], "expected local or jwt"),
        (["--conf", "/nowhere"], "cannot read"),
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
