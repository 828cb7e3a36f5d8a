"""Nodes, and the slowdown of work that shares a node: pure arithmetic, no state, no clock.

- ``units``, ``topology``, ``usage``: units, nodes, what jobs ask of their nodes.
- ``contention``: the contract of a contention model. ``bandwidth`` (RUA paper), ``lomarc`` (LOMARC paper) and ``statistical``
  (G-LOMARC-TS paper) are such models; ``matrix`` in the first two computes the same numbers for many jobs at once.
- ``composition``: a job's progress under the penalties of its nodes.
- ``draws``: random numbers that depend only on their key.

``MODEL.md`` has the equations.
"""
