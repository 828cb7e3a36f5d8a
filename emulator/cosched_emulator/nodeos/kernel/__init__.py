"""The inside of one node: its CPU, devices and memory, and the events of these.

``messaging`` and `exact` are made on it; it knows nothing of messages. Open first: `cpu`, which process runs and what a switch
costs; `devices` has disks, the network's way out and memory.
"""
