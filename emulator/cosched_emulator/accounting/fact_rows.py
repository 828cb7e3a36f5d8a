"""Facts to rows: writes each kind of `Change` into the accounting's tables. The caller begins and ends the transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final

from cosched_emulator.accounting.database_schema import job_columns
from cosched_emulator.errors import InvariantError
from cosched_emulator.manager import record as records
from cosched_emulator.manager.managed_job import PENDING, RUNNING, SUSPENDED
from cosched_emulator.workload.job import NO_TERMS, Terms, WorkloadJob
from cosched_hwmodel.composite.job_profile import Profile
from cosched_plugin.protocol.messages import JobSpec

_CHANGE_JOB: Final = f"""UPDATE jobs SET
    starts = starts + (:state = '{RUNNING}' AND state = '{PENDING}'),
    requeues = requeues + (:state = '{PENDING}' AND state IN ('{RUNNING}', '{SUSPENDED}')),
    start_us = CASE WHEN :state = '{RUNNING}' AND state = '{PENDING}' THEN :at_us WHEN :state = '{PENDING}' THEN NULL ELSE start_us END,
    state = :state, reason = :reason
    WHERE id = :id"""
# Fields of a record, and their columns in the row of a job that has ended.
_SAME: Final = ("state", "end_us", "work_us", "suspended_us", "cpu_us", "dispatched_us")
OF_RECORD: Final = {**{name: name for name in _SAME}, "estimate_us": "expected_us", "limit_us": "granted_us"}
_TOLD: Final = attrgetter(*OF_RECORD)
_DERIVED: Final = ("reason", "slot", "start_us", "starts", "preemptions", "nodes", "energy_j", "finished_step")
_FINISH: Final = (
    f"UPDATE jobs SET {', '.join([f'{name} = ?' for name in (*OF_RECORD.values(), *_DERIVED)])} WHERE id = ?"
)
_CHANGE: Final = "INSERT INTO changes (step, at_us, what, id, state, reason) VALUES (?,?,?,?,?,?)"
_FAULT: Final = "INSERT INTO faults (step, at_us, kind, detail) VALUES (?,?,?,?)"
_QUANTUM: Final = """INSERT INTO quanta (number, start_us, end_us, turn, jobs, nodes, paired_nodes, parts)
    VALUES (?,?,?,?,?,?,?,?)"""
LATER: Final[Mapping[str, Any]] = {"group": -1, "status": -1, "terms": NO_TERMS}  # of a job, where nothing says them
_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # `dumps` makes one at each call
_FAULTS_LIKE: Final = "SELECT count(*) FROM faults WHERE step = ? AND at_us = ? AND kind = ? AND detail = ?"
_STAYS: Final = "SELECT coalesce(max(stay) + 1, 0) FROM allocations WHERE job_id = ?"
_ALLOCATION: Final = "INSERT INTO allocations VALUES (?,?,?,?,?,?,?,?,?,?)"
_ON_DISK: Final = """INSERT OR REPLACE INTO preemptions
    SELECT :id, coalesce(max(preemption) + 1, 0), :start_us, :end_us FROM preemptions WHERE job_id = :id AND end_us IS NOT NULL"""


def write_change(connection: sqlite3.Connection, step: int, change: records.Change) -> None:
    """Write one fact that results from ``step``; InvariantError if its job was never entered, or is entered twice."""
    _WRITERS[type(change)](connection, step, change)


def faults_like(connection: sqlite3.Connection, step: int, fault: records.FaultHappened) -> int:
    """Return the number of equal faults of that step in the tables."""
    row = (step, fault.at_us, _text(fault.kind), _text(fault.detail))
    (count,) = connection.execute(_FAULTS_LIKE, row).fetchone()
    return int(count)


def job_to_json(job: WorkloadJob) -> str:
    """Return a job with all its fields as JSON; databases of earlier versions lack the numbers of logs that came later."""
    fields = {key: value for key, value in job._asdict().items() if key not in LATER or value != LATER[key]}
    return _json({**fields, "spec": job.spec._asdict()})


def job_from_json(text: str) -> WorkloadJob:
    """Return the job that `job_to_json` has written."""
    raw = {key: _tuple(value) for key, value in json.loads(text).items()}
    terms = Terms(*raw.pop("terms", ()))
    spec = JobSpec(**{key: _tuple(value) for key, value in raw.pop("spec").items()})
    told, true = (None if values is None else Profile(*values) for values in (spec.profile, raw.pop("profile", None)))
    return WorkloadJob(spec._replace(profile=told), **raw, profile=true, terms=terms)


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _cell(value: Any) -> Any:
    """Return a value as a column has it: texts that can be held, and JSON of what has parts."""
    kind = type(value)
    return _text(value) if kind is str else _json(value) if kind is tuple else value


def _text(value: str) -> str:
    """Return a text that SQLite can hold: a lone surrogate, as a log may contain, is escaped."""
    return value.encode("utf-8", "backslashreplace").decode()


def _write_job_entered(connection: sqlite3.Connection, step: int, change: records.JobEntered) -> None:
    job, origin = change.job, change.origin
    statement, values_of = _entering()
    user, whole = _text(origin.owner or job.spec.user), job_to_json(job)
    try:
        connection.execute(statement, (*map(_cell, values_of(change)), user, PENDING, "", whole, step))
    except sqlite3.IntegrityError as error:
        raise InvariantError(f"job {job.spec.id} was entered into the accounting twice ({error})") from error


_OURS: Final = ("user", "state", "reason", "job", "entered_step")


@cache
def _entering() -> tuple[str, Callable[[records.JobEntered], tuple[Any, ...]]]:
    """Return the statement that enters a job, and what returns its values up to `_OURS`: of the job, its spec and its origin."""
    paths = {
        **{f"true_{name}": f"job.{name}" for name in WorkloadJob._fields},
        **{name: f"job.{name}" for name in ("run_us", "source_id")},
        **{name: f"job.spec.{name}" for name in JobSpec._fields},
        **{name: f"origin.{name}" for name in records.Origin._fields},
    }
    columns = [name for name in job_columns() if name in paths and name not in _OURS]
    return _insert((*columns, *_OURS)), attrgetter(*[paths[name] for name in columns])


def _write_job_carried(connection: sqlite3.Connection, _step: int, change: records.JobCarried) -> None:
    connection.execute(_insert(tuple(change.row)), tuple(change.row.values()))


def _insert(columns: Sequence[str]) -> str:
    return f"INSERT INTO jobs ({', '.join(columns)}) VALUES ({','.join('?' * len(columns))})"


def _write_job_changed(connection: sqlite3.Connection, step: int, change: records.JobChanged) -> None:
    reason = _text(change.reason)
    cursor = connection.execute(
        _CHANGE_JOB, {"state": change.state, "reason": reason, "at_us": change.at_us, "id": change.job_id}
    )
    _check_known(cursor, change.job_id, change)
    connection.execute(_CHANGE, (step, change.at_us, "job", change.job_id, change.state, reason))


def _write_stay_ended(connection: sqlite3.Connection, _step: int, change: records.StayEnded) -> None:
    stay = change.stay
    (number,) = connection.execute(_STAYS, (change.job_id,)).fetchone()
    connection.executemany(
        _ALLOCATION,
        [
            (change.job_id, number, index, stay.start_us, stay.end_us, stay.resumed, first, count, f"{mask:#x}", ppn)
            for index, (first, count, mask, ppn) in enumerate(stay.runs)
        ],
    )


def _write_disk_left(connection: sqlite3.Connection, _step: int, change: records.DiskLeft) -> None:
    _write_time_on_disk(connection, change.job_id, change.time)


def _write_job_finished(connection: sqlite3.Connection, step: int, change: records.JobFinished) -> None:
    record = change.record
    job_id = record.job.spec.id
    stays = record.last_stays
    row = (
        *_TOLD(record),
        _text(record.reason),
        None if record.cpu_us is None else record.slot,
        stays[0].start_us if stays else None,
        record.starts,
        len(record.disk),
        sum(count for _, count, _, _ in stays[-1].runs) if stays else None,
        None if change.energy_j is None else round(change.energy_j, 6),
        step,
    )
    _check_known(connection.execute(_FINISH, (*row, job_id)), job_id, change)
    for time in record.disk[-1:]:
        if time.end_us is None:  # no `DiskLeft` will follow
            _write_time_on_disk(connection, job_id, time)


def _write_node_changed(connection: sqlite3.Connection, step: int, change: records.NodeChanged) -> None:
    connection.execute(_CHANGE, (step, change.at_us, "node", change.node, change.state, _text(change.reason)))


def _write_fault(connection: sqlite3.Connection, step: int, change: records.FaultHappened) -> None:
    connection.execute(_FAULT, (step, change.at_us, _text(change.kind), _text(change.detail)))


def _write_quantum(connection: sqlite3.Connection, _step: int, change: records.QuantumPassed) -> None:
    *numbers, parts = change.record
    connection.execute(_QUANTUM, (*numbers, _json(parts)))


def _write_time_on_disk(connection: sqlite3.Connection, job_id: int, time: records.OnDisk) -> None:
    connection.execute(_ON_DISK, {"id": job_id, "start_us": time.start_us, "end_us": time.end_us})


def _check_known(cursor: sqlite3.Cursor, job_id: int, change: records.Change) -> None:
    if cursor.rowcount != 1:
        raise InvariantError(f"job {job_id} was never entered into the accounting: {type(change).__name__}")


_WRITERS: Final[dict[type, Callable[[sqlite3.Connection, int, Any], None]]] = {
    records.JobCarried: _write_job_carried,
    records.JobEntered: _write_job_entered,
    records.JobChanged: _write_job_changed,
    records.StayEnded: _write_stay_ended,
    records.DiskLeft: _write_disk_left,
    records.JobFinished: _write_job_finished,
    records.NodeChanged: _write_node_changed,
    records.FaultHappened: _write_fault,
    records.QuantumPassed: _write_quantum,
}
