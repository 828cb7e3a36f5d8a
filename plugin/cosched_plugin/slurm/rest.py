"""The conversation with slurmrestd: questions, changes, and what their answers mean.

A question that slurmctld does not answer raises `Silent`: that is never an event. A change ends in one of three ways: accepted,
refused, or of unknown fate (`Unsettled`): slurmrestd waits up to 9 s for slurmctld, twice that for one job, and a change may have been
carried out although no answer came. So nothing is sent a second time, and reads wait 25 s: that is for the whole answer, which has a
size, too. A record that cannot be read is left out, and `odd` says why; all others count.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cosched_plugin.common.slurm_notation import ON_NODES
from cosched_plugin.protocol.errors import Fault, refuse, show
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.site.poll_loop import Silent, Source
from cosched_plugin.slurm.dialect import MET, UNMET, Change, Dialect, dialect_of
from cosched_plugin.slurm.records import (
    Reservation,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    job_of,
    licence_of,
    node_of,
    partition_of,
    reservation_of,
)
from cosched_plugin.slurm.transport import Reply, Transport

_MOST_WORDS: Final = 300  # letters of what is passed on of an error
WHOLE_S: Final = 2.0
NODES_S: Final = 0.5
SITE_S: Final = 5.0  # between two questions for what changes when an operator does something
SLOW_S: Final = 8.0  # a refusal that took as long comes from slurmrestd, which has given slurmctld up
# Errors that say that slurmctld was not reached, or did not answer: 1000 and 1800 to 1899 are those of its communication.
_COMMUNICATION: Final = frozenset({-1, 1000, 5004, *range(1800, 1900)})
_HELD: Final = 2042  # `Job is in held state`: no error where a job is to be held
_ARRAY: Final = "job array update"  # the one error, without a number, of an array's change that has worked


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
        self._since_s = 0  # of the last answer about jobs
        self._whole_s = float("-inf")  # of the last question for all of them
        self._took_s = 0.0  # by that
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
            said = _denial(reply) or f"{reply.status} {reply.text[:200]}"
            if reply.status == 200 and not _errors(_read(reply)):
                self.version = version
                return
            if reply.denied or time.monotonic() > until_s:  # each question may take `WAIT_S`
                break
        raise Silent(f"none of {', '.join(versions)} is answered: {said}")

    def jobs(self, now_s: float) -> list[SlurmJob] | None:
        """Return all jobs; None: nothing has changed since the last answer. Silent."""
        # Slurm compares whole seconds of its own clock: what changed in the second of the last question is told once more, and all is
        # told every other second, in case the clocks differ.
        whole = now_s - self._whole_s > max(WHOLE_S, 10 * self._took_s) or now_s < self._whole_s
        begun = time.monotonic()
        rows = self._ask("jobs" if whole else f"jobs?{self.dialect.since.format(self._since_s)}", "jobs")
        if rows == [] and not whole:  # said of no change, too, and then all jobs would have vanished
            whole, rows = True, self._ask("jobs", "jobs")
        self._since_s = int(now_s)
        if whole:
            self._whole_s, self._took_s = now_s, time.monotonic() - begun
        return None if rows is None else self._parsed("jobs", rows, job_of)

    def forget(self) -> None:
        """Ask for all jobs the next time."""
        self._whole_s = float("-inf")

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes. Silent."""
        # In full: with `update_time`, v0.0.38 says that nothing has changed in the words of a dead slurmctld.
        return self._parsed("nodes", self._ask("nodes", "nodes") or [], node_of)

    def partitions(self) -> list[SlurmPartition]:
        """Return all partitions. Silent."""
        return self._parsed("partitions", self._ask("partitions", "partitions") or [], partition_of)

    def reservations(self) -> list[Reservation]:
        """Return all reservations. Silent."""
        return self._parsed("reservations", self._ask("reservations", "reservations") or [], reservation_of)

    def licences(self) -> list[tuple[str, int]]:
        """Return the licences of the cluster. Silent."""
        found = self._parsed("licenses", self._ask("licenses", "licenses") or [], licence_of)
        return [(name, count) for name, count in found if name and count]

    def change(self, label: str, change: Change) -> Outcome:
        """Change a job, by its name in Slurm's commands."""
        return self._outcome_of("POST", f"job/{label}", self.dialect.body(change))

    def cancel(self, label: str) -> Outcome:
        """Cancel a job."""
        return self._outcome_of("DELETE", f"job/{label}")

    def _ask(self, target: str, key: str) -> list[Any] | None:
        begun = time.monotonic()
        reply = self._transport.call("GET", f"/slurm/{self.version}/{target}")
        if reply.status == 304:
            return None
        if reply.denied:
            raise Silent(f"{target}: {_denial(reply)}")
        content = _read(reply, key)
        errors = _errors(content)
        rows = content.get(key)
        if rows == [] and _says_unchanged(content):
            return None
        if reply.status != 200 or errors or not isinstance(rows, list):
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
                key = _name_of(row)
                if isinstance(row, Unread):
                    raise Fault("field", row.why)
                known = before.get(key)
                said = known[1] if known is not None and known[0] == row else read(row)
                after[key] = row, said
            except _ODD as error:
                name = f"the record of {show(key)}" if key else f"a record of {kind}"
                odd[name] = _why(error)
                said = before.get(key, (None, None))[1]
                if key in after or not isinstance(said, SlurmJob) or said.state not in ON_NODES:
                    continue
                after[key] = None, said
                odd[name] += "; the job is on nodes, and counts as it was last read"
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
            return f"{target}: {_denial(reply)}"
        content = _read(reply)
        errors = content.get("errors")
        if not isinstance(errors, list):
            return Unsettled(f"{target}: an answer without `errors`: status {reply.status}: {reply.text[:200]}")
        wrong = [error for error in map(_flat, errors) if not _is_none(error)]
        if not wrong:
            ignored = _errors({"errors": content.get("warnings")})
            return Warned(f"{target}: done with a warning: {'; '.join(ignored)}") if ignored else None
        words = f"{target}: {'; '.join(_errors({'errors': wrong}))}"
        numbers = {error.get("error_number", error.get("error_code")) for error in wrong if isinstance(error, Mapping)}
        parsed = any("key" in str(error) for error in wrong)  # refused by slurmrestd itself
        if took_s > SLOW_S or (not parsed and numbers & _COMMUNICATION):
            return Unsettled(f"{words} (after {took_s:.1f} s)")
        return words


