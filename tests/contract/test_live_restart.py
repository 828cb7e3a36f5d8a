"""A live manager and its scheduler are killed -9 during users' requests: confirmed jobs exist once, and end.

Who goes on is the same manager, started again, or one that stands by; then it may also be stopped instead of killed.
"""

from __future__ import annotations

import signal
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.proofs.kill_nine import broken_accounts
from tests.emulator.submissions import submit_job
from tests.processes import Forked, fork_program, wait_until

from cosched_emulator.live.lease import LOOK_S, STILL_S, read_lease
from cosched_emulator.users import requests
from cosched_emulator.users.client import ManagerConnection, SilenceError
from cosched_emulator.users.told import rows_of
from cosched_hwmodel.draws import choice, uniform
from cosched_plugin.protocol.messages import CANCELLED, END_STATES

SECOND_US = 1_000_000
ANSWER_S = 1.5  # a killed manager will not answer any more
ROUNDS = 10
QUIET_S: Final = 2.5  # longer than from a kill to an answer
REQUESTS = 40  # at most in a round, which ends soon after a kill


MANAGERS = ("manager", "other manager")
MACHINE = ("--nodes", "16", "--node", "rua-4way")
ANY_JOBS = (*MACHINE, "--clock", "scaled", "--speed", "3000")


