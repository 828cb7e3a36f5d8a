"""What is compared with the present policy, and under which assumptions: each is one entry of a table here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

FORMULA, PAIRS, BANDWIDTH = "formula", "pairs", "bandwidth"  # ways in which jobs that share a node slow each other down
GUESTS: Final = "guests"  # what an add-on beside a site's own scheduler does
ALONE: Final = ("shape=nodes",)  # settings with which a policy gives each job nodes of its own


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that might take the present one's place, or what the site changes under that policy."""

    policy: str
    what: str  # for people
    contention: str = FORMULA  # under which of them it is run
    shares: bool = False  # nodes are shared by its decision; else it has the present policy's shape
    lever: bool = False  # it changes the site (`levers`)
    lacks: str = ""  # why the site has no such lever
    alike: bool = False  # it gives a job nodes that are alike


CANDIDATES: Final = (
    Candidate("easy", "EASY backfilling"),
    Candidate("sjbf", "EASY with the shortest jobs backfilled first"),
    Candidate("conservative", "conservative backfilling"),
    Candidate(GUESTS, "EASY; pending jobs may be guests of running jobs that end later", shares=True),
    Candidate("lomarc-r", "LOMARC; partners are chosen by response time", shares=True),
    Candidate("symbiosis", "shortest first; a job may share nodes with several running jobs", shares=True),
    Candidate("glts", "G-LOMARC-TS: groups of jobs in time slices", shares=True, alike=True),
    Candidate("lct", "LessConsume Threshold of the RUA paper", BANDWIDTH, shares=True),
    Candidate("co-execution-easy", "EASY on halves of nodes, with the best neighbours", PAIRS, shares=True, alike=True),
)


@dataclass(frozen=True, slots=True)
class Contention:
    """How the hardware is assumed to behave, and what is assumed of jobs and nodes where the site says nothing."""

    what: str
    truth: Mapping[str, Any]
    workload: Mapping[str, Any]
    node: str = ""  # shape where the site names none: one processor of a log is one core of it


CONTENTIONS: Final[Mapping[str, Contention]] = {
    FORMULA: Contention(
        "jobs on the two hardware threads of a core slow each other down by the formula of the LOMARC paper",
        {"contention": "lomarc"},
        {"characteristics": "M1"},
        "1x1x2",
    ),
    PAIRS: Contention(
        "jobs on the two halves of a node slow each other down as measured pairs of programs did",
        {"contention": "pairs"},
        {},
        "1x2x1",
    ),
    BANDWIDTH: Contention(
        "jobs slow each other down on nodes that have less memory bandwidth than they need together",
        {"contention": "bandwidth"},
        {"mix": "med"},
    ),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One assumption that is changed while all others stay."""

    name: str
    what: str
    axis: str  # of a study: hardware, beliefs or variants
    sections: Mapping[str, Any]  # of a scenario
    contentions: tuple[str, ...] = (FORMULA, PAIRS, BANDWIDTH)
    of_drawn: bool = False  # it changes a draw: without effect where the site says what its jobs do
    of_users: bool = False  # it is about users, which not all logs have
    other_draw: bool = False  # another draw of which job is which program
    of: str = ""  # the candidate that is asked, whichever is best


TOLD, LOGGED = "told", "logged"  # the values of the axes beliefs and variants that all changes start from
BY_CORES = "logged, by cores"  # instead of the latter where several processors of a log are a node: jobs share it already today
CHANGES: Final = (
    Change(
        "predicted",
        "estimates are the mean of the user's last two run times",
        "variants",
        {"workload": {"estimates": "predicted"}},
        of_users=True,
    ),
    Change(
        "unknown",
        "the scheduler does not know how jobs slow each other down",
        "beliefs",
        {"belief": {"usage": "unknown", "pairs": "unknown", "demand": "unknown"}},
    ),
    Change(
        "M2",
        "more jobs are bound by the disk (M2)",
        "hardware",
        {"workload": {"characteristics": "M2"}},
        (FORMULA,),
        True,
    ),
    Change(
        "M3",
        "more jobs are bound by the network (M3)",
        "hardware",
        {"workload": {"characteristics": "M3"}},
        (FORMULA,),
        True,
    ),
    Change(
        "few",
        "a tenth of the pairs are compatible, not a third",
        "hardware",
        {"truth": {"good_share": 0.1}},
        (FORMULA,),
    ),
    Change("many", "two thirds of the pairs are compatible", "hardware", {"truth": {"good_share": 0.66}}, (FORMULA,)),
    Change(
        "high", "most jobs need much memory bandwidth", "hardware", {"workload": {"mix": "high"}}, (BANDWIDTH,), True
    ),
    Change(
        "half opted in", "half of the users let their jobs share", "beliefs", {"workload": {"opted_in": 0.5}}, of=GUESTS
    ),
    Change(
        "quarter opted in",
        "a quarter of the users let their jobs share",
        "beliefs",
        {"workload": {"opted_in": 0.25}},
        of=GUESTS,
    ),
    Change("noise", "measured ratios are wrong by up to a fifth", "beliefs", {"belief": {"pair_noise": 0.2}}, (PAIRS,)),
    Change("other", "jobs are other programs than assumed", "hardware", {}, (PAIRS,), True, other_draw=True),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of a log is run."""

    windows: int = 10  # parts of the log, from which intervals are made
    jobs: int = 3_000  # at most, of a window
    fewest: int = 50  # jobs of a window; a shorter log has fewer windows
    least: int = 3  # windows: intervals over fewer are wider than anything that they could show
    every: int = 2  # changed assumptions are run on each second window, as they are compared window by window
    margin: float = 0.1  # share of a window's jobs at each end that does not count


DEFAULT_SCALE: Final = Scale()
WATTS: Final = (100, 100)  # of a node: idle, and more with all cores busy; only their ratio counts
SHAKES: Final = 3  # runs of the present policy with shaken run times, which tell chance from harm


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a run in the study, but for the window and the policy."""

    hardware: str = FORMULA
    belief: str = TOLD
    variant: str = LOGGED

    def with_change(self, change: Change) -> Place:
        """Return the place with one assumption changed."""
        if change.axis == "hardware":
            return Place(f"{self.hardware}, {change.name}", self.belief, self.variant)
        if change.axis == "beliefs":
            return Place(self.hardware, change.name, self.variant)
        return Place(self.hardware, self.belief, self.variant.replace(LOGGED, change.name))
