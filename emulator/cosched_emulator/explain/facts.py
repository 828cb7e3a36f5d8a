"""The facts of a decision trace about one job: why it started when and where it did. `sentences` turns them into text."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from cosched_emulator.errors import EmulatorError, InputError
from cosched_emulator.explain import gang_facts
from cosched_emulator.explain.sentences import asks_text, rejected_text
from cosched_emulator.results.thread_intervals import interval_text, mask_intervals

Facts = dict[str, Any]  # JSON-ready

# Fields of a start that are handed on as they are.
_TOLD: Final = (
    "reason", "waiting", "free_threads", "factor", "promised_us", "together", "host", "chosen_by", "slowdown", "halves",
    "gain", "compared", "beside", "stopped", "corrected",
)  # fmt: skip

# The facts of a start, as `explain --json` gives them: what the names are. What a policy did not tell is null.
EXPLAINED: Final[Mapping[str, str]] = {
    "at_us, submit_us, waited_us": "start, submission, their difference",
    "processes … slowdown, no_search, unfair_to, refused_groups": "as in the record",
    "resource, seat": "as in the record, or in that of its group",
    "group": "as in the record, with `case`, 1 to 3, and `role`: `primary` or `matched`",
    "expected_response_us": "R_est; null if none was recorded",
    "asks": "as in the record, with `nodes` as intervals",
    "places": "`nodes` and `threads` as intervals (`0-3 8`), `processes_per_node`",
    "before": "`job` and `shadow_us` of the reservation that it was backfilled before",
    "head": (
        "the periods in which it had the reservation: `from_us`, `until_us`, and when its start was expected, "
        "`first_shadow_us`, `last_shadow_us`"
    ),
    "waits": "what the policy said of the pending job: `at_us`, `reason`",
    "overtaken_by": "how many jobs that were submitted later started earlier",
    "promises": "`at_us`, `start_us`",
    "looked_at": (
        "how many `times` starting jobs considered it as a partner and did not take it: `removed` by a constraint "
        "(`removed_by`: which; `slowed_by`: by which resource it was too slow), `without_profit`, `another_taken`, "
        "`not_admitted` (no place, or a delay for the reserved job)"
    ),
    "partner_search, host_search, chosen_in": (
        "its own searches, and that of the job that took it: `left`, how many `candidates`, how many `with_profit`, "
        "`taken`, its `position` in queue order and `profit_rank`, `profit`, `slowdown`, and how many jobs were too "
        "slow by each resource (`slowed_by`)"
    ),
    "joined_by": "jobs that joined it later, also as a group: `at_us`, `job`, `slowdown` (null in groups)",
    "suspended": "times in which it was suspended in place: `at_us`, `until_us`, `partner`, `measured_slowdown`",
    "row": "null without slots; `slot`, and `new_row`, `full_rows`, `closed_rows` as in the record",
    "moves": (
        "its changes of slot: `at_us`, `slot`, and `out_of`, `reason`, `share_ppm`, `least_ppm` as in the record"
    ),
    "sharp_changes": "`at_us`, `share_ppm`, `before_ppm`",
    "turns": (
        "null if no `turn` names it; `first_quantum` and `last_quantum` that do; in how many it runs with its row "
        "(`row`), with its row as a partner (`partner`), as an alternate (`guest`); how many turns of its row had a "
        "partner (`paired`), and how many had none, by reason (`alone`)"
    ),
    "preempted": (
        "by slices: how many `times`, `for_us` in all up to the resumptions, and `on_disk_since_us` if it has not "
        "come back"
    ),
}


def submission(records: Iterable[gang_facts.Record], job: int) -> int | None:
    """Return when ``job`` was submitted, in microseconds; None if the trace has no start of it."""
    starts = (record["submit_us"] for record in records if record["kind"] == "start" and record["job"] == job)
    return next(starts, None)


def explain(
    records: Iterable[gang_facts.Record],
    job: int,
    file: str,
    quantum: int | None = None,
    submit_us: int | None = None,
    terms: Mapping[str, str] = MappingProxyType({}),
) -> Facts:
    """Return the facts about ``job`` in a trace; all times in microseconds, `docs/reference/trace.md` lists them.

    With ``quantum``, those about this quantum too. ``submit_us``: its `submission`; without it all records are kept in memory.
    ``terms``: what its run folder says of it (`read_facts`).
    Raises InputError for a job or a quantum that the trace does not mention, EmulatorError for a job that never started.
    """
    if submit_us is None:
        records = list(records)
        submit_us = submission(records, job)
    asked = dict(terms)
    reason = asked.pop("reason", None)  # of its end
    collector = _Collector(job, submit_us)
    turns = gang_facts.QuantumTurns(quantum)
    for record in records:
        collector.take(record)
        if record["kind"] == "turn":
            turns.take(record)
    if not collector.starts:
        if not collector.mentioned and reason is None:
            raise InputError(file, f"a job that the trace mentions: no record names job {job}", None)
        asks = ", ".join(asks_text({}, asked))
        known = f"{f'; it asked for {asks}' if asks else ''}{collector.so_far()}"
        if reason is not None and collector.rejected is None:
            known += f"; the manager gives the reason {reason!r}"
        raise EmulatorError(f"{file}: job {job} never started{known}")
    starts = collector.starts_with_turns()
    facts = {"job": job, "starts": starts, "rejected": collector.rejected, "terms": asked}
    return facts if quantum is None else {**facts, "quantum": gang_facts.quantum_facts(turns.wanted(file), job)}


def explain_starts(records: Iterable[gang_facts.Record]) -> Iterator[tuple[int, Facts]]:
    """Yield every start of every job, with its facts, in one reading of the records.

    What follows a start is left out, and so is what other jobs tell of a pending one: by whom it was overtaken, and who
    looked at it as a partner.
    """
    pending: dict[int, _Collector] = {}  # of jobs of which something was told
    searches: dict[int, gang_facts.Record] = {}
    reserved: gang_facts.Record | None = None
    at_us = -1
    for record in records:
        if record["at_us"] != at_us:
            at_us = record["at_us"]
            searches = {}
        match record["kind"]:
            case "start":
                job = record["job"]
                collector = pending.pop(job, None) or _Collector(job, None)
                collector.begin(at_us, reserved, searches)
                collector.take(record)
                yield job, collector.starts[-1]
            case "reserve":
                if reserved is not None and reserved["job"] != record["job"] and reserved["job"] in pending:
                    pending[reserved["job"]].take(record)
                reserved = record
                pending.setdefault(record["job"], _Collector(record["job"], None)).take(record)
            case "promise" | "wait" | "expect":
                pending.setdefault(record["job"], _Collector(record["job"], None)).take(record)


class _Collector:
    """Reads the records once and keeps those about one job; records about it while it is pending belong to its next start."""

    def __init__(self, job: int, submit_us: int | None) -> None:
        self.starts: list[Facts] = []  # more than one after a requeue
        self.rejected: Facts | None = None
        self.mentioned = False
        self._job = job
        self._own = None if submit_us is None else (submit_us, job)
        self._reserved: gang_facts.Record | None = None  # the last reservation, of any job
        # Searches for partners by the jobs that started at this instant, by job
        self._searches: dict[int, gang_facts.Record] = {}
        self._at_us = -1
        self._response_us: int | None = None  # expected at its submission
        self._since_us: int | None = None  # start of its present time on disk
        self._quanta: list[gang_facts.Quanta] = []  # by start
        self._wait()

    def _wait(self) -> None:
        """Begin to collect the records until the next start."""
        self._head: list[Facts] = []
        self._waits: list[Facts] = []
        # Jobs that were submitted later and have started, by number (a trace may have millions), and how many did at the last instant
        self._later = array("q")
        self._later_at_us, self._later_at_once = -1, 0
        self._promises: list[Facts] = []
        self._looked_at = Counter(dict.fromkeys(("removed", "without_profit", "another_taken", "not_admitted"), 0))
        self._removed: Counter[str] = Counter()
        self._slowed: Counter[str] = Counter()  # by resource, of the times when it was too slow

    def begin(self, at_us: int, reserved: gang_facts.Record | None, searches: dict[int, gang_facts.Record]) -> None:
        """Take over what was told of other jobs: the last reservation, and the searches at this instant."""
        self._at_us, self._reserved, self._searches = at_us, reserved, searches

    def take(self, record: gang_facts.Record) -> None:
        """Process the next record."""
        at_us, kind = record["at_us"], record["kind"]
        if at_us != self._at_us:
            self._at_us = at_us
            self._searches.clear()
        mine = record.get("job") == self._job
        self.mentioned = self.mentioned or mine
        match kind:
            case "start":
                self._note_start(record, mine=mine)
            case "reserve":
                self._reserve(record, mine=mine)
            case "promise" if mine:
                self._promises.append({"at_us": at_us, "start_us": record.get("start_us")})
            case "wait" if mine and (not self._waits or self._waits[-1]["reason"] != record["reason"]):
                self._waits.append({"at_us": at_us, "reason": record["reason"]})
            case "expect" if mine:
                self._response_us = record["response_us"]
            case "reject" if mine:
                self.rejected = {"at_us": at_us, "reason": record["reason"]}
            case "turn" if self._quanta:
                self.mentioned = self._quanta[-1].take(record) or self.mentioned
            case "slot" if mine and self.starts:
                move = {key: record.get(key) for key in ("slot", "out_of", "reason", "share_ppm", "least_ppm")}
                self.starts[-1]["moves"].append({"at_us": at_us, **move})
            case "sharp_change" if mine and self.starts:
                change = {key: record[key] for key in ("share_ppm", "before_ppm")}
                self.starts[-1]["sharp_changes"].append({"at_us": at_us, **change})
            case "suspend" if mine and self.starts and record.get("to_disk"):
                self._since_us = at_us
                self.starts[-1]["preempted"]["times"] += 1
                self.starts[-1]["preempted"]["on_disk_since_us"] = at_us
            case "resume" if mine and self._since_us is not None:
                self.starts[-1]["preempted"]["for_us"] += at_us - self._since_us
                self.starts[-1]["preempted"]["on_disk_since_us"] = self._since_us = None
            case "suspend" if mine and self.starts:
                stop = {key: record.get(key) for key in ("at_us", "partner", "measured_slowdown")}
                self.starts[-1]["suspended"].append(stop | {"until_us": None})
            case "resume" if mine and self.starts and self.starts[-1]["suspended"]:
                self.starts[-1]["suspended"][-1]["until_us"] = at_us

    def starts_with_turns(self) -> list[Facts]:
        """Return the starts, after the last record."""
        for start, quanta in zip(self.starts, self._quanta, strict=True):
            start["turns"] = quanta.facts()
        return self.starts

    def so_far(self) -> str:
        """Return the known facts about a job that has not started, as the end of a sentence."""
        parts = [] if self.rejected is None else [rejected_text(self.rejected)]
        if self._head:
            parts.append("it was the reserved head of the queue")
        if self._waits:
            parts.append(f"the policy gives the reason {self._waits[-1]['reason']!r}")
        looked = self._looked_at.total()
        if looked:
            parts.append(f"times it was considered as a partner: {looked}")
        return "".join(f"; {part}" for part in parts)

    def _reserve(self, record: gang_facts.Record, *, mine: bool) -> None:
        if mine:
            if self._head and self._head[-1]["until_us"] is None:
                self._head[-1]["last_shadow_us"] = record["shadow_us"]
            else:
                shadows = {"first_shadow_us": record["shadow_us"], "last_shadow_us": record["shadow_us"]}
                self._head.append({"from_us": record["at_us"], "until_us": None, **shadows})
        elif self._head and self._head[-1]["until_us"] is None:
            self._head[-1]["until_us"] = record["at_us"]
        self._reserved = record

    def _note_start(self, record: gang_facts.Record, *, mine: bool) -> None:
        search = record.get("partners")
        if search is not None:
            self._searches[record["job"]] = search
        if mine:
            self._own_start(record)
            return
        if self._own is not None and (record["submit_us"], record["job"]) > self._own:
            self._count_later(record["job"], record["at_us"])
        if record.get("host") == self._job and self.starts and self._job not in record.get("together", ()):
            guest = {"at_us": record["at_us"], "job": record["job"], "slowdown": record.get("slowdown")}
            self.starts[-1]["joined_by"].append(guest)
        if self.starts and self._job in record.get("group", {}).get("running", ()):
            guest = {"at_us": record["at_us"], "job": record["job"], "slowdown": None}
            self.starts[-1]["joined_by"].append(guest)
        if search is not None:
            self._count_look(search)

    def _own_start(self, record: gang_facts.Record) -> None:
        if self._head and self._head[-1]["until_us"] is None:
            self._head[-1]["until_us"] = record["at_us"]
        facts: Facts = {
            "at_us": record["at_us"],
            "submit_us": record["submit_us"],
            "waited_us": record["at_us"] - record["submit_us"],
            **{key: record[key] for key in ("processes", "estimate_us", "expected_us")},
            "asks": _asks(record.get("asks")),
            "places": places(record["runs"]),
        }
        for key in _TOLD:
            facts[key] = record.get(key)
        if record.get("reason") == "backfill" and self._reserved is not None:
            facts["before"] = {key: self._reserved[key] for key in ("job", "shadow_us")}
        group = record.get("group")
        facts["group"] = (
            None
            if group is None
            else {
                "case": _case_of(group),
                "role": "primary" if group["primary"] == self._job else "matched",
                **{key: group[key] for key in ("primary", "matched", "running", "gain", "candidates", "tried")},
            }
        )
        facts["unfair_to"] = record.get("unfair_to")
        facts["refused_groups"] = record.get("refused_groups")
        facts["expected_response_us"] = self._response_us
        facts["head"] = self._head
        facts["waits"] = self._waits
        at_once = self._later_at_once if record["at_us"] == self._later_at_us else 0
        facts["overtaken_by"] = len(self._later) - at_once  # those that started earlier
        facts["promises"] = self._promises
        looked_at = {"times": self._looked_at.total(), **self._looked_at, "removed_by": dict(self._removed)}
        facts["looked_at"] = {**looked_at, "slowed_by": dict(self._slowed)}
        facts |= gang_facts.resource_facts(record)
        facts["no_search"] = record.get("no_search")
        facts["partner_search"] = _outcome(record.get("partners"))
        facts["chosen_in"] = _outcome(self._searches.get(record["chosen_by"])) if "chosen_by" in record else None
        facts["host_search"] = _outcome(record.get("hosts"))
        facts["suspended"] = []
        facts["preempted"] = {"times": 0, "for_us": 0, "on_disk_since_us": None}
        self._since_us = None
        facts["joined_by"] = []
        facts["row"] = gang_facts.row_of_start(record)
        facts["moves"] = []
        facts["sharp_changes"] = []
        self._quanta.append(gang_facts.Quanta(self._job))
        self.starts.append(facts)
        self._wait()

    def _count_later(self, job: int, at_us: int) -> None:
        """Count a job that was submitted later, with its first start."""
        place = bisect_left(self._later, job)
        if job not in self._later[place : place + 1]:
            self._later.insert(place, job)
            self._later_at_once = 1 + (self._later_at_once if at_us == self._later_at_us else 0)
            self._later_at_us = at_us

    def _count_look(self, search: gang_facts.Record) -> None:
        """Count the result for the job of another job's search for a partner."""
        removed_by = next((name for name, jobs in search["removed"].items() if self._job in jobs), None)
        if removed_by is not None:
            self.mentioned = True
            self._looked_at["removed"] += 1
            self._removed.update(dict.fromkeys(search["removed"], 0))  # all of them, in order
            self._removed[removed_by] += 1
            resource = gang_facts.resource_of(search, self._job)
            if resource is not None:
                self._slowed[resource] += 1
            return
        if self._job not in search["candidates"] or gang_facts.chosen_job(search) == self._job:
            return
        self.mentioned = True
        order = gang_facts.by_profit(search)
        if order is None:
            order = search["candidates"]  # the first possible one is taken
        if self._job not in order:
            self._looked_at["without_profit"] += 1
        elif gang_facts.chosen_job(search) in order[: order.index(self._job)]:
            self._looked_at["another_taken"] += 1
        else:
            self._looked_at["not_admitted"] += 1


