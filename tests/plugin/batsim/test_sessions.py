"""Conversations that were recorded with Batsim, read again by the decision process: all that Batsim says is understood.

The decisions are those that were recorded: a scheduler in the core's place repeats them. The books of a manager check that what
happens is consistent, and the replies must be the recorded ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.plugin.batsim.recordings import Exchange, events_of, exchanges, is_wrong, own_sessions, shared_sessions

from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.batsim.adapter import Decisions, features_of
from cosched_plugin.batsim.messages import read_hosts
from cosched_plugin.batsim.site import SiteFile
from cosched_plugin.config import choose
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.books import Books
from cosched_terminal.console import Log

SESSIONS = [*shared_sessions(), *own_sessions()]
# What cosched never says: its decisions need none of it.
NOT_OURS = ("SET_RESOURCE_STATE", "QUERY", "NOTIFY", "REGISTER_PROFILE", "REGISTER_JOB")
SHARING = {"batsched-random-sharing": 60, "own-sharing": 2, "cosched-lomarc-r": 2}  # jobs on a host


class Recorded:
    """The scheduler that was recorded, and a manager's books that check it."""

    def __init__(self, welcome: m.Welcome, numbers: Mapping[str, int]) -> None:
        self.books = Books(welcome)
        self.numbers = numbers
        self.reply: dict[str, Any] = {"events": []}

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        """Return the recorded decisions; AssertionError where they cannot be."""
        books = self.books
        books.ledger.now_us, books.seq = now_us, books.seq + 1
        assert not any(isinstance(event, m.JobStarted) for event in events)
        books.happen(events)
        actions = []
        for kind, data in events_of(self.reply, *NOT_OURS):
            actions.append(self.action(kind, data))
            assert books.act(actions[-1]) is None, actions[-1]
        return actions

    def action(self, kind: str, data: dict[str, Any]) -> m.Action:
        if kind == "CALL_ME_LATER":
            return m.WakeAt(round(data["timestamp"] * SECOND_US))
        if kind == "KILL_JOB":
            return m.KillJob(self.numbers[data["job_ids"][0]])
        number = self.numbers[data["job_id"]]
        if kind == "REJECT_JOB":
            return m.RejectJob(number, "recorded")
        taken: dict[int, int] = {}
        ledger = self.books.ledger
        for job in ledger.running.values():
            for node, _, mask, _ in job.runs:
                taken[node] = taken.get(node, 0) | mask
        places = [(host, ~taken.get(host, 0)) for host in read_hosts(data, "alloc", "", len(ledger.machine.threads_of))]
        runs = tuple(m.Run(host, 1, ThreadMask(free & -free), 1) for host, free in places)
        spec = ledger.queue[number]
        return m.StartJob(number, runs, spec.estimate_us, spec.limit_us)


def replies(session: Sequence[Exchange], jobs: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the replies of a decision process that decides as was recorded, and what it has logged."""
    scheduler: list[Recorded] = []

    def make(welcome: m.Welcome) -> Recorded:
        scheduler.append(Recorded(welcome, decisions.ids))
        return scheduler[0]

    log: list[str] = []
    decisions = Decisions(make, frozenset(), SiteFile(jobs=jobs), 0, Log(quiet=True, write=log.append))
    acknowledged = json.loads(session[0].said)["events"][0]["data"]["config"]["dynamic-jobs-acknowledged"]
    found: list[dict[str, Any]] = []
    for exchange in session:
        said = json.loads(exchange.said)
        reply = exchange.reply or {"events": []}
        # cosched registers no jobs: here it is told of the recorded scheduler's
        registered = [data for kind, data in events_of(reply) if kind == "REGISTER_JOB" and not acknowledged]
        submitted = [{"timestamp": said["now"], "type": "JOB_SUBMITTED", "data": data} for data in registered]
        if scheduler:
            scheduler[0].reply = reply
            said["events"] += submitted
        found.append(json.loads(decisions.answer(json.dumps(said).encode())))
        if len(found) == 1 and submitted:
            scheduler[0].reply = reply
            found[0] = json.loads(decisions.answer(json.dumps({"now": said["now"], "events": submitted}).encode()))
    return found, log


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.name)
def test_what_batsim_said_is_understood(session: Path) -> None:
    recorded = exchanges(session)
    if is_wrong(session):
        recorded = recorded[:-1]  # the last reply is what Batsim has aborted at
    found, log = replies(recorded, SHARING.get(session.name, 1))
    assert log == []
    for exchange, reply in list(zip(recorded, found, strict=True))[
        1:
    ]:  # the first message asks cosched for no decision
        assert exchange.reply is not None
        decided = list(events_of(exchange.reply, *NOT_OURS))
        for _, data in decided:
            data.pop("mapping", None)  # of each executor to a host of its own, as without it
        assert list(events_of(reply, *NOT_OURS)) == decided
        assert reply["now"] == json.loads(exchange.said)["now"]


@pytest.mark.parametrize(("name", "policy"), [("cosched-easy", "easy"), ("cosched-lomarc-r", "lomarc-r")])
def test_our_own_replies_are_as_recorded(name: str, policy: str) -> None:
    (session,) = (path for path in own_sessions() if path.name == name)
    choice = choose(policy)
    site = SiteFile(belief=m.Belief("lomarc", "bulk-synchronous", ()))
    decisions = Decisions(choice.scheduler, features_of(choice.make()), site, 0, Log(quiet=True))
    for exchange in exchanges(session):
        assert json.loads(decisions.answer(exchange.said)) == exchange.reply
