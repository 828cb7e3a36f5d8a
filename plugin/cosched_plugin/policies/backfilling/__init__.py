"""FCFS, EASY, SJBF and conservative backfilling.

Asked by `Composed` for the decisions of a pass over the queue. Open `easy.py` first: a fast pass by numbers, and the general
pass, which LOMARC's matchings use as well. `conservative.py` gives every job a promised start, and moves it
when something becomes free early; `compression.py` knows which promises can move then.
"""
