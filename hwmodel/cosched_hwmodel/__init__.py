"""Nodes, and the slowdown of work that shares a node: pure arithmetic, no state, no clock.

- ``units``, ``topology``, ``usage``: units, nodes, what jobs ask of their nodes.
- ``contention``: the contract of a contention model. ``bandwidth`` (RUA paper), ``lomarc`` (LOMARC paper), ``statistical``
  (G-LOMARC-TS paper), ``measured`` (tables of co-runs) and ``composite`` (from demands and places) are such models; a ``..._matrix`` in
  some of them computes the same numbers for many jobs or nodes at once.
- ``composition``: a job's progress under the penalties of its nodes.
- ``draws``: random numbers that depend only on their key.

The emulator asks for the truth, a scheduler for what it believes. Open first: ``contention.py``. ``MODEL.md`` has the equations.
"""
