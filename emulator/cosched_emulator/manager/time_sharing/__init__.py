"""Jobs that share CPUs in turns: their processes on the nodes, the slots and the quanta.

`Manager` uses it in place of `job_ends` where a scenario has ``[time_sharing]``. Open first: `shared_progress`, with the methods
that the manager calls; `rotating` says whose turn it is, `dispatch` puts processes on nodes and finds out when jobs end.
"""
