"""A run in virtual time, from preparation to its results.

``api.simulate``, studies and a live manager ask it. Open first: `run`, the whole run; `prepare` finds every error of a scenario and
gives what never changes, `build` makes manager and agenda of it, `coupling` the scheduler, `loop` goes from instant to
instant; `from_accounts` writes a run folder from a database.
"""
