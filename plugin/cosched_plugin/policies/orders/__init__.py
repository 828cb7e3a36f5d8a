"""Queue orders."""
