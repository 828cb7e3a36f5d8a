"""The user of a request: the name that the endpoint has verified, and its rights."""

from __future__ import annotations

from typing import NamedTuple


class Requester(NamedTuple):
    """A user; an ``operator`` may also change other users' jobs, and nodes."""

    name: str
    operator: bool
