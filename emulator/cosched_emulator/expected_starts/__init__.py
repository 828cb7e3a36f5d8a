"""When pending jobs will start: copies of the scheduler's core run ahead from a state that a manager has told.

Pure: states, past runs, random numbers and budgets are arguments. The live manager's worker and the measurement of the estimates
(``scripts/bench/starts.py``) use the same functions. Open first: `estimates`, which tells the whole story; then `forecast` (one
copy), `history` (what jobs will take, and who arrives), `ranges` (how far estimates were off).
"""
