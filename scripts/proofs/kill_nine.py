"""Kill the manager and its scheduler with -9 at random moments, and prove that this loses, duplicates and changes nothing.

Usage: .venv/bin/python -m scripts.proofs.kill_nine [--jobs N] [--policy NAME]... [--plugin-kills N] [--manager-kills N] [--json
FILE]

For each policy the same jobs are run twice, by a manager with a database and a scheduler in a process of its own: once
undisturbed, once under fire (`pair_under_fire`). Then every job must have ended exactly once, no two jobs may have held a
thread at the same time, and results and databases must be equal, byte for byte and row for row.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.progress import Progress
from scripts.proofs.pair_under_fire import MANAGER, PLUGIN, Fired, FireError, Kill, PairUnderFire, draw_kills

from cosched_plugin.protocol.messages import END_STATES

MACHINES: Final = Path(__file__).with_name("machines")  # scenarios and their files
TIME_SHARED: Final = "time-shared"
SCENARIOS: Final = {  # the machine for each policy, and jobs for it
    "easy": "rua-4way",
    "rua": "rua-4way",
    "lomarc-r": "lomarc-ht",
    "glts": "g-lomarc-2x2",
    "symbiosis": "shared-gpus",
    "gang": TIME_SHARED,
    "paired-gang": TIME_SHARED,
}
# How long nodes are up and down, in seconds: runs of weeks, and of hours.
LONG_UP, SHORT_UP = (2_000_000, 7_200), (40_000, 300)
RESULTS: Final = (
    "jobs.csv", "allocations.csv", "preemptions.csv", "suspensions.csv", "schedule.swf", "summary.json", "workload.swf", "quanta.csv",
)  # fmt: skip
TABLES: Final = {
    "jobs": "id",
    "allocations": "job_id, stay, run",
    "preemptions": "job_id, preemption",
    "changes": "number",
    "faults": "number",
    "quanta": "id",
    "journal": "step",
    "progress": "step",
}
PAUSE_S: Final = 0.003  # least pause of the scheduler before each decision, so that kills hit a running process
A_KILL_S: Final = 0.15  # share of all pauses for one kill, so that the run lasts longer than the kills
NOBODY_S: Final = 120  # how long either process waits for the other, which may replay a long run on a busy machine


class Outcome(NamedTuple):
    """The result of the runs under one policy; ``wrong`` is empty if all checks passed."""

    policy: str
    jobs: int
    batches: int
    undisturbed_s: float
    fired: Fired
    wrong: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome, ready for JSON."""
        return {**self._asdict(), "fired": self.fired._asdict()}


def prove(
    policy: str,
    folder: Path,
    *,
    jobs: int,
    plugin_kills: int,
    manager_kills: int,
    seed: int,
    deadline_s: float = 600.0,
    run_factor: float = 0.025,
    own: str = "",
    tell: Callable[[int], None] = lambda _kills: None,
) -> Outcome:
    """Run one policy's jobs undisturbed and under fire, in ``folder``, and compare; FireError if a run does not end.

    ``run_factor`` shortens jobs that share time; ``own``: a scenario of ``jobs`` jobs instead of the policy's.
    """
    scenario = folder / "scenario.toml"
    up_s, down_s = SHORT_UP if SCENARIOS.get(policy) == TIME_SHARED else LONG_UP
    times = {"up_s": up_s, "down_s": down_s, "run_factor": run_factor}
    files = {"rates": folder / "rates", "gpus": MACHINES / "gpus.toml", "pairs": MACHINES / "pairs.csv"}
    parts = ("faults.toml", f"{SCENARIOS.get(policy)}.toml")
    scenario.write_text(
        own or "\n".join((MACHINES / part).read_text() for part in parts).format(jobs=jobs, seed=seed, **times, **files)
    )
    undisturbed = _run(folder, "undisturbed", ["--policy", policy], (), deadline_s)
    times_us = _batch_times(folder / "undisturbed.db")
    pause_s = max(PAUSE_S, A_KILL_S * (plugin_kills + manager_kills) / len(times_us))
    kills = draw_kills(seed, plugin_kills, manager_kills, times_us, pause_s)
    fired = _run(folder, "killed", _paced(policy, folder / "killed.marks", pause_s), kills, deadline_s, tell)
    wrong = [
        *_unequal_files(folder / "undisturbed", folder / "killed"),
        *unequal_rows(folder / "undisturbed.db", folder / "killed.db"),
        *broken_accounts(folder / "killed.db", jobs),
    ]
    if fired.missed > len(kills) / 2:
        wrong.append(f"{fired.missed} of {len(kills)} kills came after the run: this proves little")
    return Outcome(policy, jobs, len(times_us), undisturbed.wall_s, fired, wrong)