class Polls(Source):
    """Asks Slurm for jobs, and every half second for nodes, and keeps the last answers."""

    name = "Slurm"

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self.odd = {}
        self.jobs: Sequence[SlurmJob] = ()
        self.nodes: Sequence[SlurmNode] = ()
        self.partitions: Sequence[SlurmPartition] = ()
        self.reservations: Sequence[Reservation] = ()
        self.licences: Sequence[tuple[str, int]] = ()
        self._nodes_at = self._site_at = float("-inf")

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
            nodes = self.rest.nodes() if not 0 <= now_s - self._nodes_at < NODES_S else None
        except Silent:
            self.rest.forget()
            raise
        self.odd = {name: why for kind in self.rest.odd.values() for name, why in kind.items()}
        changed = (jobs is not None and jobs != self.jobs) or (nodes is not None and nodes != self.nodes)
        if jobs is not None:
            self.jobs = jobs
        if nodes is not None:
            self.nodes, self._nodes_at = nodes, now_s
        return self._ask_site(now_s) or changed

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
            self.partitions = self.rest.partitions()
            self.reservations = self.rest.reservations()
            self.licences = self.rest.licences()
        return before != (self.partitions, self.reservations, self.licences)


# ---------------------------------------------------------------- what answers hold


class Unread(NamedTuple):
    """A record that is no JSON by itself, or is nested too deeply."""

    name: object  # of its job or node, if that can be seen
    why: str


