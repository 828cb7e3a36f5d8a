"""Memory, network and disk bandwidth shared by co-located jobs (RUA paper).

The emulator's hardware and a scheduler that believes in it ask for penalties. Open first: `bandwidth_model`, the definition;
`bandwidth_matrix` gives the same numbers, bit for bit, for many jobs and nodes at once.
"""
