"""What a node is, and how work that shares one slows down: pure arithmetic, no state, no clock.

``units`` names the units. ``topology`` describes nodes, ``demand`` and ``usage`` what jobs ask of them. ``contention`` is the contract
of a contention model; the models are ``bandwidth`` (RUA paper), ``lomarc`` (LOMARC paper) and ``statistical`` (G-LOMARC-TS paper),
each a package with its definition in ``model`` and, where it pays, the same for many jobs at once in ``matrix``. ``composition``
turns the penalties of a job's nodes into its progress; ``draws`` gives random numbers that depend on nothing but their key.
``MODEL.md`` has the equations.
"""
