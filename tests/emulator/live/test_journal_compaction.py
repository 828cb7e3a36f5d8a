"""A journal that begins anew with what is alive: nothing is other than it would have been, and a kill leaves the old one or the new."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count, product
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands
from tests.emulator.live.test_damage import damage, rows_of
from tests.emulator.live.test_live_random import SITES, TAKE_TURNS, Books, Life, assert_same, without_jobs
from tests.emulator.live.test_saved_state import ENDINGS, PREPARED, Site, restored
from tests.emulator.live.test_views import begin
from tests.processes import Forked, Ran, ended, wait_until
from tests.runs import run_on

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.accounting.archive import Archive
from cosched_emulator.accounting.file import DamageError
from cosched_emulator.accounting.rebuild import AS_THEY_WERE, examine, salvage
from cosched_emulator.accounting.run_meta import meta_of
from cosched_emulator.errors import ConfigurationError, EmulatorError
from cosched_emulator.live.journal import answer_step, command_step, play, restore, time_step
from cosched_emulator.live.journal_compaction import compact_journal
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.serving import LIVE, new_manager
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.users.requests import DrainNodes, Refused, Request, Requester
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.messages import Actions

# What is carried over in these lives.
OFTEN: Final = {
    "rua": ("JobArrayTaskLimit", "Dependency", "BeginTime", "JobHeldUser", "down"),
    "lomarc-r": ("noted", "slow", "measured"),
    "glts": ("SUSPENDED", "on disk", "noted"),
}


class Twins(Life):
    """A life whose journal begins anew whenever a scheduler comes, and a manager beside it that plays all steps from the first one."""

    def __init__(self, policy: str, seed: int, folder: Path, *, late: bool) -> None:
        super().__init__(policy, seed, late=late)
        self.site = without_jobs(self.prepared)
        self.live, self.twin = self.new(self.books), self.new(self.books)
        self.archive: Archive | None = None
        self.path = str(folder / f"{policy}-{seed}.db")
        self.accounts = Accounting.create(self.path, meta_of(self.site.scenario, self.site.workload, LIVE))
        self.begun = 0
        self.carried: Counter[str] = Counter()

    def do(self, step: Step) -> None:
        self.accounts.append(step)
        play(self.live, step)
        play(self.twin, step)
        changes = self.live.drain()
        assert changes == self.twin.drain()
        self.accounts.record(changes)
        self.books.record(changes)
        self.live.check()
        assert_same(self.live, self.twin, void=False)
        assert self.live.commands.next_id == self.twin.commands.next_id

    def command(self, who: Requester, request: Request) -> None:
        due_us = self.live.due_us()
        if due_us is not None and due_us <= self.live.now_us:
            self.do(time_step(self.live.now_us))
        if not isinstance(self.live.examine(who, request), Refused):
            self.do(command_step(self.live.now_us, who, request))

    def scheduler_comes(self) -> None:
        if self.accounts.step:
            self.compact_journal()
        super().scheduler_comes()

    def restored(self) -> tuple[Accounting, LiveManager]:
        accounts = Accounting.open(self.path)
        live = self.new(accounts)
        try:
            restore(live, accounts)
        except BaseException:
            accounts.close()
            raise
        return accounts, live

    def new(self, books: Accounting | Books) -> LiveManager:
        manager = build_manager(self.prepared, live=True)
        return LiveManager(manager, build_agenda(self.site, manager, live=True), 1, books.ended_state, books.tasks)

    def compact_journal(self) -> None:
        """Come back from the journal, and let it begin anew."""
        self.accounts.close()
        self.accounts, old = self.restored()
        if old.manager.processes is not None and old.manager.running:
            with pytest.raises(ConfigurationError, match=r"expected no running job where jobs share time: .* got job"):
                compact_journal(self.new(self.books), old, self.site, self.accounts)
            return
        self.live = self.new(self.books)
        self.carried["archived"] += compact_journal(self.live, old, self.site, self.accounts, self.archive)
        if old.manager.processes is not None:  # CPUs count in ticks, from another phase on
            self.accounts.close()
            self.accounts, self.twin = Accounting.open(self.path), self.new(self.books)
            restore(self.twin, self.accounts)
        self.live.decisions.clear()  # those of a replay do not say what was stale
        self.do(time_step(self.live.now_us))
        self.begun += 1
        manager = old.manager
        for job in manager.running.values():
            self.carried[job.state] += 1
            self.carried["on disk"] += job.on_disk
            self.carried["measured"] += job.measured_ppm > 0
        self.carried["again"] += sum(len(job.intervals) > 0 for job in manager.pending.values())
        self.carried.update([waiting.reason for waiting in old.waiting.values()])
        self.carried["down"] += len(manager.nodes.down)
        self.carried["slow"] += len(manager.nodes.slow)
        self.carried["noted"] += len(manager.notes.inventory_entries())


@pytest.mark.parametrize(
    ("policy", "late", "seeds"),
    [
        *(("rua", False, 2), ("lomarc-r", False, 2), ("glts", False, 2), ("paired-gang", True, 1)),
        *(pytest.param(*case, 6, marks=pytest.mark.slow) for case in product(SITES, (False, True))),
    ],
)
def test_all_goes_on_as_if_the_journal_had_not_begun_anew(policy: str, late: bool, seeds: int, tmp_path: Path) -> None:
    carried: Counter[str] = Counter()
    begun = 0
    for seed in range(seeds):
        life = Twins(policy, seed, tmp_path, late=late)
        life.go(500)
        life.run_out()
        life.accounts.close()
        accounts, _ = life.restored()
        accounts.close()
        assert examine(life.path).whole
        carried += life.carried
        begun += life.begun
    assert begun > seeds // 2  # where jobs take turns, only while none runs
    if policy not in TAKE_TURNS:
        assert begun > 3 * seeds
        assert carried["RUNNING"] > 2 * seeds
    for what in OFTEN.get(policy, ()):
        assert carried[what], what


WATTS: Final = {"idle_w": 100.0, "busy_w": 10.0, "spin_w": 5.0}


def test_the_jobs_of_a_scenario_and_their_energy_are_carried_over(tmp_path: Path) -> None:
    """What was to come in the first manager comes in the second one, once."""
    prepared = prepare(
        {
            "cluster": {"nodes": 4, "preset": "2x2x1", **WATTS},
            "workload": {"lublin": 12, "limits": "estimate"},
            "script": [{"at_s": 2.0, "do": "fail-node", "node": 3}, {"at_s": 1e5, "do": "return-node", "node": 3}],
            "clock": {"mode": "scaled", "speed": 1.0},
        }
    )
    accounts = [
        Accounting.create(str(tmp_path / name), meta_of(prepared.scenario, prepared.workload, LIVE))
        for name in ("a.db", "b.db")
    ]
    lives = [new_manager(prepared, books) for books in accounts]

    def do(step: Step) -> None:
        for live, books in zip(lives, accounts, strict=True):
            books.append(step)
            play(live, step)
            books.record(live.drain())

    middle_us = prepared.workload.jobs[6].spec.submit_us
    do(time_step(middle_us))
    full, rest = divmod(prepared.workload.jobs[0].spec.processes, 4)
    runs = [run_on(node, 1, 15, 4) for node in range(full)]
    runs += [run_on(full, 1, (1 << rest) - 1, rest)] if rest else []
    do(answer_step(middle_us, Actions(1, middle_us, (begin(1, *runs, limit_s=10**6),))))
    assert lives[0].manager.running
    before, lives[0] = lives[0], new_manager(prepared, accounts[0])
    compact_journal(lives[0], before, prepared, accounts[0])
    do(time_step(prepared.workload.jobs[-1].spec.submit_us + 10**12))
    rows = []
    for books in accounts:
        books.close()
        with closing(sqlite3.connect(books.path or "")) as connection:
            rows.append(connection.execute("SELECT id, state, submit_us, end_us, energy_j FROM jobs").fetchall())
            rows[-1] += connection.execute("SELECT what, id, state, at_us FROM changes ORDER BY number").fetchall()
    assert rows[0] == rows[1]
    assert any(row[-1] for row in rows[0][:12])


# ---------------------------------------------------------------- kills


class Again(Site):
    """A site whose journal may begin anew."""

    def compact_journal(self) -> None:
        self.books.close()
        self.live, _, self.books = restored(Path(self.path))
        before, self.live = self.live, new_manager(PREPARED, self.books)
        run = self.books.meta["run"]
        compact_journal(self.live, before, PREPARED, self.books)
        assert self.books.meta["run"] == run  # `wait` asks for it


def copied(left: Path, folder: Path) -> Path:
    folder.mkdir()
    for ending in ENDINGS:
        with suppress(FileNotFoundError):
            shutil.copy(f"{left}{ending}", folder / f"c.db{ending}")
    return folder / "c.db"


def killed(path: Path, die: Callable[[Accounting], None], after_s: float = 60.0) -> bool:
    """Let a process begin the journal anew, and kill it; return whether it was killed in time."""
    child = os.fork()
    if not child:
        try:
            before, _, books = restored(path)
            live = new_manager(PREPARED, books)
            die(books)
            compact_journal(live, before, PREPARED, books)
        finally:
            os._exit(0)
    deadline_s = time.monotonic() + after_s
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < deadline_s:
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def at_statement(number: int) -> Callable[[Accounting], None]:
    """Return what kills a process before it executes its n-th SQL statement from now on."""

    def die(books: Accounting) -> None:
        seen = count()
        books._connection.set_trace_callback(lambda _: os.kill(os.getpid(), 9) if next(seen) == number else None)

    return die


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed manager leaves: jobs that have ended, run and wait."""
    folder = tmp_path_factory.mktemp("left")
    site = Again(folder / "c.db")
    site.work(1, 20)
    path = copied(folder / "c.db", folder / "copy")
    site.books.close()
    return path