def _run(
    folder: Path,
    name: str,
    policy: Sequence[str],
    kills: Sequence[Kill],
    deadline_s: float,
    tell: Callable[[int], None] = lambda _kills: None,
) -> Fired:
    """Run the scenario in ``folder`` once, and store results, database and the scheduler's marks there under ``name``."""
    with tempfile.TemporaryDirectory(prefix="cosched-kill-") as short:  # the path of a socket must be short
        endpoint, wait = f"ipc://{short}/socket", ("--wait", str(NOBODY_S))
        manager = ("cosched_emulator", "serve", str(folder / "scenario.toml"), "--bind", endpoint, *wait)
        kept = ("--db", str(folder / f"{name}.db"), "--out", str(folder / name), "--force")
        plugin = ("cosched_plugin", "serve", "--connect", endpoint, *wait)
        commands = {MANAGER: (*manager, *kept), PLUGIN: (*plugin, *policy)}
        with PairUnderFire(commands, folder, folder / f"{name}.marks") as pair:
            return pair.run(kills, deadline_s, tell)


def broken_accounts(database: Path, jobs: int) -> list[str]:
    """Return the errors in a database of ``jobs`` jobs: lost jobs, missing or repeated ends and stays, threads held twice.

    Where jobs take turns on threads, the CPU time of each quantum counts instead.
    """
    with closing(_reader(database)) as connection:
        wrong = []
        ids = [job_id for (job_id,) in connection.execute("SELECT id FROM jobs WHERE end_us IS NOT NULL ORDER BY id")]
        if len(ids) != jobs:
            wrong.append(f"{len(ids)} jobs have ended, not {jobs}")
        states = ",".join(f"'{state}'" for state in sorted(END_STATES))
        ends = dict(
            connection.execute(
                f"SELECT id, count(*) FROM changes WHERE what = 'job' AND state IN ({states}) GROUP BY id"
            )
        )
        wrong += [f"job {job_id} has ended {ends.get(job_id, 0)} times" for job_id in ids if ends.get(job_id) != 1]
        wrong += [f"job {job_id} has ended, and was never submitted" for job_id in sorted(set(ends) - set(ids))]
        stays = defaultdict(list)
        for job_id, stay, start_us, end_us, resumed in connection.execute(
            "SELECT DISTINCT job_id, stay, start_us, end_us, resumed FROM allocations ORDER BY job_id, stay"
        ):
            stays[job_id].append((stay, start_us, end_us, resumed))
        for job_id, submit_us, end_us, starts in connection.execute(
            "SELECT id, submit_us, end_us, starts FROM jobs WHERE end_us IS NOT NULL ORDER BY id"
        ):
            numbers = [stay[0] for stay in stays[job_id]]
            times = [at_us for stay in stays[job_id] for at_us in stay[1:3]]
            if numbers != list(range(len(numbers))) or [submit_us, *times, end_us] != sorted(
                [submit_us, *times, end_us]
            ):
                wrong.append(f"job {job_id}: stays {stays[job_id]}")
            if starts != [stay[3] for stay in stays[job_id]].count(0):
                wrong.append(f"job {job_id}: {starts} starts, stays {stays[job_id]}")
        (quanta,) = connection.execute("SELECT count(*) FROM quanta").fetchone()
        return wrong + list(_wrong_quanta(connection) if quanta else held_twice(connection))


def unequal_rows(first: Path, second: Path) -> list[str]:
    """Return the differences of two databases."""
    wrong = []
    with closing(_reader(first)) as one, closing(_reader(second)) as other:
        for table, order in TABLES.items():
            query = f"SELECT * FROM {table} ORDER BY {order}"
            rows, others = [connection.execute(query).fetchall() for connection in (one, other)]
            if len(rows) != len(others):
                wrong.append(f"table {table}: {len(others)} rows, undisturbed {len(rows)}")
            differing = [(row, row_2) for row, row_2 in zip(rows, others, strict=False) if row != row_2]
            if differing:
                wrong.append(
                    f"table {table}: {len(differing)} rows differ, first {differing[0][1]}, undisturbed {differing[0][0]}"
                )
    return wrong


