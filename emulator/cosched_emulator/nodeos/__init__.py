"""The inside of nodes: processes, local CPU schedulers, disks, network and memory, under time sharing.

`exact` simulates every burst, `fluid` moves whole jobs at rates that it measures with `exact`; both are a `Cluster`.
Nothing here knows the manager, reads a clock or draws a number that is not named by the seed.
"""
