"""What parts of a policy are and what passes between them: a protocol for each kind, and the objects that they exchange."""
