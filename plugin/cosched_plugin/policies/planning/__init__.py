"""The base of every backfilling policy: reservations, profiles of availability over time, starts in queue order.

Asked by the backfills. Open `reservation.py` first: the one reservation of EASY, and the two ways in which a pass starts a
job. `profile.py` has many reservations at once, for conservative (`placed_profile.py` where threads differ);
`losses.py` says what a job loses to its neighbours; `neutral.py` has the parts that do nothing.
"""
