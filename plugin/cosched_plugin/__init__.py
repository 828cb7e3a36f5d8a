"""The scheduler: it receives events and returns decisions, over ZeroMQ and msgpack."""
