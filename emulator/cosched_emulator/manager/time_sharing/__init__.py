"""Jobs that share CPUs in turns: their processes on the nodes, the slots and the quanta."""
