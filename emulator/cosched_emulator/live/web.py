"""The web view of a live manager, read only: its queue, its nodes and its jobs, as pages for browsers.

Threads of the HTTP server ask what clients ask (`requests`), and the manager's own thread answers in its turns: no other one looks at
jobs that change. Who asks is told by a ticket, which the users' endpoint gives to whom it knows (the command ``web``). Without
one, pages are shown on this machine alone, and name no user.
"""

from __future__ import annotations

import ipaddress
import queue
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote

from cosched_emulator.page.document import page_parts
from cosched_emulator.page.live_page import Facts, job_page, queue_page
from cosched_emulator.users.idset import read_job
from cosched_emulator.users.requests import Done, ListStarts, Refused, Requester, ShowJobs, ShowOverview, Target
from cosched_emulator.users.requests import Request as Question
from cosched_emulator.users.user_limits import Bucket
from cosched_plugin.common.curve import Keyring
from cosched_plugin.common.page_server import Answer, PageServer, Request

FRESH_S: Final = 2.0  # all browsers see one state, at most so old
ANSWER_S: Final = 5.0  # time for the manager to answer
TICKET_S: Final = 12 * 3600.0
MOST_TICKETS: Final = 1_000
MOST_JOBS: Final = 1_000  # of the queue
MOST_TASKS: Final = 20  # of an array, on its page
QUESTIONS_PER_S: Final = 10.0  # of all browsers: each takes the manager's time
QUESTIONS: Final = 20.0  # at once
BUSY: Final = "The manager has not answered: too many ask, or it is busy."
_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(?::\d+)?")
Given = Done | Refused


class _Asked(NamedTuple):
    questions: tuple[Question, ...]
    answers: list[Given]
    done: threading.Event


class Questions:
    """Questions of other threads, which the manager answers in its own."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[_Asked] = queue.SimpleQueue()

    def ask(self, *questions: Question) -> list[Given] | None:
        """Return the answers; None if they do not come within `ANSWER_S`."""
        asked = _Asked(questions, [], threading.Event())
        self._asked.put(asked)
        return asked.answers if asked.done.wait(ANSWER_S) else None

    def answer(self, answer: Callable[[Question], Given]) -> None:
        """Answer what has been asked since; called by the manager's thread."""
        while not self._asked.empty():
            asked = self._asked.get_nowait()
            asked.answers.extend([answer(question) for question in asked.questions])
            asked.done.set()


