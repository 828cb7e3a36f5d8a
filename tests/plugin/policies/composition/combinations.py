"""All combinations of parts, those that resolve, and a small set of these that covers all pairs of parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, product

from cosched_plugin.common.errors import UsageError
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.resolved import resolve
from cosched_plugin.testing.check import Report, check_policy

# A budget combines with all; a pairing with what gang scheduling does: `tests/plugin/policies/gang`.
COMBINED = ("order", "backfill", "shape", "placement", "matching", "fairness", "slices")
# Seeds of the conformance check: one gives all kinds of machines, the other, for errors that were found so, equal nodes.
ANY_NODES = 3
NODES_ALIKE = 2764
SITES = 21

Combination = tuple[str, ...]  # the names of parts, by kind as above


def all_combinations() -> list[Combination]:
    """Return every combination of the parts of the catalogue, with their default settings."""
    return list(product(*(KINDS[kind] for kind in COMBINED)))


def table_of(combination: Combination) -> dict[str, str]:
    """Return a combination as the table of a policy file."""
    return dict(zip(COMBINED, combination, strict=True))


@cache
def refusals() -> dict[Combination, str]:
    """Return the refusal of each combination; the text is empty for one that resolves."""
    found = {}
    for combination in all_combinations():
        try:
            resolve(table_of(combination))
        except UsageError as error:
            found[combination] = str(error)
        else:
            found[combination] = ""
    return found


@cache
def resolving() -> list[Combination]:
    """Return the combinations that resolve."""
    return [combination for combination, refusal in refusals().items() if not refusal]


@cache
def covering() -> list[Combination]:
    """Return few combinations that resolve and together have all pairs of parts of those; the one with most new pairs first."""
    candidates = {combination: _pairs_of(combination) for combination in resolving()}
    missing = frozenset().union(*candidates.values())
    chosen = []
    while missing:
        best = max(candidates, key=lambda combination: len(candidates[combination] & missing))
        chosen.append(best)
        missing -= candidates[best]
    return chosen


def chunks_of(combinations: Sequence[Combination], chunk: int, chunks: int) -> list[tuple[int, Combination]]:
    """Return every ``chunks``-th combination with its number, from number ``chunk`` on."""
    return list(enumerate(combinations))[chunk::chunks]


def play(combination: Combination, number: int, sites: int) -> Report:
    """Run the conformance check on this number of sites; ``number`` of the combination chooses the first one."""
    table = table_of(combination)
    first = 1 + number * sites % (SITES - sites + 1)
    return check_policy(lambda: compose(table), seed=ANY_NODES, runs=sites, first=first)


def _pairs_of(combination: Combination) -> frozenset[tuple[int, str, int, str]]:
    return frozenset((i, one, j, other) for (i, one), (j, other) in combinations(enumerate(combination), 2))
