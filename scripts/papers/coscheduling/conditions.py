"""The conditions of the paper (P1 to P13) and what it leaves open (G1 to G20), with what is done here."""

from __future__ import annotations

from typing import Final

from scripts.tables import table_head, table_row

# Number, what the paper has, what the emulated nodes have.
CONDITIONS: Final = (
    ("P1", "16 nodes, one CPU, 1 GB, Linux 2.4.7, one switch", "16 nodes of one core, three contexts; `linux-epochs`"),
    ("P2", "Myrinet, LANai 9.2, GM 1.6.3, MPICH 1.2.5", "links of 80 MB/s; rendezvous above 16 KB, as MPICH-GM's"),
    (
        "P3",
        "one-way latency 9.7 us, CPU of both ends included",
        "`latency_us` and CPU of both ends, 10 us in all; a test measures a ping-pong",
    ),
    ("P4", "CC, SB and HYBRID block in receives; the others poll", "the same"),
    ("P5", "NPB 2.3 without FT, sPPM, BlockSolve95", "message skeletons whose time alone is table 1's within 2 %"),
    ("P6", "gang scheduling on another message layer, < 2 % apart", "the same message layer"),
    ("P7", "at most three jobs on a node; batch one", "the same; measured above"),
    ("P8", "in all experiments but X6 the programs fit into memory", "the scheduler checks 900 MB; measured above"),
    ("P9", "900 MB for programs", "the same"),
    ("P10", "allocators of three systems", "parts of one scheduler: `contiguous`, `scattered`; rows of `gang`"),
    ("P11", "idle 219.10 W, busy 18.839 or 18.968 W more", "219.10 W and 18.968 W (G1)"),
    ("P12", "power of six nodes, scaled to 16", "all nodes"),
    ("P13", "counters and epochs of Linux 2.4", "the same: ticks of 10 ms, counter/2 + 6 at a new epoch"),
)
# Number, gap, decision, and where the page shows what hangs on it.
# fmt: off
GAPS: Final = (
    ("G1", "busy watts: 18.839 or 18.968", "18.968; 0.05 % of any total"),
    ("G2", '"300 %", "65 %", "60 %" without a convention', "ratio and saving side by side (C15, C28, E2)"),
    ("G3", "table 4, memory-aware PB and DCS", "they agree with no formula; left out of the check of the formula"),
    ("G4", "queue of batch", "strict; skipping and EASY beside it (C21, C44)"),
    ("G5", "queue and blocks of the coscheduling allocator", "skipping for all, strict for four policies"),
    ("G6", "packing lowers U and CPU time, and the text says it raises U", "both reported (C1, C53)"),
    ("G7", "utilisation of 91 to 96 %", "not tuned; reported (E5), running time relative to batch beside it"),
    ("G8", "memory of classes A and B, CG, LU, EP", "scaled with the grid; what never fits is left out"),
    ("G9", "distribution of programs, classes, sizes", "uniform, one after the other"),
    ("G10", "run time on fewer processors", "T(n) = T(16) x 16 / n"),
    (
        "G11",
        "spin time, intervals, quantum, end of a boost",
        "1 ms; PB 50 ms, CC 10 ms; turns of gang scheduling cost 3 % whatever the quantum (1 s here); a boost ends with the counter."
        " Experiments with others",
    ),
    ("G12", "gaps of X4", "100 s"),
    ("G13", "jobs of X3", "BlockSolve95, sPPM, LU B and C, any size, at table 1's times as those on 16"),
    ("G14", "seeds", "none in the paper; here a number in every row"),
    ("G15", "table 4, batch: T and U fit no one queue", "T and energy are compared, U is not"),
    ("G16", "swapping: disk and working sets", "a model with three settings; reported per policy (C41)"),
    ("G17", "figure 6: classes or programs", "class C, by program"),
    ("G18", "figure 5: CC and SB as one curve", "both"),
    ("G19", "running time: to the last end or the last start", "first submission to last end"),
    ("G20", "costs of power in general", "not checkable here"),
)
# fmt: on


def conditions_table() -> list[str]:
    """Return the table of conditions."""
    return [*table_head(("", "the paper", "here")), *(table_row(row, []) for row in CONDITIONS), ""]


def gaps_table() -> list[str]:
    """Return the table of gaps."""
    return [*table_head(("", "open in the paper", "done here")), *(table_row(row, []) for row in GAPS), ""]
