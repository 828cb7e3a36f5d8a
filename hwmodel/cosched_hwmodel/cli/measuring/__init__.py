"""A real node measured: what it has, how fast small kernels run on it, alone and in pairs.

The command ``measure`` asks `measure`, the file to open first; `host` reads what Linux says of the node, `measuring_session` runs
kernels side by side, `report` writes the files, `prediction_check` puts predictions beside what was measured.
"""
