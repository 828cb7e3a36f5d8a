"""A users' endpoint with valid and hostile clients, on real sockets."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.users import door as user_door
from cosched_emulator.users.door import Asked, UserDoor
from cosched_emulator.users.requests import Done, Refused, ShowStatus, decode_answer, encode_request
from cosched_plugin.common.curve import Keyring, secure_client

NOBODY = 65_534
SOON_MS = 5_000
OWN_NAME = user_door._user_name(os.geteuid())
STATUS = encode_request(ShowStatus(), 7)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
WORD = struct.Struct(">I")


class Site:
    """Doors and clients in a folder whose path is short enough for sockets; the clock of the doors is set by the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 1_000.0
        self.doors: list[tuple[UserDoor, zmq.Context[zmq.Socket[bytes]]]] = []
        self.clients: list[zmq.Socket[bytes] | socket.socket] = []
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def door(self, endpoint: str = "", keys: Keyring | None = None, **limits: float) -> UserDoor:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        endpoint = endpoint or f"ipc://{self.folder}/door"
        try:
            door = UserDoor(context, endpoint, keys=keys, clock_s=lambda: self.now_s, **limits)  # type: ignore[arg-type]
        except ConfigurationError:
            context.term()
            raise
        self.doors.append((door, context))
        return door

    def client(self, endpoint: str, own: Path | None = None, server: Path | None = None) -> zmq.Socket[bytes]:
        client = self.context.socket(zmq.DEALER)
        self.clients.append(client)
        client.linger = 0
        client.rcvtimeo = client.sndtimeo = SOON_MS
        if own is not None and server is not None:
            secure_client(client, own, server)
        client.connect(endpoint)
        return client

    def raw(
        self, version: int = 3, identity: bytes = b"", properties: tuple[tuple[bytes, bytes], ...] = ()
    ) -> socket.socket:
        """Connect without ZeroMQ, to send bytes that ZeroMQ never sends."""
        raw = socket.socket(socket.AF_UNIX)
        self.clients.append(raw)
        raw.settimeout(5)
        raw.connect(f"{self.folder}/door")
        if version == 2:
            raw.sendall(b"\xff" + bytes(8) + b"\x7f\x01\x05\x00" + bytes([len(identity)]) + identity)
            return raw
        _greet(raw, (b"Identity", identity), *properties)
        return raw

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.context.term()
        for door, context in self.doors:
            door.socket.linger = 0
            door.close()
            context.term()


def send_raw(raw: socket.socket, *frames: bytes, times: int = 1) -> None:
    flagged = [bytes([index < len(frames) - 1, len(frame)]) + frame for index, frame in enumerate(frames)]
    raw.sendall(b"".join(flagged) * times)


def send_if_connected(client: zmq.Socket[bytes], frames: list[bytes]) -> None:
    """Send as a client that may already be refused: ZeroMQ then has no connection to send to."""
    with contextlib.suppress(zmq.Again):
        client.send_multipart(frames, zmq.NOBLOCK)


def received(door: UserDoor, done: Callable[[list[Asked]], bool] = bool, milliseconds: int = SOON_MS) -> list[Asked]:
    """Return what the door receives until ``done`` holds or the time is over."""
    asked: list[Asked] = []
    deadline = time.monotonic() + milliseconds / 1000
    while not done(asked) and time.monotonic() < deadline:
        door.socket.poll(20)
        asked += door.receive()
    return asked


def quiet(door: UserDoor) -> list[Asked]:
    """Return what the door receives until nothing more comes."""
    asked = door.receive()
    while door.socket.poll(200):
        asked += door.receive()
    return asked


def answer_of(client: zmq.Socket[bytes]) -> tuple[int, Done | Refused]:
    return decode_answer(client.recv_multipart())


def is_heard(door: UserDoor, client: zmq.Socket[bytes]) -> bool:
    """Return whether a legitimate client is served."""
    client.send_multipart(STATUS)
    asked = received(door)
    for each in asked:
        door.answer(each, Done({"fine": True}))
    return bool(asked) and answer_of(client) == (7, Done({"fine": True}))


def resident_kb() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def _connected_as(uid: int, path: str) -> socket.socket:
    """Return a socket that is connected as another user."""
    before = os.geteuid()
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(5)
    os.seteuid(uid)
    try:
        connected.connect(path)
    finally:
        os.seteuid(before)
    return connected


def _greet(raw: socket.socket, *properties: tuple[bytes, bytes]) -> None:
    """Make the ZMTP handshake of a DEALER, with further properties."""
    raw.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY"
    for name, value in ((b"Socket-Type", b"DEALER"), *properties):
        ready += bytes([len(name)]) + name + WORD.pack(len(value)) + value
    raw.sendall(b"\x04" + bytes([len(ready)]) + ready)
    said = b""
    while b"READY" not in said:
        said += raw.recv(4096)
