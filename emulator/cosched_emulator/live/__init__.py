"""The live cluster: a manager in real or scaled time, commands of users, accounting, restarts."""
