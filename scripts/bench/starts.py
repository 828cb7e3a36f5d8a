"""Start estimates against what simulations of logs then do: how far off they are, and how often ranges hold.

    python -m scripts.bench.starts run SDSC-SP2 easy -o FILE.jsonl      estimates of one log, a row each
    python -m scripts.bench.starts table FILE.jsonl...                  the tables of docs/results/appendix/start-estimates.md

Each run is simulated once, and once more with the decisions of the first: at the submission of each sampled job that waits, and at a
random moment of its wait, its start is estimated from the manager's inventory and from the jobs that had ended by then.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final, NamedTuple

from scripts.bench.runs import SHARED
from scripts.bench.start_tables import HOUR_US, error_lines, grouped, range_lines
from scripts.papers.study import LOGS, positive
from scripts.processes import PROJECT
from scripts.tables import write_tables

import cosched_emulator
from cosched_emulator.expected_starts.estimates import DRAWS, FURTHEST_US, Estimating
from cosched_emulator.expected_starts.forecast import forecast
from cosched_emulator.expected_starts.history import History, PastRun
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.prepare import Prepared
from cosched_plugin.config import PolicyChoice, allow_models, choose
from cosched_plugin.protocol.messages import Action, Event, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory

PAGE: Final = PROJECT / "docs" / "results" / "appendix" / "start-estimates.md"
JOBS: Final = 10_000  # of a log
SAMPLES: Final = 1_000
SEED: Final = 1
WORKLOADS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", {}),
    "CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", {}),
    "Lublin 9.83": ("lublin128_a9.83.swf.gz", {"estimates": "f-model", "estimate_factor": 5.0}),
}
NODES: Final = {"SDSC-SP2": 128, "CTC": 430, "Lublin 9.83": 128}

Write = Callable[[dict[str, Any]], object]


class Moment(NamedTuple):
    """A pending job at an instant of its wait."""

    at_us: int
    job_id: int
    kind: str  # submission or later


class _Replay:
    """A link that records what the scheduler decides, or repeats it, and asks for estimates at some moments."""

    def __init__(
        self, make: SchedulerFactory, done: list[Sequence[Action]], moments: Sequence[Moment], estimate: Any
    ) -> None:
        self._make, self._done, self._moments, self._estimate = make, done, moments, estimate
        self._replays = bool(done)
        self._scheduler: Scheduler | None = None
        self._batches = self._next = 0
        self._last_us = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        self._inventory = inventory
        if not self._replays:
            self._scheduler = self._make(inventory())

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:  # noqa: ARG002 - Link
        while self._next < len(self._moments) and self._moments[self._next].at_us < now_us:
            moment = self._moments[self._next]
            if moment.at_us >= self._last_us:
                self._estimate(moment, self._inventory()._replace(now_us=moment.at_us))
            self._next += 1
        self._last_us = now_us
        if self._scheduler is None:
            self._batches += 1
            return self._done[self._batches - 1]
        actions = self._scheduler.handle(now_us, events)
        self._done.append(actions)
        return actions

    def close(self) -> None:
        pass


def scenario(log: str, policy: str, jobs: int, folder: Path) -> dict[str, Any]:
    file, workload = WORKLOADS[log]
    table = {} if policy == "easy" else SHARED
    return {
        **table,
        "cluster": {**table.get("cluster", {}), "nodes": NODES[log]},
        "workload": {**table.get("workload", {}), "swf": str(folder / file), "jobs": jobs, **workload},
    }


def moments_of(records: Sequence[JobRecord], samples: int) -> list[Moment]:
    """Return moments of jobs that waited, spread over the log: the submission, and a random moment of the wait."""
    waited = [
        record for record in records if record.intervals and record.intervals[0].start_us > record.job.spec.submit_us
    ]
    step = max(1.0, len(waited) / samples)
    found = []
    for number in range(min(samples, len(waited))):
        record = waited[int(number * step)]
        spec = record.job.spec
        wait_us = record.intervals[0].start_us - spec.submit_us
        found.append(Moment(spec.submit_us, spec.id, "submission"))
        later_us = spec.submit_us + int(Random(spec.id).random() * wait_us)
        found.append(Moment(later_us, spec.id, "later"))
    return sorted(found)


class _Estimator:
    """Makes the rows of one log, with what was known at each moment."""

    def __init__(self, prepared: Prepared, choice: PolicyChoice, records: Sequence[JobRecord], write: Write) -> None:
        models = allow_models([prepared.belief.contention])
        self._make = partial(choice.scheduler, models=models)
        profile = choose("conservative", [] if choice.name == "easy" else ["shape=nodes"])
        self._requested = partial(profile.scheduler, models=models)
        self._history = History()
        self._records = {record.job.spec.id: record for record in records}
        self._ended = sorted((record for record in records if record.intervals), key=lambda record: record.end_us or 0)
        self._submitted = sorted((record.job.spec for record in records), key=lambda spec: (spec.submit_us, spec.id))
        self._seen = self._arrived = 0
        self._write = write

    def __call__(self, moment: Moment, welcome: Welcome) -> None:
        while self._arrived < len(self._submitted) and self._submitted[self._arrived].submit_us <= moment.at_us:
            self._history.arrive(self._submitted[self._arrived])
            self._arrived += 1
        while self._seen < len(self._ended) and (self._ended[self._seen].end_us or 0) <= moment.at_us:
            self._history.end(past_run(self._ended[self._seen]))
            self._seen += 1
        job_id = moment.job_id
        if all(job.spec.id != job_id for job in welcome.pending):
            return  # it starts at this instant
        began = process_time()
        estimating = Estimating(welcome, self._make, self._history, SEED, [job_id])
        estimating.predict()
        predicted = estimating.of(job_id)
        for _ in range(DRAWS):
            estimating.draw()
        drawn = estimating.of(job_id)
        took_s = process_time() - began
        head = welcome.pending[0].spec.id
        until_us = moment.at_us + FURTHEST_US
        planned = forecast(
            welcome, self._requested, lambda _, expected, had: max(expected, had + 1), {head, job_id}, until_us=until_us
        )
        start_us = self._records[job_id].intervals[0].start_us
        late = [at.at_us - moment.at_us for at in (planned.starts[head], planned.starts[job_id])]
        assert predicted is not None
        assert drawn is not None
        self._write({
            "kind": moment.kind, "at": moment.at_us, "job": job_id, "wait": start_us - moment.at_us, "pending": len(welcome.pending),
            "head": late[0], "conservative": late[1], "predicted": predicted.at_us - moment.at_us,
            "draws": [at - moment.at_us for at in (drawn.at_us, drawn.low_us, drawn.high_us)], "s": round(took_s, 4),
        })  # fmt: skip


def past_run(record: JobRecord) -> PastRun:
    spec = record.job.spec
    start_us = record.last_stays[0].start_us if record.last_stays else record.intervals[-1].start_us
    return PastRun(spec.user, spec.estimate_us, record.estimate_us, (record.end_us or start_us) - start_us)


def run(log: str, policy: str, jobs: int, samples: int, out: Path, folder: Path) -> None:
    """Simulate a log, then again with estimates at the moments."""
    prepared = cosched_emulator.prepare(scenario(log, policy, jobs, folder))
    done: list[Sequence[Action]] = []
    finished = cosched_emulator.simulate(prepared, policy, link=lambda make: _Replay(make, done, (), None))
    records = finished.records
    moments = moments_of(records, samples)
    print(f"{log} {policy}: {len(moments)} moments, mean wait {mean_wait_h(records):.2f} h", file=sys.stderr)
    with out.open("w", encoding="utf-8") as file:

        def write(row: dict[str, Any]) -> None:
            file.write(json.dumps({"log": log, "policy": policy, **row}) + "\n")
            file.flush()

        estimator = _Estimator(prepared, choose(policy), records, write)
        cosched_emulator.simulate(prepared, policy, link=lambda make: _Replay(make, done, moments, estimator))


def mean_wait_h(records: Sequence[JobRecord]) -> float:
    """Return the mean wait of the jobs that started, in hours."""
    waits = [record.intervals[0].start_us - record.job.spec.submit_us for record in records if record.intervals]
    return sum(waits) / len(waits) / HOUR_US


def main() -> None:
    """Carry out the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="estimate, and write a row for each estimate")
    running.add_argument("log", choices=[*WORKLOADS])
    running.add_argument("policy", help="a preset: easy on plain nodes, another one on LOMARC's")
    running.add_argument("--jobs", type=positive, default=JOBS, help="of the log (default: %(default)s)")
    running.add_argument("--samples", type=positive, default=SAMPLES, help="jobs that waited (default: %(default)s)")
    running.add_argument("--traces", type=Path, metavar="DIR", default=LOGS, help="folder with the logs")
    running.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="a JSON row for each estimate")
    table = commands.add_parser("table", help="write docs/results/appendix/start-estimates.md")
    table.add_argument("files", type=Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    if options.command == "run":
        run(options.log, options.policy, options.jobs, options.samples, options.out, options.traces)
        return
    groups = grouped([json.loads(line) for file in options.files for line in file.read_text("utf-8").splitlines()])
    body = [*error_lines(groups), "", *range_lines(groups), ""]
    write_tables(PAGE, "starts", "How far off start estimates are", body, "bench/starts.py")


if __name__ == "__main__":
    main()
