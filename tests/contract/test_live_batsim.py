"""Batsim itself simulates, cosched decides: skipped where there is no command `batsim` (COSCHED_BATSIM names another one)."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.commands import Commands
from tests.contract.test_batsim import rows_of, schedule_of
from tests.processes import ended

BATSIM = os.environ.get("COSCHED_BATSIM") or shutil.which("batsim")
pytestmark = pytest.mark.skipif(BATSIM is None, reason="there is no command batsim, of Batsim 4")
SITE = '[belief]\ncontention = "lomarc"\n'


def write_platform(file: Path, hosts: int) -> None:
    """Write a platform without latency; each host is linked to the master, and jobs send nothing."""
    names = [f"n{number:03d}" for number in range(hosts)]
    lines = [f'<host id="{name}" speed="1Gf"/>' for name in ("master", *names)]
    lines.append('<link id="l" bandwidth="1.25GBps" latency="0us" sharing_policy="FATPIPE"/>')
    every = ("master", *names)
    lines += [
        f'<route src="{one}" dst="{other}"><link_ctn id="l"/></route>'
        for place, one in enumerate(every)
        for other in every[place + 1 :]
    ]
    head = (
        '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">'
    )
    file.write_text("\n".join([head, '<zone id="all" routing="Full">', *lines, "</zone>", "</platform>", ""]))


def run_batsim(commands: Commands, policy: tuple[str, ...], *options: str) -> None:
    """Let Batsim simulate w.json with cosched's decisions; both must end well."""
    folder = commands.folder
    endpoint = f"ipc://{folder}/b.sock"
    plugin = commands.start("cosched_plugin", "batsim", "--bind", endpoint, "--quiet", *policy)
    assert BATSIM is not None
    argv = [
        BATSIM,
        "-p",
        "p.xml",
        "-m",
        "master",
        "-w",
        "w.json",
        "-s",
        endpoint,
        "-e",
        "live",
        "--disable-schedule-tracing",
    ]
    done = subprocess.run([*argv, *options], cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert ended(plugin) == (0, "", "")


def shake(file: Path) -> None:
    """Move all times by parts of a second: of one instant Batsim may tell in several messages, and decisions follow each of them."""
    random = Random(1)
    content = json.loads(file.read_text())
    for number, each in enumerate(content["jobs"]):
        each["subtime"] = round(each["subtime"] + (random.random() if number else 0), 6)
        each["walltime"] += round(random.random(), 6)
        content["profiles"][each["profile"]]["delay"] += round(random.random(), 6)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("jobs", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_easy_decides_for_batsim_as_natively(jobs: int, commands: Commands) -> None:
    folder = commands.folder
    write_platform(folder / "p.xml", 128)
    (folder / "s.toml").write_text("[workload]\nminimum_estimate_s = 0\n")
    lublin = ("workload", "lublin", "--jobs", str(jobs), "--aarr", "9.83", "--seed", "3")
    assert commands.emulator(*lublin, "--out", "w.swf").code == 0
    assert commands.emulator("workload", "convert", "w.swf", "--out", "w.json").code == 0
    shake(folder / "w.json")
    assert commands.emulator("workload", "convert", "w.json", "--out", "shaken.swf").code == 0
    machine = ("--nodes", "128", "--cores", "1", "--no-cap-runs")
    native = ("simulate", "s.toml", "--swf", "shaken.swf", *machine, "--policy", "easy", "--out", "native")
    assert commands.emulator(*native).code == 0
    run_batsim(commands, ("--policy", "easy"))
    live, natively = schedule_of(folder / "live_jobs.csv"), schedule_of(folder / "native" / "jobs.csv")
    assert len(live) == jobs
    for job_id, (start, end, alloc) in natively.items():
        assert live[job_id] == (pytest.approx(start, abs=1e-5), pytest.approx(end, abs=1e-5), alloc), job_id


def test_pairs_share_hosts_of_batsim(commands: Commands) -> None:
    folder = commands.folder
    write_platform(folder / "p.xml", 32)
    (folder / "site.toml").write_text(SITE)
    drawn = ("--characteristics", "M1", "--usage-out", "u.csv")
    made = commands.emulator(
        "workload", "lublin", "--jobs", "400", "--processors", "32", "--aarr", "9.0", *drawn, "--out", "w.swf"
    )
    assert made.code == 0
    assert commands.emulator("workload", "convert", "w.swf", "--annotations", "u.csv", "--out", "w.json").code == 0
    run_batsim(commands, ("--policy", "lomarc-r", "--site", "site.toml"), "--enable-compute-sharing")
    most, shared = most_jobs(folder / "live_jobs.csv", 32)
    assert len(rows_of(folder / "live_jobs.csv")) == 400
    assert most == 2
    assert shared > 0


def most_jobs(file: Path, hosts: int) -> tuple[int, int]:
    """Return the most jobs that a host has at once, and how often a job joins another one; each has the hosts that it asks for."""
    changes = []
    with file.open(newline="") as stream:
        for row in csv.DictReader(stream):
            used: list[int] = []
            for part in row["allocated_resources"].split(" "):
                first, _, last = part.partition("-")
                used += range(int(first), int(last or first) + 1)
            assert len(used) == int(row["requested_number_of_resources"])
            assert max(used) < hosts
            changes += [(float(row["starting_time"]), 1, used), (float(row["finish_time"]), -1, used)]
    jobs: Counter[int] = Counter()
    most = shared = 0
    for _, change, used in sorted(changes, key=lambda each: each[:2]):
        shared += change > 0 and any(jobs[host] for host in used)
        for host in used:
            jobs[host] += change
            most = max(most, jobs[host])
    return most, shared
