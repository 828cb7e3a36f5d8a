"""The scheduler core: it turns events into actions, without other effects.

Asked by `server.py`, by the emulator's direct coupling and by tests, through `engine.py` alone: open it first. `state.py` has
what is known and is changed by the engine only; `queue.py`, `running.py` and `slots.py` are its parts; `views` is what a
policy sees of it. `invariants.py` derives every cache again. No clock, socket, file or unseeded random number is below here.
"""
