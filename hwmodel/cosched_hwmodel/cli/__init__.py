"""The command ``cosched-hwmodel``: a node measured, shown, and who slows whom on it."""
