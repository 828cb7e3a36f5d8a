"""What is published of co-execution, or wanted here, as data."""

from __future__ import annotations

from typing import Final

from scripts.papers.claims import Band
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware.published import ARIS_256, ARIS_MIXED, MOST_SLOWER, TABLE_2, WANTED, WANTED_MIXED
from scripts.papers.rows import change, judging, mean, near, row

MAKESPAN: Final = "makespan_s"
ON_ARIS: Final = {"ARIS 256": ARIS_256, ex.MIXED: ARIS_MIXED}
ALL_WANTED: Final = {
    **{f"Marconi {speedup}": points for speedup, points in WANTED.items()},
    ex.MIXED: WANTED_MIXED,
    "ARIS all": WANTED_MIXED,
}
_ELISE = change(MAKESPAN, ex.ELISE, ex.EASY)
# fmt: off
claims: Final = judging((
    row(f"Table 2, mean speedup {{speedup}}: makespan of the {ex.ELISE} against EASY, %", _ELISE,
        near(lambda speedup, **_: TABLE_2[speedup]), speedup=TABLE_2, work=lambda speedup: [f"Marconi {speedup}"]),
    row(f"200 nodes of 20 cores: makespan of the {ex.ELISE} against EASY, %", _ELISE, near(lambda work: ON_ARIS[work]), work=ON_ARIS),
    row(f"makespan of {ex.CO_EXECUTION} against EASY, %: at least {{points:g}} % better", change(MAKESPAN, ex.CO_EXECUTION, ex.EASY),
        lambda points, **_: Band.below(-points), "wanted", work=ALL_WANTED, points=lambda work: [ALL_WANTED[work]]),
    row(f"share of the jobs that are slower than compact by more than 5 %: at most {MOST_SLOWER:g}",
        mean("slower_by_5", ex.CO_EXECUTION), Band.below(MOST_SLOWER), "wanted", work=(ex.MIXED, "ARIS all")),
))
# fmt: on
