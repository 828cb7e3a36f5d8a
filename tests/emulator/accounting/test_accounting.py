"""The accounts: every fact exactly once after any number of kills; full disks, locks, and foreign files."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.accounting.killing import STEPS, facts_of, keep_accounts, killed, step_number
from tests.emulator.parts import job
from tests.processes import ROOT, run_python
from tests.runs import runs_on

from cosched_emulator.accounting import accounts as accounting_module
from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.accounting.database_schema import VERSION
from cosched_emulator.accounting.file import create_database
from cosched_emulator.errors import AccountingError, InputError, InvariantError
from cosched_emulator.manager.record import (
    FaultHappened,
    JobChanged,
    JobEntered,
    JobFinished,
    JobRecord,
    NodeChanged,
    OnDisk,
    Origin,
    Stay,
    StayEnded,
)
from cosched_plugin.protocol import messages as m

META = {"kind": "test", "scenario": "{}"}
RUNS = runs_on((0, 2, 3, 2))
ANN = Origin("ann")
SOME_STEPS = 300  # a database of many pages, where the number of rows is not the point


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "accounts of a run?#%.db")


@pytest.fixture
def accounts(path: str) -> Iterator[Accounting]:
    made = Accounting.create(path, META)
    yield made
    if not made.closed:
        made.fill(False)
    made.close()


def tables_of(path: str | Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in names}


def rows(path: str, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def take_steps(accounts: Accounting, numbers: Iterable[int]) -> None:
    for number in numbers:
        accounts.append(step_number(number))
        accounts.record(facts_of(number))


def ended(number: int, end_us: int, state: str = m.COMPLETED) -> list[Any]:
    stay = Stay(end_us - 5, end_us, RUNS)
    record = JobRecord(job(number), state, end_us, (stay,), 5, 100, None)
    return [
        JobChanged(end_us - 5, number, "RUNNING"),
        StayEnded(number, stay),
        JobChanged(end_us, number, state),
        JobFinished(end_us, record),
    ]


# ---------------------------------------------------------------- files


def test_a_new_file_is_readable_by_its_owner_only(accounts: Accounting, path: str) -> None:
    assert accounts.meta == META
    assert accounts.path == path
    names = sorted(name for name in os.listdir(Path(path).parent))
    assert names == [os.path.basename(path) + ending for ending in ("", "-mark", "-shm", "-wal")]
    for name in names:
        assert (Path(path).parent / name).stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_an_old_file_is_never_replaced(path: str) -> None:
    Path(path).write_text("a letter")
    with pytest.raises(InputError, match="a file that exists"):
        Accounting.create(path, META)
    assert Path(path).read_text() == "a letter"


def test_a_log_without_its_database_is_an_error(path: str) -> None:
    Path(path + "-wal").write_bytes(b"frames")
    with pytest.raises(InputError, match="put the database back, or remove"):
        Accounting.create(path, META)
    assert os.listdir(Path(path).parent) == [os.path.basename(path) + "-wal"]


def test_missing_paths_and_other_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        Accounting.create(str(tmp_path / "nowhere" / "a.db"), META)
    with pytest.raises(InputError, match="No such file or directory"):
        Accounting.open(str(tmp_path / "a.db"))
    with pytest.raises(InputError, match="Is a directory"):
        Accounting.open(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="something that is no file"):
        Accounting.open(str(tmp_path / "pipe"))
    assert os.listdir(tmp_path) == ["pipe"]


def test_two_managers_cannot_share_a_database(accounts: Accounting, path: str) -> None:
    with pytest.raises(InputError, match="no other manager has open, got one that is in use"):
        Accounting.open(path)
    code = "import sys; from cosched_emulator.accounting.accounts import Accounting; Accounting.open(sys.argv[1])"
    assert "one that is in use" in run_python("-c", code, path).err
    accounts.close()
    Accounting.open(path).close()


def foreign(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE meta (key, value); PRAGMA user_version=1;")


def changed(statement: str, steps: int = 0) -> Callable[[str], None]:
    """Return what makes a database with accounts of some steps, and carries out a statement there."""

    def make(path: str) -> None:
        keep_accounts(path, steps)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    return make


def full(path: str) -> bytes:
    keep_accounts(path, SOME_STEPS)
    return Path(path).read_bytes()


def truncated(path: str) -> None:
    content = full(path)
    Path(path).write_bytes(content[: len(content) // 2])


def headless(path: str) -> None:
    Path(path).write_bytes(full(path)[:4096])


def scrambled(path: str) -> None:
    content = bytearray(full(path))
    for page in range(1, len(content) // 4096, 3):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    Path(path).write_bytes(content)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda path: Path(path).write_bytes(b""), "got an empty file"),
        (lambda path: Path(path).write_bytes(b"SQLite format 3\0"), "a file that is not a database"),
        (lambda path: Path(path).write_text("once upon a time" * 1000), "a file that is not a database"),
        (foreign, "a database of another program"),
        (changed(f"PRAGMA user_version={VERSION + 1}"), "of a newer program"),
        (changed("PRAGMA user_version=0"), "one without a version"),
        (truncated, "expected a whole database"),
        (headless, "expected a whole database"),
        (scrambled, "expected a whole database"),
        (changed("DELETE FROM journal WHERE step = 7", SOME_STEPS), "expected a journal without gaps"),
        (changed("DELETE FROM progress"), "expected a journal without gaps"),
    ],
)
def test_other_files_are_refused_and_unchanged(make: Callable[[str], object], text: str, path: str) -> None:
    make(path)
    before = Path(path).read_bytes()
    files = os.listdir(Path(path).parent)
    for _ in range(2):
        with pytest.raises(InputError, match=text) as caught:
            Accounting.open(path)
        assert str(caught.value).startswith(path)
    assert Path(path).read_bytes() == before
    assert os.listdir(Path(path).parent) == files


# ---------------------------------------------------------------- facts


def test_a_job_from_submission_to_end(accounts: Accounting, path: str) -> None:
    one = job(7, 10, processes=4, limit_us=500, demand=(1, 2, 3))
    one = one._replace(spec=one.spec._replace(name="a\ud800", user="b"))
    accounts.append(Step("command", 10, b"submit"))
    accounts.record(
        [JobEntered(10, one, Origin("ann", 5, 2, (("afterok", 4),))), JobChanged(10, 7, "PENDING", "Dependency")]
    )
    (told,) = accounts.jobs([7])
    assert (told["state"], told["reason"], told["start_us"], told["starts"]) == ("PENDING", "Dependency", None, 0)
    accounts.record(
        [JobChanged(20, 7, "RUNNING"), JobChanged(25, 7, "SUSPENDED"), JobChanged(30, 7, "RUNNING", "measured")]
    )
    (told,) = accounts.jobs([7])
    assert (told["state"], told["reason"], told["start_us"], told["starts"]) == ("RUNNING", "measured", 20, 1)
    first = Stay(20, 40, runs_on((0, 2, 3, 2), (5, 1, 1 << 100, 1)))
    accounts.record([StayEnded(7, first), JobChanged(40, 7, "PENDING", "requeued")])
    accounts.record([FaultHappened(40, "node fail", "node 5")])
    (told,) = accounts.jobs([7])
    assert (told["state"], told["start_us"], told["requeues"]) == ("PENDING", None, 1)
    accounts.record([NodeChanged(40, 5, "DOWN"), JobChanged(50, 7, "RUNNING"), NodeChanged(55, 5, "UP", "mended")])
    second = Stay(50, 70, runs_on((0, 3, 1, 1)))
    record = JobRecord(one, m.TIMEOUT, 70, (first, second), 19, 200, 500, "too long", 3)
    accounts.record([StayEnded(7, second), JobChanged(70, 7, m.TIMEOUT), JobFinished(70, record)])
    (told,) = accounts.history("", 10)
    beside = json.loads(json.dumps({key: usual for key, usual in m.JobSpec._field_defaults.items() if key not in told}))
    assert [*accounts.jobs([9, 7, 8])] == [{**told, **beside}]
    assert [*accounts.history("ann", 10)] == [told]
    assert {key: value for key, value in told.items() if value not in ("", [])} == {
        "id": 7, "user": "ann", "owner": "ann", "name": "a\\ud800", "array_id": 5, "array_index": 2, "after": [["afterok", 4]],
        "state": "TIMEOUT", "reason": "too long", "submit_us": 10, "start_us": 50, "end_us": 70, "processes": 4, "ppn_min": 1,
        "ppn_max": 0, "threads_per_process": 1, "memory_mb": 0, "exclusive": False, "estimate_us": 100, "limit_us": 500,
        "demand": [1, 2, 3], "usage": None, "self_slowdown": None, "run_us": 100, "source_id": 7, "starts": 2, "requeues": 1,
        "preemptions": 0, "nodes": 3, "work_us": 19, "expected_us": 200, "granted_us": 500, "suspended_us": 3, "unpaired": False,
    }  # fmt: skip
    assert rows(path, "SELECT id, wait_s, wall_s, work_s FROM job_times") == [(7, 40e-6, 20e-6, 19e-6)]
    assert rows(path, "SELECT * FROM stays") == [(7, 0, 20e-6, 40e-6, 3, 5, 0), (7, 1, 50e-6, 70e-6, 3, 3, 0)]
    assert rows(path, "SELECT thread_mask FROM allocations WHERE first_node = 5") == [(f"{1 << 100:#x}",)]
    assert rows(path, "SELECT * FROM node_states") == [(5, "UP", 55e-6, "mended")]
    assert rows(path, "SELECT kind, detail FROM fault_times") == [("node fail", "node 5")]
    assert rows(path, "SELECT state FROM changes WHERE what = 'job' AND id = 7 ORDER BY number") == [
        (state,) for state in ("PENDING", "RUNNING", "SUSPENDED", "RUNNING", "PENDING", "RUNNING", "TIMEOUT")
    ]


def test_history_lists_the_latest_first(accounts: Accounting) -> None:
    for number in range(1, 6):
        accounts.record([JobEntered(0, job(number), Origin("ann" if number % 2 else "bob"))])
    for number, end_us in ((3, 30), (1, 40), (2, 40)):
        accounts.record(ended(number, end_us))
    assert [row["id"] for row in accounts.history("", 10)] == [2, 1, 3]
    assert [row["id"] for row in accounts.history("", 2)] == [2, 1]
    assert [row["id"] for row in accounts.history("ann", 10)] == [1, 3]
    assert [*accounts.history("eve", 10)] == []
    assert [row["id"] for row in accounts.jobs([5, 2, 77, 4])] == [5, 2, 4]


def test_arrays_and_ends_are_as_of_the_last_step(path: str) -> None:
    accounts = Accounting.create(path, META)
    for step in (1, 2):
        accounts.append(Step("command", step, b""))
        accounts.record([JobEntered(0, job(step * 10 + task), Origin("", step * 10, 9 - task)) for task in range(3)])
    accounts.append(Step("advance", 3, b""))
    accounts.record([*ended(12, 3, m.FAILED)])
    assert accounts.tasks(10) == [12, 11, 10]
    assert accounts.ended_state(12) == m.FAILED
    assert accounts.ended_state(11) is None
    accounts.fill(True)  # counts although it cannot be written
    accounts.append(Step("advance", 4, b""))
    accounts.record([*ended(11, 4), JobEntered(4, job(40), Origin("", 40, 0))])
    assert accounts.ended_state(11) == m.COMPLETED
    assert accounts.tasks(40) == [40]
    accounts.fill(False)
    accounts.close()
    again = Accounting.open(path)
    answers = [(again.tasks(20), again.ended_state(12), again.ended_state(11)) for _ in again.replay()]
    second = [22, 21, 20]
    assert answers == [
        ([], None, None),
        (second, None, None),
        (second, m.FAILED, None),
        (second, m.FAILED, m.COMPLETED),
    ]
    again.close()


def test_contradictory_facts_are_an_error(accounts: Accounting) -> None:
    accounts.record([JobChanged(0, 3, "RUNNING")])
    with pytest.raises(InvariantError, match="job 3 was never entered into the accounting: JobChanged"):
        accounts.flush()
    accounts._buffer.clear()
    accounts.record([JobEntered(0, job(3), ANN)] * 2)
    with pytest.raises(InvariantError, match="job 3 was entered into the accounting twice"):
        accounts.flush()
    accounts._buffer.clear()
    accounts.record([JobEntered(0, job(3), ANN)])
    assert accounts.flush()


def test_a_job_that_is_on_disk_at_the_end(accounts: Accounting, path: str) -> None:
    record = JobRecord(job(1), "SUSPENDED", None, (), 0, 100, None, "", 0, (OnDisk(1, 2), OnDisk(5, None)))
    accounts.record([JobEntered(0, job(1), ANN), JobFinished(9, record)])
    accounts.flush()
    assert rows(path, "SELECT start_us, end_us FROM preemptions") == [(5, None)]
    assert accounts.ended_state(1) is None
    assert [*accounts.history("", 5)] == []


# ---------------------------------------------------------------- the journal


def test_the_journal_is_replayed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting_module, "_CHUNK", 3)
    steps = [Step("advance", number, bytes(number)) for number in range(10)]
    accounts = Accounting.create(path, META)
    for step in steps:
        accounts.append(step, durable=step.at_us % 4 == 0)
    assert accounts.backlog == 1
    accounts.close()
    accounts.close()
    again = Accounting.open(path)
    assert again.meta == META
    assert again.unplayed == 10
    with pytest.raises(InvariantError, match="10 steps of the journal have not been replayed"):
        again.append(steps[0])
    assert list(again.replay()) == steps
    again.append(Step("more", 11, b""))
    again.close()
    last = Accounting.open(path)
    assert len(list(last.replay())) == 11
    assert list(last.replay()) == []
    last.close()


def test_in_memory_there_is_no_journal() -> None:
    accounts = Accounting.create(None, META)
    accounts.append(Step("command", 0, b""), durable=True)
    accounts.append(Step("advance", 1, b""))
    accounts.record([JobEntered(0, job(1), ANN), *ended(1, 9)])
    assert (accounts.path, accounts.unplayed, list(accounts.replay())) == (None, 0, [])
    assert [row["id"] for row in accounts.history("ann", 5)] == [1]
    assert accounts.ended_state(1) == m.COMPLETED
    assert list(accounts.select("SELECT * FROM journal")) == []
    accounts.close()


def test_only_a_durable_step_is_synced(accounts: Accounting) -> None:
    said: list[str] = []
    accounts._connection.set_trace_callback(said.append)
    accounts.append(Step("advance", 1, b""))
    accounts.flush()
    accounts.append(Step("command", 2, b""), durable=True)
    accounts._connection.set_trace_callback(None)
    words = [text for text in said if text.startswith(("PRAGMA", "BEGIN", "COMMIT"))]
    begin, full_sync, normal = "BEGIN IMMEDIATE", "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"
    assert words == [begin, "COMMIT", full_sync, begin, "COMMIT", normal]
    assert accounts._connection.execute("PRAGMA synchronous").fetchone() == (1,)


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 200), *(pytest.param(seed, STEPS, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_after_random_kills_every_fact_is_there_once(seed: int, steps: int, tmp_path: Path) -> None:
    keep_accounts(str(tmp_path / "undisturbed.db"), steps)
    kills = killed("accounts", tmp_path / "killed.db", seed, str(steps))
    assert kills > 5
    undisturbed, disturbed = tables_of(tmp_path / "undisturbed.db"), tables_of(tmp_path / "killed.db")
    assert len(undisturbed["jobs"]) == len(undisturbed["journal"]) == steps
    assert len(undisturbed["faults"]) > steps / 10
    assert undisturbed.keys() == disturbed.keys()
    for name, expected in undisturbed.items():
        assert disturbed[name] == expected, name


def test_an_interrupted_flush_is_completed(path: str) -> None:
    """At every cut of the last step's facts: a replay skips written facts and writes the others."""
    facts = facts_of(10)
    assert len(facts) > 8
    for cut in range(len(facts) + 1):
        name = f"{path}{cut}"
        accounts = Accounting.create(name, META)
        accounts.record(facts_of(0))
        take_steps(accounts, range(1, 10))
        accounts.append(step_number(10))
        accounts.record(facts[:cut])
        accounts.flush()
        accounts.record(facts[cut:])
        accounts._buffer.clear()  # as if the process had been killed
        accounts.close()
        again = Accounting.open(name)
        again.record(facts_of(0))
        for number, _ in enumerate(again.replay(), 1):
            again.record(facts_of(number)[:4])
            again.record(facts_of(number)[4:])
        again.close()
        if cut == 0:
            expected = tables_of(name)
        assert tables_of(name) == expected
        assert len(expected["changes"]) == sum(
            isinstance(fact, JobChanged | NodeChanged) for number in range(11) for fact in facts_of(number)
        )


