"""What a node is, and how work that shares one slows down: pure arithmetic, no state, no clock.

``units`` names the units; ``topology`` describes nodes, ``demand`` what processes ask of them, ``contention`` the contract of a contention model,
``bandwidth`` the model of the RUA paper; ``usage`` how a job uses its nodes, ``lomarc`` the model of the LOMARC paper;
``bandwidth_matrix`` and ``lomarc_matrix`` the same for many jobs at once. ``self_slowdown`` says how much a job slows itself down,
``statistical`` is the model of the G-LOMARC-TS paper, ``slowdown_ranges`` how both draw from what was measured. ``composition``
turns the penalties of a job's nodes into its progress, and ``draws`` gives random numbers that depend on nothing but their key.
``MODEL.md`` has the equations.
"""