def _case_of(group: gang_facts.Record) -> int:
    """Return the case of the G-LOMARC-TS paper, section 4.4: 1, all were pending; 2, running jobs matched; 3, a running primary."""
    if not group["running"]:
        return 1
    return 3 if group["primary"] in group["running"] else 2


def places(runs: Iterable[list[int]]) -> list[Facts]:
    """Return the places of processes: groups of nodes with the same hardware threads, both as texts of intervals."""
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for first, count, mask, processes in runs:
        groups.setdefault((mask, processes), []).append((first, first + count - 1))
    return [
        {"nodes": interval_text(nodes), "threads": interval_text(mask_intervals(mask)), "processes_per_node": processes}
        for (mask, processes), nodes in groups.items()
    ]


def _asks(asks: gang_facts.Record | None) -> Facts | None:
    if asks is None:
        return None
    found = dict(asks)
    if "nodes" in asks:
        found["nodes"] = _spans_text(asks["nodes"])
    if "apart" in asks:
        found["apart"] = {name: _spans_text(nodes) for name, nodes in asks["apart"].items()}
    return found


def _spans_text(spans: Iterable[tuple[int, int]]) -> str:
    return interval_text([(first, first + count - 1) for first, count in spans])


def _outcome(search: gang_facts.Record | None) -> Facts | None:
    """Return a search without its lists of jobs."""
    if search is None:
        return None
    order = gang_facts.by_profit(search)
    return {
        "left": search["left"],
        "candidates": len(search["candidates"]),
        "with_profit": None if order is None else len(order),
        "taken": gang_facts.chosen_job(search),
        "position": gang_facts.position(search),
        "profit_rank": gang_facts.profit_rank(search),
        "profit": search.get("profit"),
        "slowdown": search.get("slowdown"),
        "slowed_by": gang_facts.slowed_by(search),
    }
