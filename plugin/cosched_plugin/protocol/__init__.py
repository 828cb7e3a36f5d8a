"""The protocol between manager and scheduler: messages, codec, sessions. PROTOCOL.md is its specification.

Asked by both programs. Open `messages.py` first: everything that travels; `vocabulary.py` has each field as it is on the
wire. `codec.py` is the only place that makes or reads bytes, `session.py` the conversation without sockets. Values are
checked here, before either program sees them.
"""
