"""Two jobs on the same nodes: their places, their expected ends, and their notes."""
