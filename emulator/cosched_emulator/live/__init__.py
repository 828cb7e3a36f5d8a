"""The live cluster: a manager in real or scaled time, users' commands, accounting, restarts."""
