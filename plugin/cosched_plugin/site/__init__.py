"""The manager half that adapters to real managers stand on: what a poll shows becomes events, decisions become orders there.

Asked by an adapter, which brings a `Source`, a `Manager` and an actuator, and by the conformance check, whose random manager keeps the
same books. Open `poll_loop.py` first: a poll, the snapshot that it gives, a turn; what is decided is carried out by `enforcing.py`, or
told by `observing.py`. `driver.py` is the conversation with a scheduler, without a clock: rounds, a restart. `snapshots.py` has the
events between two snapshots, `books.py` what the scheduler knows, `store.py` keeps it in SQLite.
"""
