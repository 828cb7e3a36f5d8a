"""G-LOMARC-TS: groups of jobs on the same nodes.

Asked as a matching by conservative backfilling, mostly under the slices of `slices.py`. Open `grouping.py` first: alone or in
a group, whichever uses the nodes better. `formation.py` chooses the group (steps 1 to 5 of the paper's section 4.5),
`upkeep.py` revises it when one of its jobs has ended. `slack.py` limits the delay of others.
"""
