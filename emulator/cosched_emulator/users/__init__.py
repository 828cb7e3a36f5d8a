"""Requests of users to a running manager: their form, the client and the server side.

The commands of users ask `client`, a live manager asks `door`, which knows who each user is. Open first: `requests`, all that can
be asked and answered. The client's side imports nothing of the manager, so that a command starts at once.
"""
