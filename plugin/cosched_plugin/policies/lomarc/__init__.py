"""LOMARC: pairs of jobs on hyperthreaded nodes.

Asked as a matching by EASY's general pass: for a partner of a job that starts (`seat`), and for a host of a pending one
(`join`). Open `lookahead.py` first. `constraints.py` says which pairs may share, `queue_table.py` has queue, arrivals and
profits in arrays.
"""
