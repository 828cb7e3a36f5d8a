"""The conversation with slurmrestd: questions, changes, and what their answers mean.

A question that slurmctld does not answer raises `Silent`: that is never an event. A change ends in one of three ways: accepted,
refused, or of unknown fate (`Unsettled`): slurmrestd waits up to 9 s for slurmctld, twice that for one job, and a change may have been
carried out although no answer came. So nothing is sent a second time, and reads wait 25 s: that is for the whole answer, which has a
size, too. A record that cannot be read is left out, and `odd` says why; all others count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cosched_plugin.common.limits import Association, Qos
from cosched_plugin.common.slurm_notation import ON_NODES
from cosched_plugin.protocol.errors import Fault, show
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.site.poll_loop import Silent, Source
from cosched_plugin.slurm import answers, records
from cosched_plugin.slurm.dialect import MET, UNMET, Change, Dialect, dialect_of
from cosched_plugin.slurm.job_list import JobList
from cosched_plugin.slurm.limits import KnownLimits
from cosched_plugin.slurm.transport import Transport
from cosched_terminal.console import WARNING, Log

NODES_S: Final = 0.5  # between two lists of nodes; or so many times what one takes
NODES_TIMES: Final = 5
SITE_S: Final = 5.0  # between two questions for what changes when an operator does something
LIMITS_S: Final = 30.0  # between two questions for limits; or so many times what they take
LIMITS_TIMES: Final = 20
FIRST_S: Final = 5.0  # that the first answer is waited for
_MOST_WORDS: Final = 500
SLOW_S: Final = 8.0  # a refusal that took as long comes from slurmrestd, which has given slurmctld up
# Errors that say that slurmctld was not reached, or did not answer: 1000 and 1800 to 1899 are those of its communication.
_COMMUNICATION: Final = frozenset({-1, 1000, 5004, *range(1800, 1900)})


class Warned(str):
    """Why a change counts as refused that was carried out without a part of it."""


class Rest:
    """What is asked of Slurm, in one version of its interface."""

    def __init__(self, transport: Transport, version: str = "") -> None:
        """Without ``version``, the first one that Slurm answers is spoken."""
        self._transport = transport
        self.version = version
        # Records of the last answers that were left out, and why; by `jobs`, `nodes`
        self.odd: dict[str, dict[str, str]] = {}
        self.list = JobList(lambda target: self._ask(target, "jobs"))
        # Records of the last answers, and what they say: most stay
        self._known: dict[str, dict[object, tuple[Any, Any]]] = {}

    @property
    def dialect(self) -> Dialect:
        """Return the forms of the version that is spoken."""
        return dialect_of(self.version)

    def begin(self, until_s: float = float("inf")) -> None:
        """Find out which version is spoken; Silent if there is none, or ``until_s`` of the monotonic clock has passed."""
        versions = (self.version,) if self.version else (*MET, *UNMET)
        said = ""
        for version in versions:
            reply = self._transport.call("GET", f"/slurm/{version}/ping")
            said = answers.denial(reply) or f"{reply.status} {reply.text[:200]}"
            if reply.status == 200 and not answers.errors_in(answers.read_answer(reply)):
                self.version = version
                return
            if reply.denied or time.monotonic() > until_s:  # each question may take `WAIT_S`
                break
        raise Silent(f"no answer to any of {', '.join(versions)}: {said}")

    def ahead_s(self) -> float:
        """Return by how many seconds Slurm's clock is ahead of this host's, behind it if negative; 0 where it does not tell."""
        begun_s = time.time()
        reply = self._transport.call("GET", f"/slurm/{self.version}/diag")
        with suppress(*answers.ODD):
            told = answers.read_answer(reply)["statistics"]["req_time"]
            return float(told["number"] if isinstance(told, Mapping) else told) - (begun_s + time.time()) / 2
        return 0.0

    def jobs(self, now_s: float) -> list[records.SlurmJob] | None:
        """Return all jobs; None: nothing has changed since the last answer. Silent."""
        rows = self.list.rows(now_s, self.dialect)
        return None if rows is None else self._parsed("jobs", rows, records.job_of)

    def look(self, number: int) -> list[records.SlurmJob]:
        """Return a job as it is now, by Slurm's number; of an array maybe all its tasks. Silent."""
        found = []
        for row in self.list.look(number):
            with suppress(*answers.ODD):
                found.append(records.job_of(row))
        return found

    def forget(self) -> None:
        """Ask for all jobs the next time."""
        self.list.forget()

    def nodes(self) -> list[records.SlurmNode]:
        """Return all nodes. Silent."""
        # In full: with `update_time`, v0.0.38 says that nothing has changed in the words of a dead slurmctld.
        return self._parsed("nodes", self._ask("nodes", "nodes") or [], records.node_of)

    def partitions(self) -> list[records.SlurmPartition]:
        """Return all partitions. Silent."""
        # Without slurmdbd no answer is right, since it says what TRES there are; and all else is told (24.11, 26.05).
        return self._parsed(
            "partitions", self._ask("partitions", "partitions", but="slurmdb") or [], records.partition_of
        )

    def reservations(self) -> list[records.Reservation]:
        """Return all reservations. Silent."""
        return self._parsed("reservations", self._ask("reservations", "reservations") or [], records.reservation_of)

    def licences(self) -> list[tuple[str, int]]:
        """Return the licences of the cluster. Silent."""
        found = self._parsed("licenses", self._ask("licenses", "licenses") or [], records.licence_of)
        return [(name, count) for name, count in found if name and count]

    def limits(self, cluster: str) -> tuple[list[Qos], list[Association]]:
        """Return all QOS, and the associations of a cluster, as slurmdbd has them. Silent."""
        rows = self._ask(f"associations?cluster={quote(cluster)}", "associations", "slurmdb") or []
        mine = [row for row in rows if not isinstance(row, Mapping) or row.get("cluster") in (None, "", cluster)]
        qos = self._parsed("qos", self._ask("qos", self.dialect.qos, "slurmdb") or [], records.qos_of)
        return qos, self._parsed("associations", mine, records.association_of)

    def change(self, label: str, change: Change) -> Outcome:
        """Change a job, by its name in Slurm's commands."""
        return self._outcome_of("POST", f"job/{label}", self.dialect.body(change))

    def cancel(self, label: str) -> Outcome:
        """Cancel a job."""
        return self._outcome_of("DELETE", f"job/{label}")

    def _ask(self, target: str, key: str, of: str = "slurm", but: str = "") -> list[Any] | None:
        """``but``: errors from places whose names begin so do not count where records are told all the same."""
        begun = time.monotonic()
        reply = self._transport.call("GET", f"/{of}/{self.version}/{target}")
        if reply.status == 304:
            return None
        if reply.denied:
            raise Silent(f"{target}: {answers.denial(reply)}")
        content = answers.read_answer(reply, key)
        errors = answers.errors_in(content)
        rows = content.get(key)
        if rows == [] and answers.says_unchanged(content):
            return None
        known = but and rows and all(str(_source(error)).startswith(but) for error in content.get("errors") or ())
        if not known and (reply.status != 200 or errors or not isinstance(rows, list)):
            why = "; ".join(errors) or reply.text[:200] or "an empty answer"
            raise Silent(f"{target}: status {reply.status} after {time.monotonic() - begun:.1f} s: {why}")
        return rows

    def _parsed(self, kind: str, rows: Sequence[Any], read: Any) -> list[Any]:
        found = []
        before, after = self._known.get(kind, {}), dict[object, tuple[Any, Any]]()
        odd: dict[str, str] = {}
        for row in rows:
            key: object = None
            try:
                key = answers.name_of(row)
                if isinstance(row, answers.Unread):
                    raise Fault("field", row.why)
                known = before.get(key)
                said = known[1] if known is not None and (known[0] is row or known[0] == row) else read(row)
                after[key] = row, said
            except answers.ODD as error:
                name = f"the record of {show(key)}" if key else f"a record of {kind}"
                odd[name] = answers.why_odd(error)
                said = before.get(key, (None, None))[1]
                if key in after or not isinstance(said, records.SlurmJob) or said.state not in ON_NODES:
                    continue
                after[key] = None, said
                odd[name] += "; the job is on nodes, so its last good record counts"
            found.append(said)
        self._known[kind], self.odd[kind] = after, odd
        return found

    def _outcome_of(self, method: str, target: str, body: object = None) -> Outcome:
        begun = time.monotonic()
        reply = self._transport.call(method, f"/slurm/{self.version}/{target}", body)
        took_s = time.monotonic() - begun
        if reply.status == 0:
            words = f"{target}: no answer after {took_s:.1f} s: {reply.text}"
            return Unsettled(words) if reply.sent else words
        if reply.denied:
            return f"{target}: {answers.denial(reply)}"
        content = answers.read_answer(reply)
        errors = content.get("errors")
        if not isinstance(errors, list):
            return Unsettled(f"{target}: an answer without `errors`: status {reply.status}: {reply.text[:200]}")
        wrong = [error for error in map(answers.flat, errors) if not answers.is_none(error)]
        if not wrong:
            ignored = answers.errors_in({"errors": content.get("warnings")})
            return Warned(f"{target}: done with a warning: {'; '.join(ignored)}") if ignored else None
        words = f"{target}: {'; '.join(answers.errors_in({'errors': wrong}))}"
        numbers = {error.get("error_number", error.get("error_code")) for error in wrong if isinstance(error, Mapping)}
        parsed = any("key" in str(error) for error in wrong)  # refused by slurmrestd itself
        if took_s > SLOW_S or (not parsed and numbers & _COMMUNICATION):
            return Unsettled(f"{words} (after {took_s:.1f} s)")
        return words


