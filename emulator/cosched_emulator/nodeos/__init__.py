"""The inside of nodes: processes, local CPU schedulers, disks, network and memory, under time sharing.

The manager, a scenario and a run ask `clusters`, the front door and the file to open first, for settings, programs and a cluster.
`exact` simulates every burst; ``fluid`` and ``windows`` measure rates with it and skip ahead. Rooms from the bottom up: `programs`,
`settings`, `local`, ``coscheduling``, ``kernel``, ``messaging``, `freezing`, `exact`, then ``fluid`` and ``windows``. Nothing here
knows the manager, reads a clock or draws a number that is not named by the seed.
"""