class Tickets:
    """Who may see what: tickets of users, for some hours. Two threads use it."""

    def __init__(self, keys: Keyring | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._tickets: dict[str, tuple[Requester, float]] = {}  # and when it ends; the oldest first

    def give(self, who: Requester) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(32)
        with self._lock:
            now_s = self._clock_s()
            self._tickets = {key: each for key, each in self._tickets.items() if each[1] > now_s}
            while len(self._tickets) >= MOST_TICKETS:
                del self._tickets[next(iter(self._tickets))]
            self._tickets[ticket] = (who, now_s + TICKET_S)
        return ticket

    def owner(self, ticket: str) -> Requester | None:
        """Return whose ticket it is; None: nobody's, its time is over, or its user's keys were revoked."""
        with self._lock:
            found = self._tickets.get(ticket)
        if found is None or found[1] <= self._clock_s():
            return None
        who = found[0]
        if self._keys is not None and all(
            member.name != who.name or member.role not in ("user", "operator")
            for member in self._keys.members().values()
        ):
            return None
        return who


class WebView:
    """The pages at ``address`` (HOST:PORT), with /metrics where ``metrics`` returns its text.

    With ``keys`` the address may be any; there, nobody sees a page without a ticket. Raises UsageError for another address.
    """

    def __init__(self, address: str, keys: Keyring | None = None, metrics: Callable[[], str] | None = None) -> None:
        self.questions = Questions()
        self._tickets = Tickets(keys)
        self._limit = Bucket(QUESTIONS_PER_S, QUESTIONS, time.monotonic())
        self._facts: Facts | None = None
        self._made_s = 0.0
        self._server = PageServer(address, metrics, self._page, secured=keys is not None)
        self.address = self._server.address
        host = self.address.rpartition(":")[0]
        self._is_local = _is_loopback(host)
        self._cookie = f"cosched_{self.address.rpartition(':')[2]}"  # browsers send cookies to all ports of a host
        self._queue = lru_cache(maxsize=32)(self._queue_text)

    def open(self, who: Requester) -> Done:
        """Return the address at which a user sees the pages, with its ticket."""
        host, _, port = self.address.rpartition(":")
        if host in ("*", "0.0.0.0", "[::]"):
            host = socket.gethostname()
        return Done({"url": f"http://{host}:{port}/?ticket={self._tickets.give(who)}", "for_s": TICKET_S})

    def close(self) -> None:
        """Release the address."""
        self._server.close()

    # ------------------------------------------------------------ in threads of the server, one at a time

    def _page(self, asked: Request) -> Answer:
        (ticket,) = parse_qs(asked.query).get("ticket", [""])[:1]
        if ticket:
            if self._tickets.owner(ticket) is None:
                return _refused(403, "This ticket is not valid, or no longer: cosched-emulator web gives another one.")
            # The address without the ticket is what stays in the browser's history.
            kept = f"{self._cookie}={ticket}; Path=/; HttpOnly; SameSite=Lax; Max-Age={TICKET_S:.0f}"
            return Answer("", 303, {**_HEADERS, "Location": "/", "Set-Cookie": kept})
        who = self._tickets.owner(_cookie(asked.cookie, self._cookie))
        # A foreign page whose name is made to mean this machine sends its own name.
        if who is None and not (self._is_local and _is_loopback(_HOST.sub(r"\1", asked.host, count=1))):
            return _refused(403, "Who asks is not known here: cosched-emulator web gives an address with a ticket.")
        if asked.path == "/":
            return self._queue_answer(who)
        if asked.path.startswith("/jobs/"):
            return self._job_answer(unquote(asked.path.removeprefix("/jobs/")), who)
        return _refused(404, "There is no such page.")

    def _queue_answer(self, who: Requester | None) -> Answer:
        now_s = time.monotonic()
        if self._facts is None or now_s - self._made_s > FRESH_S:
            answers = self._ask(ShowOverview(MOST_JOBS), ListStarts())
            if answers is None:
                return _refused(503, BUSY)
            overview, starts = answers
            if isinstance(overview, Refused):
                return _refused(503, overview.text)
            self._queue.cache_clear()
            self._facts = Facts(overview.result, None if isinstance(starts, Refused) else starts.result)
            self._made_s = now_s
        return Answer(self._queue(who), 200, _HEADERS)

    def _queue_text(self, who: Requester | None) -> str:
        assert self._facts is not None
        return "".join(page_parts(queue_page(self._facts, who), is_live=True))

    def _job_answer(self, label: str, who: Requester | None) -> Answer:
        try:
            targets = tuple([Target(*each) for each in read_job(label)])
        except ValueError:
            return _refused(404, "There is no such job.")
        answers = self._ask(ShowJobs(targets[:MOST_TASKS]), ListStarts())
        if answers is None:
            return _refused(503, BUSY)
        jobs, starts = answers
        if isinstance(jobs, Refused) or not jobs.result["jobs"]:
            return _refused(404, "There is no such job.")
        rows: list[dict[str, Any]] = jobs.result["jobs"][:MOST_TASKS]
        page = job_page(label, rows, None if isinstance(starts, Refused) else starts.result, who)
        return Answer("".join(page_parts(page, is_live=True)), 200, _HEADERS)

    def _ask(self, *questions: Question) -> list[Given] | None:
        return self.questions.ask(*questions) if self._limit.take(1, time.monotonic()) else None


def _refused(status: int, why: str) -> Answer:
    return Answer(f"{why}\n", status, {**_HEADERS, "Content-Type": "text/plain; charset=utf-8"})


def _cookie(line: str, name: str) -> str:
    try:
        found = SimpleCookie(line).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
