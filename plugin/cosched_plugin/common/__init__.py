"""Code that the scheduler's and the manager's programs share: allocations, keys, endpoints, log, signals, status.

Asked by both ends, so that both count alike: a start that one of them holds possible is possible for the other. Open
`allocation.py` first: sets of threads as bits, and the pool of free ones; `slots.py` is the same for time sharing. The other
files are what a long-running program needs: `sockets.py`, `curve.py`, `status.py`, `process.py`.
"""
