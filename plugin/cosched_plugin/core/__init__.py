"""The scheduler core: it turns events into actions, without other effects.

Asked by `server.py`, by the emulator's direct coupling and by tests, through `engine.py` alone: open it first. `state.py` is the
ledger of jobs and nodes (`cosched_plugin.ledger`) with what is believed; `views` is what a policy sees of it. `invariants.py`
derives every cache again. No clock, socket, file or unseeded random number is below here.
"""
