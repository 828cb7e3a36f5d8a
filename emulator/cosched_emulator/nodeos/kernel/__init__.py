"""The inside of one node: its CPU, devices and memory, what processes carry out there, and the events of that."""
