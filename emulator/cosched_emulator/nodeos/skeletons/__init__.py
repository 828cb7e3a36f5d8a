"""Programs of papers: loops of computing and communicating that stand for real ones, for any length and grain."""
