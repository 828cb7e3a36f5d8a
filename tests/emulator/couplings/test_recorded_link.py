"""Runs in virtual time that are killed and resume from the recorded answers: the same run, and the same results."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.contract.cases import scenario_of
from tests.contract.test_same_schedule import assert_same
from tests.emulator.accounting.killing import killed
from tests.emulator.accounting.test_accounting import tables_of
from tests.emulator.parts import job, start
from tests.processes import ended, fork_program

from cosched_emulator import prepare, simulate
from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.couplings.recorded import RecordedLink
from cosched_emulator.errors import AccountingError, ConfigurationError, InvariantError
from cosched_emulator.manager.record import JobEntered, Origin
from cosched_emulator.run.from_accounts import export_run, records_of, workload_of
from cosched_emulator.run.prepare import Prepared
from cosched_hwmodel.models import importing
from cosched_plugin.config import choose
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import LocalProtocolError

CASES = [("easy", "swf"), ("rua", "lublin"), ("lomarc-r", "lomarc"), ("glts", "statistical"), ("gang", "time-shared")]


class Far:
    """A link that answers batch n with a wake at n, and records its calls."""

    def __init__(self) -> None:
        self.done: list[object] = []

    def open(self, inventory: Callable[[], m.Welcome]) -> None:
        self.done.append("open")

    def exchange(self, seq: int, now_us: int, events: tuple[m.Event, ...]) -> Sequence[m.Action]:
        self.done.append(seq)
        return answer_to(seq)

    def close(self) -> None:
        self.done.append("close")


class Other(Far):
    """One that answers otherwise from batch 2 on."""

    def exchange(self, seq: int, now_us: int, events: tuple[m.Event, ...]) -> Sequence[m.Action]:
        return super().exchange(seq + seq // 2, now_us, events)


class Clock:
    """Time that advances only during `sleep`, or explicitly."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, span_s: float) -> None:
        self.now_s += span_s


def answer_to(seq: int) -> list[m.Action]:
    together = m.StartTogether((start(seq, mask=1 << 100, limit_us=9), start(seq + 1)))
    note = m.SetNote(None, "k", (1, 2.5, "x", (None, True)))
    return [m.WakeAt(seq), m.UnknownAction("dance"), together, note, m.RejectJob(seq, "no")] if seq % 2 else []


def easy() -> str:
    """Return the name of the scheduler's policy."""
    return "easy"


def no_inventory() -> m.Welcome:
    raise AssertionError("nobody asks")


def batch(seq: int) -> tuple[int, int, tuple[m.Event, ...]]:
    return seq, seq * 10, (m.JobSubmitted(job(seq).spec), m.Woken(seq))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


def recorded(path: str, batches: int) -> None:
    """Record a number of batches."""
    accounting = Accounting.create(path, {})
    link = RecordedLink(Far(), accounting, easy)
    link.open(no_inventory)
    for seq in range(1, batches + 1):
        assert link.exchange(*batch(seq)) == answer_to(seq)
    link.close()
    accounting.close()


def reopened(path: str) -> tuple[RecordedLink, Far, Accounting]:
    far = Far()
    accounting = Accounting.open(path)
    return RecordedLink(far, accounting, easy), far, accounting


# ---------------------------------------------------------------- one link


def test_recorded_answers_are_used_without_a_scheduler(path: str) -> None:
    recorded(path, 5)
    link, far, accounting = reopened(path)
    link.open(no_inventory)
    for seq in range(1, 6):
        assert accounting.unplayed == 6 - seq
        assert list(link.exchange(*batch(seq))) == answer_to(seq)
    assert far.done == []
    assert list(link.exchange(*batch(6))) == answer_to(6)
    assert list(link.exchange(*batch(7))) == answer_to(7)
    assert far.done == ["open", 6, 7]
    link.close()
    accounting.close()
    assert far.done == ["open", 6, 7, "close"]
    assert [step for step, *_ in tables_of(path)["journal"]] == list(range(1, 8))


def test_a_finished_run_does_not_ask_the_scheduler(path: str) -> None:
    recorded(path, 3)
    link, far, accounting = reopened(path)
    link.open(no_inventory)
    for seq in range(1, 4):
        link.exchange(*batch(seq))
    link.close()
    link.close()
    accounting.close()
    assert "open" not in far.done