def test_faults_of_a_restarted_manager_are_added(path: str) -> None:
    lost = FaultHappened(5, "scheduler lost", "it was killed")
    node = FaultHappened(5, "node fail", "node 1")
    accounts = Accounting.create(path, META)
    accounts.append(Step("advance", 5, b""))
    accounts.record([lost, node, NodeChanged(5, 1, "DOWN")])
    accounts.close()
    for life in range(2, 4):
        accounts = Accounting.open(path)
        for _ in accounts.replay():
            accounts.record([node, NodeChanged(5, 1, "DOWN")])
        accounts.record([lost])
        accounts.close()
        assert rows(path, "SELECT kind FROM faults ORDER BY kind") == [("node fail",)] + [("scheduler lost",)] * life
        assert rows(path, "SELECT count(*) FROM changes") == [(1,)]


# ---------------------------------------------------------------- failures


@contextmanager
def full_disk(accounts: Accounting, path: str) -> Iterator[None]:
    accounts.fill(True)
    yield
    accounts.fill(False)


@contextmanager
def largest_file(accounts: Accounting, path: str) -> Iterator[None]:
    """Make the kernel refuse files larger than the current log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path + "-wal"), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def locked(accounts: Accounting, path: str) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize("trouble", [full_disk, largest_file, locked])
def test_writing_resumes_after_a_temporary_failure(trouble: Any, accounts: Accounting, path: str) -> None:
    take_steps(accounts, range(1, 4))
    assert accounts.flush()
    before = tables_of(path)
    with trouble(accounts, path):
        for number in range(4, 7):
            take_steps(accounts, [number])
            assert not accounts.flush()
        assert accounts.backlog == 3 + sum(len(facts_of(number)) for number in range(4, 7))
        assert accounts.trouble in ("database or disk is full", "disk I/O error", "database is locked")
        with pytest.raises(AccountingError, match=accounts.trouble) as caught:
            accounts.append(Step("command", 7, b"dropped"), durable=True)
        assert caught.value.exit_code == 1
        assert str(caught.value).startswith(path)
        take_steps(accounts, [7])
        assert [row["id"] for row in accounts.history("", 10)] == []
    assert tables_of(path) == before
    accounts.append(step_number(8), durable=True)  # also writes all earlier steps
    assert (accounts.backlog, accounts.trouble) == (0, "")
    accounts.record(facts_of(8))
    assert accounts.flush()
    found = tables_of(path)
    assert [row[:4] for row in found["journal"]] == [(number, *step_number(number)) for number in range(1, 9)]
    assert [row[0] for row in found["jobs"]] == list(range(1, 9))
    assert [row["id"] for row in accounts.history("", 10)] == [2, 1]


def test_a_failure_is_over_when_nothing_waits(accounts: Accounting) -> None:
    accounts.fill(True)
    with pytest.raises(AccountingError, match="full"):
        accounts.append(Step("command", 0, b""), durable=True)
    assert accounts.trouble
    assert accounts.flush()
    assert not accounts.trouble


def test_the_backlog_is_bounded(accounts: Accounting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting_module, "MOST_BUFFERED", 10)
    for number in range(25):
        accounts.append(Step("advance", number, b""))
        assert accounts.backlog <= 10
    accounts.fill(True)
    for number in range(10 - accounts.backlog):
        accounts.append(Step("advance", number, b""))
    with pytest.raises(AccountingError, match="10 steps and changes wait to be written: database or disk is full"):
        accounts.append(Step("advance", 10, b""))
    with pytest.raises(AccountingError, match="10 steps and changes wait"):
        accounts.record([NodeChanged(0, 0, "UP")])
    accounts.fill(False)
    accounts.record([NodeChanged(0, 0, "UP")])
    assert accounts.backlog == 1


def test_a_loss_at_the_end_is_an_error(path: str) -> None:
    accounts = Accounting.create(path, META)
    accounts.append(Step("advance", 0, b""))
    accounts.fill(True)
    with pytest.raises(AccountingError, match="1 steps and changes are lost: database or disk is full"):
        accounts.close()
    accounts.close()
    Accounting.open(path).close()


def test_a_database_damaged_meanwhile_is_an_error(path: str) -> None:
    keep_accounts(path)
    accounts = Accounting.open(path)
    for _ in accounts.replay():
        pass
    with open(path, "r+b") as file:
        for page in range(1, os.path.getsize(path) // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 64)
    with pytest.raises(AccountingError, match="cannot be read: database disk image is malformed"):
        list(accounts.jobs(range(1, STEPS)))
    accounts.close()


def test_a_missing_table_is_an_error(accounts: Accounting, path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE faults")
    accounts.record([FaultHappened(0, "node fail")])
    with pytest.raises(AccountingError, match="the database is damaged: no such table"):
        accounts.flush()
    assert accounts.backlog == 1
    with pytest.raises(AccountingError, match="the database is damaged"):
        accounts.close()
    assert accounts.closed


def test_what_is_written_is_not_kept_in_memory(accounts: Accounting) -> None:
    held: list[int] = []
    tracemalloc.start()
    try:
        for number in range(1, 601):
            take_steps(accounts, [number])
            if number % 200 == 0:
                accounts.flush()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[2] - held[1] < 50_000


def test_the_page_names_every_table_and_its_queries_run(path: str) -> None:
    keep_accounts(path, SOME_STEPS)
    text = (ROOT / "docs" / "accounting.md").read_text()
    assert set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)) == set(tables_of(path))
    with closing(sqlite3.connect(path)) as connection:
        views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
        assert all(f"`{name}`" in text for (name,) in views)
        assert str(*connection.execute("PRAGMA application_id").fetchone()) in text
        assert f"the version of the tables, now {VERSION}" in text
    blocks = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    queries = [query.replace("17", "1") for block in blocks for query in block.split(";") if query.strip()]
    assert len(queries) == 1
    assert all(rows(path, query) for query in queries)


def test_a_new_database_on_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, removing a file that does not exist is an error of another kind, which ended in a traceback."""

    def refuse(path: str, *_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr("os.unlink", refuse)
    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(InputError, match=r"a\.db: expected a database that can be written, got Read-only file system"):
        create_database(str(tmp_path / "a.db"), {})
