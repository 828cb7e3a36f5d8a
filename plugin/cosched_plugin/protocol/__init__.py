"""The protocol between manager and scheduler: messages, codec, sessions. PROTOCOL.md is its specification."""
