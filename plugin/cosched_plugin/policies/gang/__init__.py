"""Gang scheduling: a matrix of rows that take turns, alone or in pairs."""
