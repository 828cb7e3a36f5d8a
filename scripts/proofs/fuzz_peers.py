"""Peers that send damaged messages to real processes; each is a process of its own that reports its progress.

``python -m scripts.proofs.fuzz_peers KIND ADDRESS MESSAGES SEED [MANAGER_KEY OWN_KEY...]``; KIND is an endpoint, or
``hostile``: a scheduler that greets correctly and then sends invalid answers. Lines on standard output are numbers of messages
sent; the last is JSON.
"""

from __future__ import annotations

import json
import socket as plain
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import zmq
from scripts.proofs.fuzz_messages import Fuzz, of_scheduler, pack

from cosched_hwmodel.draws import key
from cosched_plugin.common.curve import secure_client
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAGIC

SOCKETS: Final = 8
TURNOVER: Final = 500  # messages after which one of the connections is closed, and a new one opened
RAW_EVERY: Final = 2_000  # messages between two connections without ZeroMQ's protocol
BLOCKED_S: Final = 20.0  # a peer that accepts nothing for this time hangs
GREETING_S: Final = 10.0
QUIET_S: Final = 0.2  # after this silence, a hostile scheduler continues without a batch
BURST: Final = 40  # messages of a hostile scheduler in one conversation
TOLD_EVERY_S: Final = 0.2