class Site:
    """Managers, one that serves and perhaps one that stands by, and a scheduler; each is started again at once when it is killed."""

    def __init__(
        self, short: Path, folder: Path, managers: int, options: Sequence[str] = ANY_JOBS, policy: str = "rua"
    ) -> None:
        self.users = f"ipc://{short}/users"
        self.db = folder / "cluster.db"
        self.starts: Counter[str] = Counter()
        self.took_s: list[float] = []  # from a kill of the manager to an answer
        self._managers = MANAGERS[:managers]
        endpoint = f"ipc://{short}/scheduler"
        self._manager = ["cosched_emulator", "serve", *options, "--bind", endpoint, "--users", self.users,
                         "--db", str(self.db), "--check", *["--standby"][: managers - 1]]  # fmt: skip
        self._plugin = ["cosched_plugin", "serve", "--connect", endpoint, "--policy", policy]
        self._processes: dict[str, Forked] = {}

    def open(self) -> None:
        """Start all."""
        self.start("plugin")
        for name in self._managers:
            self.start(name)
            self.wait_for_answer()  # the first one serves

    def start(self, name: str) -> None:
        self.starts[name] += 1
        self._processes[name] = fork_program(*(self._plugin if name == "plugin" else self._manager))

    def serving(self) -> str:
        """Return the name of the manager that serves."""
        found: list[str] = []

        def holds() -> bool:  # one that was just started has no lease yet
            holder = read_lease(str(self.db))
            there = [name for name in self._managers if holder and self._processes[name].pid == holder.process]
            found[:] = there
            return bool(there)

        wait_until(holds)
        return found[0]

    def idle(self) -> str:
        """Return the name of the manager that stands by."""
        (name,) = set(self._managers) - {self.serving()}
        return name

    def pause(self, name: str, number: int) -> None:
        """Send a manager SIGSTOP or SIGCONT."""
        self._processes[name].send_signal(number)

    def strike(self, number: int, *names: str) -> None:
        """Kill processes, which must be alive, and start them again; "manager" is the one that serves, "idle" the other one.

        With SIGSTOP, the one that stands by kills the stopped manager.
        """
        for name in names:
            struck = self.serving() if name == "manager" else self.idle() if name == "idle" else name
            process = self._processes[struck]
            began_s = time.monotonic()
            process.send_signal(number if name == "manager" else signal.SIGKILL)
            assert process.wait(10) == -signal.SIGKILL, self.said(struck)
            if name == "manager" and len(self._managers) > 1:
                self.wait_for_answer()
                self.took_s.append(time.monotonic() - began_s)
            self.start(struck)

    def wait_for_answer(self) -> None:
        with ManagerConnection(self.users, 20.0) as connection:
            connection.result(requests.ListJobs())

    def stop(self, name: str) -> int:
        wait_until(lambda: bool(self.said(name)))  # a program that has just been started has no handler of signals yet
        self._processes[name].terminate()
        return self._processes[name].wait(10)

    def said(self, name: str) -> str:
        return "".join(self._processes[name].written())

    def assert_alive(self) -> None:
        for name, process in self._processes.items():
            assert process.poll() is None, self.said(name)

    def close(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait(10)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder for sockets: pytest's paths may be too long for them."""
    with tempfile.TemporaryDirectory(prefix="restart-", dir="/tmp") as folder:
        yield Path(folder)


class User:
    """A user who submits, holds, releases and cancels jobs, and records what was confirmed."""

    def __init__(self, site: Site, seed: int) -> None:
        self.confirmed: dict[str, list[int]] = {}  # by name: job ids
        self.unanswered: dict[str, int] = {}  # by name: number of tasks
        self.refused: set[str] = set()
        self.cancelled: set[int] = set()
        self.held: set[int] = set()
        self._site = site
        self._seed = seed
        self.number = 0
        self._ids: list[int] = []

    def ask_something(self, connection: ManagerConnection) -> bool:
        """Make one request; return whether it was answered."""
        self.number += 1
        kind = choice(self._draw("kind"), (75, 8, 8, 9)) if self._ids else 0
        if kind == 0:
            return self._submit(connection)
        some = self._ids[int(self._draw("job") * len(self._ids))]
        request = (requests.CancelJobs, requests.HoldJobs, requests.ReleaseJobs)[kind - 1]((requests.Target(some),))
        answer = self._ask(connection, request)
        if isinstance(answer, requests.Done):
            changed = set(answer.result["changed"])  # of an array: all tasks that could be changed
            self.cancelled |= changed if kind == 1 else set()
            self.held = self.held | changed if kind == 2 else self.held - changed
        elif answer is None and kind == 2:
            self.held.add(some)  # it may have been held
        return answer is not None

    def release_all(self, connection: ManagerConnection) -> None:
        for job_id in sorted(self.held):
            assert connection.ask(requests.ReleaseJobs((requests.Target(job_id),))) is not None

    def _submit(self, connection: ManagerConnection) -> bool:
        name = f"job-{self.number}"
        tasks = tuple(range(2 + int(4 * self._draw("tasks")))) if self._draw("array") < 0.2 else ()
        after: tuple[requests.Dependency, ...] = ()
        if self._ids and self._draw("after") < 0.3:
            recent = self._ids[-10:]
            kind = ("afterok", "afterany")[self._draw("after kind") < 0.5]
            after = (requests.Dependency(kind, recent[int(self._draw("after whom") * len(recent))]),)
        request = submit_job(
            processes=1 + int(24 * self._draw("processes")),
            estimate_us=round((20 + 900 * self._draw("estimate")) * SECOND_US),
            limit_us=600 * SECOND_US,
            name=name,
            tasks=tasks,
            at_once=2 if tasks and self._draw("at once") < 0.5 else 0,
            after=after,
            exit_code=int(self._draw("fails") < 0.1),
        )
        answer = self._ask(connection, request)
        if isinstance(answer, requests.Done):
            self.confirmed[name] = list(answer.result["job_ids"])
            self._ids += self.confirmed[name]
            assert len(self.confirmed[name]) == (len(tasks) or 1)
        elif answer is None:
            self.unanswered[name] = len(tasks) or 1
        else:
            self.refused.add(name)
            assert answer.path.startswith("after"), answer
        return answer is not None

    def _ask(
        self,
        connection: ManagerConnection,
        request: requests.SubmitJob | requests.CancelJobs | requests.HoldJobs | requests.ReleaseJobs,
    ) -> requests.Done | requests.Refused | None:
        try:
            return connection.ask(request)
        except SilenceError:
            return None

    def _draw(self, purpose: str) -> float:
        return uniform(self._seed, f"user {purpose}", self.number)


@pytest.mark.parametrize("managers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 7)]])
def test_what_was_confirmed_survives_every_kill(seed: int, managers: int, short: Path, tmp_path: Path) -> None:
    site = Site(short, tmp_path, managers)
    with closing(site):
        site.open()
        user = User(site, seed)
        unanswered = 0
        with ManagerConnection(site.users, ANSWER_S) as connection:
            for number in range(ROUNDS):
                victims = ("manager", "plugin") if uniform(seed, "both", number) < 0.4 else ("manager",)
                delay_s = 0.3 * uniform(seed, "delay", number)
                how = signal.SIGSTOP if managers > 1 and number % 5 == 4 else signal.SIGKILL
                if managers > 1 and number % 3 == 1:
                    site.strike(signal.SIGKILL, "idle")
                timer = threading.Timer(delay_s, site.strike, (how, *victims))
                timer.start()
                try:
                    for _ in range(REQUESTS):
                        if not user.ask_something(connection):
                            unanswered += 1
                            break
                        time.sleep(0.02 * uniform(seed, "pause", number, user.number))
                finally:
                    timer.join(30)
                site.assert_alive()
        with ManagerConnection(site.users, 20.0) as connection:
            user.release_all(connection)
            deadline = time.monotonic() + 60
            while left := rows_of(connection.result(requests.ListJobs())):
                assert time.monotonic() < deadline, left
                user.release_all(connection)
                site.assert_alive()
                time.sleep(0.1)
            history = connection.result(requests.ListHistory(most=10_000))["jobs"]
        for name in sorted(
            MANAGERS[:managers], key=lambda name: name == site.serving()
        ):  # the one that stands by first
            assert site.stop(name) == 128 + signal.SIGTERM, site.said(name)
        assert sum(site.starts[name] for name in MANAGERS) == managers + ROUNDS + 3 * (managers - 1)
        assert site.starts["plugin"] > 1
        print(f"seconds from a kill to an answer of the manager that stood by: {site.took_s}")

    ids = [job_id for found in user.confirmed.values() for job_id in found]
    assert len(ids) == len(set(ids)) > 50
    ended = {row["job_id"]: row for row in history}
    assert len(ended) == len(history)
    by_name = Counter(row["name"] for row in history)
    for name, found in user.confirmed.items():
        assert by_name.pop(name) == len(found)
        assert {ended[job_id]["name"] for job_id in found} == {name}
        assert {ended[job_id]["state"] for job_id in found} <= END_STATES
    for name, tasks in user.unanswered.items():
        assert by_name.pop(name, 0) in (0, tasks)
    assert not by_name  # no job that was refused or never requested
    assert {ended[job_id]["state"] for job_id in user.cancelled} <= {CANCELLED}
    assert len({row["state"] for row in history}) >= 3
    assert unanswered > 0  # some of the kills came during a request

    assert broken_accounts(site.db, len(history)) == []
    with closing(sqlite3.connect(site.db)) as connection_to_db:
        rows = connection_to_db.execute("SELECT id, state, name FROM jobs ORDER BY id").fetchall()
    assert rows == sorted((row["job_id"], row["state"], row["name"]) for row in history)


def test_a_manager_that_stands_by_may_be_stopped(short: Path, tmp_path: Path) -> None:
    """It has seen no turns for long when it goes on, and must not kill a manager for that."""
    with closing(Site(short, tmp_path, managers=2)) as site:
        site.open()
        served, idle = site.serving(), site.idle()
        site.pause(idle, signal.SIGSTOP)
        time.sleep(STILL_S + 0.5)
        site.pause(idle, signal.SIGCONT)
        time.sleep(5 * LOOK_S)
        site.assert_alive()
        assert site.serving() == served
        assert "stands still" not in site.said(idle)
        site.strike(signal.SIGKILL, "manager")
        assert site.serving() == idle


# A standby kills a manager that stands still after `STILL_S`: for most of them the emulated machine stands still, too.
@pytest.mark.parametrize(
    ("managers", "number", "speed", "still_s"),
    [(1, signal.SIGKILL, 1, 0.0), (2, signal.SIGKILL, 50, 0.0), (2, signal.SIGSTOP, 50, STILL_S / 2)],
)
def test_time_without_events_is_not_lost_with_its_manager(
    managers: int, number: int, speed: int, still_s: float, short: Path, tmp_path: Path
) -> None:
    clock = ("--clock", "real") if speed == 1 else ("--clock", "scaled", "--speed", str(speed))
    with closing(Site(short, tmp_path, managers, (*MACHINE, *clock), "easy")) as site:
        site.open()

        def now_s() -> float:
            with ManagerConnection(site.users, 20.0, awaits_manager=True) as connection:
                return float(connection.result(requests.ShowStatus())["now_s"])

        with ManagerConnection(site.users, 20.0) as connection:
            connection.result(submit_job(16, 36_000 * SECOND_US))
            wait_until(lambda: rows_of(connection.result(requests.ListJobs()))[0]["state"] == "RUNNING")
        steps = _steps(site)
        time.sleep(QUIET_S)
        assert _steps(site) == steps  # nothing is written while nothing happens
        began_s, before_s = time.monotonic(), now_s()
        site.strike(number, "manager")
        after_s = now_s()
        alive_s = time.monotonic() - began_s - still_s
    assert before_s <= after_s <= before_s + alive_s * speed


RESERVED_S: Final = (100, 1800)
LIVE: Final = f"""
cluster = {{nodes = 4, preset = "1x1x1"}}
limits = [{{each = "user", jobs = 3}}]
script = [{{at_s = {RESERVED_S[0]}.0, do = "reserve", nodes = "2-3", until_s = {RESERVED_S[1]}.0}}]
"""


@pytest.mark.parametrize("managers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_who_goes_on_in_mid_reservation_starts_the_same_jobs_in_the_same_order(
    managers: int, short: Path, tmp_path: Path
) -> None:
    (tmp_path / "site.toml").write_text(LIVE)
    place = Site(
        short, tmp_path, managers, (str(tmp_path / "site.toml"), "--clock", "scaled", "--speed", "100"), "easy"
    )
    with closing(place), ManagerConnection(place.users, 20.0) as connection:
        place.open()
        ids: dict[str, int] = {}

        def submit(name: str, nodes: int, run_s: int, **more: Any) -> None:
            request = submit_job(nodes, run_s * SECOND_US, run_s * SECOND_US, name=name, **more)
            (ids[name],) = connection.result(request)["job_ids"]

        submit("first", 2, 600)
        submit("wide", 4, 50)  # the head of the queue: it starts when the reservation ends
        submit("short", 2, 100)
        # After the first, it would be there beyond the end of the reservation; and it waits for the limit.
        submit("long", 2, 2400, run_us=100 * SECOND_US)
        submit("after", 1, 50, after=(requests.Dependency("afterok", ids["short"]),))
        submit("later", 1, 50, delay_us=900 * SECOND_US)
        place.strike(signal.SIGKILL, "manager", "plugin")
        for name in ("first", "short"):
            wait_until(_has_left(place, ids[name]), 60)
            place.strike(signal.SIGKILL, "manager", *(["idle"] if managers > 1 else ["plugin"]))
        wait_until(lambda: len(_stays(place)[1]) == len(ids), 90)
        place.assert_alive()
        starts_us, ends_us = _stays(place)
    assert sorted(ids, key=lambda name: starts_us[ids[name]]) == ["first", "short", "after", "later", "wide", "long"]
    assert starts_us[ids["wide"]] >= RESERVED_S[1] * SECOND_US
    assert starts_us[ids["later"]] >= 900 * SECOND_US
    assert starts_us[ids["after"]] >= ends_us[ids["short"]]


def test_a_manager_does_not_come_back_with_other_limits(short: Path, tmp_path: Path) -> None:
    """The jobs in its database were let in by those that it had."""
    (tmp_path / "site.toml").write_text(LIVE)
    command = ("cosched_emulator", "serve", str(tmp_path / "site.toml"), "--clock", "scaled", "--speed", "1", "--until", "0", "--bind", f"ipc://{short}/s",
               "--users", f"ipc://{short}/u", "--db", str(tmp_path / "c.db"))  # fmt: skip
    assert fork_program(*command).wait(30) == 0
    (tmp_path / "site.toml").write_text(LIVE.replace("jobs = 3", "jobs = 4"))
    for more in ((), ("--compact",)):
        process = fork_program(*command, *more)
        assert process.wait(30) == 2
        assert "expected a database of the same scenario, got limits" in "".join(process.written())


def _steps(site: Site) -> int:
    with closing(sqlite3.connect(site.db)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM journal").fetchone()
    return int(count)


def _has_left(place: Site, job_id: int) -> Callable[[], bool]:
    return lambda: job_id in _stays(place)[0]


def _stays(place: Site) -> tuple[dict[int, int], dict[int, int]]:
    """Return when each job began and ended."""
    with closing(sqlite3.connect(place.db)) as connection:
        rows = connection.execute(
            "SELECT job_id, min(start_us), max(end_us) FROM allocations GROUP BY job_id"
        ).fetchall()
    return {job: start_us for job, start_us, _ in rows}, {job: end_us for job, _, end_us in rows}
