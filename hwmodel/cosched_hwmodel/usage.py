"""A job's usage of its nodes, as fractions of its time (LOMARC paper, sections 4.1 and 6.1)."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from cosched_hwmodel.units import WHOLE_PPM

# What a job can be bound by: the dominant resource, or the one that its owner names.
BOUNDS = ("cpu", "network", "disk")

# The shape of a `Usage` on the wire and as a plain tuple.
UsageTuple: TypeAlias = tuple[str, int, int, int, int]

# Stands in columns for an unknown job.
UNKNOWN_USAGE: Final[UsageTuple] = ("cpu", WHOLE_PPM, 0, 0, WHOLE_PPM)


class Usage(NamedTuple):
    """Parts of a job's run time alone, and of a node's memory, in millionths; a plain tuple of this shape serves as well.

    The parts on CPU, network and disk make up the whole: a job is assumed not to overlap them by itself.
    """

    bound: str  # of BOUNDS
    cpu_ppm: int
    network_ppm: int
    disk_ppm: int
    memory_ppm: int  # of the memory of a node, by the job's processes there
