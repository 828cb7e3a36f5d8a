"""A minimal manager for a scheduler's process, as a process of its own that can be killed and frozen.

Run as ``python -m tests.plugin.stub_manager ENDPOINT MOMENT``. It reports its progress on standard output; at the moment
``bound``, ``hello``, ``welcome``, ``ready``, ``events`` or ``busy`` it freezes itself (SIGSTOP), with ``never`` it continues.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import zmq

from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.session import ManagerSession, report_of

NODE = m.NodeClass(4, 1, 4, 1, 1, 1, 1, 1)
LIFE_S = 60.0  # a stub left over by a test ends by itself


def welcome(seq: int) -> m.Welcome:
    """Return the state of a machine without jobs, after batch ``seq``."""
    belief = m.Belief("none", "bulk-synchronous", ())
    return m.Welcome(1, m.FEATURES, seq, seq * 1_000, (NODE,), (), belief, (), (), (), ())


def main(endpoint: str, moment: str) -> None:
    seq = 0
    session = ManagerSession(lambda: welcome(seq))
    served: bytes | None = None

    def reached(now: str) -> None:
        print(now, flush=True)
        if now == moment:
            time.sleep(0.2)  # until sent messages have left
            os.kill(os.getpid(), signal.SIGSTOP)

    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 500
        router.rcvtimeo = 20
        router.bind(endpoint)
        reached("bound")
        stopped = False

        def stop(_number: int, _frame: object) -> None:
            nonlocal stopped
            stopped = True

        signal.signal(signal.SIGTERM, stop)
        until = time.monotonic() + LIFE_S
        while not stopped and time.monotonic() < until:
            try:
                sender, *frames = router.recv_multipart()
            except zmq.Again:
                continue
            message = decode(frames)
            if type(message) is m.Hello:
                reached("hello")
                if moment == "busy":
                    router.send_multipart([sender, *encode(m.ErrorReport("busy", "", "scheduler x is being served"))])
                    reached("busy")
                    continue
                served = sender
            elif sender != served:
                router.send_multipart([sender, *encode(m.ErrorReport("state", "type", "say hello first"))])
                continue
            try:
                received = session.receive(message)
            except RemoteProtocolError as error:
                router.send_multipart([sender, *encode(report_of(error))])
                raise
            replies = list(received.send)
            if type(received.deliver) is m.Actions:
                seq += 1
                print(f"answered {seq}", flush=True)
                time.sleep(0.02)
            elif type(received.deliver) is m.Ready:
                reached("ready")
            if type(received.deliver) in (m.Actions, m.Ready):
                replies += session.submit(seq + 1, (seq + 1) * 1_000, (m.JobSubmitted(job(seq + 1)),))
            for reply in replies:
                router.send_multipart([sender, *encode(reply)])
                if type(reply) in (m.Welcome, m.Events):
                    reached("welcome" if type(reply) is m.Welcome else "events")
        if served is not None:
            router.send_multipart([served, *encode(session.bye("the stub closes"))])


def job(number: int) -> m.JobSpec:
    """Return a job as large as the machine: the first one starts, and the others are pending."""
    return m.JobSpec(number, number * 1_000, 16, 1_000_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