class Peers:
    """Connections to one endpoint; some of them never read."""

    def __init__(self, address: str, keys: Sequence[str]) -> None:
        """``keys``: the manager's public key, and the secret keys that the peers use in turn; empty without keys."""
        self._address = address
        self._keys = keys
        self._context = zmq.Context()
        self._sockets = [self._dial(place) for place in range(SOCKETS)]
        self._told_s = 0.0
        self.found: Counter[str] = Counter()

    def send(self, number: int, frames: list[bytes]) -> None:
        """Send message ``number``; TimeoutError when the other end hangs."""
        place = number % SOCKETS
        sender = self._sockets[place]
        deadline = time.monotonic() + BLOCKED_S
        while True:
            if place:  # the first never reads
                self._read(sender)
            try:
                sender.send_multipart(frames, zmq.NOBLOCK)
                break
            except zmq.Again:
                if not place:  # a full queue is normal for the connection that never reads
                    self.found["not taken"] += 1
                    break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._address} has taken nothing for {BLOCKED_S:g} s")
            sender.poll(10, zmq.POLLOUT | zmq.POLLIN)
        if number % TURNOVER == TURNOVER - 1:
            gone = (number // TURNOVER) % SOCKETS
            self._sockets[gone].close()
            self._sockets[gone] = self._dial(gone)
        if number % RAW_EVERY == RAW_EVERY - 1:
            self._raw(frames)
        if time.monotonic() - self._told_s > TOLD_EVERY_S:
            self._told_s = time.monotonic()
            print(number, flush=True)

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self._context.term()

    def _dial(self, place: int) -> zmq.Socket[bytes]:
        dialled = self._context.socket(zmq.DEALER)
        dialled.linger = 200
        dialled.sndhwm = dialled.rcvhwm = 100
        if self._keys:
            manager, *own = self._keys
            secure_client(dialled, own[place % len(own)], manager)
        dialled.connect(self._address)
        return dialled

    def _read(self, sender: zmq.Socket[bytes]) -> None:
        try:
            while True:
                sender.recv_multipart(zmq.NOBLOCK)
                self.found["answers"] += 1
        except zmq.Again:
            return

    def _raw(self, frames: list[bytes]) -> None:
        """Connect without ZeroMQ, send bytes, and hang up."""
        scheme, _, rest = self._address.partition("://")
        family = plain.AF_UNIX if scheme == "ipc" else plain.AF_INET
        host, _, port = rest.rpartition(":")
        with plain.socket(family, plain.SOCK_STREAM) as raw:
            raw.settimeout(1.0)
            try:
                raw.connect(rest if scheme == "ipc" else (host, int(port)))
                raw.sendall(b"".join(frames) or b"\xff")
            except OSError:
                self.found["raw connections refused"] += 1


def strangers(kind: str, address: str, count: int, seed: int, keys: Sequence[str]) -> Counter[str]:
    """Send damaged messages from many connections."""
    fuzz = Fuzz(kind, seed)
    peers = Peers(address, keys)
    for number in range(count):
        peers.send(number, fuzz.frames(number))
    peers.close()
    return peers.found


class Hostile:
    """A scheduler that repeatedly greets correctly, and then sends invalid answers."""

    def __init__(self, address: str, seed: int) -> None:
        self._address = address
        self._seed = seed
        self._fuzz, self._answers = of_scheduler(seed)
        self._context = zmq.Context()
        self.found: Counter[str] = Counter()
        self.sent = 0

    def go(self, count: int) -> None:
        told_s = 0.0
        while self.sent < count:
            self._converse(min(BURST, count - self.sent))
            if time.monotonic() - told_s > TOLD_EVERY_S:
                told_s = time.monotonic()
                print(self.sent, flush=True)
        self._context.term()

    def _converse(self, most: int) -> None:
        with self._context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.connect(self._address)
            welcome = self._greet(dealer)
            dealer.send_multipart(encode(m.Ready(welcome.seq, welcome.greeting)))
            self.found["conversations"] += 1
            batch: m.Events | None = None
            sent = 0
            while sent < most:
                if dealer.poll(round(QUIET_S * 1000) if batch is None else 0):
                    message = decode(dealer.recv_multipart())
                    if isinstance(message, m.ErrorReport):
                        self.found[f"told {message.code}"] += 1
                        sent += self._storm(dealer, most - sent)
                        return
                    batch = message if isinstance(message, m.Events) else batch
                jobs = [job.spec.id for job in welcome.running] + [job.spec.id for job in welcome.pending]
                frames = self._answer(batch, jobs)
                batch = None
                dealer.send_multipart(frames)
                sent += 1
                self.sent += 1

    def _storm(self, dealer: zmq.Socket[bytes], most: int) -> int:
        """Continue to send messages after a dismissal."""
        for _ in range(most):
            dealer.send_multipart(self._fuzz.frames(self.sent))
            self.sent += 1
        return most

    def _greet(self, dealer: zmq.Socket[bytes]) -> m.Welcome:
        deadline = time.monotonic() + GREETING_S
        greeting = 0
        while time.monotonic() < deadline:
            greeting += 1
            dealer.send_multipart(encode(m.Hello((1,), m.FEATURES, f"hostile-{self.sent}", "hostile", False, greeting)))
            if dealer.poll(500):
                message = decode(dealer.recv_multipart())
                if isinstance(message, m.Welcome):
                    return message
                time.sleep(0.05)  # the manager still has the preceding conversation
        raise TimeoutError(f"no welcome within {GREETING_S:g} s")

    def _answer(self, batch: m.Events | None, jobs: list[int]) -> list[bytes]:
        """Return a well-formed answer to a batch; without a batch, and rarely with one, any frames."""
        draw = key(self._seed, "answer", self.sent)
        if batch is None or draw % 20 == 0:
            return self._fuzz.frames(self.sent)
        jobs = jobs + [event.job.id for event in batch.events if isinstance(event, m.JobSubmitted)]
        actions: list[Any] = [{"type": "wake_at", "at_us": batch.now_us + 1_000_000 * (draw % 50)}]
        for each in range(draw % 5):
            damaged = self._answers.raw(5 * self.sent + each).get("actions")
            for action in damaged if isinstance(damaged, list) else []:
                if isinstance(action, dict) and jobs and (draw >> 8) % 4:
                    action["job_id"] = jobs[(draw >> 16) % len(jobs)]
                actions.append(action)
        raw = {"type": "actions", "seq": batch.seq, "now_us": batch.now_us, "actions": actions}
        return [MAGIC, pack({**raw, "greeting": batch.greeting} if batch.greeting else raw)]


def main(kind: str, address: str, messages: str, seed: str, *keys: str) -> None:
    began_s = time.monotonic()
    if kind == "hostile":
        hostile = Hostile(address, int(seed))
        hostile.go(int(messages))
        found = hostile.found
    else:
        found = strangers(kind, address, int(messages), int(seed), keys)
    print(json.dumps({"seconds": round(time.monotonic() - began_s, 1), **dict(sorted(found.items()))}), flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TimeoutError, RemoteProtocolError) as error:
        sys.exit(f"fuzz_peers: {error}")