def test_a_run_cannot_resume_with_another_policy(path: str) -> None:
    recorded(path, 2)
    accounting = Accounting.open(path)
    link = RecordedLink(Far(), accounting, lambda: "rua")
    link.open(no_inventory)
    for seq in (1, 2):
        link.exchange(*batch(seq))
    with pytest.raises(ConfigurationError, match="expected a database of the same policy, got rua instead of easy"):
        link.exchange(*batch(3))
    accounting.close()


def test_a_scheduler_that_is_asked_again_must_repeat_its_answers(path: str) -> None:
    recorded(path, 3)
    accounting, far = Accounting.open(path), Far()
    link = RecordedLink(far, accounting, easy, ask_again=True)
    link.open(no_inventory)
    for seq in range(1, 5):
        assert list(link.exchange(*batch(seq))) == answer_to(seq)
    link.close()
    accounting.close()
    assert far.done == ["open", 1, 2, 3, 4, "close"]
    assert [step for step, *_ in tables_of(path)["journal"]] == [1, 2, 3, 4]
    accounting = Accounting.open(path)
    link = RecordedLink(Other(), accounting, easy, ask_again=True)
    link.open(no_inventory)
    link.exchange(*batch(1))
    with pytest.raises(ConfigurationError, match=r"expected a policy that repeats .*, got another answer to batch 2"):
        link.exchange(*batch(2))
    accounting.close()


def test_without_recorded_answers_the_link_is_opened_at_once(path: str) -> None:
    accounting = Accounting.create(path, {})
    far = Far()
    link = RecordedLink(far, accounting, easy)
    with pytest.raises(LocalProtocolError, match="not open"):
        link.exchange(*batch(1))
    link.open(no_inventory)
    assert far.done == ["open"]
    link.close()
    accounting.close()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ((3, 20, batch(2)[2]), "batch 3 at 20 us was batch 2 at 20 us"),
        ((2, 21, batch(2)[2]), "batch 2 at 21 us was batch 2 at 20 us"),
        (
            (2, 20, batch(3)[2]),
            r"batch 2, event 0: JobSubmitted\(job=JobSpec\(id=3.*recorded JobSubmitted\(job=JobSpec\(id=2",
        ),
        ((2, 20, batch(2)[2][:1]), "batch 2 has 1 events, and had 2 when it was recorded"),
    ],
)
def test_a_batch_that_differs_from_the_recorded_one_is_an_error(changed: Any, text: str, path: str) -> None:
    recorded(path, 3)
    link, far, accounting = reopened(path)
    link.open(no_inventory)
    link.exchange(*batch(1))
    with pytest.raises(InvariantError, match=f"the database does not fit this program or scenario: {text}"):
        link.exchange(*changed)
    assert far.done == []
    accounting.close()


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step("command", 10, b""), "a step of kind 'command' where batch 1 was answered"),
        (Step("answer", 10, b""), "the recorded answer to batch 1 cannot be read"),
        (Step("answer", 10, b"\0\0\0\1\xc0"), "the recorded answer to batch 1 cannot be read"),
    ],
)
def test_steps_of_another_kind_are_an_error(step: Step, text: str, path: str) -> None:
    accounting = Accounting.create(path, {})
    accounting.append(step)
    accounting.close()
    link, _, accounting = reopened(path)
    link.open(no_inventory)
    with pytest.raises(InvariantError, match=text):
        link.exchange(*batch(1))
    accounting.close()


def test_answers_are_written_in_groups(path: str) -> None:
    accounting = Accounting.create(path, {})
    clock = Clock()
    link = RecordedLink(Far(), accounting, easy, clock=clock, sleep=clock.sleep)
    link.open(no_inventory)
    waiting = []
    for seq in range(1, 8):
        clock.now_s += 0.02
        link.exchange(*batch(seq))
        waiting.append(accounting.backlog)
    assert waiting == [1, 2, 0, 1, 2, 0, 1]
    link.close()
    assert accounting.backlog == 0
    accounting.close()


