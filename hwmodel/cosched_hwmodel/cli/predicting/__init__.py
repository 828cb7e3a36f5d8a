"""Which jobs slow each other down on a node, and through which of its resources."""
