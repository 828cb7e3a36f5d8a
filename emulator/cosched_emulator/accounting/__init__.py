"""The SQLite database of a manager: journal and history."""
