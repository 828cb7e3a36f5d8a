"""The resource manager: jobs, nodes, hardware, and what is due when."""
