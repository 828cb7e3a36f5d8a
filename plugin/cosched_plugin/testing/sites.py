"""The site of a run of `cosched_plugin.testing.check`, as drawn."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.testing.draws import (
    draw_alike,
    draw_belief,
    draw_believed,
    draw_hardware,
    draw_measured,
    draw_nodes,
    draw_pairs,
    draw_quantum,
    with_one_core,
    with_swap,
)
from cosched_plugin.testing.site import Site

_TICKS_S: Final = (1, 10)  # the time scale of a run
_LONG_TICKS_S: Final = (30, 600)  # with these, jobs are worth matching: few end within a minute
_RESUME_S: Final = (0, 60)


def draw_site(
    random: Random, more: Random, models: Sequence[str], *, hardware: Random, measured: bool, sharing: Random | None
) -> tuple[Site, int]:
    """Return a site, and the time scale of its run in microseconds.

    ``more`` has draws that were added later, and ``hardware`` those about measured hardware. If ``measured``, slowdowns of pairs are;
    with ``sharing``, a source of further draws, the machine has slots; with ``models``, the site believes in one of these
    contention models.
    """
    pairs = False
    if measured:
        nodes, belief, ticks_s = draw_alike(random), draw_measured(random), _LONG_TICKS_S
    else:
        # Jobs may be co-located: two threads a core, and a model of pairs.
        pairs = random.random() < 0.5 or bool(models)
        nodes = draw_nodes(random, threads_per_core=2 if pairs else random.choice((1, 1, 2)))
        belief = draw_pairs(random) if pairs else draw_belief(random)
        ticks_s = _LONG_TICKS_S if pairs else _TICKS_S
    if models:
        belief = draw_believed(more, models)
    nodes, resume_us = with_swap(more, nodes), more.choice(_RESUME_S) * SECOND_US
    tick_us = random.choice(ticks_s) * SECOND_US
    if sharing is not None:
        nodes = with_one_core(nodes)
    if (measured or pairs) and not models:
        nodes, belief = draw_hardware(hardware, nodes, belief)
    return Site(nodes, belief, resume_us, None if sharing is None else draw_quantum(sharing, tick_us)), tick_us
