"""The scheduler: events in, decisions out, over ZeroMQ and msgpack."""
