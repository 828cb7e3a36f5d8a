"""Slowdown from what processes ask of cores, caches, memory, network and disk, and from where on the node they are."""
