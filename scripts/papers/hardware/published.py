"""What the ELiSE paper (JSSPP 2025) prints: changes of the makespan against EASY, in percent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Table 2: by the mean speedup of the applications' pairs. 100 nodes of 48 cores, 500 jobs, four shuffles.
TABLE_2: Final[Mapping[str, float]] = {"1.07": -24.42, "1.10": -25.29, "1.12": -25.87, "1.155": -30.63}
# 200 nodes of 20 cores, 500 jobs of the ARIS table.
ARIS_256: Final = -12.6
ARIS_MIXED: Final = 0.0
# What is wanted here: at least so much better, in percent.
WANTED: Final[Mapping[str, float]] = {"1.12": 30.0, "1.155": 35.0}
WANTED_MIXED: Final = 10.0
MOST_SLOWER: Final = 0.05  # share of the jobs that may be slower than compact by more than 5 %
