"""Two jobs on the same nodes: their places, what is expected of them, and what has to be remembered."""
