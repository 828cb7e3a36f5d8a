"""A note on policies that place several jobs on one node without regard to what they cost each other.

Such a policy is no baseline of whole nodes, although its name is that of a textbook policy: under shape ``threads``, which is the
default, a job takes free hardware threads wherever they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cosched_emulator.results.files.policy_of_run import part_name
from cosched_plugin.protocol.messages import NodeClass

# Placements that share nodes on purpose, or as far as they are told to.
ON_PURPOSE: Final = ("lessconsume", "lessconsume-threshold", "contiguous", "scattered")


def may_share_nodes(settings: Mapping[str, Any], machine: Sequence[NodeClass], *, exclusive: bool) -> bool:
    """Tell whether a policy with these settings may put several jobs on a node unasked; ``exclusive``: jobs ask for whole nodes."""
    return (
        part_name(settings, "shape") == "threads"
        and part_name(settings, "placement") not in ON_PURPOSE
        and not exclusive
        and any(item.threads > 1 for item in machine)
    )


def sharing_note(policies: Sequence[str]) -> str:
    """Return the note on such policies, given by name."""
    return f"note: {', '.join(policies)} may place several jobs on one node; --set shape=nodes for whole nodes"
