"""Who the driver is for slurmrestd: a token is read anew when it is refused, and is seen nowhere; and slurmrestd over TCP."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.plugin.slurm.test_actuator import FINE

from cosched_plugin.common.errors import UsageError
from cosched_plugin.site.poll_loop import Silent
from cosched_plugin.slurm import adapter
from cosched_plugin.slurm.adapter import rest_of, token_of
from cosched_plugin.slurm.dialect import Change
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.transport import HttpTransport, Token, file_token

EXPIRED = '{"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}'
JOBS = '{"errors": [], "jobs": []}'
Answer = Callable[[str, str, str], tuple[int, str]]


def token(user: str, number: int = 0) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"sun": user, "n": number}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{claims}.c2ln-_{number}"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@contextmanager
def slurmrestd(answer: Answer) -> Iterator[tuple[str, int]]:
    """Answer requests over TCP by method, path and token, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text = answer(self.command, self.path, self.headers.get("X-SLURM-USER-TOKEN") or "")
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [401, 511])
def test_an_expired_token_is_read_again_and_the_question_asked_once_more(status: int, tmp_path: Path) -> None:
    file = tmp_path / "token"
    old, new = token("root", 1), token("root", 2)
    write(file, old)
    asked: list[tuple[str, str]] = []

    def answer(method: str, _: str, shown: str) -> tuple[int, str]:
        asked.append((method, shown))
        write(file, new)  # by a timer of the site, say
        return (200, JOBS if method == "GET" else FINE) if shown == new else (status, EXPIRED)

    with slurmrestd(answer) as address:
        transport = HttpTransport(address, file_token(str(file)))
        assert Rest(transport, "v0.0.38").jobs(1e9) == []
        assert asked == [("GET", old), ("GET", new)]
        write(file, old)
        assert transport.token is not None
        transport.token.renew()
        asked.clear()
        assert Rest(transport, "v0.0.38").change("1", Change()) is None  # nothing was done for the old one
        assert asked == [("POST", old), ("POST", new)]
        transport.close()


@pytest.mark.parametrize("status", [401, 511])
def test_a_token_that_stays_refused_is_silence_for_reads_and_a_refusal_of_changes(status: int, tmp_path: Path) -> None:
    """Also where each refusal meets another token: one more question for each, and no loop."""
    count = 0

    def next_token() -> str:
        nonlocal count
        count += 1
        return token("root", count)

    asked: list[str] = []

    def answer(_: str, __: str, shown: str) -> tuple[int, str]:
        asked.append(shown)
        return status, EXPIRED.replace("Protocol", f"Protocol of {shown}")  # which must not reach the log

    with slurmrestd(answer) as address:
        for one, times in (
            (Token(next_token, "--jwt-file T"), 2),
            (file_token(write(tmp_path / "t", token("root"))), 1),
            (None, 1),
        ):
            asked.clear()
            transport = HttpTransport(address, one)
            rest = Rest(transport, "v0.0.38")
            with pytest.raises(Silent, match=rf"jobs: status {status}: .*--jwt-file") as told:
                rest.jobs(1e9)
            said = rest.change("1", Change())
            assert isinstance(said, str)
            assert "Protocol of" in said
            assert len(asked) == 2 * times
            assert not re.search("eyJ", said + str(told.value))
            with pytest.raises(
                Silent, match=r"no answer to any of .*: status"
            ):  # one question, not one for each version
                Polls(Rest(transport)).connect(float("inf"))
            assert len(asked) == 3 * times
            transport.close()


def test_a_ping_proves_nothing() -> None:
    """slurmrestd answers it itself, whatever the token."""

    def answer(_: str, path: str, __: str) -> tuple[int, str]:
        return (200, '{"errors": []}') if path.endswith("/ping") else (511, EXPIRED)

    with slurmrestd(answer) as address:
        transport = HttpTransport(address, Token(lambda: token("root"), "--fetch-jwt"))
        with pytest.raises(Silent, match="the token of --fetch-jwt is not accepted"):
            Polls(Rest(transport)).connect(float("inf"))
        transport.close()


