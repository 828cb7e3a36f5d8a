"""Who may say what, and when: both ends of the conversation, without any input or output.

Theory of operation. Manager and scheduler each keep a session. Both sessions stand on one table: it tells, for the conversation
as a whole, in which state which message may be said and where it leads; whoever says the message and whoever hears it make the
same step. Because messages cross on their way, a session may also hear what fitted the state it was in a moment ago. What may be
heard so, and is harmless, is the second table. Everything else is an error of the peer.

    START ──hello──► GREETED ──welcome──► WELCOMED ──ready──► READY ──events──► OPEN
                        ▲                                        ▲                │
                 hello in any state                              └────actions─────┘

``ping``, ``pong``, ``error`` and ``bye`` belong to no state; the last two lead to CLOSED. A driver feeds every decoded message to
``receive``, sends what comes back in ``send``, acts on ``deliver``, and turns a RemoteProtocolError into an ErrorReport.
"""
