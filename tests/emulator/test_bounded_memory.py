"""What works on one entry of a log at a time needs as much memory for a long log as for a short one.

Each case does its work on a log of some length, and on one that is four times as long; the peak of the memory that Python allocates
is compared. (Results of a run are kept, as columns: they are no case.)
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.emulator.submissions import submit_job
from tests.plugin.policies.harness import NO_CONTENTION

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.api.simulate import read_records
from cosched_emulator.cli.explain import explain
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.live.journal import command_step, play, restore
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.views import answer_query
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.users import requests
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.status import Status
from cosched_plugin.config import choose
from cosched_plugin.protocol.messages import JobSpec, NodeClass

ANN = requests.Requester("ann", True)
SECOND = 1_000_000
SHORT = 500  # entries
LONGER = 4
SLACK = 60_000  # bytes: caches of SQLite, lists that grow in steps

Work = Callable[[], object]


def peak_bytes(work: Work) -> int:
    """Return the greatest amount of memory that some work holds at any moment."""
    work()  # modules are loaded, caches are filled
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def trace_of(file: Path, entries: int) -> str:
    """Write a trace in which each job has a few records, and one in the middle is overtaken."""
    with file.open("w") as out:
        for number in range(1, entries + 1):
            at_us = number * SECOND
            start = {
                "kind": "start", "at_us": at_us, "job": number, "submit_us": at_us - 5 * SECOND, "processes": 1,
                "estimate_us": SECOND, "expected_us": SECOND, "runs": [[0, 1, 1, 1]], "reason": "order",
            }  # fmt: skip
            for record in ({"kind": "reserve", "at_us": at_us, "job": number, "shadow_us": at_us + 9}, start):
                out.write(json.dumps(record) + "\n")
    return str(file)


def explained(folder: Path, entries: int) -> Work:
    file = trace_of(folder / f"{entries}.jsonl", entries)
    return lambda: explain.main([str(entries // 2), "--trace", file, "--json"], standalone_mode=False)


def handed_on(folder: Path, entries: int) -> Work:
    """What a remote scheduler's trace passes to a function of the caller."""
    file = trace_of(folder / f"{entries}.jsonl", entries)
    return lambda: [None for record in read_records(file) if not record]


