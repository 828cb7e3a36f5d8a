"""What the G-LOMARC-TS paper prints of its results (sections 5.2 to 5.4, table 5). Its figures 6 to 9 have no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    "W1": {"size": 2.5, "jobs_in_groups": 1500, "share": 0.417, "few_candidates": 0.85},
    "W2": {"size": 2.6, "jobs_in_groups": 2000},
}
# Response over the one expected, of medium and long jobs alike.
DELAY: Final[Mapping[str, float]] = {"mean": 1.0, "p75": 1.3, "p95": 1.4}
# Table 5: shares of jobs, and of their work.
CLASS_JOBS: Final[Mapping[str, float]] = {"short": 0.64, "medium": 0.195, "long": 0.165}
CLASS_WORK: Final[Mapping[str, float]] = {"short": 0.005, "medium": 0.26, "long": 0.735}
BEST_BLOCK: Final = 12  # figure 8
ENOUGH_SLACK: Final = "1.5"  # figure 9: above, nothing changes


def short_of_all(figures: Mapping[str, float]) -> float:
    """Return what mean relative responses of medium, long and all jobs imply for short ones, by table 5's shares."""
    others = sum([CLASS_JOBS[name] * figures[name] for name in ("medium", "long")])
    return (figures["all"] - others) / CLASS_JOBS["short"]
