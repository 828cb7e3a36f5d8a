"""Options that several commands have, and the values that they take."""
