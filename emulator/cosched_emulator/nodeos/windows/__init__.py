"""Nodes that are simulated exactly for a while after each change, and then at the rates that were measured meanwhile.

`clusters.cluster_for` makes such a cluster. Open first: `windowed_cluster`; `window_groups` says which jobs are simulated together
and for how long, `windowed_job` how a job goes on at its rate.
"""
