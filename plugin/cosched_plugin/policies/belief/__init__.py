"""Belief: what co-located jobs cost each other, learned from the slowdowns that the manager measures.

Asked before each pass for the model that ``view.pairs`` returns. `learned` has what it remembers, what follows from
that for pairs that were never measured, and the part; `trials` tries pairs of which the site says nothing.
"""
