"""Answers of a Slurm that is broken, or hostile: the driver goes on, places all other jobs, and names what it cannot read once."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.plugin.slurm.test_recorded import OWN, NoTools, Watched

from cosched_plugin.common.slurm_notation import words_of
from cosched_plugin.site.driver import Unsettled
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.site.poll_loop import MOST_NEW, Clock, Notices, Silent
from cosched_plugin.site.store import Store
from cosched_plugin.slurm import transport as transport_module
from cosched_plugin.slurm.actuator import SlurmActuator
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.dialect import Change, dialect_of
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import HttpTransport, Reply
from cosched_terminal.console import Log

MARK = "here stands what is odd"
DEEP = 3_000  # beyond what is read
VALUES = {
    "infinite": "Infinity",
    "minus infinite": "-Infinity",
    "no number": "NaN",
    "too large for a double": "1e400",
    "a part": "1.5",
    "negative": "-1",
    "large": "4294967295",
    "one of Slurm's": "4294967294",
    "64 bits": "9223372036854775807",
    "more than 64 bits": str(2**80),
    "many digits": "9" * 5_000,
    "true": "true",
    "null": "null",
    "nothing": '""',
    "digits": '"12"',
    "a list": "[7, []]",
    "a map": '{"a": {"b": 7}}',
    "deep": "[" * DEEP + "]" * DEEP,
    "deep map": '{"a":' * DEEP + "1" + "}" * DEEP,
    "set without a number": '{"set": true}',
    "set to too much": '{"set": true, "infinite": false, "number": 1e999}',
    "half a character": r'"\ud800"',
    "control characters": r'"\u0000\u001b[31m\u202e\n"',
    "long": f'"{"x" * 100_000}"',
    "a list cut off": '"n[1-"',
    "a range backwards": '"n[9-1],7-3%x"',
    "tasks of many digits": f'"{"9" * 5_000}"',
    "a dependency": f'"afterok:{"9" * 5_000}_{"9" * 5_000}"',
    "a deep comment": json.dumps('{"usage": ' + "[" * DEEP + "]" * DEEP + "}"),
    "an odd comment": json.dumps('{"estimate_s": 1e999, "demand": {"memory_mbs": NaN}}'),
    "no JSON": "tru",
}


VERSIONS = {"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.44"}


@cache
def recorded(kind: str, state: str, release: str) -> dict[str, Any]:
    """Return a record of a real Slurm that is in a state."""
    with gzip.open(OWN / f"easy-{release}.jsonl.gz", "rt") as stream:
        for row in map(json.loads, stream):
            for record in json.loads(row.get("text") or "{}").get(kind, ()):
                words = words_of(record.get("job_state")) or words_of(record.get("state"))
                if [word.upper() for word in words] == [state]:
                    assert isinstance(record, dict)
                    return record
    raise AssertionError(f"no {kind} {state}")


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield where a value, and each of those in it, stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (key,)
        yield from ((key, *rest) for rest in places(item))


def some_places(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the places of all fields, and some of those within: newer records have maps around most numbers."""
    within = [place for place in places(record) if len(place) > 1]
    return [*((key,) for key in record), *Random(len(within)).sample(within, min(100, len(within)))]


