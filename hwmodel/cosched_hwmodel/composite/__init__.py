"""Slowdown from what processes ask of cores, caches, memory, network and disk, and from where on the node they are.

Hardware and beliefs named ``composite`` ask for penalties. Open first: `on_node`, one node step by step, then `composite_model`;
`job_profile` is what a process asks for, ``calibration`` where the parameters come from.
"""