def _source(error: Any) -> object:
    return error.get("source") if isinstance(error, Mapping) else None


class _Told(NamedTuple):
    """What an answer of slurmdbd has brought; None: it was not asked for."""

    partitions: Sequence[records.SlurmPartition] | None = None
    limits: tuple[list[Qos], list[Association]] | None = None
    odd: Mapping[str, str] = {}
    took_s: float = 0.0
    silent: str = ""  # why it tells no limits


class DatabasePolls:
    """Asks for what slurmrestd asks slurmdbd for, and keeps the last answers: limits, and partitions (24.11, 26.05).

    That is in a thread: where slurmdbd hangs an answer takes 45 to 90 s, and no other question waits for it.
    """

    def __init__(
        self, rest: Rest, cluster: str, log: Log, start: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        """``rest`` has a connection of its own; ``cluster``: whose limits count, empty for none; ``start`` begins a question."""
        self.partitions: Sequence[records.SlurmPartition] | None = None  # None: not told yet
        self.known: KnownLimits | None = None
        self.odd: Mapping[str, str] = {}
        self._rest = rest
        self._cluster = cluster
        self._log = log
        self._start = start or (lambda question: Thread(target=question, daemon=True).start())
        self._answers: SimpleQueue[_Told] = SimpleQueue()
        self._asks = False
        self._asked_s = self._limits_s = float("-inf")
        self._rest_s = LIMITS_S  # between two questions for limits
        self._limits: object = None  # as they were told last
        self._silent = ""

    def begin(self, now_s: float) -> None:
        """Ask, and wait a moment for the answer: jobs may be placed at once."""
        self.poll(now_s)
        if self._asks:
            with suppress(Empty):
                self._take(self._answers.get(timeout=FIRST_S))

    def poll(self, now_s: float) -> bool:
        """Take an answer that has come, and ask if it is time; return whether something has changed."""
        changed = False
        with suppress(Empty):
            changed = self._take(self._answers.get_nowait())
        if not self._asks and not 0 <= now_s - self._asked_s < SITE_S:
            limits = bool(self._cluster) and not 0 <= now_s - self._limits_s < self._rest_s
            self._asks, self._asked_s = True, now_s
            self._limits_s = now_s if limits else self._limits_s
            self._start(lambda: self._ask(limits=limits))
        return changed

    def _ask(self, *, limits: bool) -> None:
        told, began = _Told(), time.monotonic()
        try:
            if limits:
                told = told._replace(limits=self._rest.limits(self._cluster))
        except Silent as error:
            hint = " (slurmrestd needs -s slurmctld,slurmdbd)" if "status 404" in str(error) else ""
            told = told._replace(silent=f"{error}{hint}")
        told = told._replace(took_s=time.monotonic() - began)
        with suppress(Silent):
            told = told._replace(partitions=self._rest.partitions())
        self._answers.put(
            told._replace(odd={name: why for kind in self._rest.odd.values() for name, why in kind.items()})
        )

    def _take(self, told: _Told) -> bool:
        self._asks, self.odd = False, told.odd
        changed = told.partitions is not None and told.partitions != self.partitions
        self.partitions = self.partitions if told.partitions is None else told.partitions
        if told.silent and not self._silent:
            stay = "no limit is known in advance" if self.known is None else "the last known limits stay"
            self._log("limits-silent", f"slurmdbd reports no limits, and {stay}: {told.silent}", level=WARNING)
        if told.silent:
            self._silent, self._rest_s = told.silent, LIMITS_S
        if told.limits is None:
            return changed
        if self._silent:
            self._silent = ""
            self._log("limits-answer", "slurmdbd reports limits again")
        self._rest_s = max(LIMITS_S, LIMITS_TIMES * told.took_s)
        return self._learn(*told.limits) or changed

    def _learn(self, qos: Sequence[Qos], associations: Sequence[Association]) -> bool:
        if self._limits == (qos, associations):
            return False
        self._limits = qos, associations
        self.known = KnownLimits(qos, associations)
        alone = {name for each in qos for name in each.others} | {name for one in associations for name in one.others}
        text = f"the scheduler keeps limits of {len(qos)} QOS and {len(associations)} associations"
        more = f"; Slurm alone keeps {', '.join(sorted(alone))}" if alone else ""
        self._log("limits", f"{text}{more}"[:_MOST_WORDS])
        return True


class Polls(Source):
    """Asks Slurm for jobs, and every half second for nodes, and keeps the last answers."""

    name = "Slurm"

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self.odd = {}
        self.jobs: Sequence[records.SlurmJob] = ()
        self.nodes: Sequence[records.SlurmNode] = ()
        self.partitions: Sequence[records.SlurmPartition] = ()
        self.reservations: Sequence[records.Reservation] = ()
        self.licences: Sequence[tuple[str, int]] = ()
        self.database: DatabasePolls | None = None  # where Slurm has one
        self._nodes_at = self._site_at = float("-inf")
        self._nodes_took_s = 0.0

    def connect(self, until_s: float) -> None:
        """Agree on a version, and get the first answers; Silent."""
        self.rest.begin(until_s)
        self.rest.forget()
        self.poll(time.time())
        if not self.nodes:
            raise Silent("it shows no nodes")

    def poll(self, now_s: float) -> bool:
        """Ask; return whether something has changed. Silent."""
        try:
            jobs = self.rest.jobs(now_s)
            self.took_s, begun = self.rest.list.took_s, time.monotonic()
            fresh = 0 <= now_s - self._nodes_at < max(NODES_S, NODES_TIMES * self._nodes_took_s)
            nodes = None if fresh else self.rest.nodes()
        except Silent:
            self.rest.forget()
            raise
        limited = self.database is not None and self.database.poll(now_s)
        kinds = [*self.rest.odd.values(), *([] if self.database is None else [self.database.odd])]
        self.odd = {name: why for kind in kinds for name, why in kind.items()}
        changed = (jobs is not None and jobs != self.jobs) or (nodes is not None and nodes != self.nodes)
        if jobs is not None:
            self.jobs = jobs
        if nodes is not None:
            self.nodes, self._nodes_at, self._nodes_took_s = nodes, now_s, time.monotonic() - begun
            self.took_s += self._nodes_took_s
        if limited and self.database is not None and self.database.partitions is not None:
            self.partitions = self.database.partitions
        return self._ask_site(now_s) or changed or limited

    # Where Slurm does not tell these, nodes are as their own records say, and nothing is limited.
    def _ask_site(self, now_s: float) -> bool:
        """Ask for partitions, reservations and licences, if it is time, or nodes have been reserved; return whether it changed."""
        kept = {name for each in self.reservations for name in each.nodes}
        late = any(node.reserved and node.name not in kept for node in self.nodes) and self._nodes_at == now_s
        if 0 <= now_s - self._site_at < SITE_S and not late:
            return False
        before = self.partitions, self.reservations, self.licences
        self._site_at = now_s
        with suppress(Silent):
            if self.database is None:
                self.partitions = self.rest.partitions()
            self.reservations = self.rest.reservations()
            self.licences = self.rest.licences()
        return before != (self.partitions, self.reservations, self.licences)
