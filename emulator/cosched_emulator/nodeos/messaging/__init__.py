"""The message layer of nodes: ports of processes, the network, and CPUs that poll and are advised. It decides nothing."""