def test_what_scontrol_prints_is_a_token_and_names_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = file_token(write(tmp_path / "t", f"SLURM_JWT={token('ann')}\n"))
    assert (one.value, one.user) == (token("ann"), "ann")
    for claims in ("e30", "W10", "bnVs", "____", base64.urlsafe_b64encode(b'{"sun": 7}').decode().rstrip("=")):
        assert Token(f"a.{claims}.b".strip, "T").user == ""
    config = "SlurmUser               = slurm(64030)\n"
    monkeypatch.setattr(adapter, "run_command", lambda *_, **__: SimpleNamespace(returncode=0, stdout=config))
    assert "user ann: Slurm refuses its changes unless" in adapter._ordinary("ann")
    assert adapter._ordinary("slurm") == adapter._ordinary("root") == adapter._ordinary("") == ""


@pytest.mark.parametrize(
    "text", ["", "x", "a.b", "a.b.c.d", "a.b.c\r\nX-Other: y", "a.b.\u00e9", f"a.{'b' * 99_999}.c", "a.b.c d", "\0.b.c"]
)
def test_what_is_no_token_is_refused_without_being_shown(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--jwt-file \S*/t: expected a token, as `scontrol token` prints it$"):
        file_token(write(tmp_path / "t", text))


def test_a_token_file_is_a_secret(tmp_path: Path) -> None:
    path = write(tmp_path / "t", token("root"))
    one = file_token(path)
    os.chmod(path, 0o640)
    with pytest.raises(UsageError, match="expected a file with a token, got one that others may read"):
        file_token(path)
    assert not one.renew()
    assert one.problem.endswith("others may read")
    assert one.value == token("root")
    (tmp_path / "link").symlink_to(path)
    for other, why in (("link", "a link"), ("none", "No such file"), (".", "something that is no file|directory")):
        with pytest.raises(UsageError, match=why):
            file_token(str(tmp_path / other))
    with pytest.raises(UsageError, match="got both"):
        token_of(path, fetches=True)


@pytest.mark.parametrize("address", ["http://127.0.0.1:6820", "http://[::1]:6820/", "http://login1", "unix:/run/x"])
def test_where_slurmrestd_may_be(address: str) -> None:
    assert rest_of(address).version == ""


@pytest.mark.parametrize(
    "address", ["/run/x", "unix:", "http:", "http://", "https://a:1", "http://a:b", "http://a:99999", "http://u:p@a:1", "http://a/b", "http://a?b"]
)  # fmt: skip
def test_where_it_cannot_be(address: str) -> None:
    with pytest.raises(UsageError, match=r"expected unix:PATH or http://HOST:PORT"):
        rest_of(address)


def test_a_host_that_is_not_there_is_silence() -> None:
    with slurmrestd(lambda *_: (200, JOBS)) as (host, port):
        pass
    rest = Rest(HttpTransport((host, port)), "v0.0.44")
    with pytest.raises(Silent, match="ConnectionRefusedError"):
        rest.jobs(1e9)
    assert isinstance(rest.change("1", Change()), str)  # it was not sent


@pytest.mark.parametrize(
    ("wanted", "kept_by", "partitions", "used"),
    [
        (None, "accounting_storage/none", ("tick",), "tick"),
        (None, "(null)", (), None),
        (None, "accounting_storage/slurmdbd", ("tick",), None),  # their records would fill the accounts
        ("wake", "accounting_storage/slurmdbd", ("tick", "wake"), "wake"),  # as is asked for
        ("wake", "accounting_storage/none", ("tick",), None),
    ],
)
def test_jobs_that_wake_slurm_stay_out_of_accounts(
    wanted: str | None, kept_by: str, partitions: tuple[str, ...], used: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(*words: str) -> str:
        if words == ("config",):
            return f"AccountingStorageType   = {kept_by}\n"
        return f"PartitionName={words[1]} AllowGroups=ALL" if words[1] in partitions else ""

    monkeypatch.setattr(adapter, "_show", show)
    assert adapter._tick_partition(wanted) == used
