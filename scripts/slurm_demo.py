"""`scripts/demo --slurm`: the same jobs on a private real Slurm, one on each node, and two where they use different resources.

The jobs run kernels of `cosched-hwmodel measure`: whole numbers, or messages. The eight nodes are pretended: all kernels share this
machine's cores, so run times say nothing of sharing here; who starts when and where is decided and carried out as on a real cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.processes import ran

ROOT: Final = Path(__file__).parents[1]
BED: Final = str(ROOT / "scripts" / "slurm-testbed")
KERNELS: Final = str(ROOT / "hwmodel" / "cosched_hwmodel" / "cli" / "measuring" / "numpy_kernels.py")
SITE: Final = '[belief]\ncontention = "lomarc"\nparameters = { good_share_ppm = 1_000_000 }\n'
USES: Final = {  # the kernel, and what it is said to use
    "integer": {"bound": "cpu", "cpu": 0.9, "network": 0.05, "disk": 0.05, "memory": 0.1},
    "network": {"bound": "network", "cpu": 0.2, "network": 0.75, "disk": 0.05, "memory": 0.1},
}
JOBS: Final = [
    (2 + number % 3, (1, 2, 4, 2)[number % 4], ("integer", "network")[number // 2 % 2]) for number in range(16)
]
WAIT_S: Final = 180.0


def main() -> None:
    """Bring a test bed up, run the jobs under both policies, and say what came out."""
    if shutil.which("slurmctld", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        sys.exit("demo: no slurmctld; the head of scripts/slurm-testbed names Debian's packages")
    folder = Path(tempfile.mkdtemp(prefix="cosched-demo-", dir="/tmp"))
    bed = ("--dir", str(folder / "bed"), "--port", "18200")
    env = {
        **os.environ,
        "SLURM_CONF": str(folder / "bed" / "etc" / "slurm.conf"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    try:
        print(_run(env, BED, "up", *bed).strip())
        (folder / "site.toml").write_text(SITE, encoding="utf-8")
        rows = [(name, *_under(name, folder, env)) for name in ("pss", "lomarc-r")]
        print(f"\n{'policy':10} {'mean wait, s':>13} {'all done after, s':>18} {'jobs beside others':>19}")
        for name, wait_s, over_s, shared in rows:
            print(f"{name:10} {wait_s:13.1f} {over_s:18.1f} {shared:19d}")
        print("\nPSS gives each job nodes of its own; LOMARC puts a second job beside one that uses another resource.")
    finally:
        subprocess.run([BED, "down", *bed], stdout=subprocess.DEVNULL, check=False, timeout=90)
        shutil.rmtree(folder, ignore_errors=True)


def _under(policy: str, folder: Path, env: Mapping[str, str]) -> tuple[float, float, int]:
    """Run the jobs under a policy; return mean wait, end of the last job, and how many had a neighbour."""
    rest = f"unix:{folder / 'bed' / 'rest' / 'rest.sock'}"
    command = [
        sys.executable, "-m", "cosched_plugin", "slurm", "--policy", policy, "--rest", rest, "--guests", "co:guest",
        "--site", str(folder / "site.toml"), "--state", str(folder / f"{policy}.sqlite"), "--quiet",
    ]  # fmt: skip
    driver = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
    try:
        begun = time.time()
        jobs = [_submit(env, *job) for job in JOBS]
        while True:
            rows = {row["job_id"]: row for row in json.loads(_run(env, "squeue", "-a", "-t", "all", "--json"))["jobs"]}
            if all(rows[job]["job_state"] == "COMPLETED" for job in jobs):
                break
            if time.time() > begun + WAIT_S or driver.poll() is not None:
                sys.exit(f"demo: the jobs have not ended within {WAIT_S:g} s")
            time.sleep(0.3)
        ran = [rows[job] for job in jobs]
    finally:
        driver.terminate()
        driver.wait(30)
    wait_s = sum(row["start_time"] - row["submit_time"] for row in ran) / len(ran)
    return wait_s, max(row["end_time"] for row in ran) - begun, sum(_has_neighbour(row, ran) for row in ran)


def _submit(env: Mapping[str, str], seconds: int, nodes: int, kernel: str) -> int:
    """Submit a held job that runs a kernel; LOMARC pairs jobs that are expected to take ten minutes or more."""
    run = f"printf 'prepare\\nrun 0 {seconds}000000\\n' | {sys.executable} {KERNELS} {kernel} 0 60"
    told = json.dumps({"estimate_s": 900, "usage": USES[kernel]})
    options = ["-N", str(nodes), "-n", str(4 * nodes), "--ntasks-per-node=4", "-t", "30", "-p", "co", "-J", kernel]
    said = _run(env, "sbatch", "-H", "-D", "/", "-o", "/dev/null", "--comment", told, *options, "--wrap", run)
    return int(re.findall(r"\d+", said)[-1])


def _has_neighbour(row: Mapping[str, Any], ran: Sequence[Mapping[str, Any]]) -> bool:
    nodes = _nodes(row)
    beside = [other for other in ran if other is not row and nodes & _nodes(other)]
    return any(each["start_time"] < row["end_time"] and row["start_time"] < each["end_time"] for each in beside)


def _nodes(row: Mapping[str, Any]) -> set[str]:
    return {node["nodename"] for node in row["job_resources"]["allocated_nodes"]}


def _run(env: Mapping[str, str], *command: str) -> str:
    done = ran(command, 90.0, env)
    if done.returncode:
        sys.exit(f"demo: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