_ODD: Final = (Fault, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def _read(reply: Reply, key: str = "") -> Mapping[str, Any]:
    """Return the content of an answer, or an empty one where it is cut off; of ``key``, a list of records, each may be `Unread`."""
    try:
        content = json.loads(reply.text) if reply.text else {}
    except (ValueError, RecursionError):
        content = _read_apart(reply.text, key) if key else {}
    return content if isinstance(content, Mapping) else {}


def _read_apart(text: str, key: str) -> Any:
    """Return the content of an answer in which one of the records cannot be read: each is read by itself."""
    places = list(_places(text, key))
    frame, begin = [], 0
    for first, end in places:
        frame += [text[begin:first], "{}"]
        begin = end
    try:
        content = json.loads("".join([*frame, text[begin:]]))
    except (ValueError, RecursionError):
        return {}
    if places:
        records = iter(places)
        content[key] = [_record(text[slice(*next(records))]) if row == {} else row for row in content[key]]
    return content


def _places(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield where the records of the list ``key`` of a map begin and end, by their brackets alone."""
    wanted, word = json.dumps(key), ""
    depth = first = 0
    inside = False
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{" as bracket:
                depth += 1
                if depth == 2:
                    inside = bracket == "[" and word == wanted
                elif depth == 3:
                    first = token.start()
            case "]" | "}":
                if depth == 3 and inside:
                    yield first, token.end()
                depth -= 1
            case word_there if depth == 1:
                word = word_there


def _record(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r'"job_id"\s*:\s*(\d{1,10})\b', text) or re.search(r'"name"\s*:\s*("[^"\\]{1,255}")', text)
        return Unread(json.loads(found[1]) if found else None, _why(error))


def _name_of(row: Any) -> object:
    """Return the number of a job, or the name of a node; None where it is not to be seen."""
    if isinstance(row, Unread):
        return row.name
    if not isinstance(row, Mapping):
        refuse("a map", row)
    key = row.get("job_id") or row.get("name") or row.get("LicenseName")
    return key if type(key) in (int, str) else None  # True is equal to 1


def _why(error: BaseException) -> str:
    """Return what is wrong with a record."""
    match error:
        case Fault():
            return f"{error.path}: {error.text}" if error.path else error.text
        case KeyError():
            return f"{error.args[0]}: missing"
        case RecursionError():
            return "it is nested too deeply"
        case json.JSONDecodeError():
            return f"no JSON: {error}"
        case ValueError() if "digits" in str(error):
            return "a number has too many digits"
        case _:
            return f"{type(error).__name__}: {error}"[:_MOST_WORDS]


def _denial(reply: Reply) -> str:
    """Return why who asks is not known, in words; empty where that is no matter."""
    return f"{reply.denied} ({'; '.join(_errors(_read(reply))) or reply.text[:100]})" if reply.denied else ""


def _says_unchanged(content: Mapping[str, Any]) -> bool:
    """Return whether an empty list means that nothing has changed: from v0.0.40 on that is no status 304."""
    with suppress(LookupError, TypeError, AttributeError):
        return content["last_update"]["number"] == 0 and not _errors(content)
    return False


def _errors(content: Mapping[str, Any]) -> list[str]:
    """Return what is in `errors`, in words."""
    errors = content.get("errors") or []
    return [
        _plain(
            ", ".join(str(error[key]) for key in ("description", "error", "error_number") if key in error)
            if isinstance(error, Mapping)
            else str(error)
        )
        for error in map(_flat, errors if isinstance(errors, list) else [errors])
    ]


def _flat(error: Any) -> Any:
    """Return an error with single values alone."""
    if isinstance(error, Mapping):
        return {key: show(value) if isinstance(value, list | Mapping) else value for key, value in error.items()}
    return show(error) if isinstance(error, list) else error


def _plain(text: str) -> str:
    """Return words that a message may hold."""
    return text[:_MOST_WORDS].encode("utf-8", "replace").decode()


def _is_none(error: Any) -> bool:
    """Return whether an error says that nothing is wrong."""
    if not isinstance(error, Mapping):
        return False
    number = error.get("error_number", error.get("error_code"))
    return number == _HELD or (number is None and str(error.get("description", "")).startswith(_ARRAY))
