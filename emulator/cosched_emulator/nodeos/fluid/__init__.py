"""The fluid cluster: jobs progress at rates that short exact simulations of the same situation have measured.

`clusters.cluster_for` makes it, and keeps its rates for all runs of a process. Open first: `fluid_cluster`; `situations` measures
and stores rates, `patterns` says which situations are the same, `rates` finds those of the present one.
"""
