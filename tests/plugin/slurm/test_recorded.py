"""Recorded answers of a real Slurm mean what they meant, and a recorded session gives the same orders."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.plugin.slurm.bed import RECORDED, RELEASES, needs_recordings
from tests.plugin.slurm.fidelity import emulated, own_lags, stored
from tests.plugin.slurm.record import Taken
from tests.plugin.slurm.site_runs import FOLDER as SITE_RUNS
from tests.plugin.slurm.site_runs import row_of
from tests.processes import ROOT

from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.site.poll_loop import Clock, Silent
from cosched_plugin.site.store import Store
from cosched_plugin.slurm.actuator import SlurmActuator, Tools
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.dialect import Change
from cosched_plugin.slurm.records import SlurmJob, SlurmNode, job_of, node_of
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import Reply, Transport
from cosched_terminal.console import Log

OWN = Path(__file__).parent / "recorded"


def answers(prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for folder in ("rest", "rest-backfill"):
        for file in sorted((RECORDED / folder / "v0.0.38").glob(f"{prefix}*.json")):
            text = file.read_text()
            if text:
                yield file.stem, json.loads(text)


@needs_recordings
def test_what_a_driver_must_know_of_single_records() -> None:
    jobs: dict[str, list[SlurmJob]] = {}
    for name, content in answers("job-"):
        jobs.setdefault(name, [job_of(record) for record in content["jobs"]])
    (placed,) = jobs["job-running-placed"]
    assert (placed.cores, placed.limit_min) == ({"n0": 3, "n1": 1}, 5)
    (suspended,) = jobs["job-suspended"]
    assert (suspended.state, suspended.held, suspended.ran_s) == ("SUSPENDED", "", 4)
    (held,) = jobs["job-running-held"]  # priority 0, and running
    assert (held.state, held.held) == ("RUNNING", "")
    (picky,) = jobs["job-held-w-x-C"]
    assert (picky.wishes, picky.excluded, picky.features) == ((), ("n3", "n4"), "a")
    assert picky.required == ("n1",)
    (ranged,) = jobs["job-held-node-range"]
    assert (ranged.node_count, ranged.most_nodes) == (2, 4)
    (bandwidth,) = jobs["job-held-nice-gres"]
    assert bandwidth.per_node == (("membw", 60),)
    (array,) = jobs["job-array-held"]
    assert (array.array_id, array.task, array.waiting_tasks) == (17, None, "1,3,5-7")
    (special,) = jobs["job-special-exit"]
    assert special.held == "admin"
    (again,) = jobs["job-node-fail-requeued"]
    assert (again.held, again.restarts, again.required, again.reason) == ("", 1, ("n4",), "BeginTime")
    nodes: dict[str, list[SlurmNode]] = {}
    for prefix in ("nodes-", "restart-1-nodes"):
        for name, content in answers(prefix):
            nodes.setdefault(name, [node_of(record) for record in content["nodes"]])
    assert {node.name: node.takes_jobs for node in nodes["restart-1-nodes"]}["n2"] is None
    assert all(node.takes_jobs for node in nodes["nodes-resumed"])  # NOT_RESPONDING alone is no failure
    assert [node.name for node in nodes["nodes-draining-drained-down"] if not node.takes_jobs] == ["n4", "n5", "n6"]
    assert [node.name for node in nodes["nodes-maint"] if node.reserved] == ["n5"]


class Canned:
    """Gives one answer to everything."""

    def __init__(self, status: int, text: str, sent: bool = True) -> None:
        self.reply = Reply(status, text, sent)

    def call(self, method: str, target: str, body: object = None) -> Reply:
        return self.reply


def change(status: int, text: str, sent: bool = True) -> Outcome:
    return Rest(Canned(status, text, sent), "v0.0.38").change("1", Change())


def test_what_is_cut_off_or_contradictory_ends_in_words() -> None:
    good = json.dumps({"errors": [], "jobs": [], "nodes": []})
    for text in (
        "",
        "{",
        good[:-3],
        "[]",
        '{"jobs": []',
        '{"errors": [{"error": "x"}], "jobs": []}',
        '{"errors": [], "jobs": 3}',
    ):
        with pytest.raises(Silent):
            Rest(Canned(200, text), "v0.0.38").jobs(1e9)
        if text != '{"errors": [], "jobs": 3}':
            assert change(200, text) is not None
    assert Rest(Canned(200, good), "v0.0.38").jobs(1e9) == []
    assert Rest(Canned(304, ""), "v0.0.38").jobs(1e9) is None
    rest = Rest(
        Canned(200, json.dumps({"errors": [], "jobs": [{"job_id": 3}, 7, {"job_id": 4, "job_state": []}]})), "v0.0.38"
    )
    assert rest.jobs(1e9) == []
    assert len(rest.odd["jobs"]) == 3
    for number, unsettled in ((1800, True), (2014, False)):  # slurmctld is away; it does not want to
        said = change(500, json.dumps({"errors": [{"error": "x", "error_number": number}]}))
        assert type(said) is (Unsettled if unsettled else str)
    assert isinstance(change(0, "timed out"), Unsettled)  # it may have been carried out
    assert isinstance(change(0, "refused", sent=False), str)


# ---------------------------------------------------------------- a session


class NoTools:
    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []

    def scontrol(self, *arguments: str) -> Outcome:
        self.commands.append(arguments)
        return None

    def kept(self) -> set[int]:
        return set()

    def tick(self) -> None:
        pass


class Watched:
    """A core whose events are written down; its state is checked after each batch."""

    def __init__(self, welcome: m.Welcome, events: list[m.Event], actions: list[m.Action]) -> None:
        self.core: SchedulerCore = choose("easy").scheduler(welcome)
        self.events = events
        self.actions = actions

    def handle(self, now_us: int, events: Any) -> list[m.Action]:
        self.events += events
        found = self.core.handle(now_us, events)
        self.core.check()
        self.actions += found
        return found


def enforcer_of(
    slurm: Transport, tools: Tools, partition: str, now_s: list[float], store: Store, said: list[str], events: list[m.Event],
    actions: list[m.Action], version: str = "v0.0.38",
) -> tuple[Enforcer, Cluster]:  # fmt: skip
    """Return what enforces EASY on a Slurm, and its cluster, after one poll."""
    clock, log = Clock(lambda: now_s[0]), Log("test", write=said.append)
    polls = Polls(Rest(slurm, version))
    assert polls.poll(now_s[0])
    cluster = Cluster(polls, Site(partitions=(partition,)), 1)
    actuator = SlurmActuator(cluster, tools, clock, log)
    return Enforcer(cluster, actuator, store, lambda welcome: Watched(welcome, events, actions), clock, log), cluster


class Repeated:
    """The recorded answers, to a driver that must ask what was asked; `record.py` made it."""

    def __init__(self, file: Path) -> None:
        with gzip.open(file, "rt") as stream:
            self.rows = [json.loads(line) for line in stream]
        self.next = 1
        self.taken = Taken()

    def call(self, method: str, target: str, body: object = None) -> Reply:
        row = self.rows[self.next]
        self.next += 1
        wanted = row["ask"]
        assert [method, target.partition("?")[0], body] == [wanted[0], wanted[1].partition("?")[0], wanted[2]], (
            self.next
        )
        self.taken.now_s += row["took_s"]
        return Reply(row["status"], row["text"] if "text" in row else self.rows[row["same_as"]]["text"], row["sent"])

    def scontrol(self, *arguments: str) -> Outcome:
        row = self.rows[self.next]
        self.next += 1
        assert list(arguments) == row["scontrol"], self.next
        outcome = row["outcome"]
        return Unsettled(*outcome) if isinstance(outcome, list) else outcome

    def kept(self) -> set[int]:
        return set()

    def tick(self) -> None:
        pass


@pytest.mark.parametrize("release", RELEASES)
def test_our_own_recording_gives_the_same_orders(tmp_path: Path, release: str) -> None:
    """Ten jobs, an array, a drained node, a requeue, a slurmctld that begins anew: the same placements at the same moments."""
    repeated = Repeated(OWN / f"easy-{release}.jsonl.gz")
    events: list[m.Event] = []
    actions: list[m.Action] = []
    clock = [repeated.rows[0]["begin"]]
    version = repeated.rows[0]["version"]
    with repeated.taken.used(), closing(Store(str(tmp_path / "store"))) as store:
        enforcer, cluster = enforcer_of(repeated, repeated, "co", clock, store, [], events, actions, version)
        enforcer.begin()
        while repeated.next < len(repeated.rows):
            row = repeated.rows[repeated.next]
            repeated.next += 1
            clock[0] = row["turn"]
            enforcer.turn()
    ends = Counter(event.job_id for event in events if isinstance(event, m.JobEnded))
    assert set(ends.values()) == {1}
    starts = [action.job_id for action in actions if isinstance(action, m.StartJob)]
    assert (len(starts), len(set(starts))) == (10, 9)  # one of them once more, after its requeue
    assert set(starts) <= ends.keys()
    assert cluster.down == set()


@pytest.mark.parametrize("run", ["easy-nodes-1", "lomarc-r-nodes-7"])
def test_the_emulator_starts_the_jobs_of_a_real_run_when_slurm_did(run: str, tmp_path: Path) -> None:
    """With each job's own latencies, on whole nodes and in pairs."""
    rows = stored(OWN / "fidelity" / f"{run}.csv")
    starts = emulated(
        rows, run.rpartition("-nodes")[0], own_lags(rows, [row.lags for row in rows], tmp_path), tmp_path / "run"
    )
    assert max(abs(starts[row.job] - row.started) for row in rows) < 0.001


def test_a_stored_run_of_a_site_is_imported_and_simulated_as_the_page_says() -> None:
    page = (ROOT / "docs" / "results" / "appendix" / "slurm.md").read_text(encoding="utf-8")
    assert row_of(SITE_RUNS / "24.11-2-a") in page.splitlines()
