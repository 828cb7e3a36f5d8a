"""Limits of the wire format, version 1. PROTOCOL.md lists them; a test compares the two."""

from __future__ import annotations

from cosched_hwmodel.units import MIB

MAGIC = b"cosched/1"  # first frame of every message: the framing, not the protocol version
MAX_FRAME_BYTES = 64 * MIB  # second frame
MAX_STRING_BYTES = 65_536
MAX_ARRAY_ITEMS = 1_048_576
MAX_MAP_ITEMS = 64
MAX_NAME_BYTES = 128  # map keys, type names, note keys
# The value of a note in all, as `values.value_bytes` counts: many fit into a welcome, beside the jobs
MAX_NOTE_BYTES = MIB
MAX_DEPTH = 8  # nesting inside a note's value or an unknown field
MAX_NODES = 1_048_576
MAX_THREADS = 1_024  # hardware threads of one node
MAX_SLOTS = 65_536  # slots are numbered from 0
MAX_SPAN_US = 2**61  # an estimate or a limit of a start or a revision: with what is lost later, still within 64 bits
# Batches in a row that hold nothing but refusals; with one more, the peer that notices ends the conversation
MAX_ROUNDS = 100
MAX_ACTIONS = 10_000  # of a reply, for no job
MAX_ACTIONS_A_JOB = 10  # further ones for each pending or running job
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


def most_actions(jobs: int) -> int:
    """Return how many actions a reply may have, by the number of jobs that are pending or running."""
    return MAX_ACTIONS + MAX_ACTIONS_A_JOB * jobs