def journal_of(file: Path, entries: int) -> Accounting:
    """Write a journal of jobs that come and are cancelled."""
    accounts = Accounting.create(str(file), {})
    live = live_manager(accounts)
    for number in range(1, entries // 2 + 1):
        for request in (submit_job(1, SECOND, name=f"job {number}"), requests.CancelJobs((requests.Target(number),))):
            step = command_step(number, ANN, request)
            accounts.append(step)
            play(live, step)
            accounts.record(live.drain())
        assert number % 100 or accounts.flush()
    assert accounts.flush()
    accounts.close()
    return Accounting.open(str(file))


def live_manager(accounts: Accounting) -> LiveManager:
    prepared = prepare({"cluster": {"nodes": 4}, "workload": {"lublin": 1}})
    manager = build_manager(prepared, live=True)
    agenda = build_agenda(replace(prepared, workload=prepared.workload._replace(jobs=())), manager)
    return LiveManager(manager, agenda, 1, accounts.ended_state, accounts.tasks)


def replayed(folder: Path, entries: int) -> Work:
    """A manager that comes back plays its journal, and answers `top`, `status` and `history`."""
    journal_of(folder / "steps.db", entries).close()

    def work() -> None:
        accounts = Accounting.open(str(folder / "steps.db"))
        live = live_manager(accounts)
        assert restore(live, accounts) == entries
        assert not live.manager.jobs
        for request in (requests.ShowOverview(10), requests.ShowStatus(), requests.ListHistory("", 10)):
            assert isinstance(answer_query(live, accounts, dict, request), requests.Done)
        accounts.close()

    return work


def cancelled(_folder: Path, entries: int) -> Work:
    """A live manager whose users submit jobs of all sorts and cancel them; what is still to be told is left out."""

    def work() -> None:
        accounts = Accounting.create(None, {})
        live = live_manager(accounts)
        for number in range(0, entries, 5):
            first = live.commands.next_id
            for wish in (
                submit_job(1, SECOND, tasks=(0, 1), at_once=1),
                submit_job(1, SECOND, tasks=(0, 1), after=(requests.Dependency("afterany", first),), held=True),
                submit_job(1, SECOND, delay_us=3 * SECOND),
            ):
                assert isinstance(live.command(number * SECOND, ANN, wish), requests.Done)
            jobs = tuple([requests.Target(job) for job in range(first, live.commands.next_id)])
            for change in (requests.HoldJobs(jobs), requests.ReleaseJobs(jobs), requests.CancelJobs(jobs)):
                assert isinstance(live.command(number * SECOND, ANN, change), requests.Done)
            live.drain()
            live.outbox.discard()
        assert not live.unfinished
        accounts.close()

    return work


def told(_folder: Path, entries: int) -> Work:
    """The metrics of a program."""

    def work() -> None:
        status = Status()
        for number in range(entries):
            status.count_answer(number / 1e6)
        status.prometheus("cosched")

    return work


def scheduled(policy: str) -> Callable[[Path, int], Work]:
    """A scheduler and a manager at work: the record of each job goes to a function, as to the rows of a run folder."""

    def case(_folder: Path, entries: int) -> Work:
        specs = [JobSpec(number, number * SECOND, 1 + number % 3, 2 * SECOND) for number in range(1, entries + 1)]
        jobs = [WorkloadJob(spec, SECOND, None, spec.id) for spec in specs]

        def work() -> None:
            manager = Manager([NodeClass(4, 1, 1, 1, 0, 0, 0, 0)], NO_CONTENTION, None)
            link = DirectLink(choose(policy).scheduler)
            assert not Simulation(manager, Agenda(manager, jobs), link, ended=lambda _: None).run()

        return work

    return case


CASES: dict[str, Callable[[Path, int], Work]] = {
    "explain": explained,
    "a trace that is handed on": handed_on,
    "replay, top, status, history": replayed,
    "submitted and cancelled": cancelled,
    "metrics": told,
    "easy": scheduled("easy"),
    "conservative": scheduled("conservative"),
    "lomarc-r": scheduled("lomarc-r"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_longer_log_takes_no_more_memory(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short, long = (
        peak_bytes(CASES[case](_folder(tmp_path / str(entries)), entries)) for entries in (SHORT, LONGER * SHORT)
    )
    assert long < short + SLACK, f"{short:,} bytes for {SHORT:,} entries, {long:,} for {LONGER * SHORT:,}"


def test_an_answer_about_many_jobs_takes_little_more_memory_than_its_bytes(tmp_path: Path) -> None:
    """A dict for each of the jobs takes as much again as four times the answer."""
    jobs = 4 * SHORT
    journal_of(tmp_path / "steps.db", 2 * jobs).close()
    accounts = Accounting.open(str(tmp_path / "steps.db"))
    live = live_manager(accounts)
    assert restore(live, accounts) == 2 * jobs

    def ask() -> requests.Done:
        answer = answer_query(live, accounts, dict, requests.ListHistory("", jobs))
        assert isinstance(answer, requests.Done)
        return answer

    _, answer = requests.decode_answer(requests.encode_answer(ask(), 1))
    assert isinstance(answer, requests.Done)
    assert [job["name"] for job in answer.result["jobs"]] == [f"job {number}" for number in range(jobs, 0, -1)]
    assert peak_bytes(ask) < 3 * len(requests.encode_answer(ask(), 1)[-1])
    accounts.close()


def test_a_large_answer_leaves_no_buffer_behind() -> None:
    large = requests.Done({"x": bytes(8_000_000)})
    tracemalloc.start()
    try:
        requests.encode_answer(large, 1)
        assert tracemalloc.get_traced_memory()[0] < SLACK
    finally:
        tracemalloc.stop()


def _folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
