"""Limits on what jobs have at a time, as Slurm's QOS and associations set them: their amounts, their names, and what is left of them.

The emulator's gate and the Slurm driver hold back the same jobs by them; Slurm's own reasons name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

UNBOUND: Final = 1 << 62  # more than jobs can have
ENFORCED: Final = frozenset({"limits", "safe", "all"})  # AccountingStorageEnforce, of which one makes limits count
TRES: Final = ("cpu", "gres/gpu", "node")  # what Slurm calls the amounts after the jobs


class Limited(NamedTuple):
    """What a job has of what is limited, or the most of it; ``cpus`` are processes x threads of each, as Slurm counts them."""

    jobs: int = UNBOUND
    cpus: int = UNBOUND
    gpus: int = UNBOUND
    nodes: int = UNBOUND

    @classmethod
    def of_slurm(cls, jobs: int | None, tres: Mapping[str, int]) -> Limited:
        """Return the most of a number of jobs and of TRES; None, and what is not among them, is not limited."""
        cpus, gpus, nodes = [tres.get(name, UNBOUND) for name in TRES]
        return cls(UNBOUND if jobs is None else jobs, cpus, gpus, nodes)

    @classmethod
    def of_job(cls, cpus: int, gpus: int, nodes: int) -> Limited:
        """Return what one job has: all amounts are known."""
        return cls(1, cpus, gpus, nodes)


NO_LIMIT: Final = Limited()


class Limit(NamedTuple):
    """At most so much at a time, of the jobs with all the facts that are given; of each user or account separately with ``each``."""

    most: Limited
    each: str = ""  # `user`, `account`; none: all of them together
    user: str = ""
    account: str = ""  # this one, and those below it
    qos: str = ""
    partition: str = ""

    def reason(self, what: int) -> str:
        """Return Slurm's word for a job that waits for this limit, on the amount number ``what``."""
        name = ("Jobs", "Cpu", "GRES", "Node")[what]
        tail = "" if name == "GRES" else "Limit"
        if self.qos or (self.partition and not (self.user or self.account)):  # Slurm's partitions have limits by a QOS
            if self.each == "account":
                return f"Max{name}PerAccount"
            per = "PerUser" if self.each == "user" or self.user else ""
            return f"QOS{'Max' if per else 'Grp'}{name}{per}{tail}"
        if self.each == "user" and name == "Jobs":
            return "AssocMaxJobsLimit"
        return f"AssocGrp{name}{tail}"


_WHAT: Final = ("jobs", "processors", "GPUs", "nodes")
_FORMS: Final = {
    Limit(Limited(), "user", qos="any"): "its user may have of its QOS, or of its partition,",
    Limit(Limited(), "account", qos="any"): "its account may have of its QOS, or of its partition,",
    Limit(Limited(), qos="any"): "its QOS, or its partition, may have",
    Limit(Limited(), "user"): "its user may have",
    Limit(Limited()): "its account or user may have",
}
# The reasons of jobs that wait for limits, and what each means.
LIMIT_REASONS: Final = {
    limit.reason(number): f"as many {what} as {who} are in use"
    for number, what in enumerate(_WHAT)
    for limit, who in _FORMS.items()
}


class Usage:
    """What the jobs have that count together."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = [0] * len(Limited._fields)

    def lacks(self, amounts: Limited, most: Limited) -> int | None:
        """Return which amount leaves no room for a further job, where they may have ``most``; None: there is room."""
        for number, bound in enumerate(most):
            if self.used[number] + amounts[number] > bound:
                return number
        return None

    def count(self, amounts: Limited, sign: int) -> None:
        """Count a further job (1), or one less (-1)."""
        for number, amount in enumerate(amounts):
            self.used[number] += sign * amount


def accounts_above(account: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Yield an account and its parents."""
    seen: set[str] = set()
    while account and account not in seen:
        seen.add(account)
        yield account
        account = parents.get(account, "")


# ---------------------------------------------------------------- Slurm's tables


class Qos(NamedTuple):
    """A QOS: its priority, and limits of all its jobs, and of each user's and each account's."""

    name: str
    priority: int
    together: Limited
    of_user: Limited
    of_account: Limited
    others: tuple[str, ...]  # names of further limits that are set
    first: bool = False  # it comes before that of a partition (OverPartQOS)
    factor: float | None = None  # of what associations limit but jobs (LimitFactor)


class Association(NamedTuple):
    """An account, or a user in one (``user`` not empty)."""

    account: str
    user: str
    parent: str  # empty: not told, or none
    share: int | None  # None: the shares of its account (`parent`)
    together: Limited  # of the account and those below it
    each_jobs: int  # MaxJobs: of a user; `UNBOUND`: no limit
    others: tuple[str, ...]
    partition: str = ""  # of the jobs there alone