def held_twice(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the pairs of stays that held a thread at the same time."""
    stays = defaultdict(list)
    for job_id, start_us, end_us, first, count, mask in connection.execute(
        "SELECT job_id, start_us, end_us, first_node, node_count, thread_mask FROM allocations ORDER BY start_us, end_us"
    ):
        for node in range(first, first + count):
            stays[node].append((start_us, end_us, int(mask, 16), job_id))
    for node, there in sorted(stays.items()):
        present: list[tuple[int, int, int, int]] = []
        for stay in there:
            present = [other for other in present if other[1] > stay[0]]
            for other in present:
                if other[2] & stay[2] and stay[1] > stay[0]:
                    yield f"jobs {other[3]} and {stay[3]} held a thread of node {node} at the same time"
            present.append(stay)


def _wrong_quanta(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the quanta in which two jobs of a slot were on the same node, or used more CPU time than there was.

    Nodes have one thread.
    """
    stays = defaultdict(list)
    for job_id, start_us, end_us, first, count in connection.execute(
        "SELECT job_id, start_us, end_us, first_node, node_count FROM allocations"
    ):
        stays[job_id].append((start_us, end_us, range(first, first + count)))
    for number, start_us, end_us, nodes, text in connection.execute(
        "SELECT number, start_us, end_us, nodes, parts FROM quanta ORDER BY id"
    ):
        parts = json.loads(text)
        holders: dict[tuple[int, int], int] = {}
        for job_id, slot, *_ in parts:
            for node in [
                node for begin_us, until_us, some in stays[job_id] if begin_us <= start_us < until_us for node in some
            ]:
                other = holders.setdefault((slot, node), job_id)
                if other != job_id:
                    yield f"quantum {number}: jobs {other} and {job_id} of slot {slot} were on node {node}"
        used_us = sum([part[5] for part in parts])
        if used_us > nodes * (end_us - start_us) or len({part[0] for part in parts}) < len(parts):
            yield f"quantum {number}: jobs used {used_us} us of CPU time on {nodes} nodes in {end_us - start_us} us"


def _unequal_files(first: Path, second: Path) -> list[str]:
    wrong = []
    for name in RESULTS:
        one, other = [folder / name for folder in (first, second)]
        if one.exists() != other.exists() or (one.exists() and one.read_bytes() != other.read_bytes()):
            wrong.append(f"{name} differs")
    return wrong


def _batch_times(database: Path) -> list[int]:
    with closing(_reader(database)) as connection:
        return [at_us for (at_us,) in connection.execute("SELECT at_us FROM journal ORDER BY step")]


def _reader(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)


def _paced(policy: str, marks: Path, pause_s: float) -> list[str]:
    settings = {"preset": policy, "marks": str(marks), "pause_s": pause_s}
    assignments = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return ["--policy", "scripts.proofs.paced_policy:PacedPolicy", *assignments]


# ---------------------------------------------------------------- command line


def report(outcome: Outcome) -> str:
    """Return the outcome as text."""
    fired = outcome.fired
    hits = ", ".join(f"{count} of the {victim}" for victim, count in sorted(fired.hits.items()))
    lines = [
        f"{outcome.policy}: {outcome.jobs} jobs, {outcome.batches} batches; {outcome.undisturbed_s:.1f} s undisturbed, "
        f"{fired.wall_s:.1f} s under fire",
        f"  kills that hit: {hits}; too late: {fired.missed}; processes: {fired.starts}; passes of the scheduler: {fired.passes}",
        *[f"    {count:4d}  {place}" for place, count in fired.places.items()],
        *[f"  WRONG: {text}" for text in outcome.wrong[:20]],
    ]
    return "\n".join([*lines, f"  {'the same, row for row' if not outcome.wrong else f'{len(outcome.wrong)} errors'}"])


def main() -> int:
    """Run the proof for each policy; return 1 if it fails."""
    parser = argparse.ArgumentParser(prog="kill_nine", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of a run (default 1,000)")
    parser.add_argument("--policy", action="append", choices=sorted(SCENARIOS), help="may be repeated (default: all)")
    parser.add_argument("--plugin-kills", type=int, default=50, help="kills of the scheduler (default 50)")
    parser.add_argument("--manager-kills", type=int, default=20, help="kills of the manager (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of jobs and kills (default 1)")
    parser.add_argument("--deadline", type=float, default=600.0, help="seconds for one run (default 600)")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    outcomes = []
    progress = Progress()
    kills = options.plugin_kills + options.manager_kills
    for policy in options.policy or list(SCENARIOS):
        with tempfile.TemporaryDirectory(prefix="cosched-kill-") as folder:
            try:
                outcome = prove(
                    policy,
                    Path(folder),
                    jobs=options.jobs,
                    plugin_kills=options.plugin_kills,
                    manager_kills=options.manager_kills,
                    seed=options.seed,
                    deadline_s=options.deadline,
                    tell=partial(progress.bar, count=kills, text=f"kills, {policy}"),
                )
            except (FireError, subprocess.SubprocessError) as error:
                print(f"\nkill_nine: {policy}: {error}", file=sys.stderr)
                return 1
            finally:
                progress.clear()
        print(report(outcome), flush=True)
        outcomes.append(outcome)
    if options.json is not None:
        options.json.write_text(json.dumps([outcome.as_dict() for outcome in outcomes], indent=2) + "\n")
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
