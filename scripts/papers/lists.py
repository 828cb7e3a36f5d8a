"""The ids of all claims of the papers: each has a row on its page, and a test holds that.

A claim that no run decides has a row, too: by construction, decided by the paper's own print, or not checkable, with the reason
(`claims`). Rows with other ids may exist, such as those of a paper's parameters.
"""

from __future__ import annotations

from typing import Final


def _ids(**counts: int) -> tuple[str, ...]:
    """Return the ids of some letters: ``C=2`` gives C1 and C2."""
    return tuple(f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1))


# By page. C: results; E: energy; S: measured slowdowns of LOMARC, which the page on hardware judges; W: what the workload is like;
# X: experiments for which the text leaves room; G, A, U: what is wanted of our own policies.
LISTS: Final = {
    "rua": _ids(C=34, X=7),
    "lomarc": _ids(C=38),
    "g-lomarc-ts": _ids(W=8, C=36),
    "paired-gang": _ids(C=54),
    "coscheduling": _ids(C=56, E=12),
    "hardware": _ids(S=16),
    "symbiosis": _ids(G=20),
    "guests": _ids(A=14),
    "gpus": _ids(U=6),
}
