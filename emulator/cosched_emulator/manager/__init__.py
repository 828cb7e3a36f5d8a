"""The resource manager: jobs, nodes, hardware, and the timeline of due events."""
