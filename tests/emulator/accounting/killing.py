"""Programs that are killed at random instants until they complete, for the tests of accounts and recorded runs.

``python -m tests.emulator.accounting.killing PROGRAM DATABASE SEED [ARGUMENTS]`` prints the number of its processes that SIGKILL
ended. It is a process of its own because it forks: a process with threads should not fork.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.contract.cases import scenario_of
from tests.emulator.parts import job
from tests.processes import ROOT, run_python
from tests.runs import runs_on

from cosched_emulator import simulate as run_scenario
from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.couplings.link import DirectLink, Link
from cosched_emulator.manager import record
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.messages import Action, Event

STEPS = 3000
MOST_LIVES = 400
LIFE_S = 0.05  # longest life of the program with accounts, with all steps


def step_number(number: int) -> Step:
    return Step("advance", number * 10, bytes([number % 256]) * int(uniform(1, "body", number) * 300))


def facts_of(number: int) -> list[record.Change]:
    """Return the facts of step ``number``, always the same: job n enters at step n, and ends six steps later."""
    at_us = number * 10
    if number == 0:
        return [record.NodeChanged(0, node, "UP") for node in range(3)]
    facts: list[record.Change] = [
        record.JobEntered(at_us, job(number, at_us), record.Origin("ann", number // 10 * 10, number % 10))
    ]
    if uniform(1, "fault", number) < 0.2:
        facts += [record.FaultHappened(at_us, "node fail", "node 1")] * (1 + number % 2) + [
            record.NodeChanged(at_us, 1, "DOWN")
        ]
    if number > 1:
        facts.append(record.JobChanged(at_us, number - 1, "RUNNING"))
    if number > 3:
        facts += [record.StayEnded(number - 3, stay(number - 3, 0)), record.JobChanged(at_us, number - 3, "SUSPENDED")]
    if number > 5:
        facts += [record.DiskLeft(number - 5, on_disk(number - 5)), record.JobChanged(at_us, number - 5, "RUNNING")]
    if number > 6:
        facts += [record.StayEnded(number - 6, stay(number - 6, 1)), record.JobChanged(at_us, number - 6, "COMPLETED")]
        facts.append(record.JobFinished(at_us, record_of(number - 6)))
    return facts


def stay(number: int, which: int) -> record.Stay:
    begin_us, until_us = (
        ((number + 1) * 10, (number + 3) * 10) if which == 0 else ((number + 5) * 10, (number + 6) * 10)
    )
    return record.Stay(begin_us, until_us, runs_on((0, 2, 3, 2), (4, 1, 1 << (number % 200), 1)), resumed=which == 1)


def on_disk(number: int) -> record.OnDisk:
    return record.OnDisk((number + 3) * 10, (number + 5) * 10)


def record_of(number: int) -> record.JobRecord:
    at_us = number * 10
    return record.JobRecord(
        job(number, at_us),
        "COMPLETED",
        at_us + 60,
        (stay(number, 0), stay(number, 1)),
        30,
        100,
        None,
        "",
        20,
        (on_disk(number),),
    )


def keep_accounts(database: str, steps: int = STEPS) -> None:
    """Do ``steps`` steps, from the end of the database; the times of flushes differ between processes."""
    accounting = (
        Accounting.open(database) if os.path.exists(database) else Accounting.create(database, {"kind": "test"})
    )
    accounting.record(facts_of(0))
    done = 0
    for step in accounting.replay():
        done += 1
        assert step == step_number(done)
        accounting.record(facts_of(done))
    life = os.getpid()
    while done < steps:
        done += 1
        accounting.append(step_number(done), durable=uniform(life, "durable", done) < 0.05)
        facts = facts_of(done)
        part = int(uniform(life, "part", done) * (len(facts) + 1))
        accounting.record(facts[:part])
        if uniform(life, "flush", done) < 0.1:
            accounting.flush()
        accounting.record(facts[part:])
        if uniform(life, "flush again", done) < 0.1:
            accounting.flush()
    accounting.close()


class Slow:
    """A link with a slow scheduler, so that there is time for a kill."""

    def __init__(self, inner: Link) -> None:
        self._inner = inner
        self.open = inner.open
        self.close = inner.close

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        time.sleep(0.003)
        return self._inner.exchange(seq, now_us, events)


def simulate(database: str, preset: str, scenario: str) -> None:
    """Run a scenario in virtual time, from where the database ends."""
    table = scenario_of(scenario, Path(database).parent)
    run_scenario(table, preset, link=lambda scheduler: Slow(DirectLink(scheduler)), db=database)


def lives(life: Callable[[], None], seed: int, longest_s: float) -> int:
    """Run ``life`` in processes that are killed at random instants, until one completes; return the number of kills.

    Each process gets more time than the last, so that one completes even on a slow machine.
    """
    for number in range(MOST_LIVES):
        process = os.fork()
        if process == 0:
            try:
                life()
            except BaseException as error:
                print(f"life {number}: {error!r}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        if number < MOST_LIVES - 1:
            time.sleep(longest_s * (1 + number / 30) * uniform(seed, "life", number))
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFEXITED(status):
            if os.waitstatus_to_exitcode(status) != 0:
                raise SystemExit(1)
            return number
    raise AssertionError("the last life is not killed")


def killed(program: str, database: Path, seed: int, *arguments: str) -> int:
    """Kill a program of this module until it completes, and return the number of kills."""
    module = "tests.emulator.accounting.killing"
    # Not a fork of the test: each of its forks would copy the page tables of everything that the test has loaded.
    ran = run_python("-m", module, program, str(database), str(seed), *arguments, folder=ROOT, seconds=120)
    assert ran.code == 0, ran.err
    return int(ran.out)


if __name__ == "__main__":
    _, chosen, where, seeded, *more = sys.argv
    if chosen == "accounts":
        count = int(more[0])
        print(lives(lambda: keep_accounts(where, count), int(seeded), LIFE_S * count / STEPS))
    else:
        print(lives(lambda: simulate(where, *more), int(seeded), 0.3))