def facts_of(path: str) -> dict[str, list[Any]]:
    return {table: rows for table, rows in rows_of(path).items() if table != "journal"}


def assert_goes_on(path: Path, sound: LiveManager) -> bool:
    """Come back from a journal, old or new, with all that was there, and go on; return whether it is the new one."""
    live, played, books = restored(path)
    begun = played == 1
    assert live.now_us == sound.now_us + begun
    live.now_us = sound.now_us
    assert_same(live, sound, void=False)
    assert (live.commands.next_id, live.manager.jobs.keys()) == (sound.commands.next_id, sound.manager.jobs.keys())
    books.close()
    assert examine(str(path)).whole
    return begun


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_statement_leaves_the_old_journal_or_the_new_one(step: int, left: Path, tmp_path: Path) -> None:
    sound, _, books = restored(copied(left, tmp_path / "sound"))
    books.close()
    rows = facts_of(books.path or "")
    outcomes = []
    for number in count(0, step):
        path = copied(left, tmp_path / str(number))
        if not killed(path, at_statement(number)):
            break
        outcomes.append(assert_goes_on(path, sound))
        assert facts_of(str(path)) == rows
        shutil.rmtree(path.parent)
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) > 20 // step
    assert outcomes.count(True) >= 2 // step  # before the file is made smaller