def with_mark(record: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    """Return a copy of a record with the mark in one place."""
    copy: Any = json.loads(json.dumps(record))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = MARK
    assert isinstance(copy, dict)
    return copy


WAITS, RUNS = {"job_id": 1, "name": "waits"}, {"job_id": 2, "name": "runs", "nodes": "n0", "partition": "co"}


class Odd:
    """A slurmrestd whose records have an odd value in one place each, once it is `odd`; two jobs and four nodes are sound."""

    def __init__(self, value: str, state: str, release: str) -> None:
        waiting = {**recorded("jobs", "PENDING", release), **PLAIN}
        base = {**recorded("jobs", state, release), **PLAIN, "nodes": "n5" if state == "RUNNING" else ""}
        node = {**recorded("nodes", "IDLE", release), "partitions": ["co"], "cores": 2, "sockets": 2, "threads": 1}
        self.sound = {
            "jobs": [{**waiting, **WAITS}, {**recorded("jobs", "RUNNING", release), **PLAIN, **RUNS}],
            "nodes": [{**node, "name": f"n{number}"} for number in range(4)],
        }
        named = {
            "jobs": [(place, {**base, "job_id": 100 + number}) for number, place in enumerate(some_places(base))],
            "nodes": [(place, {**node, "name": f"n{100 + number}"}) for number, place in enumerate(places(node))],
        }
        self.before = {kind: [record for _, record in rows] for kind, rows in named.items()}
        self.after = {kind: [with_mark(record, place) for place, record in rows] for kind, rows in named.items()}
        self.value = value
        self.odd = False
        self.changes: list[tuple[str, Any]] = []

    def call(self, method: str, target: str, body: Any = None) -> Reply:
        kind = target.rpartition("/")[2].partition("?")[0]
        if method != "GET":
            self.changes.append((target, body))
            return Reply(200, '{"errors": []}')
        if "/job/" in target:
            return Reply(404, '{"errors": [{"error": "Invalid job id specified"}], "jobs": []}')
        rows = (self.after if self.odd else self.before).get(kind, [])
        text = json.dumps({"errors": [], kind: [*rows, *self.sound.get(kind, [])]})
        return Reply(200, text.replace(f'"{MARK}"', self.value))


PLAIN = {"partition": "co", "array_job_id": 0, "required_nodes": "", "dependency": "", "features": "", "restart_cnt": 0,
         "node_count": 1, "max_nodes": 1, "tasks": 4, "cpus": 4, "time_limit": 5, "tasks_per_node": 0}  # fmt: skip


@pytest.mark.by_default(7)
@pytest.mark.parametrize("release", VERSIONS)
@pytest.mark.parametrize("odd_at_first", [False, True])
@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
@pytest.mark.parametrize("value", VALUES)
def test_an_odd_value_anywhere_in_a_record_costs_that_record_alone(
    value: str, state: str, odd_at_first: bool, release: str, tmp_path: Path
) -> None:
    slurm, said = Odd(VALUES[value], state, release), list[str]()
    slurm.odd = odd_at_first
    polls, log = Polls(Rest(slurm, VERSIONS[release])), Log("test", write=said.append)
    now_s = [2e9]
    clock = Clock(lambda: now_s[0])
    assert polls.poll(now_s[0])
    cluster = Cluster(polls, Site(partitions=("co",)), 1)
    store = Store(str(tmp_path / "store"))
    one = Enforcer(
        cluster, SlurmActuator(cluster, NoTools(), clock, log), store,
        lambda welcome: Watched(welcome, [], []), clock, log, record=list[Any]().append,
    )  # fmt: skip
    weakref.finalize(one, store.close)
    one.begin()
    slurm.odd = True
    for _ in range(3):
        now_s[0] += 1.0
        polls.rest.forget()
        assert one.turn()
    assert 2 in one.driver.books.ledger.running
    field = dialect_of(VERSIONS[release]).nodes
    assert any(target.endswith("job/1") and body[field] for target, body in slurm.changes), "\n".join(said)
    told = Counter(line.partition(" is not understood")[0] for line in said if " is not understood" in line)
    assert not [name for name, count in told.items() if count > 1]
    assert all(line.isprintable() and len(line) < 1_000 for line in said)


def answer(*rows: str) -> str:
    return f'{{"errors": [], "jobs": [{", ".join(rows)}]}}'


def row(job_id: int, **more: Any) -> str:
    return json.dumps({"job_id": job_id, "job_state": "PENDING", **more})


class Canned:
    """Gives the answers that it has, the last one for ever."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def call(self, method: str, target: str, body: object = None) -> Reply:
        return Reply(200, self.texts.pop(0) if len(self.texts) > 1 else self.texts[0])


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (row(5, tasks=2**80), "tasks: expected an integer in 0 .. 4294967295, got 1208925819614629174706176"),
        (row(5, tasks=True), "tasks: expected an integer in 0 .. 4294967295, got true"),
        (row(5, tasks="4"), 'tasks: expected an integer in 0 .. 4294967295, got "4"'),
        (row(5, time_limit=float("inf")), "time_limit: expected an integer in 0 .. 4294967295, got inf"),
        (row(5, name=7), "name: expected a string of at most 65536 bytes, got 7"),
        (row(5, name="\ud800"), "name: a string that has no form in UTF-8"),
        (row(5, job_state=[]), "job_state: expected a state, got a list"),
        ('{"job_id": 5}', "job_state: missing"),
        (row(5)[:-1] + f', "x": {"[" * 100_000}{"]" * 100_000}}}', "it is nested too deeply"),
        (row(5)[:-1] + f', "x": {"9" * 5_000}}}', "a number has too many digits"),
        (row(5)[:-1] + ', "x": nul}', "no JSON: Expecting value"),
        (
            row(5)[:-1] + ', "a]": "\\"}]", "job_id": 5, "tasks": -1}',
            "tasks: expected an integer in 0 .. 4294967295, got -1",
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_left_out_with_its_reason(odd: str, why: str) -> None:
    rest = Rest(Canned(answer(row(4), odd, row(6))))
    jobs = rest.jobs(0.0)
    assert jobs is not None
    assert [job.job_id for job in jobs] == [4, 6]
    ((name, told),) = rest.odd["jobs"].items()
    assert name == "the record of 5"
    assert told.startswith(why)


def test_a_job_on_nodes_counts_as_it_was_last_read_and_one_that_waits_does_not() -> None:
    good = answer(row(1, job_state="RUNNING", nodes="n1"), row(2))
    odd = answer(row(1, job_state="RUNNING", nodes="n1", tasks=-1), row(2, tasks=-1))
    deep = answer(row(1)[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}")
    rest = Rest(Canned(good, odd, deep, good), "v0.0.38")
    counts = []
    for now_s in range(4):
        rest.forget()
        jobs = rest.jobs(float(now_s))
        assert jobs is not None
        counts.append([(job.job_id, job.nodes) for job in jobs])
    assert counts == [[(1, ("n1",)), (2, ())], [(1, ("n1",))], [(1, ("n1",))], [(1, ("n1",)), (2, ())]]


@pytest.mark.parametrize(
    "text", [f"{'[' * 100_000}", answer(row(1))[:-1], answer(row(1), '{"job_id": 2, "x": nul'), '{"jobs": [}]}']
)
def test_an_answer_whose_records_cannot_be_told_apart_is_silence(text: str) -> None:
    with pytest.raises(Silent):
        Rest(Canned(text)).jobs(0.0)
    assert isinstance(Rest(Canned(text)).change("1", Change()), Unsettled)


def test_of_many_odd_records_some_are_named_and_the_others_counted() -> None:
    said: list[str] = []
    text = answer(*[row(number, tasks=-1) for number in range(1, 101)])
    polls = Polls(Rest(Canned(text[:-1] + ', "nodes": []}')))
    notices = Notices(Log(write=said.append))
    for now_s in range(3):
        polls.poll(float(now_s))
        notices.tell("odd-record", "{} is not understood: {}", polls.odd)
    assert len(said) == MOST_NEW + 1
    assert "80 more like this" in said[-1]


@pytest.mark.parametrize(
    "error", ['{"error": [[]], "error_number": []}', '{"error_number": 1e999}', "[[]]", r'"\ud800"', f'"{"x" * 9_999}"']
)
def test_an_odd_refusal_is_a_refusal(error: str) -> None:
    said = Rest(Canned(f'{{"errors": [{error}]}}')).change("1", Change())
    assert isinstance(said, str)
    assert len(said.encode()) < 1_000


# ---------------------------------------------------------------- the line


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
GOOD = HEAD + b"Content-Length: 2\r\n\r\n{}"


def drip(whole: bytes, pause_s: float = 0.02) -> Iterator[bytes]:
    for byte in whole:
        yield bytes([byte])
        time.sleep(pause_s)


def for_ever(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def after(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


@contextmanager
def served(path: Path, make: Callable[[], Iterator[bytes]]) -> Iterator[HttpTransport]:
    """Answer each request on a socket with such pieces, until the block ends; and hand out a transport to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(path))
        door.listen()
        transport = HttpTransport(str(path))
        calls = threading.Thread(target=_serve, args=(door, make))
        calls.start()
        try:
            yield transport
        finally:
            transport.close()
            door.shutdown(socket.SHUT_RDWR)
            calls.join()


