"""The manager's side: the socket for users, their identities, and their limits."""
