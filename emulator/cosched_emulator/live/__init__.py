"""A manager to live with: real or scaled time, users' commands, accounting, restarts."""
