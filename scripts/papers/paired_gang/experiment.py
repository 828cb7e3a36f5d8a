"""The experiment of the paired gang reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.paired_gang.mixes import PAPER, RUNS_S, statics, workload_of
from scripts.papers.paired_gang.names import (
    BARE,
    BASE,
    BATCH,
    BEST,
    BLIND,
    COMPUTE,
    GRAIN,
    GRAINS,
    HETEROGENEOUS,
    HOMOGENEOUS,
    IO,
    LOADS,
    MIXES,
    NODE,
    PAIRED,
    QCRD,
    QCRD_EVEN,
    SIZE,
    SIZES,
    STRICT,
    alone,
    copies,
    dynamic,
    mix,
)
from scripts.papers.paired_gang.variants import VARIANTS, Variant
from scripts.papers.study import Size
