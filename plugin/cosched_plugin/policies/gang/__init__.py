"""Gang scheduling: a matrix of rows that take turns, alone or in pairs.

Asked by the core at each batch, and so at the end of each quantum. Open `gang.py` first: a pass, from the queue to the
rotation. `matrix.py` has rows and columns, `pairings.py` says which rows run together. docs/gang.md explains it.
"""
