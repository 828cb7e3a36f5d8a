"""What parts may need of each other, or of the site, and the one rule that refuses compositions that cannot work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from cosched_plugin.protocol.messages import COUNTABLE, ELIGIBLE_NODES

Needs: TypeAlias = frozenset[str]
NONE: Final[Needs] = frozenset()
# What a job, or its manager, may ask for and a part may ignore; a policy with such a part declines the site.
FILLED_LAYOUTS: Final = "filled layouts"
SAME_NODES: Final = "same nodes"
EVERYTHING: Final[Needs] = frozenset({ELIGIBLE_NODES, COUNTABLE, FILLED_LAYOUTS, SAME_NODES})

WHOLE_NODES: Final = "whole nodes"
COMPANY: Final = "company"
FIXED_RUN_TIMES: Final = "fixed run times"
FOOTPRINTS: Final = "footprints"
LEAST_PENALTY: Final = "least penalty"
PROMISES: Final = "promises"
PAIR_BELIEF: Final = "pair belief"
DISK: Final = "disk"
THREADS: Final = "threads"
ROWS: Final = "rows"
PAIRS: Final = "pairs"
SLOTS: Final = "slots"
HALVES: Final = "halves"
PAYMENTS: Final = "payments"

# What each word means, for people.
MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        WHOLE_NODES: "every job has its nodes to itself until another one is put beside it",
        COMPANY: "the backfill asks the matching for co-located jobs",
        FIXED_RUN_TIMES: "the expected run time of a job that is alone follows from the job, not from its neighbours",
        FOOTPRINTS: "how many nodes a job takes, and for how long, is known whichever they are",
        LEAST_PENALTY: "a search for the place with the least penalty, within any of several thresholds",
        PROMISES: "every pending job has a promised start",
        PAIR_BELIEF: "the site believes something of co-located jobs",
        DISK: "nodes have swap space for the memory of preempted jobs",
        THREADS: "a job takes free hardware threads, not whole nodes",
        ROWS: "jobs are put into rows, which take turns",
        PAIRS: "two rows may run together",
        SLOTS: "the machine shares its time among slots",
        HALVES: "a job has all cores of its nodes, or half of them",
        PAYMENTS: "what a host may lose to its guests is asked of the ledger",
    }
)
# What the site provides, or does not: known only once a manager has said so, and never a reason to refuse a composition.
OF_SITE: Final[Needs] = frozenset({PAIR_BELIEF, DISK, SLOTS})


class Member(NamedTuple):
    """A part in a composition."""

    kind: str  # `order`, `placement`, ...
    name: str  # its name, or `module:Class`
    needs: Needs  # words for what another part must provide
    provides: Needs  # words for what it provides


def refusal(members: Collection[Member], providers: Callable[[str], Collection[str]]) -> str | None:
    """Return why these parts cannot work together, naming the part and what it misses; None if they can.

    ``providers`` returns the parts, as ``kind name``, that are known to provide something.
    """
    provided = frozenset().union(*(member.provides for member in members))
    for member in members:
        for need in sorted(member.needs - provided - OF_SITE):
            meaning = f" ({MEANING[need]})" if need in MEANING else ""
            known = " or ".join(providers(need)) or "no known part"
            return f"{member.kind} {member.name} needs {need}{meaning}, which no part here provides; {known} would"
    return None
