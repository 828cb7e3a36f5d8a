"""Nodes that are simulated exactly for a while after each change, and then at the rates that were measured meanwhile."""
