"""Studies: many runs declared in one file, made in parallel, and analysed together. Described in docs/studies.md."""
