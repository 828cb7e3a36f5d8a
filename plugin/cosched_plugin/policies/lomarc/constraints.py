"""The constraints of LOMARC on jobs that share nodes, as named masks over many candidates at once.

One code path serves the decision, the funnel of the paper's table 5 and the reasons in a decision trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from cosched_plugin.api import (
    BOUNDS,
    WHOLE_PPM,
    Bools,
    Floats,
    Ints,
    JobSpec,
    PairModel,
    worst_resource,
)
from cosched_plugin.policies.lomarc.job_columns import Jobs, may_share

# The funnel, in the order of table 5; "type" is the paper's "matchable".
CONSTRAINTS: Final = ("short", "size", "memory", "type", "slowdown")
_CPU: Final = BOUNDS.index("cpu")
_DISK: Final = BOUNDS.index("disk")
_STANDARD_PARTNERS: Final = {_CPU: _DISK, _DISK: _CPU}


class Rules(NamedTuple):
    """The conditions of a match. ``standard``: the CPU is time-shared, and only cpu-bound and disk-bound jobs match."""

    max_slowdown: float
    standard: bool


class Filtered(NamedTuple):
    """The remaining candidates: ``fine`` [candidate], and for each constraint those that pass it and all before it."""

    fine: Bools
    slowdowns: Floats
    passed: Mapping[str, Bools]
    self_place: int | None = None  # place of the job itself among the candidates, if it is there
    pair: tuple[JobSpec, PairModel] | None = None  # the job itself, and the model that was asked

    def without(self, place: int) -> Filtered:
        """Return this result with one candidate left out of all counts: the job itself."""
        for mask in self.passed.values():
            mask[place] = False
        return self._replace(self_place=place)

    def facts(self, jobs: Jobs, fine: Ints, profits: Floats | None) -> dict[str, object]:
        """Return the facts for a decision trace: how many candidates were left after each constraint, and what removed the others.

        ``fine``: places of the candidates that were compared, in the order of ``profits`` (None: not computed).
        """
        ids = jobs.ids.tolist()
        before = np.ones(len(ids), dtype=np.bool_)
        if self.self_place is not None:
            before[self.self_place] = False
        left = {"all": int(np.count_nonzero(before))}
        removed: dict[str, list[int]] = {}
        for name, mask in self.passed.items():
            left[name] = int(np.count_nonzero(mask))
            removed[name] = [ids[place] for place in np.flatnonzero(before & ~mask).tolist()]
            before = mask
        facts: dict[str, object] = {"left": left, "removed": removed}
        by_resource = self._slowed_by(jobs, removed)
        if by_resource:
            facts["slowed_by"] = by_resource
        facts["candidates"] = [ids[place] for place in fine.tolist()]
        if profits is not None:
            facts["profits"] = [round(profit, 9) for profit in profits.tolist()]
        return facts

    def _slowed_by(self, jobs: Jobs, removed: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """Return the jobs that were too slow, by the resource that adds most to the slowdown; none where the belief names none."""
        too_slow = set(removed.get("slowdown", ()))
        found: dict[str, list[int]] = {}
        for other in jobs.jobs if too_slow and self.pair is not None else ():
            if other.id in too_slow and self.pair is not None:
                resource = worst_resource(self.pair[0], other, self.pair[1])
                if resource is not None:
                    found.setdefault(resource, []).append(other.id)
        return found


def apply_constraints(job: JobSpec, candidates: Jobs, rules: Rules, model: PairModel, *, as_host: bool) -> Filtered:
    """Check ``candidates`` against the constraints for sharing nodes with ``job``.

    ``as_host``: the candidates would join the nodes of ``job`` and may not be larger; else ``job`` would join theirs.
    The constraints on memory and type apply where the usage of jobs is known and the model includes it.
    """
    slow, compete = model.beside(job, candidates)
    fine = np.ones(len(candidates.ids), dtype=np.bool_)
    room = fits = fine
    if model.by_usage and job.usage is not None:
        own, memory_ppm = BOUNDS.index(job.usage[0]), job.usage[4]
        usage, unknown = candidates.usage, ~candidates.used
        room = (usage.memory + memory_ppm <= WHOLE_PPM) | unknown
        if rules.standard:
            wanted = _STANDARD_PARTNERS.get(own)
            fits = unknown if wanted is None else (usage.bound == wanted) | unknown
        else:
            # Two cpu-bound jobs match unless they compete for the same parts of the CPU.
            fits = (usage.bound != own) | ((usage.bound == _CPU) & ~compete) | unknown
    masks = (
        candidates.matchable & may_share(job, model),
        candidates.sizes <= job.processes if as_host else candidates.sizes >= job.processes,
        room,
        fits,
        slow <= rules.max_slowdown,
    )
    passed = {}
    for name, mask in zip(CONSTRAINTS, masks, strict=True):
        fine = fine & mask
        passed[name] = fine
    return Filtered(fine, slow, passed, pair=(job, model))


def slowdown_beside(host: JobSpec, guest: JobSpec, rules: Rules, model: PairModel) -> float:
    """Return the slowdown of two jobs, the second on the nodes of the first; 0 where `apply_constraints` would not let them share."""
    if guest.processes > host.processes or not (may_share(guest, model) and may_share(host, model)):
        return 0.0
    one, other = host.usage, guest.usage
    if model.by_usage and one is not None and other is not None:
        if one[4] + other[4] > WHOLE_PPM:
            return 0.0
        own, its = BOUNDS.index(one[0]), BOUNDS.index(other[0])
        if rules.standard and _STANDARD_PARTNERS.get(own) != its:
            return 0.0
        if not rules.standard and own == its and (own != _CPU or model.compete(host, guest)):
            return 0.0
    slowdown = model.both(host, guest)
    return slowdown if slowdown <= rules.max_slowdown else 0.0