@pytest.mark.slow
def test_a_kill_at_any_time_leaves_the_old_journal_or_the_new_one(left: Path, tmp_path: Path) -> None:
    sound, _, books = restored(copied(left, tmp_path / "sound"))
    books.close()
    began_s = time.monotonic()
    killed(copied(left, tmp_path / "whole"), lambda _: None)
    took_s = time.monotonic() - began_s
    for each in range(300):
        path = copied(left, tmp_path / str(each))
        killed(path, lambda _: None, took_s * uniform(3, "kill", each))
        assert_goes_on(path, sound)
        shutil.rmtree(path.parent)


# ---------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def left_anew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a killed manager leaves whose journal has begun anew twice, part of it in the log."""
    folder = tmp_path_factory.mktemp("anew")
    site = Again(folder / "c.db")
    site.work(1, 20)
    site.compact_journal()
    site.work(21, 10)
    site.compact_journal()
    site.work(31, 10)
    site.do(DrainNodes((1,), "late"), 401)
    yield copied(folder / "c.db", folder / "copy")
    site.books.close()


@pytest.mark.parametrize("number", [36, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_damage_goes_unnoticed(number: int, left_anew: Path, tmp_path: Path) -> None:
    _, _, books = restored(copied(left_anew, tmp_path / "sound"))
    books.close()
    sound = rows_of(books.path or "")
    told = 0
    for each in range(number):
        path = copied(left_anew, tmp_path / str(each))
        what = damage(path, each)
        try:
            _, _, books = restored(path)
        except EmulatorError:
            told += 1
        else:
            books.close()
            assert rows_of(str(path)) == sound, what
        shutil.rmtree(path.parent)
    assert told > number / 2


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE jobs SET state = 'FAILED' WHERE id = 2", AS_THEY_WERE),
        ("DELETE FROM changes WHERE number = 5", AS_THEY_WERE),
        ("DELETE FROM allocations", AS_THEY_WERE),
        ("UPDATE journal SET at_us = at_us + 1 WHERE kind = 'begin'", "of the journal as it was written"),
        ("UPDATE journal SET body = x'00' WHERE kind = 'begin'", "of the journal as it was written"),
        ("DELETE FROM journal WHERE kind = 'begin'", "a journal without gaps"),
        ("UPDATE meta SET value = replace(value, '0', '1') WHERE key = 'base'", "the meta data that the database"),
        ("DELETE FROM meta WHERE key = 'base'", "the meta data that the database was made with"),
    ],
)
def test_what_differs_is_told(statement: str, told: str, left_anew: Path, tmp_path: Path) -> None:
    path = copied(left_anew, tmp_path / "damaged")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(DamageError) as caught:
        restored(path)
    assert told in str(caught.value)
    assert not examine(str(path)).whole


