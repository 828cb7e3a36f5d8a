"""A manager's jobs and nodes, and what a start, a suspension, a resumption, a revision, a change of slot and a leave do to them.

Kept by the scheduler's state, by the books of adapters and by the site of the check. Open `ledger.py` first: all changes, and the
pending jobs. `entries.py` is the only way in, for what a manager tells and for decisions; `running.py` is the record of a job on
nodes. No clock, file, socket or random number is below here.
"""
