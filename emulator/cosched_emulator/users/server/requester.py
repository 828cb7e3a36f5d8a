"""Who asks: the name that the endpoint vouches for, and what that name may do."""

from __future__ import annotations

from typing import NamedTuple


class Requester(NamedTuple):
    """A user; an ``operator`` may also change other users' jobs, and nodes."""

    name: str
    operator: bool
