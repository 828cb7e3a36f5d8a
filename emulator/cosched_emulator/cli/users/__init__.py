"""The commands for users of a live manager: submit, queue, nodes, top and others."""
