"""What a node is, and how work that shares a node slows down: pure arithmetic, no state, no clock.

- ``units``, ``topology``, ``demand``, ``usage``: units, nodes, what processes ask of a node, how a job uses its nodes.
- ``contention``: the contract of a contention model. ``bandwidth`` (RUA paper), ``lomarc`` (LOMARC paper) and ``statistical``
  (G-LOMARC-TS paper) are such models; ``matrix`` in the first two computes the same for many jobs at once.
- ``composition``: how the penalties of a job's nodes make its progress.
- ``draws``: random numbers that depend on their key alone.

``MODEL.md`` has the equations.
"""
