"""A manager's user endpoint with the answers of a test, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import zmq

from cosched_emulator.live.views import JOB_COLUMNS, NODE_COLUMNS
from cosched_emulator.users.requests import Done, Refused, Request, decode_request, encode_answer

Answer = Callable[[Request], "Done | Refused | bytes | None"]


class FakeManager:
    """``requests`` are the received requests; ``answer`` returns the answer: bytes are sent unchanged, None is silence."""

    def __init__(self, endpoint: str, answer: Answer, *, stale: bool = False) -> None:
        self.endpoint = endpoint
        self.requests: list[Request] = []
        self.answer = answer
        self.stale = stale  # an answer to another request precedes every answer
        self._context = zmq.Context()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._bound = threading.Event()
        self._thread.start()
        assert self._bound.wait(5)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)
        assert not self._thread.is_alive()
        self._context.term()

    def _run(self) -> None:
        with self._context.socket(zmq.ROUTER) as socket:
            socket.linger = 0
            socket.bind(self.endpoint)
            self._bound.set()
            while not self._stop.is_set():
                if not socket.poll(20):
                    continue
                sender, *frames = socket.recv_multipart()
                ticket, request = decode_request(frames)
                self.requests.append(request)
                if self.stale:
                    socket.send_multipart([sender, *encode_answer(Refused("busy", "an old one"), ticket + 1000)])
                answer = self.answer(request)
                if isinstance(answer, bytes):
                    socket.send_multipart([sender, answer, answer])
                elif answer is not None:
                    socket.send_multipart([sender, *encode_answer(answer, ticket)])


@contextmanager
def fake_manager(endpoint: str, answer: Answer, *, stale: bool = False) -> Iterator[FakeManager]:
    manager = FakeManager(endpoint, answer, stale=stale)
    try:
        yield manager
    finally:
        manager.close()


def always(result: Mapping[str, Any] | Refused) -> Answer:
    return lambda _: result if isinstance(result, Refused) else Done(result)


def job_row(job_id: int, **values: Any) -> dict[str, Any]:
    known = dict.fromkeys(JOB_COLUMNS)
    usual = {
        "job_id": job_id, "name": f"job{job_id}", "user": "ann", "state": "RUNNING", "reason": "", "submit_s": 1.0, "start_s": 2.0,
        "elapsed_s": 3661.5, "limit_s": 90_000.0, "processes": 2, "nodes": 1, "node_list": "3", "shares_with": [], "slowdown": None,
    }  # fmt: skip
    return {**known, **usual, **values}


def node_row(node: int, **values: Any) -> dict[str, Any]:
    usual = {
        "node": node, "state": "IDLE", "reason": "", "threads": 4, "threads_used": 0, "memory_mb": 100, "memory_used_mb": 0,
        "jobs": [], "slowed": None,
    }  # fmt: skip
    return {**dict.fromkeys(NODE_COLUMNS), **usual, **values}


def slot_cell(job: str, node_list: str, share: float, runs_as: str | None) -> dict[str, Any]:
    """Return a job of a row of the matrix."""
    return {"job": job, "node_list": node_list, "share": share, "predicted": share, "quanta": 5, "runs_as": runs_as}


def table(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [[row[column] for column in columns] for row in rows], **more}


def overview(jobs: list[dict[str, Any]], nodes: list[dict[str, Any]], **status: Any) -> dict[str, Any]:
    usual = {
        "uptime_s": 12.5, "speed": 100.0, "policy": "easy", "now_s": 93_784.25, "batch": 7, "refused_actions": 0,
        "jobs": {"running": 2, "suspended": 0, "pending": 3, "held": 1, "waiting": 0}, "nodes": {"idle": 1, "mixed": 2},
        "shared_nodes": 1, "threads": {"all": 16, "used": 12}, "accounting": {"backlog": 0, "trouble": ""},
    }  # fmt: skip
    return {
        "status": {**usual, **status},
        "jobs": table(jobs, left_out=0),
        "nodes": table(nodes),
        "decisions": [[1.0, "start 1"], [2.5, "start together 2, 3"]],
    }