def test_a_full_disk_delays_the_run(path: str) -> None:
    accounting = Accounting.create(path, {})
    clock = Clock()
    naps = []

    def sleep(span_s: float) -> None:
        clock.sleep(span_s)
        naps.append(span_s)
        accounting.fill(len(naps) < 5)

    def warn(text: str) -> None:
        assert naps == []  # at once
        told.append(text)

    told: list[str] = []
    link = RecordedLink(Far(), accounting, easy, deadline_s=2.0, warn=warn, clock=clock, sleep=sleep)
    link.open(no_inventory)
    clock.now_s = 1.0
    accounting.fill(True)
    link.exchange(*batch(1))
    assert (accounting.backlog, len(naps)) == (0, 5)
    assert told == [f"{path}: database or disk is full: the run waits, at most 2 s"]
    link.close()
    accounting.close()


def test_a_disk_that_stays_full_is_an_error(path: str) -> None:
    accounting = Accounting.create(path, {})
    clock = Clock()
    far = Far()
    link = RecordedLink(far, accounting, easy, deadline_s=2.0, clock=clock, sleep=clock.sleep)
    link.open(no_inventory)
    accounting.fill(True)
    link.exchange(*batch(1))
    clock.now_s = 20.0
    with pytest.raises(AccountingError, match="cannot be written to for 2 s: database or disk is full"):
        link.exchange(*batch(2))
    assert clock.now_s == pytest.approx(22.0, abs=0.2)
    link.close()  # does not wait again
    assert clock.now_s == pytest.approx(22.0, abs=0.2)
    assert far.done[-1] == "close"
    accounting.fill(False)
    accounting.close()
    assert [step for step, *_ in tables_of(path)["journal"]] == [1, 2]


def test_a_simulation_says_at_once_that_the_disk_is_full(tmp_path: Path) -> None:
    """As on a full disk, a file can grow no more: told at once, one line in the end, and the same command goes on."""
    file, path = tmp_path / "s.toml", str(tmp_path / "run.db")
    file.write_text("[clock]\ndeadline_s = 0.5\n[workload]\nlublin = 300\n")
    command = ("simulate", str(file), "--db", path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, hard))  # of the fork
    try:
        done = ended(fork_program("cosched_emulator", *command))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 1
    assert done.out == ""
    assert done.err.splitlines() == [
        f"warning: {path}: disk I/O error: the run waits, at most 0.5 s",
        f"cosched-emulator: error: {path}: cannot be written to for 0.5 s: disk I/O error; the same command continues from it",
    ]
    again = ended(fork_program("cosched_emulator", *command))
    assert again.code == 0
    assert again.out == ended(fork_program("cosched_emulator", "simulate", str(file))).out  # as if nothing had been


# ---------------------------------------------------------------- whole runs


def prepared_for(name: str, tmp_path: Path) -> Prepared:
    return prepare(scenario_of(name, tmp_path))


def exported(path: str, preset: str, prepared: Prepared, out: Path) -> None:
    choice = choose(preset)
    accounting = Accounting.open(path)
    export_run(accounting, out, prepared, {"name": choice.name, **choice.settings})
    accounting.close()


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_a_run_that_is_killed_repeatedly_gives_the_same_results(preset: str, scenario: str, tmp_path: Path) -> None:
    """The schedule, and the results made from the database alone, equal those of the undisturbed run."""
    prepared = prepared_for(scenario, tmp_path)
    finished = simulate(prepared, preset)
    finished.write(tmp_path / "undisturbed")
    assert simulate(prepared, preset, db=tmp_path / "undisturbed.db").records == finished.records
    (tmp_path / "jobs.swf").unlink(missing_ok=True)
    kills = killed("simulation", tmp_path / "killed.db", 5, preset, scenario)
    assert kills >= 1  # the number depends on the speed of the machine
    for name in ("undisturbed", "killed"):
        exported(str(tmp_path / f"{name}.db"), preset, prepared, tmp_path / f"from {name}")
        assert_same(tmp_path / "undisturbed", tmp_path / f"from {name}")
    undisturbed, disturbed = tables_of(tmp_path / "undisturbed.db"), tables_of(tmp_path / "killed.db")
    for tables in (undisturbed, disturbed):
        tables["meta"] = [row for row in tables["meta"] if row[0] != "run"]  # each database has a name of its own
    for name, rows in undisturbed.items():
        assert disturbed[name] == rows, name
    assert len(undisturbed["jobs"]) == len(finished.records)
    assert len(undisturbed["journal"]) == finished.batches


