"""What is wanted of jobs that share GPUs, as data."""

from __future__ import annotations

from typing import Final

from scripts.papers.claims import Band
from scripts.papers.gpus import experiment as ex
from scripts.papers.guests.claims import P99, RESPONSE, at_most
from scripts.papers.rows import block, cell, judging, ratio, row
from scripts.papers.symbiosis.claims import above_floor

# fmt: off
claims: Final = judging((
    block(
        at_most(f"U1: {ex.SYMBIOSIS}, mean response over that of {ex.U1_SHORTEST}", ratio(RESPONSE, ex.SYMBIOSIS, ex.U1_SHORTEST),
            1.02),
        row(f"U2: {{policy}}, mean response over that of {ex.EASY_SHORTEST}", ratio(RESPONSE, "{policy}", ex.EASY_SHORTEST),
            Band.below(1.0), "below 1", policy=(ex.U1_SHORTEST, ex.SYMBIOSIS)),
        at_most(f"U3: {ex.SYMBIOSIS}, response p99 over that of {ex.EASY_SHORTEST}", ratio(P99, ex.SYMBIOSIS, ex.EASY_SHORTEST), 1.0),
        row(f"U4: {ex.GUESTS}, mean response over that of {ex.EASY}", ratio(RESPONSE, ex.GUESTS, ex.EASY), Band.below(1.0), "below 1"),
        work=ex.WORKS),
    at_most("U5: {policy}, Hshk less its floor", above_floor, 0.02, work=ex.V100, policy=(ex.U1_SHORTEST, ex.SYMBIOSIS)),
    at_most("U6: {policy}, learned beliefs, mean response over that of exact ones",
        ratio(RESPONSE, cell(f"{{policy}}, {ex.LEARNED}", belief=ex.UNKNOWN), "{policy}"), 1.10, work=ex.V100, policy=ex.LEARNING),
))
# fmt: on
