"""The units in which quantities are counted (whole microseconds, parts per million, mebibytes), and types for sets of bits."""

from __future__ import annotations

from typing import Final, NewType

SECOND_US: Final = 1_000_000
WHOLE_PPM: Final = 1_000_000
MIB: Final = 1024 * 1024  # bytes

# Both are ints when the program runs. Bit operations yield int: wrap their result once, where it is returned.
NodeSet = NewType("NodeSet", int)  # nodes of a machine: bit n is node n
ThreadMask = NewType("ThreadMask", int)  # hardware threads of one node: bit i is thread i
