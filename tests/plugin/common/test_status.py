"""The status of a process: counters and percentiles, Prometheus' text format, the answering thread and the page of metrics."""

from __future__ import annotations

import math
import os
import random
import re
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.processes import killed_at_the_end, start_python

from cosched_plugin.common.errors import ProtocolError, UsageError
from cosched_plugin.common.page_server import CONTENT_TYPE, PageServer
from cosched_plugin.common.status import LATENCIES, Gauge, Status, Value, status_lines
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.status_server import MAGIC, MAX_QUESTION_BYTES, StatusServer, ask_status

# The text format as its documentation describes it: a name, labels in braces with escaped values, a number.
SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"(?:\{(?P<labels>[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\n]|\\[\\\"n])*\"(?:,[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\n]|\\[\\\"n])*\")*)\})?"
    r" (?P<value>NaN|[+-]Inf|-?\d+(?:\.\d+)?(?:e[+-]\d+)?)"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="status-", dir="/tmp") as name:  # short enough for a socket
        yield Path(name)


# ---------------------------------------------------------------- counters


def test_percentiles_are_those_of_the_last_thousand() -> None:
    status = Status(clock=lambda: 0.0)
    assert status.latencies_s() == {"p50": None, "p90": None, "p99": None, "max": None}
    draws = random.Random(5)
    told: list[float] = []
    for count in range(1, 2_600):
        told.append(draws.random())
        status.count_answer(told[-1])
        if count not in (1, 2, 3, 99, 100, 999, 1_000, 1_001, 2_599):
            continue
        last = sorted(told[-LATENCIES:])

        def least(share: float, of: list[float] = last) -> float:
            """Return the least latency that this share of values does not exceed."""
            return next(each for each in of if sum(other <= each for other in of) >= share * len(of))

        assert status.latencies_s() == {"p50": least(0.5), "p90": least(0.9), "p99": least(0.99), "max": last[-1]}
    assert status.batches == 2_599


def test_as_dict_has_the_fields_and_the_counters() -> None:
    now_s = 100.0
    status = Status(lambda: {"state": "served", "seq": 7}, clock=lambda: now_s)
    now_s = 112.5
    status.count_answer(0.25)
    status.refused += 2
    status.resyncs += 1
    status.errors += 3
    told = status.as_dict()
    assert told.pop("resident_bytes") > 2**20
    assert told == {
        "state": "served", "seq": 7, "uptime_s": 12.5, "batches": 1, "refused": 2, "resyncs": 1, "errors": 3,
        "latency_s": {"p50": 0.25, "p90": 0.25, "p99": 0.25, "max": 0.25},
    }  # fmt: skip
    lines = status_lines(
        {**told, "resident_bytes": 3 * 2**20, "now_us": 1_500_000, "served": True, "new\x1b" + "_long" * 5: None}
    )
    assert [line.split() for line in lines[:2]] == [["FIELD", "VALUE"], ["state", "served"]]
    assert re.search(r"^latency p99  +250.000 ms$", "\n".join(lines), re.MULTILINE)
    assert [line.split()[1] for line in lines[-4:-1]] == ["3.0", "1.500000", "yes"]
    assert lines[-1] == "new\\u001b long long long long long  -"


def test_counters_can_be_read_while_they_change() -> None:
    status = Status()
    done = threading.Event()
    troubles: list[BaseException] = []

    def read() -> None:
        while not done.is_set():
            try:
                latencies_s = status.latencies_s()
                values = [each for each in latencies_s.values() if each is not None]
                assert values == sorted(values)
                assert set(values) <= {0.0, 1.0, 2.0, 3.0}
            except BaseException as error:
                troubles.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(50_000):
        status.count_answer(float(number % 4))
    done.set()
    for reader in readers:
        reader.join(10)
    assert troubles == []


# ---------------------------------------------------------------- Prometheus


