"""The shipped lines of slurm.conf and job_submit.lua on a real Slurm: who may bring jobs into `guest`, the cap, the discount."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.plugin.slurm.bed import Bed, on_each_slurm
from tests.plugin.slurm.guests.runs import as_user, shared_bed

USER = "games"
WHOLE = ("-D", "/", "-o", "/dev/null", "-N1", "-n4", "--ntasks-per-node=4", "-t5")


def asked(one: Bed, *command: str) -> subprocess.CompletedProcess[str]:
    """Return what becomes of a command of a user."""
    script = "#!/bin/sh\nsleep 100\n"
    told = as_user(one, USER, *command)
    return subprocess.run(told, env=one.env, input=script, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@on_each_slurm("slurmdbd", "mariadbd")
def test_only_cosched_makes_guests_and_the_site_caps_them_and_bills_less(tmp_path: Path, slurm: str) -> None:
    with shared_bed(tmp_path, slurm, cap=2) as one:
        for partitions in ("guest", "co,guest"):
            said = asked(one, "sbatch", *WHOLE, "-p", partitions)
            assert (said.returncode, "partition guest is for cosched: choose co" in said.stderr) == (1, True)
        jobs = []
        for number in range(11):
            said = asked(one, "sbatch", *WHOLE, "-p", "co", "-w", f"n{number % 8}")
            jobs.append(int(said.stdout.split()[3]))
        for change in ("Partition=guest", "Partition=co,guest"):
            said = asked(one, "scontrol", "update", f"JobId={jobs[8]}", change)
            assert (said.returncode, "denied" in said.stderr) == (1, True)
        assert asked(one, "scontrol", "update", f"JobId={jobs[8]}", "TimeLimit=4").returncode == 0
        for job in jobs[8:]:
            one.run("scontrol", "update", f"JobId={job}", "Partition=guest")
        last = jobs[10]
        states = ["RUNNING"] * 10 + ["PENDING"]
        one.until(lambda rows: [rows[job]["job_state"] for job in jobs] == states, 40)
        one.until(lambda rows: rows[last]["state_reason"] == "QOSGrpJobsLimit", 20)
        for job, billing in ((jobs[0], 4), (jobs[8], 2)):
            assert f"billing={billing}" in one.run("scontrol", "show", "job", str(job))
        assert asked(one, "scontrol", "update", f"JobId={last}", "Partition=co").returncode == 0  # one's own way back
        one.until(lambda rows: rows[last]["partition"] == "co", 60)
        # a site may send the jobs of a QOS to `co`
        lua = one.folder / "etc" / "job_submit.lua"
        lua.write_text(lua.read_text().replace("shared_qos = nil", 'shared_qos = "share"'))
        one.run("sacctmgr", "-i", "add", "qos", "share")
        one.run("sacctmgr", "-i", "modify", "user", USER, "set", "qos+=share")
        one.until(lambda _: "share" in one.run("scontrol", "show", "assoc_mgr", f"users={USER}", "flags=qos"), 60)
        for options, partition in ((("--qos=share",), "co"), (("--qos=share", "-p", "batch"), "batch"), ((), "batch")):
            job = int(asked(one, "sbatch", *WHOLE, *options).stdout.split()[3])
            assert one.jobs()[job]["partition"] == partition
