"""A manager that sends damaged messages to scheduler processes, one after another: each must end with one line, or continue."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import zmq
from scripts.proofs.fuzz_messages import WELCOME, pack, to_plugin

from cosched_hwmodel.draws import key
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode, write
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAGIC

LIFE_S: Final = 15.0
MOST_MESSAGES: Final = 60  # in one life
WORD_S: Final = 0.1  # how long to wait for a message of the scheduler
ENDS: Final = frozenset({0, 2, 3})  # exit codes: after bye; a machine that it cannot work with; lost its manager
READY: Final = (1, 2, 3)  # share that gets a valid welcome: one of four lives gets a damaged one


def plugin_lives(
    lives: int, seed: int, folder: Path, environment: Mapping[str, str], progress: Callable[[int], None]
) -> dict[str, Any]:
    """Send damaged messages to ``lives`` schedulers; return how they ended. AssertionError for an end that is not allowed."""
    found: Counter[str] = Counter()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        router.bind(f"ipc://{folder}/manager")
        for life in range(lives):
            progress(life)
            where = ("--connect", f"ipc://{folder}/manager", "--quiet", "--silence", "2", "--wait", "2")
            command, pipe = [sys.executable, "-m", "cosched_plugin", "serve", *where], subprocess.PIPE
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=pipe, text=True)
            try:
                found["messages"] += _life(router, process, life, seed)
                _, said = process.communicate(timeout=LIFE_S)
            finally:
                process.kill()
                process.wait()
            lines = [line for line in said.splitlines() if "warning" not in line]
            assert process.returncode in ENDS, f"life {life} of seed {seed} ended with {process.returncode}: {said}"
            assert len(lines) == (process.returncode != 0), f"life {life} of seed {seed} said: {said}"
            found[f"ended with {process.returncode}"] += 1
    return dict(sorted(found.items()))


def _life(router: zmq.Socket[bytes], process: subprocess.Popen[str], life: int, seed: int) -> int:
    """Send damaged messages to one scheduler until it ends, or has got enough; then say bye. Returns the number of messages."""
    fuzz, welcomes, batches = to_plugin(seed)
    deadline = time.monotonic() + LIFE_S
    peer, seq, now_us, sent, greeting = b"", 0, 0, 0, 0
    while process.poll() is None and time.monotonic() < deadline and sent < MOST_MESSAGES:
        if router.poll(round(WORD_S * 1000)):
            peer, *frames = router.recv_multipart()
            try:
                heard = decode(frames)
            except RemoteProtocolError as error:  # it must not send what it would not accept
                raise AssertionError(f"the scheduler sent what is no message: {error}") from error
            if isinstance(heard, m.Hello):
                seq, now_us, greeting = 0, 0, heard.greeting
                welcome = write(WELCOME._replace(greeting=greeting))
                if life % 4 not in READY:
                    welcome = {**welcomes.raw(life), "greeting": greeting}
                router.send_multipart([peer, MAGIC, pack(welcome)])
                sent += 1
                continue
            if isinstance(heard, m.ErrorReport):
                continue
        if not peer:
            continue
        number = 1_000 * life + sent
        if key(seed, "plugin", number) % 8:
            seq, now_us = seq + 1, now_us + 1_000
            its = {"type": "events", "seq": seq, "now_us": now_us, "greeting": greeting}
            frames = [MAGIC, pack({**batches.raw(number), **its})]
        else:
            frames = fuzz.frames(number)
        router.send_multipart([peer, *frames])
        sent += 1
    if peer:
        router.send_multipart([peer, *encode(m.Bye("enough"))])
    return sent
