"""The conversation with slurmrestd on a unix socket: questions, changes, and what their answers mean.

A question that slurmctld does not answer raises `Silent`: that is never an event. A change ends in one of three ways: accepted,
refused, or of unknown fate (`Unsettled`): slurmrestd waits up to 9 s for slurmctld, twice that for one job, and a change may have been
carried out although no answer came. So nothing is sent a second time, and reads wait 25 s.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.slurm.records import SlurmJob, SlurmNode, job_of, node_of

VERSIONS: Final = ("v0.0.38", "v0.0.37")  # those that have been met, the best first
LATER: Final = ("v0.0.41", "v0.0.40", "v0.0.39")  # written after their schemas
WAIT_S: Final = 25.0
WHOLE_S: Final = 2.0
SLOW_S: Final = 8.0  # a refusal that took as long comes from slurmrestd, which has given slurmctld up
# Errors that say that slurmctld was not reached, or did not answer: 1000 and 1800 to 1899 are those of its communication.
_COMMUNICATION: Final = frozenset({-1, 1000, 5004, *range(1800, 1900)})
_HELD: Final = 2042  # `Job is in held state`: no error where a job is to be held
_ARRAY: Final = "job array update"  # the one error, without a number, of an array's change that has worked


class Silent(Exception):
    """There is no answer, or none of slurmctld's."""


class Reply(NamedTuple):
    """An answer; status 0: none came, and `sent` tells whether the request may have arrived."""

    status: int
    text: str
    sent: bool = True


class Transport(Protocol):
    """Carries one request at a time."""

    def call(self, method: str, target: str, body: object = None) -> Reply:
        """Return the answer, within `WAIT_S`."""
        ...


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=WAIT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class UnixTransport:
    """One connection that is kept open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: _UnixConnection | None = None

    def call(self, method: str, target: str, body: object = None) -> Reply:
        """Return the answer, within `WAIT_S`; a question on a connection that has been closed meanwhile is asked again."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body)
        kept = self._connection is not None
        sent = False
        try:
            if self._connection is None:
                self._connection = _UnixConnection(self._path)
                self._connection.connect()
            sent = True
            self._connection.request(method, target, data, headers)
            answer = self._connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if kept and method == "GET":
                return self.call(method, target)
            return Reply(0, f"{type(error).__name__}: {error}", sent)
        if answer.will_close:
            self.close()
        return Reply(answer.status, text)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Rest:
    """What is asked of Slurm, in one version of its interface."""

    def __init__(self, transport: Transport, version: str = "") -> None:
        """Without ``version``, the first one that Slurm answers is spoken."""
        self._transport = transport
        self.version = version
        self.odd: list[str] = []  # records that were not understood, in words
        self._since_s = 0  # of the last answer about jobs
        self._whole_s = float("-inf")  # of the last question for all of them
        self._took_s = 0.0  # by that
        self._known: dict[
            str, dict[object, tuple[Any, Any]]
        ] = {}  # records of the last answers, and what they say: most stay

    def begin(self, until_s: float = float("inf")) -> None:
        """Find out which version is spoken; Silent if there is none, or ``until_s`` of the monotonic clock has passed."""
        versions = (self.version,) if self.version else (*VERSIONS, *LATER)
        said = ""
        for version in versions:
            reply = self._transport.call("GET", f"/slurm/{version}/ping")
            said = f"{reply.status} {reply.text[:200]}"
            if reply.status == 200 and not _errors(_read(reply)):
                self.version = version
                return
            if time.monotonic() > until_s:  # each question may take `WAIT_S`
                break
        raise Silent(f"none of {', '.join(versions)} is answered: {said}")

    def jobs(self, now_s: float) -> list[SlurmJob] | None:
        """Return all jobs; None: nothing has changed since the last answer. Silent."""
        # Slurm compares whole seconds of its own clock: what changed in the second of the last question is told once more, and all is
        # told every other second, in case the clocks differ.
        whole = now_s - self._whole_s > max(WHOLE_S, 10 * self._took_s) or now_s < self._whole_s
        begun = time.monotonic()
        rows = self._ask("jobs" if whole else f"jobs?update_time={self._since_s}", "jobs")
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

    def change(self, label: str, body: Mapping[str, object]) -> Outcome:
        """Change a job, by its name in Slurm's commands."""
        return self._told("POST", f"job/{label}", body)

    def cancel(self, label: str) -> Outcome:
        """Cancel a job."""
        return self._told("DELETE", f"job/{label}")

    def _ask(self, target: str, key: str) -> list[Any] | None:
        begun = time.monotonic()
        reply = self._transport.call("GET", f"/slurm/{self.version}/{target}")
        if reply.status == 304:
            return None
        content = _read(reply)
        errors = _errors(content)
        rows = content.get(key)
        if reply.status != 200 or errors or not isinstance(rows, list):
            told = "; ".join(errors) or reply.text[:200] or "an empty answer"
            raise Silent(f"{target}: status {reply.status} after {time.monotonic() - begun:.1f} s: {told}")
        return rows

    def _parsed(self, kind: str, rows: Sequence[Any], read: Any) -> list[Any]:
        found = []
        before, after = self._known.get(kind, {}), dict[object, tuple[Any, Any]]()
        for row in rows:
            try:
                key = row.get("job_id") or row["name"]
                known = before.get(key)
                said = known[1] if known is not None and known[0] == row else read(row)
                after[key] = row, said
                found.append(said)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                name = (row.get("job_id") or row.get("name")) if isinstance(row, Mapping) else row
                self.odd.append(f"the record of {name!r} is not understood: {type(error).__name__}: {error}")
        self._known[kind] = after
        return found

    def _told(self, method: str, target: str, body: object = None) -> Outcome:
        begun = time.monotonic()
        reply = self._transport.call(method, f"/slurm/{self.version}/{target}", body)
        took_s = time.monotonic() - begun
        if reply.status == 0:
            words = f"{target}: no answer after {took_s:.1f} s: {reply.text}"
            return Unsettled(words) if reply.sent else words
        content = _read(reply)
        errors = content.get("errors")
        if not isinstance(errors, list):
            return Unsettled(f"{target}: an answer without `errors`: status {reply.status}: {reply.text[:200]}")
        wrong = [error for error in errors if not _is_none(error)]
        if not wrong:
            return None
        words = f"{target}: {'; '.join(_errors({'errors': wrong}))}"
        numbers = {error.get("error_number", error.get("error_code")) for error in wrong if isinstance(error, Mapping)}
        parsed = any("key" in str(error) for error in wrong)  # refused by slurmrestd itself
        if took_s > SLOW_S or (not parsed and numbers & _COMMUNICATION):
            return Unsettled(f"{words} (after {took_s:.1f} s)")
        return words


def _read(reply: Reply) -> Mapping[str, Any]:
    """Return the content of an answer, or an empty one where it is cut off."""
    try:
        content = json.loads(reply.text) if reply.text else {}
    except ValueError:
        return {}
    return content if isinstance(content, Mapping) else {}


def _errors(content: Mapping[str, Any]) -> list[str]:
    """Return what is in `errors`, in words."""
    errors = content.get("errors") or []
    return [
        ", ".join(str(error[key]) for key in ("description", "error", "error_number") if key in error)
        if isinstance(error, Mapping)
        else str(error)
        for error in (errors if isinstance(errors, list) else [errors])
    ]


def _is_none(error: Any) -> bool:
    """Return whether an error says that nothing is wrong."""
    if not isinstance(error, Mapping):
        return False
    number = error.get("error_number", error.get("error_code"))
    return number == _HELD or (number is None and str(error.get("description", "")).startswith(_ARRAY))