@pytest.mark.parametrize("number", [24, pytest.param(360, marks=pytest.mark.slow)])
def test_what_is_whole_is_saved(number: int, left_anew: Path, tmp_path: Path) -> None:
    """What was alive when the journal began anew, what has happened since, and what is whole of the rows of what ended before."""
    _, _, books = restored(copied(left_anew, tmp_path / "sound"))
    books.close()
    sound = rows_of(books.path or "")
    kept = []
    for each in range(number):
        path = copied(left_anew, tmp_path / str(each))
        what = damage(path, each)
        if path.exists():
            salvage(str(path), meta_of(PREPARED.scenario, PREPARED.workload, LIVE))
            live, played, books = restored(path)
            assert played == len(rows_of(str(path))["journal"]), what
            assert live.commands.next_id == 1 or live.commands.next_id > 30, what
            books.close()
            assert examine(str(path)).whole, what
            kept.append(played)
            if played == len(sound["journal"]) and what.endswith(("of ('-mark',)", "of ('-wal', '-mark')")):
                assert rows_of(str(path))["jobs"] == sound["jobs"], what
        shutil.rmtree(path.parent)
    assert max(kept) == len(sound["journal"])
    assert min(kept) < len(sound["journal"])


# ---------------------------------------------------------------- a real manager


def serve(nodes: int, *more: str) -> list[str]:
    common = ["serve", "--nodes", str(nodes), "--clock", "scaled", "--speed", "10", "--log-json", "--check"]
    return [*common, "--db", "c.db", "--users", "ipc://u.sock", "--bind", "ipc://s.sock", *more]


