"""Recorded conversations of Batsim: those beside the project, where they are, and small ones of our own."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes import ROOT

SHARED = ROOT.parent / "shared" / "batsim" / "sessions"
OWN = Path(__file__).parent / "recorded"


class Exchange(NamedTuple):
    """A message of Batsim's and the reply to it; None: Batsim was not answered, or the reply is no JSON."""

    said: bytes
    reply: dict[str, Any] | None


@cache
def exchanges(session: Path) -> tuple[Exchange, ...]:
    """Return a recorded conversation."""
    with gzip.open(session / "messages.jsonl.gz", "rt", encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    found = []
    for number, line in enumerate(lines):
        if line["from"] != "batsim":
            continue
        reply = lines[number + 1]["text"] if number + 1 < len(lines) else ""
        try:
            found.append(Exchange(line["text"].encode(), json.loads(reply)))
        except ValueError:
            found.append(Exchange(line["text"].encode(), None))
    return tuple(found)


def shared_sessions() -> list[Path]:
    """Return the sessions that were recorded with Batsim itself; none where they are not there."""
    return sorted(path for path in SHARED.iterdir()) if SHARED.is_dir() else []


def is_wrong(session: Path) -> bool:
    """Return whether Batsim has aborted at the last reply of a session."""
    wrong = ("own-bad-", "own-busy", "own-time-back", "own-too-many", "batsched-easy-machine-unavailable")
    return session.name.startswith(wrong)


def own_sessions() -> list[Path]:
    """Return the sessions that the project keeps."""
    return sorted(path for path in OWN.iterdir() if path.is_dir()) if OWN.is_dir() else []


def events_of(reply: dict[str, Any], *left_out: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield type and data of a reply's events."""
    for event in reply["events"]:
        if event["type"] not in left_out:
            yield event["type"], event["data"]
