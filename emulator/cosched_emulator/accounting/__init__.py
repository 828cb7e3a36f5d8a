"""The SQLite database of a manager: its journal of steps, from which it is restored, and the history that people read.

A live manager appends each step and records what followed; a run in virtual time records only; ``history`` and the live views read.
A step that is durable survives a power failure, and what is buffered reaches the disk in one transaction. Open first: `accounts`,
the class `Accounting`; `fact_rows` says which tables a change goes to, `database_schema` what they are, `file` who may open them.
"""
