"""Co-execution: a job has all cores of its nodes, or half of the cores of twice as many, with other jobs on the other halves.

Asked as a placement and a backfill (`halves.py`) and a matching (`neighbours.py`), which one composition may mix with others.
Open `halves.py` first: what is open on which node, and the gain of a place. Ratios come from the site's believed
model of pairs.
"""
