"""The pages of a live manager: its queue, with why each job waits and when it starts; its nodes, by what shares them; one job.

They are made of what the manager answers to clients (`users.requests`). Names of other users are for operators only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cosched_emulator.page.document import Block, Page, Paragraph, Section, Table
from cosched_emulator.users import told as words
from cosched_emulator.users.idset import idset
from cosched_emulator.users.requests import Requester

HIDDEN: Final = "other"  # instead of a name that is not for the one who asks
_PRIVATE: Final = ("user", "owner", "account")


class Facts(NamedTuple):
    """What a manager has answered: an overview, and estimates of starts where it makes them."""

    overview: Mapping[str, Any]
    starts: Mapping[str, Any] | None


def queue_page(facts: Facts, who: Requester | None) -> Page:
    """Return the page of the whole manager, as ``who`` may see it; None: as anybody on the machine."""
    overview = facts.overview
    rows = [_shown(row, who) for row in words.rows_of(overview["jobs"])]
    running = [row for row in rows if row["start_s"] is not None]
    pending = [row for row in rows if row["start_s"] is None]
    starts = {} if facts.starts is None else {row["job_id"]: row for row in words.rows_of(facts.starts)}
    expected = {
        row["job_id"]: words.expected_start(starts[row["job_id"]], row) for row in pending if row["job_id"] in starts
    }
    status, now_s = overview["status"], float(overview["status"]["now_s"])
    left_out = overview["jobs"]["left_out"]
    more = [Paragraph(f"{left_out:,} more jobs wait that are not listed.", quiet=True)] * bool(left_out)
    basis = [] if facts.starts is None else [Paragraph(f"Starts: {words.basis_text(facts.starts)}.", quiet=True)]
    return Page(
        "Queue and nodes",
        [Paragraph(_verdict(status, expected, now_s), headline=True), Paragraph(_state(status, who), quiet=True)],
        [
            Section("Pending jobs", [_pending(pending, expected, now_s), *basis, *more] if pending else []),
            Section("Running jobs", [_running(running)] if running else []),
            Section("Nodes, by what shares them", [_nodes(words.rows_of(overview["nodes"]), running)]),
            Section("Manager and scheduler", [Table("Status", ("field", "value"), [*_fields(status)], closed=True)]),
        ],
    )


def job_page(label: str, rows: Sequence[words.Row], starts: Mapping[str, Any] | None, who: Requester | None) -> Page:
    """Return the page of one job, or of tasks of an array."""
    known = {} if starts is None else {row["job_id"]: row for row in words.rows_of(starts)}
    lead: list[Block] = []
    for place, each in enumerate(rows):
        row = _shown(each, who)
        start = (
            words.expected_start(known[row["job_id"]], row)
            if row["job_id"] in known and row["state"] == "PENDING"
            else {}
        )
        lead.append(
            Paragraph(
                f"Job {words.job_label(row)}{words.why_line({**row, 'start_s': None, **start})}.", headline=place == 0
            )
        )
        told = [(name, value) for name, value in words.job_fields(row) if value != words.UNKNOWN]
        lead.append(Table(f"What is known of job {words.job_label(row)}", ("field", "value"), told))
    lead.insert(1, Paragraph("Queue and nodes", link="/"))
    return Page(f"Job {label}", lead, [])


def _shown(row: words.Row, who: Requester | None) -> dict[str, Any]:
    """Return a job with the names that are for ``who``."""
    if who is not None and (who.operator or (row.get("owner") or row.get("user")) == who.name):
        return dict(row)
    return {**row, **{key: HIDDEN for key in _PRIVATE if row.get(key)}}


def _verdict(status: Mapping[str, Any], expected: Mapping[int, words.Row], now_s: float) -> str:
    """Return what goes on in one sentence."""
    jobs, nodes = status["jobs"], status["nodes"]
    total, busy = sum(nodes.values()), sum(nodes[state] for state in ("mixed", "allocated", "draining"))
    running, shared = _count(jobs["running"], "job runs", "jobs run"), status["shared_nodes"]
    text = f"{running} on {busy:,} of {total:,} nodes, {shared:,} of them shared; "
    waiting = jobs["pending"] + jobs["waiting"]
    if not waiting:
        return f"{text}no job waits."
    text += _count(waiting, "job waits", "jobs wait")
    next_s = min(
        (row["start_s"] for row in expected.values() if row["start_s"] is not None and not row["bound"]), default=None
    )
    if next_s is not None:
        return f"{text}, and the next one should start in about {words.clock_text(max(0.0, next_s - now_s))}."
    return f"{text}." if status["scheduler"] else f"{text}, as there is no scheduler."


def _state(status: Mapping[str, Any], who: Requester | None) -> str:
    scheduler = (
        f"scheduler {status['scheduler']} with policy {status['policy']}" if status["scheduler"] else "no scheduler"
    )
    names = (
        "all users are named" if who and who.operator else f"{who.name} alone is named" if who else "no user is named"
    )
    return (
        f"At {words.clock_text(status['now_s'])} of the manager's clock; {scheduler}; {names}; the page renews itself."
    )


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _pending(rows: Sequence[words.Row], expected: Mapping[int, words.Row], now_s: float) -> Table:
    cells = []
    for row in rows:
        start = expected.get(row["job_id"], {})
        waited = words.clock_text(max(0.0, now_s - row["submit_s"]))
        why = words.reason_text(start.get("reason") or row["reason"] or words.UNKNOWN)
        when = _starts(start, now_s)
        cells.append(
            (words.job_label(row), row["name"] or words.UNKNOWN, *_whose(row), str(row["nodes"]), waited, why, when)
        )
    headings = ("job", "name", "user", "partition", "nodes", "waited", "why it waits", "starts in")
    return _table("In the order of submission", headings, cells, _links(rows))


def _starts(start: words.Row, now_s: float) -> str:
    """Return in how long a job is expected to start, and how sure that is."""
    if start.get("start_s") is None:
        return words.UNKNOWN
    at, low, high = (
        None if start[key] is None else words.clock_text(max(0.0, start[key] - now_s))
        for key in ("start_s", "low_s", "high_s")
    )
    if start["bound"]:
        return f"more than {at}"
    return f"about {at}" if low is None else f"about {at} ({low} to {high} in 4 of 5 cases)"


def _table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], links: Sequence[str] = ()) -> Table:
    """Return a table without the columns of which nothing is known."""
    kept = [place for place in range(len(headings)) if any(row[place] != words.UNKNOWN for row in rows)]
    shown = [[row[place] for place in kept] for row in rows]
    return Table(caption, [headings[place] for place in kept], shown, stacked=True, links=links)


def _running(rows: Sequence[words.Row]) -> Table:
    cells = [
        (
            words.job_label(row),
            row["name"] or words.UNKNOWN,
            *_whose(row),
            row["state"].lower(),
            words.clock_text(row["elapsed_s"]),
            words.clock_text(row["limit_s"], "none"),
            row["node_list"] or "on disk",
            words.join_values(row["shares_with"]) or words.UNKNOWN,
            words.UNKNOWN if row["slowdown"] is None else f"{row['slowdown']:.2f}",
        )
        for row in rows
    ]
    headings = ("job", "name", "user", "partition", "state", "time", "limit", "nodes", "beside jobs", "slowdown")
    return _table("Jobs on nodes, and those beside them", headings, cells, _links(rows))


def _whose(row: words.Row) -> tuple[str, str]:
    return row["user"] or words.UNKNOWN, words.join_values(row["partitions"] or ()) or words.UNKNOWN


def _links(rows: Sequence[words.Row]) -> list[str]:
    return [f"/jobs/{quote(words.job_label(row), safe='')}" for row in rows]


def _nodes(rows: Sequence[words.Row], running: Sequence[words.Row]) -> Table:
    """Return a line for the nodes with the same jobs in the same state, those with most jobs first."""
    slowdown = {words.job_label(row): row["slowdown"] for row in running}
    groups: dict[tuple[Any, ...], list[words.Row]] = {}
    for row in rows:
        groups.setdefault((tuple(row["jobs"]), row["state"], row["reason"] or ""), []).append(row)
    cells = []
    for (jobs, state, reason), group in sorted(groups.items(), key=lambda item: (-len(item[0][0]), item[1][0]["node"])):
        known = any(slowdown.get(job) is not None for job in jobs)
        slowed = [
            f"{found:.2f}" if (found := slowdown.get(job)) is not None else words.UNKNOWN for job in jobs if known
        ]
        used, most = (sum(row[key] for row in group) for key in ("threads_used", "threads"))
        shown = (
            idset(row["node"] for row in group),
            str(len(group)),
            f"{state.lower()}{f' ({reason})' if reason else ''}",
        )
        cells.append(
            (*shown, f"{used:,} of {most:,}", ", ".join(jobs) or words.UNKNOWN, ", ".join(slowed) or words.UNKNOWN)
        )
    headings = ("nodes", "number", "state", "threads held", "jobs", "slowdowns")
    return _table("Nodes with several jobs first", headings, cells)


def _fields(status: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in status.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{before}{words.words_of(key)} ")
        else:
            yield before + words.words_of(key), words.value_text(key, value)
