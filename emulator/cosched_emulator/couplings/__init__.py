"""The ways in which manager and scheduler exchange messages: one protocol, `Link`, and a class for each way.

A run hands over the events of an instant and gets the scheduler's actions, whether the scheduler is an object of this process,
behind the codec, in another process, or in a recording. A live manager, which never waits, uses the socket itself
(`scheduler_port`). Open first: `link`; `channel` is the place where planned faults of messages strike.
"""
