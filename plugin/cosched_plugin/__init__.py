"""The scheduler: it receives events and returns decisions, over ZeroMQ and msgpack.

Asked by a manager: through `server.py` from another process, or through `config.choose` in the manager's own. Open
`core/engine.py` first: `SchedulerCore.handle` is what every event goes through. `policies` decide, `api` is all that they may
import, `protocol` is what travels, and `testing` checks a policy of yours.
"""
