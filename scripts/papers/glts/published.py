"""What the G-LOMARC-TS paper prints of its results (sections 5.2 to 5.4, table 5). Its figures 6 to 9 have no numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

SAMPLES: Final = 3  # random workloads, of which it prints the mean
# Percent by which the relative response of GLTS at W1 is above that of others, by class.
RELATIVE_RESPONSE: Final[Mapping[str, Mapping[str, float]]] = {
    "SSP": {"medium": -34.9, "long": -53.2, "all": -35.5},
    "CST": {"medium": -19.4, "long": -16.1, "all": -13.9},
    "CSTWS": {"medium": -28.6, "long": -31.5, "all": -23.2},
}
# The same of core utilisation in high-load phases at W1.
CORE_UTILISATION: Final[Mapping[str, float]] = {"SSP": 26.8, "CST": 6.0, "CSTWS": 10.1}
# Relative responses of SSP at W2, by class.
SSP_W2: Final[Mapping[str, float]] = {"medium": 17.5, "long": 36.74, "all": 10.65}
# "About 1,500 groups" of 2.5 jobs cannot be, if 41.7 % of the eligible jobs are in groups: that many are 1,501 jobs.
GROUPS: Final[Mapping[str, Mapping[str, float]]] = {
    "W1": {"size": 2.5, "number": 1500, "share": 0.417, "few_candidates": 0.85},
    "W2": {"size": 2.6, "number": 2000},
}
MORE_GROUPS: Final = 25.0  # percent, at W2: "about"
ELIGIBLE: Final = 3600  # medium and long jobs of 10,000
# Response over the one expected, of medium and long jobs alike.
DELAY: Final[Mapping[str, float]] = {"mean": 1.0, "p75": 1.3, "p95": 1.4}
# Table 5: shares of jobs, and of their work.
CLASS_JOBS: Final[Mapping[str, float]] = {"short": 0.64, "medium": 0.195, "long": 0.165}
CLASS_WORK: Final[Mapping[str, float]] = {"short": 0.005, "medium": 0.26, "long": 0.735}
SERIAL: Final = 0.24  # share of the jobs
POWERS: Final = 0.75
OVERHEAD: Final = 5.0  # percent of the time, for switches between slices
SLICES_HELP: Final = -50.0  # percent of the mean response, against space sharing with priorities (section 4.7)
# Tables 2 and 3: slowdowns by a second process on a CPU (PARTISN, then the NAS benchmarks) and on a second CPU of a node.
SL_SCR: Final = (
    *(1.31, 1.46, 1.30, 1.42, 1.05, 1.19, 1.00, 1.16, 1.61, 1.51, 1.48, 1.57, 1.29, 1.15, 1.09, 1.21),
    *(1.37, 1.05, 1.27, 1.04, 1.08, 1.11, 1.22, 1.47),
)
SL_SNO: Final = (1.35, 1.05, 1.16, 0.99, 0.99, 1.00, 1.01, 1.01)
# Table 4: percent of both in ranges of a tenth, from 0.9.
TABLE_4: Final[Mapping[str, tuple[Sequence[float], Sequence[float]]]] = {
    "SL_scr": (SL_SCR, (0, 25, 17, 17, 13, 17, 8, 3, 0)),
    "SL_sno": (SL_SNO, (25, 45, 12, 5, 13, 0, 0, 0, 0)),
}
BEST_BLOCK: Final = 12  # figure 8
ENOUGH_SLACK: Final = "1.5"  # figure 9: above, nothing changes


def short_of_all(figures: Mapping[str, float]) -> float:
    """Return what mean relative responses of medium, long and all jobs imply for short ones, by table 5's shares."""
    others = sum([CLASS_JOBS[name] * figures[name] for name in ("medium", "long")])
    return (figures["all"] - others) / CLASS_JOBS["short"]