def _serve(door: socket.socket, make: Callable[[], Iterator[bytes]]) -> None:
    while True:
        try:
            line, _ = door.accept()
        except OSError:
            return  # the door is closed
        with line, suppress(OSError):
            while True:
                asked = line.recv(65_536)
                while b"Content-Length" in asked and not asked.endswith(b"{}"):
                    asked += line.recv(65_536)
                if not asked:
                    break
                for piece in make():
                    line.sendall(piece)
                if piece == b"":
                    break  # the connection ends after this answer


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (lambda: drip(GOOD, 0.05), "did not end|timed out"),
        (lambda: drip(HEAD + b"Content-Length: 9999\r\n\r\n" + b"x" * 9_999), "did not end|timed out"),
        (lambda: after(CHUNKED, drip(b"1\r\nx\r\n" * 999)), "did not end|timed out"),
        (lambda: after(HEAD, drip(b"X-Pad: " + b"x" * 9_999)), "did not end|timed out"),
        (lambda: for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000), "did not end|longer than|interim"),
        (lambda: for_ever(b"x" * 65_536), "BadStatusLine|LineTooLong|line"),
        (lambda: after(CHUNKED, for_ever(b"10000\r\n" + b"x" * 65_536 + b"\r\n")), "longer than"),
        (lambda: after(CHUNKED + b"-1\r\n", for_ever(b"x" * 65_536)), "longer than|ValueError|did not end"),
        (lambda: after(HEAD, for_ever(b"X: y\r\n")), "headers|longer than"),
        (lambda: iter([HEAD + b"Content-Length: 1000000000\r\n\r\nx"]), "longer than"),
        (lambda: iter([HEAD + b"Content-Length: 99\r\n\r\nx", b""]), "IncompleteRead"),
        (lambda: iter([CHUNKED + b"5\r\nx", b""]), "IncompleteRead"),
        (lambda: iter([b""]), "RemoteDisconnected"),
    ],
)
def test_no_answer_holds_the_driver_beyond_its_time_and_size(
    pieces: Callable[[], Iterator[bytes]], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "WAIT_S", 1.0)
    monkeypatch.setattr(transport_module, "MOST_BYTES", 4 * 1024 * 1024)
    with served(tmp_path / "rest.sock", pieces) as transport:
        for method in ("GET", "POST"):
            begun = time.monotonic()
            reply = transport.call(method, "/slurm/v0.0.38/jobs", None if method == "GET" else {})
            assert (reply.status, reply.sent) == (0, True)
            assert re.search(why, reply.text), reply.text
            assert time.monotonic() - begun < 20.0  # the drip would last a minute or more


def test_a_connection_is_kept_and_a_question_is_asked_again_on_a_new_one(tmp_path: Path) -> None:
    odd = b"\xff\xfe{}"
    with served(tmp_path / "rest.sock", lambda: iter([GOOD])) as transport:
        assert [transport.call("GET", "/a") for _ in range(3)] == [Reply(200, "{}")] * 3
        connection = transport._connection
        assert connection is not None
        assert connection.sock is not None
        connection.sock.shutdown(socket.SHUT_RDWR)  # as after a restart of slurmrestd
        assert transport.call("GET", "/a") == Reply(200, "{}")
        connection = transport._connection
        assert connection is not None
        assert connection.sock is not None
        connection.sock.shutdown(socket.SHUT_RDWR)
        assert transport.call("POST", "/a", {}).status == 0  # it may have been carried out
    head = HEAD + f"Content-Length: {len(odd)}\r\n\r\n".encode()
    with served(tmp_path / "odd.sock", lambda: iter([head + odd])) as transport:
        assert transport.call("GET", "/a") == Reply(200, "\ufffd\ufffd{}")
