"""The resource manager: jobs, nodes, hardware, and the timeline of due events.

The loop of a run and the live manager ask two things of it: what is due (`agenda`), and to apply events and carry out actions
(`manager`, which to open first). It is the truth: true run times and how the hardware behaves never leave it but through messages.
The parts of `Manager` know one thing each: `actions`, `running_jobs`, `job_ends`, `contended_nodes`, `node_states`, `notes`,
`diary`.
"""
