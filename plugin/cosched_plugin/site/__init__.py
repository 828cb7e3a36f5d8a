"""The manager half that adapters to real managers stand on: what is seen there becomes events, decisions become orders there.

Asked by an adapter, which looks at its manager and carries out orders (`Actuator`), and by the conformance check, whose random manager
keeps the same books. Open `driver.py` first: a look, the rounds that follow, a restart. `snapshots.py` makes events of two looks,
`books.py` is what the scheduler knows, `store.py` keeps it in SQLite. No clock: times come in.
"""
