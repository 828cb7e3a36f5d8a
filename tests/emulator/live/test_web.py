"""The web view: who may see it and whose names, what it does when the manager does not answer, and what a browser shows."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripts.browser import CHROMIUM, browser
from tests.commands import Commands
from tests.processes import free_port, wait_until

from cosched_emulator.live import web
from cosched_emulator.live.web import Tickets, WebView
from cosched_emulator.page.document import page_parts
from cosched_emulator.page.live_page import Facts, job_page, queue_page
from cosched_emulator.users.requests import Done, Refused, Request, Requester, ShowJobs, ShowOverview
from cosched_plugin.common.curve import FOLDERS, Keyring, write_keys
from cosched_plugin.common.errors import UsageError

ALICE, OLGA = Requester("alice", operator=False), Requester("olga", operator=True)
JOB = {
    "job_id": 1, "array_id": None, "array_index": None, "name": "a<b", "user": "alice", "state": "RUNNING", "reason": "",
    "submit_s": 0.0, "start_s": 0.0, "elapsed_s": 60.0, "limit_s": 120.0, "processes": 4, "nodes": 1, "node_list": "0",
    "shares_with": ["2"], "slowdown": 1.25, "priority": 0, "resources": [], "licences": [], "partitions": ["all"], "qos": "",
    "account": "chemistry",
}  # fmt: skip
WAITS = {
    **JOB,
    "job_id": 3,
    "name": "w",
    "user": "bob",
    "state": "PENDING",
    "reason": "JobHeldUser",
    "start_s": None,
    "account": "",
}
JOBS = [JOB, {**JOB, "job_id": 2, "user": "bob", "shares_with": ["1"], "account": "physics"}, WAITS]
NODE = {"node": 0, "state": "ALLOCATED", "reason": "", "threads": 8, "threads_used": 8, "jobs": ["1", "2"]}
OVERVIEW: dict[str, Any] = {
    "status": {
        "now_s": 90.0, "scheduler": "s", "policy": "easy", "shared_nodes": 1, "jobs": {"running": 2, "pending": 1, "waiting": 0},
        "nodes": {"idle": 1, "mixed": 0, "allocated": 1, "draining": 0},
    },
    "jobs": {"columns": [*JOB], "rows": [[*job.values()] for job in JOBS], "left_out": 0},
    "nodes": {"columns": [*NODE], "rows": [[*NODE.values()], [1, "IDLE", "", 8, 0, []]]},
}  # fmt: skip


def text_of(who: Requester | None) -> str:
    found = "".join(page_parts(queue_page(Facts(OVERVIEW, None), who), is_live=True))
    job = "".join(page_parts(job_page("2", [{**JOBS[1], "owner": "bob"}], None, who), is_live=True))
    return found[found.index("<body>") :] + job[job.index("<body>") :]


def test_names_of_others_are_for_operators() -> None:
    assert not re.search("alice|bob|chemistry|physics", text_of(None))
    mine = text_of(ALICE)
    assert "alice" in mine
    assert "chemistry" not in mine  # no column of the queue
    assert not re.search("bob|physics", mine)
    assert re.search("bob", text_of(OLGA))
    assert "physics" in text_of(OLGA)


def test_the_page_says_what_shares_nodes_and_why_jobs_wait() -> None:
    text = text_of(None)
    assert "2 jobs run on 1 of 2 nodes, 1 of them shared; 1 job waits." in text
    assert "JobHeldUser: it is held" in text
    assert re.search(r">1, 2</td>.*>1\.25, 1\.25</td>", text)
    assert "a&lt;b" in text
    assert ">qos<" not in text.partition("What is known")[0]


def keyring_in(folder: Path) -> None:
    write_keys(folder, "manager")
    for name in FOLDERS.values():
        (folder / name).mkdir()


def test_tickets_end(tmp_path: Path) -> None:
    clock = [0.0]
    tickets = Tickets(None, lambda: clock[0])
    ticket = tickets.give(ALICE)
    assert tickets.owner(ticket) == ALICE
    assert tickets.owner("x") is tickets.owner("") is None
    clock[0] = web.TICKET_S + 1
    assert tickets.owner(ticket) is None
    keyring_in(tmp_path / "keys")
    public, _ = write_keys(tmp_path / "own", "alice")
    (tmp_path / "keys" / "users" / "alice.key").write_bytes(public.read_bytes())
    keyed = Tickets(Keyring(tmp_path / "keys"))
    ticket = keyed.give(ALICE)
    assert keyed.owner(ticket) == ALICE
    (tmp_path / "keys" / "users" / "alice.key").unlink()  # revoked
    wait_until(lambda: keyed.owner(ticket) is None, 10)


@contextmanager
def served(address: str = "127.0.0.1:0", keys: Keyring | None = None, *, answers: bool = True) -> Iterator[WebView]:
    """Yield a view whose manager answers in another thread."""
    view, stop = WebView(address, keys), threading.Event()

    def answer(question: Request) -> Done | Refused:
        if isinstance(question, ShowJobs):
            return Done({"jobs": [job for job in JOBS if job["job_id"] == question.jobs[0].job_id]})
        return Done(OVERVIEW) if isinstance(question, ShowOverview) else Refused("missing", "no estimates")

    def manager() -> None:
        while answers and not stop.wait(0.01):
            view.questions.answer(answer)

    thread = threading.Thread(target=manager)
    thread.start()
    try:
        yield view
    finally:
        stop.set()
        thread.join(10)
        view.close()


def got(view: WebView, path: str = "/", **headers: str) -> tuple[int, str]:
    port = view.address.rpartition(":")[2]
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(asked, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_ticket_tells_who_asks_and_does_not_stay_in_the_address() -> None:
    with served() as view:
        assert "alice" not in got(view)[1]
        ticket = view.open(ALICE).result["url"].partition("/?")[2]
        code, page = got(view, f"/?{ticket}")  # over to / with a cookie
        assert code == 200
        assert "alice alone is named" in page
        assert got(view, "/?ticket=wrong")[0] == 403
        assert got(view, "/jobs/2")[0] == 200
        for path in ("/jobs/77", "/jobs/x", "/jobs/", "/metrics", "/jobs/../../etc/passwd"):
            assert got(view, path)[0] == 404
        # A page of another site, whose name was made to mean 127.0.0.1, must not read this one.
        assert got(view, Host="evil.example")[0] == 403
        assert got(view, Host="localhost:1")[0] == 200


def test_off_the_machine_nobody_without_a_ticket_sees_anything(tmp_path: Path) -> None:
    for address in ("0.0.0.0:0", "*:0", "192.0.2.1:80", "example.org:80"):
        with pytest.raises(UsageError, match="not a loopback address"):
            WebView(address)
    keyring_in(tmp_path)
    with served("0.0.0.0:0", Keyring(tmp_path)) as view:
        assert got(view)[0] == got(view, "/jobs/1")[0] == 403


def test_a_manager_that_does_not_answer_costs_its_deadline_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "ANSWER_S", 0.2)
    with served(answers=False) as view:
        code, text = got(view)
    assert (code, text) == (503, f"{web.BUSY}\n")


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_the_queue_and_renews_it(commands: Commands, tmp_path: Path) -> None:
    folder, address = commands.folder, f"127.0.0.1:{free_port()}"
    users, place = f"ipc://{folder}/u", f"ipc://{folder}/s"
    cluster = (
        "--nodes",
        "2",
        "--node",
        "lomarc-ht",
        "--clock",
        "scaled",
        "--speed",
        "10",
        "--users",
        users,
        "--bind",
        place,
    )
    commands.start("cosched_emulator", "serve", *cluster, "--metrics", address, "--web", address, "--estimate-starts")
    commands.start("cosched_plugin", "serve", "--connect", place, "--policy", "easy", "--quiet")
    caller = ("--manager", users, "--timeout", "60")
    for name, processes in (("first", "2"), ("second", "2"), ("wide", "4")):
        assert (
            commands.emulator("submit", "-n", processes, "-t", "60", "--run", "3000", "--job-name", name, *caller).code
            == 0
        )
    url = json.loads(commands.emulator("web", "--json", *caller).out)["url"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as metrics:  # by the same server
        assert b"cosched_manager_queue_length" in metrics.read()

    def until(script: str) -> None:
        wait_until(lambda: bool(chromium.run(f"Boolean({script})")))

    with browser(tmp_path / "profile") as chromium:
        chromium.call("Page.navigate", url=url)
        until("document.documentElement?.dataset.drawn")
        assert chromium.run("location.href") == f"http://{address}/"
        until("/[12] jobs? runs? on . of 2 nodes/.test(document.querySelector('.headline')?.innerText)")
        assert "all users are named" in chromium.run("document.body.innerText")
        chromium.run("document.querySelector('summary').click()")
        assert commands.emulator("cancel", "1", *caller).code == 0
        until("![...document.querySelectorAll('tbody a')].some((link) => link.textContent === '1')")
        assert chromium.run("document.querySelector('details').open")  # what was open stays so
        chromium.run("document.querySelector('tbody a').click()")
        until("location.pathname.startsWith('/jobs/') && document.querySelector('h1')?.innerText.startsWith('Job ')")
        for width in (1400, 800, 400):
            chromium.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
            )
            assert chromium.run("document.documentElement.scrollWidth") <= width
        assert {
            request.split("?")[0].rpartition("/jobs/")[0] or request.split("?")[0] for request in chromium.requests
        } <= {f"http://{address}/", f"http://{address}"}
        assert chromium.errors == []
