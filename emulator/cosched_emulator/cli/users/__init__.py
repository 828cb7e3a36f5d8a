"""The commands of a live manager's users: submit, queue, nodes, top and the like."""
