"""What processes carry out on their nodes, and the messages between them: ports, the network, CPUs that poll and are advised.

`exact` asks it what a process does next (`execution`, to open first), how a message is sent and awaited (`layer`), and what its
arrival changes (`delivery`). It decides nothing: ``coscheduling`` says who polls and who is boosted.
"""
