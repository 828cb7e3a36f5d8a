"""Communication-driven coscheduling: what a process does while its message is not there, and which process runs next."""
