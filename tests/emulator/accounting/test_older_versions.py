"""What is read back: databases of older versions, brought up to date when they are opened, and jobs from their rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.parts import job

from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.accounting.database_schema import ASKED_COLUMN, VERSION, asked_of
from cosched_emulator.accounting.fact_rows import job_from_json, job_to_json
from cosched_emulator.accounting.file import DamageError
from cosched_emulator.manager.record import Change, JobEntered, JobFinished, JobRecord, Origin
from cosched_emulator.workload.job import TERMS_TOLD, Terms
from cosched_plugin.protocol import messages as m


def rows(path: str, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


OLDER = {  # what undoes the steps from a version on
    5: "",
    4: "ALTER TABLE journal DROP COLUMN link; DELETE FROM meta WHERE key = 'schema';",
    3: "ALTER TABLE jobs DROP COLUMN energy_j;",
    2: "ALTER TABLE jobs DROP COLUMN unpaired; ALTER TABLE jobs DROP COLUMN slot;",
    1: "ALTER TABLE jobs DROP COLUMN cpu_us; ALTER TABLE jobs DROP COLUMN dispatched_us; DROP TABLE quanta;",
}


@pytest.mark.parametrize("version", OLDER)
def test_an_older_database_is_brought_up_to_date(version: int, tmp_path: Path) -> None:
    path = str(tmp_path / "accounts.db")
    assert max(OLDER) + 1 == VERSION
    accounts = Accounting.create(path, {"kind": "test"})
    alone = job(2)._replace(spec=job(2).spec._replace(unpaired=True))
    facts: list[Change] = [JobEntered(5, each, Origin("ann")) for each in (job(1), alone)]
    accounts.record(facts)
    accounts.close()
    expected = rows(path, "SELECT * FROM jobs ORDER BY id")
    with closing(sqlite3.connect(path)) as connection:
        for older in range(VERSION - 1, version - 1, -1):
            connection.executescript(OLDER[older])
        if version == 1:  # its jobs did not say so
            connection.execute("UPDATE jobs SET job = json_remove(job, '$.spec.unpaired') WHERE id = 1")
        connection.execute(f"PRAGMA user_version={version}")
        connection.commit()
    with closing(Accounting.open(path)) as again:
        assert [row["unpaired"] for row in again.jobs([1, 2])] == [False, True]
        shared = job(3)
        again.record(facts)  # are there already
        assert list(again.replay()) == []
        again.bring_up_to_date()
        record = JobRecord(shared, "COMPLETED", 60, (), 5, 100, None, cpu_us=3, dispatched_us=4, slot=7)
        again.record([JobEntered(5, shared, Origin("ann")), JobFinished(60, record, 8.5)])
        (row,) = again.jobs([3])
        assert (row["cpu_us"], row["dispatched_us"], row["slot"], row["energy_j"]) == (3, 4, 7, 8.5)
        assert version == 1 or rows(path, "SELECT * FROM jobs WHERE id < 3 ORDER BY id") == expected
    assert rows(path, "PRAGMA user_version") == [(VERSION,)]


@pytest.mark.parametrize(
    ("written", "same"), [("json_remove(job, '$.group', '$.status')", True), ("json_set(job, '$.group', 3)", False)]
)
def test_the_group_of_a_logs_job_may_be_missing_but_not_another(written: str, same: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "accounts.db")
    with closing(Accounting.create(path, {"kind": "test"})) as accounts:
        entered: list[Change] = [JobEntered(5, job(1)._replace(group=4, status=1), Origin(""))]
        accounts.append(Step("batch", 5, b""))
        accounts.record(entered)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE jobs SET job = {written}")
        connection.commit()
    with (
        closing(Accounting.open(path)) as again,
        nullcontext() if same else pytest.raises(DamageError, match="expected table jobs"),
    ):
        for _ in again.replay(compare=True):
            again.record(entered)


def test_a_job_is_restored_from_json() -> None:
    plain = job(3)
    assert job_from_json(job_to_json(plain)) == plain
    spec = plain.spec._replace(
        user="Zoë\0\ud800", name='";', limit_us=2**62, demand=(1, 2, 3), usage=("cpu", 1, 2, 3, 4), self_slowdown=(5, 6)
    )
    rich = plain._replace(
        spec=spec,
        demand=(4, 5, 6),
        usage=("disk", 1, 2, 3, 4),
        self_slowdown=(7, 8),
        requeue=False,
        exit_code=3,
        group=0,
    )
    back = job_from_json(job_to_json(rich))
    assert back == rich
    assert type(back.spec) is m.JobSpec
    assert all(type(value) is tuple for value in (back.demand, back.usage, back.spec.usage, back.spec.self_slowdown))


def test_the_terms_that_are_told_are_read_from_their_places() -> None:
    terms = Terms(("debug", "main"), "high", "physics")
    with closing(sqlite3.connect(":memory:")) as connection:
        (read,) = connection.execute(
            f"SELECT {ASKED_COLUMN} FROM (SELECT ? AS job)", (job_to_json(job(1)._replace(terms=terms)),)
        ).fetchone()
    told = asked_of(read)
    assert [told[name] for name in TERMS_TOLD] == [["debug", "main"], "high", "physics"]
    assert set(told) & set(Terms._fields) == set(TERMS_TOLD)