class Cluster:
    """A manager in a process of its own, its scheduler and its user."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        commands.start("cosched_plugin", "serve", "--connect", "ipc://s.sock", "--policy", "easy")
        self.manager = self.start(2)

    def start(self, nodes: int, *more: str) -> Forked:
        self.manager = self._commands.start("cosched_emulator", *serve(nodes, *more))
        wait_until(lambda: '"event":"serving"' in self.manager.written()[1])
        return self.manager

    def kill(self) -> None:
        self.manager.kill()
        self.manager.wait(10)

    def ask(self, command: str, *more: str, code: int = 0) -> Ran:
        ran = self._commands.emulator(command, "--manager", "ipc://u.sock", *more)
        assert ran.code == code, ran.err
        return ran

    def jobs(self, *keys: str) -> dict[str, list[Any]]:
        """Return some facts of the jobs that have not ended, by their names."""
        jobs = json.loads(self.ask("queue", "--json").out)["jobs"]
        return {f"{job['name']}{job['array_index'] or ''}": [job[key] for key in keys] for job in jobs}

    def refused(self, nodes: int, *more: str) -> str:
        """Return why a manager with so many nodes does not begin."""
        ran = self._commands.emulator(*serve(nodes, *more))
        assert ran.code == 2
        return ran.err


LASTING: Final = ("job_id", "array_id", "array_index", "user", "submit_s", "start_s", "limit_s", "processes")


def test_a_manager_comes_back_with_more_nodes_and_with_fewer(commands: Commands) -> None:
    site = Cluster(commands)
    site.ask("submit", "-n", "1", "--run", "1", "-t", "0", "--estimate", "5", "--job-name", "first")
    site.ask("wait", "1", "--timeout", "20")
    site.ask("submit", "-N", "2", "-n", "2", "--exclusive", "--run", "90000", "-t", "30:00:00", "--job-name", "long")
    wait_until(lambda: site.jobs("state")["long"] == ["RUNNING"])
    site.ask("submit", "-N", "2", "-n", "2", "--exclusive", "--run", "5", "-t", "10:00", "--job-name", "new")
    site.ask("submit", "-n", "1", "--hold", "--token", "once", "--job-name", "held")
    site.ask("submit", "-n", "1", "--array", "0-2%1", "--run", "90000", "--job-name", "array", "--hold")
    site.ask("submit", "-N", "2", "-n", "2", "--dependency", "afterany:2", "--job-name", "after")
    before = site.jobs(*LASTING)
    assert site.jobs("state", "reason")["new"][0] == "PENDING"
    site.kill()
    site.start(4)
    assert '"nodes":4,"nodes_before":2' in site.manager.written()[1]
    site.ask("wait", "3", "--timeout", "20")  # on the new nodes
    del before["new"]
    assert site.jobs(*LASTING) == before
    assert site.jobs("state")["long"] == ["RUNNING"]
    assert "submitted before" in site.ask("submit", "-n", "1", "--hold", "--token", "once", "--job-name", "held").err
    assert [job["name"] for job in json.loads(site.ask("history", "--json").out)["jobs"]] == ["first", "new"]
    site.kill()

    assert "no job on the nodes from 1 on, which are to be removed: drain them, and wait, got job 2" in site.refused(
        1, "--compact"
    )
    site.start(4)
    site.ask("drain", "1-3")
    site.ask("cancel", "2")
    site.kill()
    assert "jobs that fit 1 nodes: cancel the others, or keep more nodes, got job 8" in site.refused(1)
    site.start(3)
    site.ask("cancel", "8")
    site.ask("release", "5")
    site.kill()  # without a bye, after which the scheduler would end
    site.start(1)
    assert '"nodes":1,"nodes_before":3' in site.manager.written()[1]
    wait_until(lambda: "RUNNING" in site.jobs("state")["array"])
    site.manager.terminate()
    ended(site.manager)
    site.start(1)
    wait_until(lambda: '"event":"history-whole"' in site.manager.written()[1])  # all after the journal began anew
    site.manager.terminate()
    ended(site.manager)
    assert "expected a database of one machine, as a run folder is" in site.refused(1, "--out", "run")
    assert commands.emulator("accounts", "check", "c.db").code == 0
    with closing(sqlite3.connect(commands.folder / "c.db")) as connection:
        assert dict(connection.execute("SELECT node, state FROM node_states")) == {
            1: "REMOVED",
            2: "REMOVED",
            3: "REMOVED",
        }


def test_a_file_of_the_machine_may_change_at_its_end(commands: Commands) -> None:
    def machine(*counts: int) -> None:
        presets = ("2x2x1", "1x8x1", "1x1x1")
        nodes = [f"[[nodes]]\ncount = {many}\npreset = '{name}'\n" for many, name in zip(counts, presets, strict=False)]
        (commands.folder / "m.toml").write_text("".join(nodes))

    def serves(*more: str) -> Ran:
        common = ["serve", "--machine", "m.toml", "--clock", "scaled", "--speed", "1", "--until", "0", "--log-json"]
        return commands.emulator(*common, "--db", "c.db", "--users", "ipc://u.sock", "--bind", "ipc://s.sock", *more)

    machine(2, 2)
    assert serves().code == 0
    for counts in ((2, 3), (2, 3, 1), (2, 1), (1,), (1, 4)):
        machine(*counts)
        ran = serves()
        assert (ran.code, f'"nodes":{sum(counts)},' in ran.err) == (0, True), ran.err
    machine(2, 3)
    assert "with more or fewer of them at the end, got another kind of node 1" in serves().err
    machine(1, 4)
    assert "begun-anew" not in serves().err
    common = [
        "serve",
        "--nodes",
        "1",
        "--node",
        "2x2x1",
        "--clock",
        "scaled",
        "--speed",
        "1",
        "--until",
        "0",
        "--log-json",
    ]
    for begun in (True, False):
        ran = commands.emulator(*common, "--db", "c.db", "--users", "ipc://u.sock", "--bind", "ipc://s.sock")
        assert (ran.code, "begun-anew" in ran.err) == (0, begun), ran.err
