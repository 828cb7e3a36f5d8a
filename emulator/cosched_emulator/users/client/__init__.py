"""The user's side: the connection to a running manager, and the history in its database. Imports nothing of the server."""
