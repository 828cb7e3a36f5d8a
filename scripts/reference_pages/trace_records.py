"""What a decision trace tells: every kind of record and its fields. `trace` writes records, ``explain`` of the emulator reads them.

Policies of others may record more, so a reader ignores what is not here. Times are integer microseconds: those that tell an
instant count from the run's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """A kind of record: when it is told, and its fields in words."""

    name: str
    told_when: str
    fields: str


class Fields(NamedTuple):
    """Fields of a record that belong together: what they are, and who tells them."""

    names: tuple[str, ...]
    meaning: str
    told_by: str = "always"


# Every record has ``at_us``, when it was decided, and ``kind``.
KINDS: Final[Sequence[Kind]] = (
    Kind("start", "a job starts", "see its fields"),
    Kind(
        "reserve",
        (
            "the first job that cannot start gets a reservation, or another one than before; not where no pending job "
            "could overtake it"
        ),
        "`job`; `shadow_us`: when it is expected to start",
    ),
    Kind(
        "promise",
        "`conservative` promises a start for the first time, or has to put one off",
        "`job`; `start_us`: the instant, null where the nodes in service cannot hold the job",
    ),
    Kind(
        "wait",
        "a policy of others says why a pending job does not start; none of ours does",
        "`job`; `reason`: the policy's own words",
    ),
    Kind(
        "suspend",
        "a running job is stopped",
        (
            "`job`; `to_disk`: true where it was taken off its nodes; of a job that is suspended in place for another "
            "one, `partner`: that job, and `measured_slowdown`: of the two"
        ),
    ),
    Kind("resume", "it continues; from disk it makes no progress for a while", "`job`"),
    Kind(
        "rotation",
        "on a machine with slots, the policy sets the rotation",
        (
            "`quantum`: number of the quantum with which it begins; `turns`: the turns, the first one first, each "
            "with `slots`, `quanta` (how many in a row) and `guests`"
        ),
    ),
    Kind(
        "slot",
        "a running job is put into another slot",
        (
            "`job`; `slot`: the new one; under `gang` also `out_of`: the one before, `share_ppm`: its predicted CPU "
            "share, `reason`: `band` (it was not within the band of its row, in which `least_ppm` is the least share) "
            "or `compaction`"
        ),
    ),
    Kind(
        "turn",
        "under `gang`, a turn is made",
        (
            "`quantum`: number of the quantum that it has if the answer is in time; `slots`: its row, and the partner "
            "if there is one; `jobs`: those of each of `slots`; `shares_ppm`: the largest predicted share of each; "
            "`guests`: the alternates, each with its predicted share; `below_ppm`: what the shares of two rows must "
            "sum up to less than, the CPU without the margin (not with `blind`); `alone`: why there is no partner, "
            "below"
        ),
    ),
    Kind(
        "sharp_change",
        "under `gang`, a job's CPU share has changed sharply: it counts as new",
        "`job`; `share_ppm` and `before_ppm`: in its last quantum, and in that before",
    ),
    Kind(
        "expect",
        "a job has been submitted, under fairness `slack`",
        "`job`; `response_us`: R_est, the span within which it is expected to end",
    ),
    Kind("slice", "a time slice begins", "`kind_of_jobs`: `short`, `medium` or `long`; `end_us`"),
    Kind(
        "reject", "the policy takes a waiting job out of the queue for good", "`job`; `reason`: the policy's own words"
    ),
)
# Fields of a `start`.
START: Final[Sequence[Fields]] = (
    Fields(("job", "submit_us", "processes", "estimate_us"), "the job, as submitted"),
    Fields(
        ("asks",),
        (
            "what it asks for besides threads: `memory_mb` of each process, `resources` of each node, `licences`, `nodes`: "
            "those that it may have, as `[first, number]`; `apart`: names of what jobs beside it never take, each with the nodes "
            "where some take it now"
        ),
        "of a job that does",
    ),
    Fields(("expected_us",), "run time expected there, among those neighbours"),
    Fields(
        ("runs",), "where: `[first node, number of nodes, hardware threads of each as a bit mask, processes on each]`"
    ),
    Fields(("slot",), "its slot, where it is not 0", "policies that share time"),
    Fields(("new_row",), "whether its row is a new one", "`gang`"),
    Fields(("full_rows",), "the rows before it that have no place for it", "`gang`"),
    Fields(("closed_rows",), "rows that take no job that has not been measured (`place_fresh`)", "`gang`"),
    Fields(("together",), "the jobs that start in the same decision", "pairs, groups"),
    Fields(
        ("reason",),
        (
            "`order`: the first in the queue, it had a place; `overtake`: those ahead of it need more than the nodes "
            "in service can hold, so that it counted as the first, and it had a place; `skip`: one or more ahead of "
            "it had no place; `backfill`: before the job of the last `reserve` record; `promise`: its promised start "
            "has come; `company`: it is in a group (`group`) before that"
        ),
        "all our policies",
    ),
    Fields(("waiting",), "jobs in the queue, this one included", "all our policies"),
    Fields(
        ("free_threads",),
        "hardware threads open to it: free ones on nodes that it may have; of whole nodes, one for each core of empty ones",
        "all but `conservative`",
    ),
    Fields(("factor",), "expected run time there / run time alone", "`rua`"),
    Fields(("promised_us",), "the start last promised", "`conservative`"),
    Fields(("host",), "the job on whose nodes this one starts: among `together`, or running already", "matching"),
    Fields(("chosen_by",), "the job that took it as its partner", "`first`, `u1`, `u2`, `response`"),
    Fields(("slowdown",), "of both, while both run; of `guests`, of this job", "matching"),
    Fields(
        ("corrected",),
        (
            "the jobs on its nodes of which something else is believed than the site says: each with `job`, what the site says "
            "of this one beside it (`told`, null: nothing), and the `slowdown` that is believed"
        ),
        "a belief that is `corrected`",
    ),
    Fields(
        ("beside",),
        (
            "the jobs that it shares nodes with, each with `job`, its own `slowdown` from now on, and how much later "
            "it is expected to end because of this start (`later_us`)"
        ),
        "`guests`",
    ),
    Fields(
        ("gain", "compared"),
        "work that its place adds for each half of a node, in nodes; how many kinds of pending jobs had a place",
        "`by-gain`",
    ),
    Fields(
        ("stopped",),
        "the jobs that it stops: each with `job`, `to_disk`, and how much later it is expected to end (`for_us`)",
        "`guests`, mode `express`",
    ),
    Fields(
        ("halves",),
        (
            "of a job on half of the cores of its nodes: `ratio`, its expected run time over that on all cores; "
            "`beside`, the jobs on the other halves, each with `job`, `ratio` (of the started job beside it) and "
            "`its_ratio` (of that job beside the started one)"
        ),
        "`neighbours`",
    ),
    Fields(
        ("resource",),
        "what adds most to the larger slowdown of the two, where the belief tells resources apart",
        "matching",
    ),
    Fields(
        ("seat",),
        (
            "where the belief tells hardware threads apart: the seat beside its host that was `chosen` (`same cores`, "
            "`other cores`, `other sockets`), and the slowdown of each that was `compared`"
        ),
        "`adjacent`, `first`, `u1`, `u2`, `response`",
    ),
    Fields(
        ("no_search",),
        (
            "why it looked for no partner: `nobody-waits`, `no-belief` (the site says nothing of pairs), "
            "`may-not-share` (short, exclusive, or of unknown use), `weak-load`, `no-time` (the budget was spent); of "
            "`group`: `short`, `no-belief`, `low-load` (it got a node for each process), `may-not-share` (exclusive, "
            "several threads a process, or no room for it on half of a node)"
        ),
        "`first`, `u1`, `u2`, `response`, `group`",
    ),
    Fields(
        ("unfair_to",),
        "the job because of which a group with this one was refused last at that instant; it may be the job itself",
        "`slack`",
    ),
    Fields(
        ("refused_groups",),
        "of a job that starts alone: how many groups with it were tried and refused at that instant",
        "`group`",
    ),
    Fields(("group",), "the group in which it starts, below", "`group`"),
    Fields(("partners",), "its search for a partner among the waiting jobs, below", "these and `adjacent`"),
    Fields(("hosts",), "its search for a running job to join, below", "`first`, `u1`, `u2`, `response`"),
)
# Fields of the `group` of a start: all jobs of a group that start have the same one.
GROUP: Final[Sequence[Fields]] = (
    Fields(("primary", "matched"), "its jobs"),
    Fields(
        ("running",),
        (
            "those of them that were already running. None: Case 1 of the paper; matched ones: Case 2; the primary: "
            "Case 3"
        ),
    ),
    Fields(("gain",), "its utilisation gain, six places"),
    Fields(("candidates",), "how many jobs are compatible with the primary one: those left by step 1"),
    Fields(("resource",), "what adds most to the largest slowdown in it, where the belief tells resources apart"),
    Fields(
        ("seat",),
        (
            "where the belief tells hardware threads apart: the division of nodes that was `chosen` (`sides`: halves "
            "of every CPU, `cpus`), and the largest slowdown in each that was `compared`"
        ),
    ),
    Fields(
        ("tried",),
        (
            "how many groups were tried, this one included: those before it found no nodes, were unfair, or broke a "
            "promise"
        ),
    ),
)
# Fields of `partners` and `hosts`, a search of a start.
SEARCH: Final[Sequence[Fields]] = (
    Fields(
        ("left",),
        (
            "candidates left after each constraint, in this order: `all` (all jobs examined, the job itself not "
            "counted), `short` (of medium length or longer, known and willing to share), `size` (a partner: not "
            "larger; a host: not smaller), `memory` (room for both), `type` (they do not compete for the same), "
            "`slowdown` (within the limit)"
        ),
    ),
    Fields(("removed",), "for each constraint, the jobs that it removed"),
    Fields(
        ("slowed_by",),
        (
            "the jobs that `slowdown` removed, by the resource that adds most to it; absent where the belief does not "
            "tell"
        ),
    ),
    Fields(("candidates",), "the jobs left by all: waiting ones in queue order, running ones by (start, id)"),
    Fields(
        ("profits",),
        (
            "the profit expected of each, in the same order, nine places; not with `first` and `adjacent`. A "
            "candidate without a profit above 0 is not taken"
        ),
    ),
    Fields(("not_alone",), "hosts only: running jobs that share their nodes already, or are suspended"),
    Fields(("partner", "host"), "the one taken; absent where none had a place that leaves the reserved job its start"),
    Fields(("selected",), "partners only: its place among `candidates`, from 1"),
    Fields(("slowdown", "profit"), "of the one taken"),
)
