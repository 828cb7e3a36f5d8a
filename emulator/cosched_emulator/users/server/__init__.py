"""The manager's side: the socket for users, who they are, and how much each of them may ask for."""
