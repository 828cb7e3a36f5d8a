"""Placements: which threads or nodes a job gets.

Asked by every pass, through `Context.offer`. Open `compact.py` first: first fit, packed, and the placements of gang
scheduling and coscheduling. `spread.py` gives whole nodes. LessConsume is in `rua`, halves of nodes in `coexecution`.
"""
