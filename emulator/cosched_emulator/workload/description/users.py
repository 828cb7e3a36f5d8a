"""How the jobs of a workload, and its work, are divided among users."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.workload.columns import Interned, Jobs, intern_values

TOP: Final = (1, 5, 10)  # users


class UserShares(NamedTuple):
    """Shares of all jobs, and of all work, of those 1, 5 and 10 users that have most of it."""

    jobs: tuple[float, ...]
    work: tuple[float, ...]


def user_shares(jobs: Jobs) -> UserShares | None:
    """Return what the largest users have; None if no user is known. A user without a name is none of them."""
    names = jobs.user if isinstance(jobs.user, Interned) else intern_values(jobs.each(jobs.user))
    known = np.array([name != "" for name in names.distinct], dtype=np.bool_)
    work = jobs.run_us.array.astype(np.float64) * jobs.processes.array
    places = names.places
    if not known[places].any():
        return None
    return UserShares(*(_top(places, known, amount) for amount in (np.ones_like(work), work)))


def _top(places: NDArray[np.int64], known: NDArray[np.bool_], amount: NDArray[np.float64]) -> tuple[float, ...]:
    of_user = np.bincount(places, weights=amount, minlength=len(known))[known]
    largest = np.cumsum(np.sort(of_user)[::-1])
    whole = max(1.0, float(amount.sum()))
    return tuple(float(largest[min(number, len(largest)) - 1]) / whole for number in TOP)


def users_text(number: int, shares: UserShares | None) -> str:
    """Return the number of known users and their shares as a line for people."""
    if shares is None:
        return "not known"
    jobs, work = (", ".join(f"{share:.1%}" for share in part) for part in shares)
    return f"{number}; the largest {', '.join(map(str, TOP))} have {jobs} of the jobs, and {work} of the work"
