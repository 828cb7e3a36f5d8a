"""Batsim 4's JSON protocol, and the decision process that speaks it: `cosched-plugin batsim`.

Asked by the command line, and for the messages alone by the emulator, which stands in Batsim's place in the other direction. Open
`adapter.py` first: a message of Batsim's becomes events, the scheduler's actions become its events. `messages.py` is the schema,
`site.py` what hosts and jobs are to the scheduler, `serve.py` the socket. A later version of the protocol is another `messages.py`.
"""
