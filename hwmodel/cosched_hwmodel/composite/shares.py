"""How processes share a cache, and which of their hits they lose.

Source: D. Chandra, F. Guo, S. Kim, Y. Solihin, *Predicting Inter-Thread Cache Contention on a Chip Multi-Processor
Architecture*, HPCA 2005: the frequency-of-access model. The space of a process is in proportion to its rate of
accesses; what is more than its working set goes to the others. Of a working set that is used evenly, the part that has no space is
missed.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched_hwmodel.composite.profile import Profile
from cosched_hwmodel.units import WHOLE_PPM


def spaces_kb(profiles: Sequence[Profile], there: Sequence[int], size_kb: int) -> list[float]:
    """Return the space of one process of each group in a cache of ``size_kb`` KiB.

    ``there`` is the number of processes of each group, in millionths. A process with few accesses for its working set gets
    less than that; one round for each group settles who gets all of it.
    """
    spaces = [0.0] * len(profiles)
    open_groups = [
        group
        for group, profile in enumerate(profiles)
        if there[group] and profile.accesses_ms and profile.working_set_kb
    ]
    left = size_kb * WHOLE_PPM
    for _ in range(len(profiles)):
        accesses = sum([there[group] * profiles[group].accesses_ms for group in open_groups])
        if accesses == 0:
            break
        each = float(left) / float(accesses)
        full = [group for group in open_groups if profiles[group].working_set_kb <= each * profiles[group].accesses_ms]
        for group in open_groups:
            spaces[group] = each * profiles[group].accesses_ms
        for group in full:
            spaces[group] = float(profiles[group].working_set_kb)
            left -= there[group] * profiles[group].working_set_kb
        if not full:
            break
        open_groups = [group for group in open_groups if group not in full]
        left = max(0, left)
    return spaces


def lost_hits(profile: Profile, processes: int, space_kb: float, size_kb: int, everyone: int) -> float:
    """Return the part of a process's accesses that hit alone, and miss in ``space_kb``.

    ``processes`` is how much of the group is at this cache, and ``everyone`` of all groups, in millionths. A process whose
    threads are at several caches has a part of its data in each.
    """
    mine = min(processes, WHOLE_PPM)
    if profile.working_set_kb == 0 or everyone <= mine:  # there is no other process
        return 0.0
    before_kb = min(float(profile.working_set_kb), float(size_kb * WHOLE_PPM) / float(mine))
    return max(0.0, before_kb - space_kb) / float(profile.working_set_kb)


def overflow(profiles: Sequence[Profile], there: Sequence[int], size_kb: int) -> float:
    """Return the part of all working sets that does not fit into a cache; none is larger than the cache, as it did not fit alone."""
    wanted = 0
    for profile, processes in zip(profiles, there, strict=True):
        if profile.accesses_ms:
            wanted += processes * min(profile.working_set_kb, size_kb)
    return max(0.0, 1.0 - float(size_kb * WHOLE_PPM) / float(wanted)) if wanted else 0.0
