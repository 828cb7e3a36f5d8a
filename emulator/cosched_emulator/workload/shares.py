"""Shares of classes of jobs: a name from a paper, or three whole numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError

Shares = tuple[int, int, int]


def parse_shares(text: str, key: str, named: Mapping[str, Shares], form: str) -> Shares:
    """Return the shares that ``text`` names, in any case of letters, or gives as in ``50:10:40``.

    ``form`` shows the order, for errors. Raises `ConfigurationError` for ``key`` if it is neither.
    """
    for name, shares in named.items():
        if text.strip().lower() == name.lower():
            return shares
    if ":" not in text:
        raise ConfigurationError.unknown_name(key, text, (*named, f"{form} shares"))
    match = re.fullmatch(r"\s*([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})\s*", text)
    if match is None:
        raise ConfigurationError(key, "three whole shares such as 50:10:40", repr(text))
    if not any(map(int, match.groups())):
        raise ConfigurationError(key, "a share above 0", repr(text))
    return (int(match[1]), int(match[2]), int(match[3]))


def choices(draws: NDArray[np.float64], weights: Sequence[int]) -> NDArray[np.uint8]:
    """Return the `choice` for each draw."""
    edges = np.array([*accumulate(weights)], dtype=np.float64)
    picked: NDArray[np.uint8] = np.searchsorted(edges, draws * edges[-1], side="right").astype(np.uint8)
    return picked  # never one of weight 0


def check_shares(shares: Sequence[int], key: str) -> None:
    """Raise `ConfigurationError` for ``key`` if a share is negative or all are 0."""
    if min(shares) < 0 or not sum(shares):
        raise ConfigurationError(key, "shares of 0 or more, one of them above 0", str(tuple(shares)))