class Killed(DirectLink):
    """A link whose process ends at batch 60."""

    def exchange(self, seq: int, now_us: int, events: tuple[m.Event, ...]) -> Sequence[m.Action]:
        if seq == 60:
            raise KeyboardInterrupt
        return super().exchange(seq, now_us, events)


@pytest.mark.by_default(2)
@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_a_resumed_run_has_the_whole_trace(preset: str, scenario: str, tmp_path: Path) -> None:
    prepared, db = prepared_for(scenario, tmp_path), tmp_path / "run.db"
    whole: list[Any] = []
    simulate(prepared, preset, trace=whole)
    with pytest.raises(KeyboardInterrupt):
        simulate(prepared, preset, link=Killed, db=db)
    resumed: list[Any] = []
    run = simulate(prepared, preset, trace=resumed, db=db, out=tmp_path / "out")
    again = simulate(prepared, preset, trace=tmp_path / "t.jsonl", db=db, link="loopback")
    assert len(whole) > 60
    assert resumed == whole
    assert again.trace == whole
    assert again.summary == run.summary


POLICY = """
from cosched_plugin.config import choose
class Easy:
    def decide(self, view):
        return choose("easy").make().decide(view)
"""


def test_a_database_belongs_to_one_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To its complete settings, and to what the modules and files hold by which it decides."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module, table = tmp_path / "of_one_policy.py", tmp_path / "pairs.csv"
    module.write_text(POLICY)
    table.write_text(
        "row,column,ratio,procs,compact_s\n" + "".join(f"{pair},0.6,4,100\n" for pair in ("a,a", "a,b", "b,a", "b,b"))
    )
    scenario = {
        "cluster": {"nodes": 4, "preset": "2x4x1"},
        "truth": {"contention": "pairs", "pairs": str(table)},
        "workload": {"applications": str(table), "jobs": 30},
    }

    def told(db: str, policy: str, *settings: str) -> str:
        trace, before = tmp_path / "t.jsonl", (tmp_path / db).read_bytes()
        with pytest.raises(ConfigurationError, match="expected a database of the same policy, got ") as raised:
            simulate(scenario, policy, settings=settings, db=tmp_path / db, trace=trace)
        assert (tmp_path / db).read_bytes() == before
        assert not trace.exists()
        return str(raised.value.got)

    simulate(scenario, "easy", db=tmp_path / "easy.db")
    assert told("easy.db", "fcfs") == "fcfs instead of easy"
    assert told("easy.db", "easy", "order=widest") == "policy.order.name: widest instead of fcfs"
    simulate(scenario, "easy", settings=["order=fcfs"], db=tmp_path / "easy.db")  # that is its default
    simulate(scenario, "of_one_policy:Easy", db=tmp_path / "own.db")
    module.write_text(POLICY.replace("easy", "fcfs"))
    importing._source_digest.cache_clear()
    assert told("own.db", "of_one_policy:Easy") == "the module of_one_policy has changed"
    table.write_text(table.read_text().replace("b,b,0.6", "b,b,0.7"))
    assert told("easy.db", "easy") == "truth.pairs has changed"


def test_unended_jobs_are_read_from_the_database(path: str) -> None:
    accounting = Accounting.create(path, {})
    mine = job(2, 5, limit_us=300)
    accounting.record([JobEntered(0, job(1), Origin("")), JobEntered(5, mine, Origin("ann"))])
    first, second = records_of(accounting)
    assert (second.job, second.state, second.end_us, second.intervals) == (mine, "PENDING", None, ())
    assert (second.estimate_us, second.limit_us, second.work_us, first.reason) == (100, 300, 0, "")
    source = prepare(scenario_of("lublin", Path(path).parent)).workload
    workload = workload_of(accounting, source)
    assert workload.jobs == (job(1), mine)
    assert workload.notes == (*source.notes, "1 jobs were submitted by users")
    assert workload.origin == source.origin
    accounting.close()
