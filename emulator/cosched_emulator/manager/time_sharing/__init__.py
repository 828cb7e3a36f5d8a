"""Jobs that share CPUs in turns: their processes on the nodes, the slots and the quanta.

`Manager` uses it in place of `job_ends` where a scenario has ``[time_sharing]``. Open first: `rotating`, which says whose turn it is;
`shared_progress` puts processes on nodes and finds out when jobs end, `cpu_meter` notes what they use on each node.
"""