def parsed(page: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples by name; AssertionError for what the text format does not allow."""
    assert page.endswith("\n")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    kinds: dict[str, str] = {}
    current = ""
    for line in page.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in kinds, "one HELP for each"
            assert re.fullmatch(r"(?:[^\\]|\\[\\n])*", line)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current
            assert kind in ("counter", "gauge", "summary")
            kinds[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            name = match["name"]
            assert name in (
                (current, f"{current}_sum", f"{current}_count") if kinds[current] == "summary" else (current,)
            )
            labels = re.findall(r'([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"', match["labels"] or "")
            assert kinds[current] != "counter" or name.endswith("_total")
            found.setdefault(name, []).append((dict(labels), float(match["value"])))
    assert set(kinds) == {name for name in found if not name.endswith(("_sum", "_count"))}
    return found


def test_the_page_has_prometheus_text_format() -> None:
    fields: dict[str, Value] = {"state": 'a "b"\\\n', "seq": 7, "unknown": None, "flag": True, "other": 3}
    gauges = {
        "seq": Gauge("batch_number", "Back\\slash and\nnew line."), "flag": Gauge("flag", "Yes or no."),
        "unknown": Gauge("unknown", "Not known."),
    }  # fmt: skip
    status = Status(lambda: fields, gauges)
    empty = parsed(status.prometheus("cosched_plugin"))
    assert all(math.isnan(value) for _, value in empty["cosched_plugin_decision_seconds"])
    for latency_s in (0.5, 1e-7, 2.0):
        status.count_answer(latency_s)
    status.refused = 4
    page = status.prometheus("cosched_plugin", {"site": "x"})
    assert (
        "# HELP cosched_plugin_batch_number Back\\\\slash and\\nnew line.\n# TYPE cosched_plugin_batch_number gauge\n"
        in page
    )
    found = parsed(page)
    assert all(labels["site"] == "x" for samples in found.values() for labels, _ in samples)
    assert found["cosched_plugin_info"] == [({"site": "x", "state": 'a \\"b\\"\\\\\\n'}, 1)]
    assert found["cosched_plugin_batches_total"][0][1] == 3
    assert found["cosched_plugin_refused_actions_total"][0][1] == 4
    assert found["cosched_plugin_decision_seconds"] == [
        ({"site": "x", "quantile": "0.5"}, 0.5), ({"site": "x", "quantile": "0.9"}, 2.0), ({"site": "x", "quantile": "0.99"}, 2.0),
    ]  # fmt: skip
    assert found["cosched_plugin_decision_seconds_sum"][0][1] == pytest.approx(2.5000001)
    assert found["cosched_plugin_decision_seconds_count"][0][1] == 3
    assert found["cosched_plugin_decision_max_seconds"][0][1] == 2.0
    assert found["cosched_plugin_batch_number"][0][1] == 7
    assert found["cosched_plugin_flag"][0][1] == 1
    assert math.isnan(found["cosched_plugin_unknown"][0][1])
    assert "cosched_plugin_other" not in found


def test_fields_within_fields_are_samples_with_labels_and_microseconds_are_seconds() -> None:
    pools = {"a": {"all": 4, "parts": {"x": {"used": 1}, "y": {"used": 2}}}, 'b"': {"all": 5, "parts": {}}}
    gauges = {
        "pools.*.all": Gauge("pool_size", "", ("pool",)),
        "pools.*.parts.*.used": Gauge("pool_used", "", ("pool", "part")),
        "others.*.all": Gauge("others", "Not there: no metric.", ("other",)),
        "late_us": Gauge("late_seconds", ""),
        "never_us": Gauge("never_seconds", ""),
    }
    found = parsed(Status(lambda: {"pools": pools, "late_us": 1_500_000, "never_us": None}, gauges).prometheus("x"))
    assert found["x_pool_size"] == [({"pool": "a"}, 4), ({"pool": 'b\\"'}, 5)]
    assert found["x_pool_used"] == [({"pool": "a", "part": "x"}, 1), ({"pool": "a", "part": "y"}, 2)]
    assert found["x_late_seconds"] == [({}, 1.5)]
    assert math.isnan(found["x_never_seconds"][0][1])
    assert "x_others" not in found


def test_infinities_are_written_by_name() -> None:
    status = Status(lambda: {"a": math.inf, "b": -math.inf}, {"a": Gauge("a", ""), "b": Gauge("b", "")})
    found = parsed(status.prometheus("x"))
    assert (found["x_a"][0][1], found["x_b"][0][1]) == (math.inf, -math.inf)


@pytest.mark.parametrize(("prefix", "label"), [("9x", "a"), ("x-y", "a"), ("x", "a-b"), ("x", ""), ("x y", "a")])
def test_invalid_metric_names_are_refused(prefix: str, label: str) -> None:
    with pytest.raises(ValueError, match="expected letters, digits and underscores"):
        Status().prometheus(prefix, {label: "v"})


# ---------------------------------------------------------------- the answering thread


def test_a_status_socket_is_for_its_owner_only(folder: Path) -> None:
    status = Status(lambda: {"state": "served"})
    before = os.umask(0)
    try:
        server = StatusServer(f"ipc://{folder}/status", status.as_dict)
    finally:
        assert os.umask(before) == 0  # left as it was
    try:
        assert (folder / "status").stat().st_mode & 0o777 == 0o600
        for count in range(1, 6):
            status.count_answer(0.001)
            assert ask_status(server.endpoint, 5)["batches"] == count
        with pytest.raises(UsageError, match="expected a path where no other process listens"):
            StatusServer(server.endpoint, status.as_dict)
        assert ask_status(server.endpoint, 5)["state"] == "served"  # it still serves the first one
    finally:
        server.close()
        server.close()
    again = StatusServer(
        f"ipc://{folder}/status", lambda: {"state": "new"}
    )  # a file that is left there does not matter
    assert ask_status(again.endpoint, 5) == {"state": "new"}
    again.close()


def test_status_over_tcp_on_loopback() -> None:
    for host in ("127.0.0.1", "[::1]"):
        try:
            server = StatusServer(f"tcp://{host}:*", lambda: {"a": 1})
        except UsageError:
            assert host == "[::1]"  # a machine without IPv6
            continue
        assert ask_status(server.endpoint, 5) == {"a": 1}
        server.close()


@pytest.mark.parametrize(
    ("endpoint", "match"),
    [
        ("tcp://192.0.2.1:5", "not a loopback address"),
        ("tcp://*:5", "not a loopback address"),
        ("ipc://@cosched", "abstract"),
        ("inproc://x", "expected ipc"),
        ("ipc:///proc/nothing/here", "expected one to listen at"),
        ("ipc:///dev/null", "something else"),
    ],
)
def test_endpoints_where_no_status_may_be_served_are_refused(endpoint: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        StatusServer(endpoint, dict)


def test_invalid_requests_get_an_error_or_no_answer(folder: Path) -> None:
    draws = random.Random(7)
    calls = 0

    def snapshot() -> Mapping[str, Any]:
        nonlocal calls
        calls += 1
        return {"calls": calls}

    server = StatusServer(f"ipc://{folder}/status", snapshot)
    question = pack({"type": "status"})
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        stranger.rcvtimeo = 5_000
        stranger.connect(server.endpoint)
        for frames in (
            [MAGIC, b"\xc1"],
            [MAGIC, b""],
            [MAGIC, pack({})],
            [MAGIC, pack({"type": "stop"})],
            [MAGIC, b"\x01"],
        ):
            stranger.send_multipart(frames)
            magic, body = stranger.recv_multipart()
            answer = unpack(body, 1_000)
            assert (magic, answer["type"]) == (MAGIC, "error")
            assert answer["text"]
        for _ in range(300):
            mutated = bytearray(question)
            for _ in range(draws.randrange(1, 4)):
                mutated[draws.randrange(len(mutated))] = draws.randrange(256)
            for frames in (
                [draws.randbytes(draws.randrange(40))],
                [MAGIC, bytes(mutated)],
                [MAGIC] * 5,
                [b"cosched/1", question],
            ):
                try:
                    stranger.send_multipart(frames, zmq.NOBLOCK)
                except zmq.Again:  # it limits the rate of questions
                    time.sleep(0.01)
        assert ask_status(server.endpoint, 10)["calls"] >= 1
        stranger.send_multipart([MAGIC, bytes(MAX_QUESTION_BYTES + 1)])  # cuts the connection
        assert ask_status(server.endpoint, 10)["calls"] >= 2
    server.close()


def test_a_failing_snapshot_is_reported_and_survived(folder: Path) -> None:
    bad: list[Any] = [RuntimeError("secret"), {"a": object()}, {"a": 2**70}, {"fine": 1}]

    def snapshot() -> Mapping[str, Any]:
        told = bad.pop(0)
        if isinstance(told, Exception):
            raise told
        assert isinstance(told, dict)
        return told

    server = StatusServer(f"ipc://{folder}/status", snapshot)
    for name in ("RuntimeError", "TypeError", "OverflowError"):
        with pytest.raises(ProtocolError, match=f"no status available: {name}$"):
            ask_status(server.endpoint, 5)
    assert ask_status(server.endpoint, 5) == {"fine": 1}
    server.close()


@pytest.mark.parametrize(
    ("frames", "match"),
    [
        ([b"rubbish"], "expected an answer of 2 frames"),
        ([MAGIC, b"\xc1"], "not acceptable as msgpack"),
        ([MAGIC, b"\x01"], "expected a status"),
        ([MAGIC, pack({"type": "error", "text": 5})], "expected a status"),
    ],
)
def test_an_invalid_answer_is_an_error(frames: list[bytes], match: str, folder: Path) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 500
        router.rcvtimeo = 5_000
        router.bind(f"ipc://{folder}/status")
        answering = threading.Thread(target=lambda: router.send_multipart([router.recv_multipart()[0], *frames]))
        answering.start()
        with pytest.raises(ProtocolError, match=match):
            ask_status(f"ipc://{folder}/status", 5)
        answering.join(5)


def test_a_query_of_a_frozen_process_times_out(folder: Path) -> None:
    code = (
        "import sys, time; from cosched_plugin.status_server import StatusServer\n"
        "StatusServer(sys.argv[1], lambda: {'a': 1}); print('there', flush=True); time.sleep(60)"
    )
    endpoint = f"ipc://{folder}/status"
    with killed_at_the_end() as children:
        process = start_python("-c", code, endpoint)
        children.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        assert ask_status(endpoint, 5) == {"a": 1}
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(ProtocolError, match=r"no answer within 0\.5 s"):
            ask_status(endpoint, 0.5)
        assert time.monotonic() - began < 10


# ---------------------------------------------------------------- metrics


def http(address: str, request: bytes, timeout_s: float = 5) -> tuple[bytes, bytes]:
    """Return the head and the body of the answer to a request."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


@pytest.fixture
def metrics() -> Iterator[PageServer]:
    status = Status(lambda: {"state": "served"})
    server = PageServer("127.0.0.1:0", lambda: status.prometheus("cosched_plugin"))
    yield server
    server.close()


def test_only_the_metrics_page_is_served(metrics: PageServer) -> None:
    head, body = http(metrics.address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    assert f"Content-Type: {CONTENT_TYPE}".encode() in head
    assert parsed(body.decode())["cosched_plugin_info"] == [({"state": "served"}, 1)]
    head, body = http(metrics.address, b"HEAD /metrics HTTP/1.0\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    assert f"Content-Type: {CONTENT_TYPE}".encode() in head
    assert body == b""
    for path in (b"/", b"/metrics/", b"/etc/passwd", b"/../metrics"):
        assert http(metrics.address, b"GET " + path + b" HTTP/1.0\r\n\r\n")[0].startswith(b"HTTP/1.0 404 ")
    for method in (b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"):
        head, body = http(metrics.address, method + b" /metrics HTTP/1.0\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 405 ")
        assert b"Allow: GET, HEAD" in head
        assert body == b""


def test_bad_and_slow_requests_delay_no_other(metrics: PageServer) -> None:
    draws = random.Random(3)
    for _ in range(50):
        try:
            http(metrics.address, draws.randbytes(draws.randrange(1, 300)).replace(b"\n", b"") + b"\r\n\r\n")
        except ConnectionError:
            continue  # disconnected before all was read
    assert http(metrics.address, b"GET /" + b"x" * 70_000 + b" HTTP/1.0\r\n\r\n")[0].startswith(b"HTTP/1.0 414 ")
    host, _, port = metrics.address.rpartition(":")
    began = time.monotonic()
    with (
        socket.create_connection((host, int(port)), 5) as silent,
        socket.create_connection((host, int(port)), 5) as slow,
    ):
        silent.sendall(b"GET /met")
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.1):
                try:
                    slow.sendall(b"x")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            head, _ = http(metrics.address, b"GET /metrics HTTP/1.0\r\n\r\n", timeout_s=10)
        finally:
            stop.set()
            dripping.join(5)
    assert head.startswith(b"HTTP/1.0 200 ")
    assert time.monotonic() - began < 5


def test_a_hundred_slow_connections_keep_nobody_out(metrics: PageServer) -> None:
    """Served one by one, each took its second: a scrape waited longer than Prometheus does."""
    host, _, port = metrics.address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection((host, int(port)), 5)).sendall(b"GET /met")
        head, _ = http(metrics.address, b"GET /metrics HTTP/1.0\r\n\r\n", timeout_s=10)
    assert head.startswith(b"HTTP/1.0 200 ")


def test_a_failing_page_is_a_server_error() -> None:
    pages = ["fine\n"]
    server = PageServer("localhost:0", pages.pop)
    assert http(server.address, b"GET /metrics HTTP/1.0\r\n\r\n")[1] == b"fine\n"
    assert http(server.address, b"GET /metrics HTTP/1.0\r\n\r\n")[0].startswith(b"HTTP/1.0 500 ")
    with pytest.raises(UsageError, match="cannot listen there"):
        PageServer(server.address, pages.pop)
    server.close()


@pytest.mark.parametrize(
    "address", ["0.0.0.0:1", "192.0.2.1:1", "example.org:80", "127.0.0.1", "127.0.0.1:x", ":80", " "]
)
def test_addresses_where_no_metrics_may_be_served_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match=re.escape(address)):
        PageServer(address, str)
