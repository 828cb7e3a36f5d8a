"""The Python interface: one call that runs a scenario under a policy, and its result.

Scripts, notebooks, studies and the command ``simulate`` ask it (docs/python.md). A scenario or a policy may be given in any form: a
file, a table, an object. Open first: `simulate`, which tells the whole run: what it takes, and what it
returns; `tables` has the columns of the result.
"""
