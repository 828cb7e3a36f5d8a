"""The rules of the conversation: which end may send which message when. Both ends, without any input or output.

Theory of operation. Manager and scheduler each keep a session. Both sessions use one table: it lists, for the conversation as a
whole, which message may be sent in which state and the next state; sender and receiver of the message make the same step. Because
messages cross on their way, a session may also receive a message that fitted its previous state. The second table lists the
messages that are harmless then. Everything else is an error of the peer.

    START ──hello──► GREETED ──welcome──► WELCOMED ──ready──► READY ──events──► OPEN
                        ▲                                        ▲                │
                 hello in any state                              └────actions─────┘

``ping``, ``pong``, ``error`` and ``bye`` belong to no state; the last two lead to CLOSED. A driver feeds every decoded message to
``receive``, sends what comes back in ``send``, acts on ``deliver``, and turns a RemoteProtocolError into an ErrorReport.
"""
