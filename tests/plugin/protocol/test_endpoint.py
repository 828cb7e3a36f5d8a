"""Endpoints: which are valid without keys, with keys, and for users."""

from __future__ import annotations

import pytest

from cosched_plugin.protocol.endpoint import takes_keys, why_not, why_not_for_users


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://127.0.0.1:5555",
        "tcp://127.9.9.9:1",
        "tcp://[::1]:1",
        "tcp://localhost:*",
        "ipc:///tmp/x",
        "ipc://x",
        "ipc://@x",
    ],
)
def test_local_endpoints_need_no_keys(endpoint: str) -> None:
    assert why_not(endpoint) is None
    assert why_not(endpoint, secured=True) is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://10.0.0.4:5555",
        "tcp://*:5555",
        "tcp://0.0.0.0:5555",
        "tcp://[::]:5555",
        "tcp://[2001:db8::7]:5555",
        "tcp://[fe80::1%eth0]:5555",
        "tcp://node-17.example.org:*",
        "tcp://n1:0",
    ],
)
def test_endpoints_beyond_the_machine_need_keys(endpoint: str) -> None:
    reason = why_not(endpoint)
    assert reason is not None
    assert "not a loopback address" in reason
    assert why_not(endpoint, secured=True) is None
    assert why_not_for_users(endpoint, secured=True) is None


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("tcp://127.0.0.1", "port number"),
        ("tcp://127.0.0.1:", "port number"),
        ("tcp://127.0.0.1:http", "port number"),
        ("tcp://127.0.0.1:99999", "port number"),
        ("tcp://127.0.0.1:-1", "port number"),
        ("tcp://127.0.0.1:\u0663", "port number"),
        ("tcp://:5555", "no host"),
        ("tcp://::1:5555", "no host"),
        ("tcp://[::1:5555", "no host"),
        ("tcp://[127.0.0.1]:5555", "no host"),
        ("tcp://[localhost]:5555", "no host"),
        ("tcp://127.0.0.256:5555", "no host"),
        ("tcp://127.1:5555", "no host"),
        ("tcp://two words:5555", "no host"),
        ("tcp://-name:5555", "no host"),
        ("tcp://name\n:5555", "no host"),
        ("tcp://127.0.0.1:1;8.8.8.8:53", "no host"),  # ZeroMQ's source;destination
        ("inproc://x", "expected ipc"),
        ("pgm://x:1", "expected ipc"),
        ("127.0.0.1:5555", "expected ipc"),
        ("", "expected ipc"),
        ("ipc://", "path"),
        ("ipc:///" + "x" * 107, "107 bytes"),
        ("ipc:///tmp/\udcff", "printable"),  # a name that is not UTF-8: a client waited for ever
        ("ipc:///tmp/a\0b", "printable"),
    ],
)
@pytest.mark.parametrize("secured", [False, True])
def test_malformed_endpoints_are_refused(endpoint: str, reason: str, secured: bool) -> None:
    assert reason in (why_not(endpoint, secured=secured) or "")
    assert reason in (why_not_for_users(endpoint, secured=secured) or "")


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5555", "tcp://[::1]:1", "tcp://localhost:*"])
def test_users_need_an_endpoint_that_identifies_them(endpoint: str) -> None:
    assert "does not tell which user" in (why_not_for_users(endpoint) or "")
    assert why_not_for_users(endpoint, secured=True) is None
    assert why_not_for_users("ipc:///run/cosched/users") is None


def test_only_tcp_takes_keys() -> None:
    assert takes_keys("tcp://127.0.0.1:5555")
    assert not takes_keys("ipc:///run/cosched/users")
